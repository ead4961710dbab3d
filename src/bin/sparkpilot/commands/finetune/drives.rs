//! Frames of recorded drives.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use spark_program::{Pulse, progress, tell};
use sparkpilot::data::drive::{Camera, Dataset, DatasetOptions, Drive};
use sparkpilot::data::prefetch::PrefetchError;
use sparkpilot::data::route::SegmentFile;
use sparkpilot::onnx::Tensor;
use sparkpilot::onnx::graph::Graph;
use sparkpilot::openpilot::warp::Pinhole;
use sparkpilot::train::{PictureInputs, TrainError};

use super::kept;
use super::logs::{self, Recorded};
use super::run::{CameraOf, Done, usage};

/// Of 20 frames a second of a drive, one of so many.
pub(crate) const EVERY: usize = 4;

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
pub(crate) type Inputs = Vec<(String, Tensor)>;

/// Which drives are read, and how.
pub(crate) struct Drives<'a> {
    pub(crate) folder: &'a Path,
    pub(crate) camera: CameraOf,
    /// One frame of so many is taken.
    pub(crate) every: usize,
    /// As [`logs::read`] takes them.
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

/// Frames of drives whose logs are read. Pictures are, when they are asked for.
pub(crate) struct Frames {
    inputs: PictureInputs,
    dataset: Arc<Dataset>,
    pub(crate) segments: Vec<Recorded>,
    pub(crate) left_out: Vec<PathBuf>,
    names: BTreeMap<PathBuf, String>,
    /// How many logs end before their end: what stands before is taken.
    pub(crate) n_cut: usize,
    /// Whether a video that is broken is an error, as it was not when the run was begun.
    is_strict: bool,
}

/// What comes of a frame.
pub(crate) enum Frame<'f> {
    Inputs(Inputs),
    /// Nothing: this video is broken, or shorter than its log.
    Broken(&'f Path),
}

impl Frames {
    /// Reads the logs.
    pub(crate) fn of(graph: &Graph, drives: &Drives<'_>) -> Result<Self, Box<dyn Error>> {
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
        let logs = logs::read(drives.folder, file, camera, drives.left_out)?;
        let is_cut = |drive: &&Drive| drive.ended.is_some();
        let n_cut = logs.drives.iter().filter(is_cut).count();
        let dataset = Arc::new(Dataset::new(logs.drives, options)?);
        for (why, n) in dataset.left_out() {
            tell(format!("left out: {n} frames without {why}"));
        }
        Ok(Self {
            inputs,
            dataset,
            segments: logs.segments,
            left_out: logs.left_out,
            names: logs.names,
            n_cut,
            is_strict: drives.left_out.is_some(),
        })
    }

    /// How many there are, by number from 0 on; some of them may have no pictures.
    pub(crate) fn len(&self) -> usize {
        self.dataset.len()
    }

    /// What a log or video is called, alike on two machines, wherever their folders of drives begin.
    pub(crate) fn name_of(&self, path: &Path) -> String {
        let known = self.names.get(path).cloned();
        known.unwrap_or_else(|| path.display().to_string())
    }

    /// Hands over what comes of frames by rising numbers, and gives the videos of which some were left out. Of a frame before which its
    /// video has too few pictures nothing comes.
    pub(crate) fn each(
        &self,
        numbers: &[usize],
        take: &mut dyn FnMut(usize, Frame<'_>) -> Done,
    ) -> Result<Vec<PathBuf>, Box<dyn Error>> {
        let bar = progress(Some(numbers.len() as u64)).with_message("pictures, teacher");
        let pulse = Pulse::of(&bar);
        let videos = self.segments.iter().map(|it| it.video.clone()).collect();
        let (dataset, order) = (Arc::clone(&self.dataset), numbers.iter().copied());
        let frames = self
            .inputs
            .each_of_drives(dataset, order, videos, &kept::store());
        let mut broken: BTreeMap<usize, usize> = BTreeMap::new();
        for (number, inputs) in frames {
            let n_before = numbers.partition_point(|&other| other <= number);
            bar.set_position(n_before as u64);
            match (inputs, self.dataset.sample(number)) {
                // The others go on.
                (Err(TrainError::Pictures(why)), Some(sample))
                    if !self.is_strict && is_of_video(&why) =>
                {
                    let video = &self.segments[sample.drive].video;
                    let n_frames = broken.entry(sample.drive).or_default();
                    if *n_frames == 0 {
                        tell(format!("{}: {why}", video.display()));
                    }
                    *n_frames += 1;
                    take(number, Frame::Broken(video))?;
                }
                (inputs, _) => take(number, Frame::Inputs(inputs?))?,
            }
        }
        drop(pulse);
        bar.finish_and_clear();
        let mut left_out = Vec::with_capacity(broken.len());
        for (drive, n_frames) in broken {
            let video = &self.segments[drive].video;
            let name = video.display();
            tell(format!("left out: {n_frames} frames of `{name}`"));
            left_out.push(video.clone());
        }
        Ok(left_out)
    }
}

/// Hands over the inputs of frames of the drives below a folder, drive after drive.
pub(crate) fn each(
    graph: &Graph,
    drives: &Drives<'_>,
    take: &mut dyn FnMut(Inputs) -> Done,
) -> Result<Untaken, Box<dyn Error>> {
    let frames = Frames::of(graph, drives)?;
    let numbers: Vec<usize> = (0..frames.len()).collect();
    let mut n_taken = 0;
    let mut broken = frames.each(&numbers, &mut |_, frame| match frame {
        Frame::Broken(_) => Ok(()),
        Frame::Inputs(inputs) => {
            n_taken += 1;
            take(inputs)
        }
    })?;
    let is_broken = !broken.is_empty();
    let Frames {
        mut left_out,
        n_cut,
        ..
    } = frames;
    left_out.append(&mut broken);
    let none = none_below(drives.folder);
    match n_taken {
        0 if is_broken => Err(none.into()),
        0 => usage(&format!("--data: {none}")),
        _ => Ok(Untaken { left_out, n_cut }),
    }
}

/// Why there is nothing to train on.
pub(crate) fn none_below(folder: &Path) -> String {
    format!("no frame below `{}` has its pictures", folder.display())
}

/// Whether the video itself is at fault, and not the machine that decodes it.
fn is_of_video(why: &PrefetchError) -> bool {
    match why {
        PrefetchError::Pictures { .. } => true,
        PrefetchError::Video { source, .. } => source.is_of_video(),
        _ => false,
    }
}
