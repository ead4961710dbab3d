//! Frames of recorded drives.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use spark_program::{about, progress, tell};
use sparkpilot::data::drive::{Camera, Dataset, DatasetOptions, Drive};
use sparkpilot::data::log::LogReader;
use sparkpilot::data::route::{SegmentFile, find_segments};
use sparkpilot::data::video::{Store, StoreOptions};
use sparkpilot::hal::config;
use sparkpilot::onnx::Tensor;
use sparkpilot::onnx::graph::Graph;
use sparkpilot::openpilot::warp::Pinhole;
use sparkpilot::train::PictureInputs;

use crate::run::{CameraOf, usage};

impl CameraOf {
    fn named(self) -> (SegmentFile, Camera, Pinhole) {
        match self {
            Self::Preview => (SegmentFile::Qcamera, Camera::RoadPreview, Pinhole::ROAD),
            Self::Road => (SegmentFile::Fcamera, Camera::Road, Pinhole::ROAD),
            Self::Wide => (SegmentFile::Ecamera, Camera::WideRoad, Pinhole::WIDE),
            Self::Driver => (SegmentFile::Dcamera, Camera::Driver, Pinhole::WIDE),
        }
    }
}

/// Values of a network's inputs.
type Inputs = Vec<(String, Tensor)>;

/// Inputs of every `every`th frame of the drives below a folder, drive after drive.
pub(crate) fn read(
    folder: &Path,
    graph: &Graph,
    camera: CameraOf,
    every: usize,
) -> Result<Vec<Inputs>, Box<dyn Error>> {
    let (file, camera, pinhole) = camera.named();
    let inputs = PictureInputs::of(graph)?.with_camera(pinhole);
    match camera {
        Camera::Driver if inputs.needs_calibration() => {
            return usage(
                "--camera: the network looks at the road, and not through the driver's camera",
            );
        }
        Camera::Driver => {
            tell("the middle of the driver's pictures is taken, not the driver's side")
        }
        _ => {}
    }
    let zeros: Vec<&str> = inputs.zeros().collect();
    if !zeros.is_empty() {
        tell(format!("inputs that are zeros: {}", zeros.join(", ")));
    }
    let (mut drives, mut videos) = (Vec::new(), Vec::new());
    for segment in find_segments(folder)? {
        let (Some(log), Some(video)) = (segment.log(), segment.file(file)) else {
            tell(format!("{}: no log, or no such video", segment.name));
            continue;
        };
        let drive = Drive::read(&mut LogReader::open(log).map_err(about(log))?);
        if let Some(ended) = &drive.ended {
            tell(format!(
                "{}: {ended}; what stands before is taken",
                log.display()
            ));
        }
        drives.push(drive);
        videos.push(video.to_owned());
    }
    if drives.is_empty() {
        return usage(&format!(
            "--data: no drive below `{}` has a log and that camera's video (--camera)",
            folder.display()
        ));
    }
    let options = DatasetOptions::default()
        .with_camera(camera)
        .with_every(every)
        .with_path_times(Vec::new())
        .with_calibration(inputs.needs_calibration());
    let dataset = Arc::new(Dataset::new(drives, options)?);
    for (why, n) in dataset.left_out() {
        tell(format!("left out: {n} frames without {why}"));
    }
    let bar = progress(Some(dataset.len() as u64)).with_message("pictures");
    let seen = |done: usize| bar.set_position(done as u64);
    let numbers = 0..dataset.len();
    let read = inputs.of_drives(dataset, numbers, videos, &store(), seen);
    bar.finish_and_clear();
    Ok(read?)
}

/// Where decoded pictures are kept.
fn store() -> Store {
    let folder = config().cache_dir.clone();
    let folder = folder.unwrap_or_else(|| std::env::temp_dir().join("sparkpilot"));
    Store::new(folder.join("pictures"), StoreOptions::default())
}
