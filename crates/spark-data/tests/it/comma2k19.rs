//! One minute of comma2k19, against NumPy.

use spark_data::comma2k19::{Array, Comma2k19, Comma2k19Error, Values};
use spark_data::label::{MODEL_TIMES, Poses};
use spark_testing::test_data;

const MINUTE: &str = "data/drive/comma2k19_example/b0c9d2329ad1606b_2018-08-02--08-34-47/40";

/// Frame, and the path at points 8, 16, 24 and 32 as NumPy 2 has it: positions by `numpy.interp`, axis by axis, less that of the
/// frame, turned by the transposed matrix of its quaternion.
const PATHS: [(usize, [[f64; 3]; 4]); 5] = [
    (
        0,
        [
            [5.284597, 0.071543, -0.293972],
            [24.851915, 0.413021, -1.293052],
            [66.77037, 1.115041, -3.046368],
            [147.458757, 2.036124, -6.304961],
        ],
    ),
    (
        137,
        [
            [11.192419, 0.156333, -0.655181],
            [47.36167, 0.562967, -2.992691],
            [109.349745, 1.998339, -8.109593],
            [193.299877, 3.466707, -15.051731],
        ],
    ),
    (
        300,
        [
            [11.938945, 0.184649, -0.798303],
            [47.329075, 0.768725, -3.199102],
            [105.93079, 1.675379, -6.480649],
            [188.075277, 2.863034, -12.360703],
        ],
    ),
    (
        600,
        [
            [10.472217, 0.142212, -0.717841],
            [39.311032, 0.537426, -2.677163],
            [82.868146, 1.198776, -5.600864],
            [148.571575, 2.112781, -9.414614],
        ],
    ),
    (
        950,
        [
            [11.164801, 0.126032, -0.724734],
            [44.856945, 0.553696, -2.845619],
            [100.243701, 1.237402, -6.406214],
            [174.224898, 2.107668, -12.074379],
        ],
    ),
];

#[test]
fn paths_are_those_of_numpy_within_a_millimetre() {
    let Some(folder) = test_data(MINUTE) else {
        return;
    };
    let minute = Comma2k19::open(&folder).unwrap();
    assert_eq!(
        (minute.frame_times.len(), minute.speed.0.len()),
        (1200, 4974)
    );
    let poses =
        Poses::recorded(&minute.frame_times, &minute.positions, &minute.orientations).unwrap();
    for (frame, want) in PATHS {
        let path = poses
            .path(minute.frame_times[frame], &MODEL_TIMES, 0.06)
            .unwrap();
        for (point, want) in [8, 16, 24, 32].into_iter().zip(want) {
            for k in 0..3 {
                let apart = (path[point][k] - want[k]).abs();
                assert!(
                    apart < 1e-3,
                    "frame {frame}, point {point}: {:?}, not {want:?}",
                    path[point]
                );
            }
        }
    }
    // The last ten seconds have no whole path.
    assert_eq!(
        poses.path(minute.frame_times[1100], &MODEL_TIMES, 0.06),
        None
    );
}

#[test]
fn arrays_of_every_kind_are_read() {
    let Some(folder) = test_data(MINUTE) else {
        return;
    };
    // Fortran order: forward, right, down, of which down has the Earth's gravity.
    let array = Array::open(&folder.join("processed_log/IMU/accelerometer/value")).unwrap();
    let Values::F64(values) = array.values else {
        panic!("no floats");
    };
    assert_eq!(array.shape, [6256, 3]);
    let down = values.chunks_exact(3).map(|row| row[2]).sum::<f64>() / 6256.0;
    assert!((down.abs() - 9.8).abs() < 0.3, "{down}");
    let data = Array::open(&folder.join("processed_log/CAN/raw_can/data")).unwrap();
    assert!(matches!(data.values, Values::Bytes { size: 8, bytes } if bytes.len() == 8 * 135_468));
    let address = Array::open(&folder.join("processed_log/CAN/raw_can/address")).unwrap();
    assert!(matches!(address.values, Values::I64(values) if values.len() == 135_468));
    let picture = Array::open(&folder.join("preview.png")).unwrap_err();
    assert_eq!(picture.to_string(), "it is no NumPy array");
    let missing = Comma2k19::open(&folder.join("processed_log")).unwrap_err();
    assert!(matches!(missing, Comma2k19Error::Array { .. }), "{missing}");
}
