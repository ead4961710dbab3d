//! Recorded pictures as inputs: those of another program, and of openpilot's own kernel.

use std::path::PathBuf;
use std::sync::Arc;

use spark_data::drive::{Dataset, DatasetOptions, Drive};
use spark_data::log::LogReader;
use spark_data::prefetch::{Prefetch, PrefetchError, PrefetchOptions};
use spark_data::video::{Store, StoreOptions};
use spark_onnx_graph::graph::{Dim, Graph};
use spark_onnx_graph::{DType, Tensor};
use spark_testing::{test_data, test_videos};
use spark_train::{PictureInputs, TrainError};

/// The recorded minute, if there is ffmpeg to decode its video.
fn minute() -> Option<PathBuf> {
    test_videos("data/drive/demo_a2a0ccea32023010_2023-07-27--13-01-19--0")
}

fn drive(minute: &std::path::Path) -> Drive {
    Drive::read(&mut LogReader::open(&minute.join("qlog.bz2")).expect("opens"))
}

fn dataset(minute: &std::path::Path, needs_calibration: bool) -> Arc<Dataset> {
    let options = DatasetOptions::default()
        .with_path_times(Vec::new())
        .with_calibration(needs_calibration);
    Arc::new(Dataset::new(vec![drive(minute)], options).expect("has samples"))
}

/// The sample of a picture.
fn number_of(dataset: &Dataset, index: u32) -> usize {
    let of_index = |number: &usize| dataset.sample(*number).expect("is there").frame.index == index;
    (0..dataset.len()).find(of_index).expect("is a sample")
}

fn network(inputs: &[(&str, DType, &[usize])]) -> Graph {
    let mut graph = Graph::default();
    for (name, dtype, shape) in inputs {
        let shape = shape.iter().map(|&extent| Dim::Known(extent)).collect();
        graph.add_input(*name, *dtype, shape);
    }
    graph
}

/// The bytes that centred numbers were.
fn bytes(tensor: &Tensor) -> Vec<u8> {
    let values = tensor.to_f64().into_iter();
    values.map(|value| (128.0 * value + 128.0) as u8).collect()
}

#[test]
fn the_middle_of_a_picture_is_that_of_another_program() {
    let Some(minute) = minute() else {
        return;
    };
    let inputs = PictureInputs::of(&network(&[("input_img", DType::F32, &[1, 6, 320, 160])]));
    let inputs = inputs.expect("takes pictures");
    assert!(inputs.frames_back() == [0] && !inputs.needs_calibration());
    let data = dataset(&minute, false);
    // CRC-32 of what benches/rivals/calibration/frames.py makes of these pictures (PyAV and numpy), as bytes.
    let known = [(600, 3_147_097_093), (1196, 3_835_700_172)];
    let numbers = known.map(|(index, _)| number_of(&data, index));
    let folder = tempfile::tempdir().expect("a writable folder");
    let store = Store::new(folder.path(), StoreOptions::default());
    let videos = vec![minute.join("qcamera.ts")];
    let mut done = Vec::new();
    let made = inputs.of_drives(data, numbers, videos, &store, |n| done.push(n));
    let made = made.expect("pictures");
    assert_eq!(done, [1, 2]);
    for ((index, crc), inputs) in known.into_iter().zip(&made) {
        let (name, tensor) = &inputs[0];
        assert!(name == "input_img" && tensor.shape() == [1, 6, 320, 160]);
        assert_eq!(crc32fast::hash(&bytes(tensor)), crc, "picture {index}");
    }
}

