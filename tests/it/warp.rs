//! A recorded picture in a driving network's view, as openpilot's own kernel makes it.
//!
//! The planes come from running openpilot's OpenCL kernel on the picture; the matrix, from the drive's last calibration.

use safetensors::SafeTensors;
use spark_testing::test_data;
use sparkpilot::data::drive::Drive;
use sparkpilot::data::log::LogReader;
use sparkpilot::data::video::{Pictures, VideoOptions, Yuv420};
use sparkpilot::openpilot::frame;
use sparkpilot::openpilot::warp::{Pinhole, chroma_warp, warp_matrix, warp_to_planes};

/// Which picture of the drive the planes were made of.
const PICTURE: u64 = 600;

/// openpilot's kernel in plain f32 differs in one byte; see the reference data.
const MOST_BYTES_THAT_DIFFER: usize = 8;

fn floats(bytes: &[u8]) -> Vec<f32> {
    let (numbers, _) = bytes.as_chunks::<4>();
    numbers
        .iter()
        .map(|bytes| f32::from_le_bytes(*bytes))
        .collect()
}

#[test]
fn a_recorded_picture_has_the_planes_of_openpilots_kernel() {
    let Some(folder) = test_data("data/drive") else {
        return;
    };
    let file = std::fs::read(folder.join("warp_check.safetensors")).expect("reads");
    let truth = SafeTensors::deserialize(&file).expect("is a tensor file");
    let minute = folder.join("demo_a2a0ccea32023010_2023-07-27--13-01-19--0");

    let drive = Drive::read(&mut LogReader::open(&minute.join("qlog.bz2")).expect("opens"));
    let rpy = *drive.calibration.values().last().expect("was calibrated");
    let mut pictures =
        Pictures::open(&minute.join("qcamera.ts"), &VideoOptions::default()).expect("opens");
    let mut picture = Yuv420::empty();
    pictures.skip_to(PICTURE, &mut picture).expect("is there");
    let size = picture.size();

    let camera = Pinhole::ROAD.resized(size.width, size.height);
    let luma = warp_matrix(&camera, rpy, Pinhole::MODEL);
    for (matrix, name) in [(luma, "w"), (chroma_warp(&luma), "w_uv")] {
        let want = floats(truth.tensor(name).expect("is there").data());
        for (got, want) in matrix.iter().flatten().zip(want) {
            let error = (got - f64::from(want)).abs();
            assert!(
                error <= 1e-6 * f64::from(want).abs().max(1e-3),
                "{name}: {got}, wanted {want}"
            );
        }
    }

    let picture = frame::Yuv420 {
        width: size.width,
        height: size.height,
        y: picture.y(),
        u: picture.u(),
        v: picture.v(),
    };
    let got = warp_to_planes(&picture, &luma).expect("is a picture");
    let want = truth.tensor("planes").expect("is there");
    assert_eq!(
        (got.len(), want.shape()),
        (want.data().len(), &[6, 128, 256][..])
    );
    let differences = got
        .iter()
        .zip(want.data())
        .map(|(got, want)| got.abs_diff(*want));
    let differences: Vec<u8> = differences.filter(|difference| *difference > 0).collect();
    eprintln!("{} of {} bytes differ", differences.len(), got.len());
    assert!(
        differences.iter().all(|difference| *difference == 1),
        "{differences:?}"
    );
    assert!(
        differences.len() <= MOST_BYTES_THAT_DIFFER,
        "{}",
        differences.len()
    );
}
