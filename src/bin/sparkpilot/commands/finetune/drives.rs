//! Frames of recorded drives.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::{Path, PathBuf};
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
use sparkpilot::train::{PictureInputs, TrainError};

use super::run::{CameraOf, usage};

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

/// Hands over the inputs of every `every`th frame of the drives below a folder, drive after drive.
pub(crate) fn each(
    folder: &Path,
    graph: &Graph,
    camera: CameraOf,
    every: usize,
    take: &mut dyn FnMut(Inputs) -> Result<(), Box<dyn Error>>,
) -> Result<(), Box<dyn Error>> {
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
    let bar = progress(Some(dataset.len() as u64)).with_message("pictures, teacher");
    let frames = inputs.each_of_drives(
        Arc::clone(&dataset),
        0..dataset.len(),
        videos.clone(),
        &store(),
    );
    let mut broken: BTreeMap<usize, usize> = BTreeMap::new();
    let mut n_taken = 0;
    for (number, inputs) in frames {
        bar.set_position(number as u64 + 1);
        match (inputs, dataset.sample(number)) {
            // Of one video: the others go on.
            (Err(TrainError::Pictures(why)), Some(sample)) => {
                let n_frames = broken.entry(sample.drive).or_default();
                if *n_frames == 0 {
                    let video = videos[sample.drive].display();
                    tell(format!("{video}: {why}"));
                }
                *n_frames += 1;
            }
            (inputs, _) => {
                take(inputs?)?;
                n_taken += 1;
            }
        }
    }
    bar.finish_and_clear();
    for (drive, n_frames) in broken {
        tell(format!(
            "left out: {n_frames} frames of `{}`",
            videos[drive].display()
        ));
    }
    match n_taken {
        0 => usage(&format!(
            "--data: no frame below `{}` has its pictures",
            folder.display()
        )),
        _ => Ok(()),
    }
}

/// Where decoded pictures are kept.
fn store() -> Store {
    Store::new(cache().join("pictures"), StoreOptions::default())
}

/// The folder for what can be made again, and for samples of this run.
pub(crate) fn cache() -> PathBuf {
    let folder = config().cache_dir.clone();
    folder.unwrap_or_else(|| std::env::temp_dir().join("sparkpilot"))
}
