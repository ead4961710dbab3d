//! One minute of comma2k19, against NumPy.

use std::path::PathBuf;

use serde_json::{Map, Value, json};
use spark_data::comma2k19::{Array, Comma2k19, Comma2k19Error, Values};
use spark_data::drive::{Camera, Dataset, DatasetOptions, Drive, Source};
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

/// First and last row, NaNs, mean: every figure that NumPy gave of every array.
#[test]
fn every_array_is_as_numpy_reads_it() {
    let Some(folder) = test_data(MINUTE) else {
        return;
    };
    let expected = std::fs::read(test_data("data/drive/expected.json").unwrap()).unwrap();
    let expected: Value = serde_json::from_slice(&expected).unwrap();
    let mut n_arrays = 0;
    for_each_array(
        &expected["comma2k19"]["arrays"],
        folder,
        &mut |path, want| {
            n_arrays += 1;
            let array = Array::open(&path).unwrap();
            let mut want = want.clone();
            let mut check = |name: &str, got: Value| {
                assert_eq!(
                    want.remove(name).unwrap(),
                    got,
                    "{}: {name}",
                    path.display()
                );
            };
            check("shape", json!(array.shape));
            let text = std::fs::read(&path).unwrap();
            let text = String::from_utf8_lossy(&text[..text.len().min(128)]).into_owned();
            check(
                "fortran_order",
                json!(text.contains("'fortran_order': True")),
            );
            let n_rows = array.shape[0];
            let values: Vec<f64> = match &array.values {
                Values::Bytes { size, bytes } => {
                    check("dtype", json!(format!("|S{size}")));
                    let hex = |bytes: &[u8]| -> String {
                        let end = bytes
                            .iter()
                            .rposition(|byte| *byte != 0)
                            .map_or(0, |last| last + 1);
                        bytes[..end]
                            .iter()
                            .map(|byte| format!("{byte:02x}"))
                            .collect()
                    };
                    check("first_hex", json!(hex(&bytes[..*size])));
                    check("last_hex", json!(hex(&bytes[bytes.len() - size..])));
                    let n: usize = bytes.chunks(*size).map(|text| hex(text).len() / 2).sum();
                    check("total_bytes_without_trailing_zeros", json!(n));
                    assert!(want.is_empty(), "not compared: {want:?}");
                    return;
                }
                Values::F64(values) => {
                    check("dtype", json!("<f8"));
                    values.clone()
                }
                Values::I64(values) => {
                    let dtype = want.remove("dtype").unwrap();
                    assert!(dtype == "<i8" || dtype == "|b1", "{dtype}");
                    values.iter().map(|value| *value as f64).collect()
                }
                _ => panic!("{}", path.display()),
            };
            let row = values.len() / n_rows;
            // NaN is null there, and has no equal.
            let close = |got: &[f64], want: &Value| {
                let want = want
                    .as_array()
                    .cloned()
                    .unwrap_or_else(|| vec![want.clone()]);
                assert_eq!(got.len(), want.len());
                for (got, want) in got.iter().zip(&want) {
                    let want = want
                        .as_f64()
                        .or(want.as_bool().map(|it| f64::from(u8::from(it))));
                    match want {
                        Some(want) => assert!(
                            (got - want).abs() <= 1e-15 * want.abs(),
                            "{got}, not {want}"
                        ),
                        None => assert!(got.is_nan(), "{}: {got}", path.display()),
                    }
                }
            };
            close(&values[..row], &want.remove("first_row").unwrap());
            close(
                &values[values.len() - row..],
                &want.remove("last_row").unwrap(),
            );
            let finite: Vec<f64> = values
                .iter()
                .copied()
                .filter(|value| value.is_finite())
                .collect();
            let nans = values.iter().filter(|value| value.is_nan()).count();
            assert_eq!(
                want.remove("nan_count").unwrap(),
                nans,
                "{}",
                path.display()
            );
            let mean = finite.iter().sum::<f64>() / finite.len() as f64;
            let wanted = want.remove("mean_of_finite").unwrap().as_f64().unwrap();
            // Sums in another order, of values that are much larger than their mean.
            let scale = finite.iter().fold(0.0, |most: f64, it| most.max(it.abs()));
            assert!(
                (mean - wanted).abs() <= 1e-12 * scale,
                "{}: {mean}, not {wanted}",
                path.display()
            );
            assert!(want.is_empty(), "not compared: {want:?}");
        },
    );
    assert!(n_arrays > 30, "{n_arrays}");
}

/// Frames with speeds and recorded paths; the minute has no calibration, and its folder no video.
#[test]
fn a_minute_is_a_drive_and_gives_samples() {
    let Some(folder) = test_data(MINUTE) else {
        return;
    };
    let minute = Comma2k19::open(&folder).unwrap();
    let drive = Drive::of_comma2k19(&minute).unwrap();
    let summary = drive.summary();
    assert!((summary.duration_s - 59.949).abs() < 1e-2, "{summary:?}");
    let [least, _, most] = summary.speed.unwrap();
    let of_array = |most: f64, speed: &f64| most.max(*speed);
    assert_eq!(most, minute.speed.1.iter().fold(0.0, of_array));
    assert!(
        least > 7.0 && (summary.distance_m - 1004.0).abs() < 2.0,
        "{summary:?}"
    );
    assert!(drive.speed_picture().is_some());
    let options = DatasetOptions::default().with_camera(Camera::Road);
    let needs = Dataset::new(vec![Drive::of_comma2k19(&minute).unwrap()], options.clone());
    let refused = needs.unwrap_err();
    assert!(
        refused.to_string().contains("1199 have no calibration"),
        "{refused}"
    );
    let data = Dataset::new(vec![drive], options.with_calibration(false)).unwrap();
    // The last ten seconds have no whole path.
    assert!((990..=1000).contains(&data.len()), "{}", data.len());
    // The first frame lies before the first speed.
    assert_eq!(data.sample(0).unwrap().frame.index, 1);
    for (frame, want) in &PATHS[1..] {
        let sample = data.sample(frame - 1).unwrap();
        assert_eq!(sample.frame.index as usize, *frame);
        assert_eq!(sample.labels.yaw_rate, None);
        assert_eq!(sample.labels.speed.unwrap().source, Source::CarState);
        let (path, source) = sample.path.unwrap();
        assert_eq!(source, Source::GlobalPose);
        for (point, want) in [8, 16, 24, 32].into_iter().zip(want) {
            let apart = (0..3).map(|k| (path[point][k] - want[k]).abs());
            // Times are whole nanoseconds here.
            assert!(
                apart.fold(0.0, f64::max) < 1e-3,
                "frame {frame}, point {point}"
            );
        }
    }
}

/// The leaves of the tree, each the figures of an array, with the array's file.
fn for_each_array(tree: &Value, at: PathBuf, look: &mut impl FnMut(PathBuf, &Map<String, Value>)) {
    let tree = tree.as_object().unwrap();
    if tree.contains_key("shape") {
        return look(at, tree);
    }
    for (name, below) in tree {
        for_each_array(below, at.join(name), look);
    }
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
