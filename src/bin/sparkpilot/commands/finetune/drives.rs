//! Frames of recorded drives.

use std::collections::BTreeMap;
use std::error::Error;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use spark_program::{About, Pulse, about, progress, tell, with_causes};
use sparkpilot::data::drive::{Camera, Dataset, DatasetOptions, Drive};
use sparkpilot::data::log::{LogError, LogReader};
use sparkpilot::data::prefetch::PrefetchError;
use sparkpilot::data::route::{SegmentFile, find_segments};
use sparkpilot::data::video::{Store, StoreOptions, VideoError};
use sparkpilot::hal::config::{CACHE_DIR, config};
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
    /// Logs and videos that were left out when the run was begun: no others may be, and these not come back. Nothing of a run that begins.
    pub(crate) left_out: Option<&'a [PathBuf]>,
}

/// What was not taken of drives.
#[derive(Default)]
pub(crate) struct Untaken {
    /// Logs that tell of no frame, videos that are broken or shorter than their logs.
    pub(crate) left_out: Vec<PathBuf>,
    /// How many logs end before their end: what stands before was taken.
    pub(crate) n_cut: usize,
}

/// Hands over the inputs of frames of the drives below a folder, drive after drive.
pub(crate) fn each(
    graph: &Graph,
    drives: &Drives<'_>,
    take: &mut dyn FnMut(Inputs) -> Result<(), Box<dyn Error>>,
) -> Result<Untaken, Box<dyn Error>> {
    let (folder, known) = (drives.folder, drives.left_out);
    let (file, camera, pinhole) = drives.camera.named();
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
    let options = DatasetOptions::default()
        .with_camera(camera)
        .with_every(drives.every)
        .with_path_times(Vec::new())
        .with_calibration(inputs.needs_calibration());
    let Logs {
        drives,
        videos,
        mut left_out,
    } = read_logs(drives, file, camera)?;
    let n_cut = drives.iter().filter(|drive| drive.ended.is_some()).count();
    let dataset = Arc::new(Dataset::new(drives, options)?);
    for (why, n) in dataset.left_out() {
        tell(format!("left out: {n} frames without {why}"));
    }
    let bar = progress(Some(dataset.len() as u64)).with_message("pictures, teacher");
    let pulse = Pulse::of(&bar);
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
    drop(pulse);
    bar.finish_and_clear();
    let is_broken = !broken.is_empty();
    for (drive, n_frames) in broken {
        let video = &videos[drive];
        tell(format!(
            "left out: {n_frames} frames of `{}`",
            video.display()
        ));
        left_out.push(video.clone());
    }
    let none = format!("no frame below `{}` has its pictures", folder.display());
    match n_taken {
        0 if is_broken => Err(none.into()),
        0 => usage(&format!("--data: {none}")),
        _ => Ok(Untaken { left_out, n_cut }),
    }
}

/// Drives with the camera's videos, and what was left out because it cannot be read.
#[derive(Default)]
struct Logs {
    drives: Vec<Drive>,
    videos: Vec<PathBuf>,
    left_out: Vec<PathBuf>,
}

/// Reads the logs of the segments that have one and the camera's video.
fn read_logs(
    drives: &Drives<'_>,
    file: SegmentFile,
    camera: Camera,
) -> Result<Logs, Box<dyn Error>> {
    let (folder, known) = (drives.folder, drives.left_out);
    let mut logs = Logs::default();
    let mut first = None;
    let segments = find_segments(folder)?;
    let bar = progress(Some(segments.len() as u64)).with_message("logs");
    let _pulse = Pulse::of(&bar);
    for segment in segments {
        bar.inc(1);
        let (Some(log), Some(video)) = (segment.log(), segment.file(file)) else {
            tell(format!("{}: no log, or no such video", segment.name));
            continue;
        };
        let is_out = |path: &&PathBuf| known.is_some_and(|known| known.contains(path));
        if let Some(path) = segment.files.values().find(is_out) {
            let path = path.display();
            tell(format!("{path}: left out, as when the run was begun"));
            continue;
        }
        match read_log(log, camera) {
            Ok(drive) => {
                logs.drives.push(drive);
                logs.videos.push(video.to_owned());
            }
            // The others go on, but not in a run that was begun with it.
            Err(why) if known.is_none() => {
                tell(format!("left out: {}", with_causes(&why)));
                logs.left_out.push(log.to_owned());
                first.get_or_insert(why);
            }
            Err(why) => return Err(why.into()),
        }
    }
    bar.finish_and_clear();
    let folder = folder.display();
    match (first, logs.drives.is_empty()) {
        (_, false) => Ok(logs),
        (Some(first), true) => Err(NoneLeft {
            folder: folder.to_string(),
            first,
        }
        .into()),
        (None, true) if known.is_some() => Err(format!(
            "no drive below `{folder}` is left of those that the run was begun with"
        )
        .into()),
        (None, true) => usage(&format!(
            "--data: no drive below `{folder}` has a log and that camera's video (--camera)"
        )),
    }
}

/// Every log is left out, and the first one's reason.
#[derive(Debug)]
struct NoneLeft {
    folder: String,
    first: About,
}

impl std::fmt::Display for NoneLeft {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "no log below `{}` can be read", self.folder)
    }
}

impl Error for NoneLeft {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.first)
    }
}

/// What a log says, if it says anything of the camera's frames.
fn read_log(log: &Path, camera: Camera) -> Result<Drive, About> {
    let drive = Drive::read(&mut LogReader::open(log).map_err(about(log))?);
    if !drive.frames_of(camera).is_empty() {
        if let Some(ended) = &drive.ended {
            let log = log.display();
            tell(format!("{log}: {ended}; what stands before is taken"));
        }
        return Ok(drive);
    }
    Err(match drive.ended {
        // What the system says of the file is a cause; what its bytes lack is not.
        Some(LogError::Read { source, .. }) if source.raw_os_error().is_some() => {
            about(log)(source)
        }
        Some(ended) => about(log)(ended.to_string()),
        None if drive.span.is_none() => about(log)("it has no events"),
        None => about(log)("it tells of no frames of that camera"),
    })
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
    in_folder(SampleWriter::new)
}

/// What is made in the cache folder, or where that cannot be written to in the system's temporary one.
pub(crate) fn in_folder<T>(
    mut make: impl FnMut(&Path) -> Result<T, TrainError>,
) -> Result<T, TrainError> {
    make(&cache()).or_else(|error| match error {
        TrainError::Io { .. } => make(&std::env::temp_dir()),
        error => Err(error),
    })
}

/// Why a sample could not be kept, with what moves the file.
pub(crate) fn unkept(error: TrainError) -> Box<dyn Error> {
    match error {
        TrainError::Io { path, source } => {
            let variable = match config().cache_dir.as_ref().is_some_and(|it| *it == path) {
                true => CACHE_DIR.name,
                // The cache folder cannot be written to, or there is none.
                false => "TMPDIR",
            };
            let text = format!("{source}; {variable} names another folder for samples of a run");
            about(&path)(io::Error::new(source.kind(), text)).into()
        }
        error => error.into(),
    }
}

/// The folder for what can be made again.
fn cache() -> PathBuf {
    let folder = config().cache_dir.clone();
    folder.unwrap_or_else(|| std::env::temp_dir().join("sparkpilot"))
}
