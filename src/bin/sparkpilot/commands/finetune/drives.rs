//! Frames of recorded drives.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use spark_program::{about, progress, tell};
use sparkpilot::data::drive::{Camera, Dataset, DatasetOptions, Drive};
use sparkpilot::data::log::LogReader;
use sparkpilot::data::prefetch::PrefetchError;
use sparkpilot::data::route::{SegmentFile, find_segments};
use sparkpilot::data::video::{Store, StoreOptions, VideoError};
use sparkpilot::hal::config;
use sparkpilot::onnx::Tensor;
use sparkpilot::onnx::graph::Graph;
use sparkpilot::openpilot::warp::Pinhole;
use sparkpilot::train::{PictureInputs, SampleWriter, TrainError};

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

/// Which drives are read, and how.
pub(crate) struct Drives<'a> {
    pub(crate) folder: &'a Path,
    pub(crate) camera: CameraOf,
    /// One frame of so many is taken.
    pub(crate) every: usize,
    /// Videos that were left out when the run was begun: no others may be, and these not come back. Nothing of a run that begins.
    pub(crate) left_out: Option<&'a [PathBuf]>,
}

/// Hands over the inputs of frames of the drives below a folder, drive after drive. Gives the videos that were left out, because they are
/// broken or shorter than their logs.
pub(crate) fn each(
    graph: &Graph,
    drives: &Drives<'_>,
    take: &mut dyn FnMut(Inputs) -> Result<(), Box<dyn Error>>,
) -> Result<Vec<PathBuf>, Box<dyn Error>> {
    let &Drives {
        folder,
        camera,
        every,
        left_out: known,
    } = drives;
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
        if known.is_some_and(|known| known.iter().any(|path| path == video)) {
            let video = video.display();
            tell(format!("{video}: left out, as when the run was begun"));
            continue;
        }
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
            // The others go on.
            (Err(TrainError::Pictures(why)), Some(sample))
                if known.is_none() && is_of_video(&why) =>
            {
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
    let mut left_out = Vec::with_capacity(broken.len());
    for (drive, n_frames) in broken {
        let video = &videos[drive];
        tell(format!(
            "left out: {n_frames} frames of `{}`",
            video.display()
        ));
        left_out.push(video.clone());
    }
    match n_taken {
        0 => usage(&format!(
            "--data: no frame below `{}` has its pictures",
            folder.display()
        )),
        _ => Ok(left_out),
    }
}

/// Whether the video itself is at fault, and not the machine that decodes it.
fn is_of_video(why: &PrefetchError) -> bool {
    match why {
        PrefetchError::Pictures { .. } => true,
        PrefetchError::Video { source, .. } => matches!(
            **source,
            VideoError::UnknownContainer { .. }
                | VideoError::Decoder { .. }
                | VideoError::Stream { .. }
                | VideoError::Short { .. }
        ),
        _ => false,
    }
}

/// Where decoded pictures are kept.
fn store() -> Store {
    Store::new(cache().join("pictures"), StoreOptions::default())
}

/// A file for the samples of this run: in the cache folder, or where that cannot be written to in the system's temporary one.
pub(crate) fn samples() -> Result<SampleWriter, TrainError> {
    SampleWriter::new(&cache()).or_else(|_| SampleWriter::new(&std::env::temp_dir()))
}

/// The folder for what can be made again.
fn cache() -> PathBuf {
    let folder = config().cache_dir.clone();
    folder.unwrap_or_else(|| std::env::temp_dir().join("sparkpilot"))
}