#[test]
fn warped_pictures_are_those_of_openpilots_kernel_and_the_rest_is_zeros() {
    let Some(minute) = minute() else {
        return;
    };
    let road: &[usize] = &[1, 12, 128, 256];
    let inputs = network(&[
        ("desire", DType::F32, &[1, 8]),
        ("vision_input_imgs", DType::F32, road),
        ("img", DType::U8, road),
    ]);
    let inputs = PictureInputs::of(&inputs).expect("takes pictures");
    assert!(inputs.needs_calibration());
    assert_eq!(inputs.frames_back(), [4, 1, 0]);
    assert_eq!(inputs.zeros().collect::<Vec<_>>(), ["desire"]);
    let data = dataset(&minute, true);
    let folder = tempfile::tempdir().expect("a writable folder");
    let store = Store::new(folder.path(), StoreOptions::default());
    // The planes that are known were made with the drive's last calibration.
    let drive = drive(&minute);
    let rpy = *drive.calibration.values().last().expect("was calibrated");
    let order = [596, 599, 600].map(|index| number_of(&data, index));
    let options = PrefetchOptions::default().with_frames_back(inputs.frames_back());
    let videos = vec![minute.join("qcamera.ts")];
    let mut made = Vec::new();
    for prepared in Prefetch::new(data, order.to_vec(), videos, &store, options) {
        let mut prepared = prepared.expect("pictures");
        prepared.sample.labels.calibration = None;
        let refused = inputs.of_sample(&prepared);
        assert!(
            matches!(refused, Err(TrainError::Uncalibrated { number }) if number == prepared.number),
            "{refused:?}"
        );
        prepared.sample.labels.calibration = Some(rpy);
        made.push(inputs.of_sample(&prepared).expect("inputs"));
    }
    let names: Vec<&str> = made[0].iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["desire", "vision_input_imgs", "img"]);
    assert!(made[0][0].1.to_f32() == [0.0; 8] && made[0][0].1.shape() == [1, 8]);

    let of = |at: usize| (bytes(&made[at][1].1), made[at][2].1.to_f64());
    let one = 6 * 128 * 256;
    let file = test_data("data/drive/warp_check.safetensors").expect("is there");
    let file = std::fs::read(file).expect("reads");
    let truth = safetensors::SafeTensors::deserialize(&file).expect("is a tensor file");
    let truth = truth.tensor("planes").expect("is there");
    let (newest, of_bytes) = of(2);
    let differ = newest[one..].iter().zip(truth.data());
    assert!(differ.clone().all(|(got, want)| got.abs_diff(*want) <= 1));
    // openpilot's kernel in plain f32 differs in one byte; see the reference data.
    let n_differ = differ.filter(|(got, want)| got != want).count();
    assert!(n_differ <= 8, "{n_differ}");
    // Whole numbers are the bytes themselves; the older picture is one or four before.
    assert!(
        newest[one..]
            .iter()
            .map(|&byte| f64::from(byte))
            .eq(of_bytes[one..].iter().copied())
    );
    assert_eq!(newest[..one], of(1).0[one..]);
    assert_eq!(of_bytes[..one], of(0).1[one..]);
}

#[test]
fn what_takes_no_pictures_is_refused_and_a_picture_that_is_not_there_is_passed_over() {
    let features = network(&[("features", DType::F32, &[1, 512])]);
    let refused = PictureInputs::of(&features).expect_err("no picture");
    let TrainError::NoPictures { inputs } = &refused else {
        panic!("{refused}");
    };
    assert_eq!(inputs, &["`features` [1, 512]"]);
    // The right name with another shape is none either.
    let larger = network(&[("input_img", DType::U8, &[1, 1_382_400])]);
    assert!(PictureInputs::of(&larger).is_err());

    let Some(minute) = minute() else {
        return;
    };
    let road = network(&[("img", DType::U8, &[1, 12, 128, 256])]);
    let inputs = PictureInputs::of(&road).expect("takes pictures");
    // A speed and a direction at every moment, so that the first pictures are samples.
    let mut drive = drive(&minute);
    let (first, last) = drive.span.expect("has events");
    let moments = || (first..last).step_by(100_000_000);
    drive.speed = moments().map(|time| (time, 1.0)).collect();
    drive.calibration = moments().map(|time| (time, [0.0; 3])).collect();
    let options = DatasetOptions::default().with_path_times(Vec::new());
    let data = Arc::new(Dataset::new(vec![drive], options).expect("has samples"));
    let first = data.sample(0).expect("is there").frame.index;
    assert!(first < 4, "{first}");
    let folder = tempfile::tempdir().expect("a writable folder");
    let store = Store::new(folder.path(), StoreOptions::default());
    let videos = || vec![minute.join("qcamera.ts")];
    let made = inputs.of_drives(Arc::clone(&data), [0], videos(), &store, |_| ());
    assert_eq!(made.expect("nothing to do").len(), 0);
    let refused = inputs.of_drives(data, [1_000_000], videos(), &store, |_| ());
    assert!(
        matches!(
            refused,
            Err(TrainError::Pictures(PrefetchError::NoSample {
                number: 1_000_000
            }))
        ),
        "{refused:?}"
    );
}
