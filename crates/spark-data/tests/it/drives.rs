//! A recorded minute as signals, labels and samples.

use spark_data::drive::{Camera, Dataset, DatasetError, DatasetOptions, Drive, Source};
use spark_data::log::LogReader;
use spark_testing::test_data;

const DEMO: &str = "data/drive/demo_a2a0ccea32023010_2023-07-27--13-01-19--0/qlog.bz2";

fn demo() -> Option<Drive> {
    let path = test_data(DEMO)?;
    Some(Drive::read(&mut LogReader::open(&path).unwrap()))
}

#[test]
fn a_minute_is_summarised_and_drawn() {
    let Some(drive) = demo() else {
        return;
    };
    assert!(drive.ended.is_none());
    let summary = drive.summary();
    assert_eq!((summary.events, summary.n_broken), (11_388, 0));
    assert!((summary.duration_s - 61.602).abs() < 1e-3, "{summary:?}");
    let [least, mean, most] = summary.speed.unwrap();
    assert_eq!((least as f32, most as f32), (21.373_112, 29.247_787));
    assert!((mean - 26.137).abs() < 0.02, "{mean}");
    // 57.8 s from the first reading to the last.
    assert!(
        (summary.distance_m - mean * 57.811).abs() < 0.1,
        "{summary:?}"
    );
    assert!((summary.engaged.unwrap() - 318.0 / 579.0).abs() < 1e-12);
    let picture = drive.speed_picture().unwrap().finish();
    assert!(picture.contains("<polyline") && picture.contains("openpilot drives"));
}

#[test]
fn frames_are_found_by_number() {
    let Some(drive) = demo() else {
        return;
    };
    for camera in [
        Camera::Road,
        Camera::WideRoad,
        Camera::Driver,
        Camera::RoadPreview,
    ] {
        let frames = &drive.frames[&camera];
        assert_eq!(frames.all().len(), 1200);
        // The first two frames of this route are in no file.
        assert_eq!((frames.get(1), frames.get(2).unwrap().index), (None, 0));
        assert_eq!(frames.get(1201).unwrap().index, 1199);
        let n_keys = frames.all().iter().filter(|frame| frame.is_key).count();
        assert_eq!(
            n_keys,
            if camera == Camera::RoadPreview {
                80
            } else {
                40
            }
        );
    }
}

#[test]
fn labels_have_values_and_sources() {
    let Some(drive) = demo() else {
        return;
    };
    // Between two readings of speed.
    let times = drive.speed.times();
    let (before, behind) = (times[300], times[301]);
    let labels = drive.labels(before + (behind - before) / 2);
    let speed = labels.speed.unwrap();
    let middle = (drive.speed.values()[300] + drive.speed.values()[301]) / 2.0;
    assert!((speed.value - middle).abs() < 1e-6);
    assert_eq!(speed.source, Source::CarState);
    assert_eq!(labels.yaw_rate.unwrap().source, Source::CameraOdometry);
    assert!(labels.calibration.is_some());
    let lead = labels.lead.unwrap();
    assert_eq!(lead.source, Source::RadarState);
    assert!(
        lead.value
            .is_some_and(|lead| lead.distance > 5.0 && lead.distance < 100.0)
    );
    // What the model saw belongs to the moment of its frame.
    let seen = drive.lanes.times()[10];
    let lanes = drive.labels(seen).lanes.unwrap();
    assert!(
        lanes.value[0].right < 0.0 && lanes.value[1].right > 0.0,
        "{lanes:?}"
    );
    assert_eq!(lanes.source, Source::ModelV2);
    // Nothing is known of what was before and after.
    let before = drive.labels(0);
    assert_eq!(
        (
            before.speed,
            before.yaw_rate,
            before.lead,
            before.lanes,
            before.calibration
        ),
        (None, None, None, None, None)
    );
    assert_eq!(drive.labels(u64::MAX).speed, None);
}

/// The path by the camera's motion must be as long as the way by the car's own speed.
#[test]
fn a_path_is_as_long_as_the_way_driven() {
    let Some(drive) = demo() else {
        return;
    };
    let options =
        DatasetOptions::default().with_path_times((0..=40).map(|i| f64::from(i) * 0.1).collect());
    let dataset = Dataset::new(vec![drive], options).unwrap();
    let drive = &dataset.drives()[0];
    let mut n_compared = 0;
    for index in (0..dataset.len()).step_by(50) {
        let sample = dataset.sample(index).unwrap();
        let (path, source) = sample.path.unwrap();
        assert_eq!(source, Source::CameraOdometry);
        let length = |pair: &[[f64; 3]]| {
            (0..3)
                .map(|k| (pair[1][k] - pair[0][k]).powi(2))
                .sum::<f64>()
                .sqrt()
        };
        let way: f64 = path.windows(2).map(length).sum();
        let speeds = (0..40).map(|i| {
            drive.speed.between(
                sample.frame.end_of_frame + i * 100_000_000 + 50_000_000,
                500_000_000,
            )
        });
        let by_speed: f64 = speeds.map(|it| it.unwrap().value * 0.1).sum();
        assert!(
            (way / by_speed - 1.0).abs() < 0.03,
            "{way} m by the camera, {by_speed} m by the car"
        );
        assert!(path[40][0] > 0.98 * way, "forward: {:?}", path[40]);
        n_compared += 1;
    }
    assert!(n_compared > 10, "{n_compared}");
}

#[test]
fn samples_have_an_order_and_are_split() {
    let Some(drive) = demo() else {
        return;
    };
    let dataset = Dataset::new(vec![drive], DatasetOptions::default().with_every(2)).unwrap();
    let n = dataset.len();
    assert!(n > 200 && n < 300, "{n}, {:?}", dataset.left_out());
    assert_eq!(dataset.left_out().values().sum::<u64>() as usize + n, 600);
    let order = dataset.order(7, 3);
    assert_eq!(order, dataset.order(7, 3));
    assert_ne!(order, dataset.order(7, 4));
    assert_ne!(order, dataset.order(8, 3));
    let mut sorted = order.clone();
    sorted.sort_unstable();
    assert!(sorted.iter().copied().eq(0..n));
    let split = dataset.split_by_time(0.25, 5.0);
    let time = |index: &usize| dataset.sample(*index).unwrap().frame.end_of_frame;
    let last = split.train.iter().map(time).max().unwrap();
    let first = split.validate.iter().map(time).min().unwrap();
    assert!(first - last >= 4_900_000_000, "{} ns apart", first - last);
    assert_eq!(split.train.len() + split.validate.len() + 50, n);
    assert_eq!(dataset.split_by_drive(0.5, 1).validate.len(), n);
    assert!(dataset.sample(n).is_none());
}

#[test]
fn a_data_set_without_samples_says_why() {
    let Some(drive) = demo() else {
        return;
    };
    let zero = Dataset::new(Vec::new(), DatasetOptions::default().with_every(0)).unwrap_err();
    assert_eq!(zero, DatasetError::EveryZero);
    let none = Dataset::new(Vec::new(), DatasetOptions::default()).unwrap_err();
    assert!(
        none.to_string().contains("no frames of that camera"),
        "{none}"
    );
    let ahead = DatasetOptions::default().with_path_times(vec![120.0]);
    let empty = Dataset::new(vec![drive], ahead).unwrap_err().to_string();
    assert!(
        empty.contains("of 1200 frames") && empty.contains("have no path"),
        "{empty}"
    );
}
