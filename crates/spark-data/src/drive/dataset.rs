//! Frames with labels, by number.
//!
//! ```text
//! drives ──> index: every frame whose labels are all there      sample(i), without reading anything again
//!            order(seed, epoch)                                  the same for the same two numbers, on any machine
//!            split by drive, or by time with a gap               so that no moment is in both parts
//! ```

use std::collections::BTreeMap;

use super::frames::{Camera, Frame};
use super::labels::{Labels, Source};
use super::signals::Drive;
use crate::label::{MODEL_TIMES, Poses};

/// What a data set takes.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct DatasetOptions {
    /// Whose frames.
    pub camera: Camera,
    /// Every so many frames one, the first of a drive included.
    pub every: usize,
    /// Seconds of the path that a frame is labelled with; without any, frames need no path.
    pub path_times: Vec<f64>,
    /// Frames before the camera's angles were known are left out.
    pub needs_calibration: bool,
}

impl Default for DatasetOptions {
    /// All frames of the small road camera, with the driving models' path and the camera's angles.
    fn default() -> Self {
        Self {
            camera: Camera::RoadPreview,
            every: 1,
            path_times: MODEL_TIMES.to_vec(),
            needs_calibration: true,
        }
    }
}

impl DatasetOptions {
    /// With frames of this camera.
    #[must_use]
    pub fn with_camera(self, camera: Camera) -> Self {
        Self { camera, ..self }
    }

    /// With one of so many frames.
    #[must_use]
    pub fn with_every(self, every: usize) -> Self {
        Self { every, ..self }
    }

    /// With a path of these seconds, or none.
    #[must_use]
    pub fn with_path_times(self, path_times: Vec<f64>) -> Self {
        Self { path_times, ..self }
    }

    /// Whether the camera's angles must be known.
    #[must_use]
    pub fn with_calibration(self, needs_calibration: bool) -> Self {
        Self {
            needs_calibration,
            ..self
        }
    }
}

/// Why there is no data set.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DatasetError {
    /// `every` is 0.
    #[error("one of every 0 frames is none: `every` counts from 1")]
    EveryZero,
    /// No frame has all labels.
    #[error("none of {frames} frames has all labels: {}", reasons(.left_out))]
    Empty {
        /// Frames that were looked at.
        frames: u64,
        /// How many were left out, by reason.
        left_out: BTreeMap<&'static str, u64>,
    },
}

fn reasons(left_out: &BTreeMap<&'static str, u64>) -> String {
    let each = left_out.iter().map(|(why, n)| format!("{n} have no {why}"));
    match left_out.is_empty() {
        true => "there are no frames of that camera".to_owned(),
        false => each.collect::<Vec<_>>().join(", "),
    }
}

/// A frame and its labels.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Sample {
    /// Of which drive, by place in [`Dataset::drives`].
    pub drive: usize,
    /// The frame.
    pub frame: Frame,
    /// What is known of it.
    pub labels: Labels,
    /// Where the camera will be, m: x forward, y right, z down; and by whom.
    pub path: Option<(Vec<[f64; 3]>, Source)>,
}

/// Sample numbers for training and for validation.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Split {
    /// To train on.
    pub train: Vec<usize>,
    /// To judge by.
    pub validate: Vec<usize>,
}

/// Frames with labels.
#[derive(Debug)]
pub struct Dataset {
    drives: Vec<Drive>,
    poses: Vec<Option<(Poses, Source)>>,
    options: DatasetOptions,
    /// Drive and frame of each sample, in order of both.
    samples: Vec<(usize, Frame)>,
    left_out: BTreeMap<&'static str, u64>,
}

/// Motion of a qlog comes four times a second; a longer silence ends a path.
const MOTION_GAP_S: f64 = 0.6;

impl Dataset {
    /// Finds the frames of drives whose labels are all there: speed, and what the options ask for.
    ///
    /// # Errors
    ///
    /// [`DatasetError`].
    pub fn new(drives: Vec<Drive>, options: DatasetOptions) -> Result<Self, DatasetError> {
        if options.every == 0 {
            return Err(DatasetError::EveryZero);
        }
        let mut dataset = Self {
            poses: drives.iter().map(Drive::poses).collect(),
            drives,
            options,
            samples: Vec::new(),
            left_out: BTreeMap::new(),
        };
        let mut n_frames = 0;
        for drive in 0..dataset.drives.len() {
            let frames = dataset.drives[drive]
                .frames_of(dataset.options.camera)
                .to_vec();
            for frame in frames.into_iter().step_by(dataset.options.every) {
                n_frames += 1;
                match dataset.lacks(drive, frame) {
                    None => dataset.samples.push((drive, frame)),
                    Some(why) => *dataset.left_out.entry(why).or_default() += 1,
                }
            }
        }
        if dataset.samples.is_empty() {
            return Err(DatasetError::Empty {
                frames: n_frames,
                left_out: dataset.left_out,
            });
        }
        Ok(dataset)
    }

    /// What a frame lacks.
    fn lacks(&self, drive: usize, frame: Frame) -> Option<&'static str> {
        let sample = self.labelled(drive, frame);
        let needs_path = !self.options.path_times.is_empty();
        match sample.labels {
            Labels { speed: None, .. } => Some("speed"),
            Labels {
                calibration: None, ..
            } if self.options.needs_calibration => Some("calibration"),
            _ if needs_path && sample.path.is_none() => Some("path"),
            _ => None,
        }
    }

    fn labelled(&self, drive: usize, frame: Frame) -> Sample {
        let now = frame.end_of_frame;
        let path = self.poses[drive].as_ref().and_then(|(poses, source)| {
            let path = poses.path(now as f64 * 1e-9, &self.options.path_times, MOTION_GAP_S)?;
            Some((path, *source))
        });
        Sample {
            drive,
            frame,
            labels: self.drives[drive].labels(now),
            path: path.filter(|(path, _)| !path.is_empty()),
        }
    }

    /// Whose frames they are.
    pub fn camera(&self) -> Camera {
        self.options.camera
    }

    /// The drives.
    pub fn drives(&self) -> &[Drive] {
        &self.drives
    }

    /// How many samples there are.
    pub fn len(&self) -> usize {
        self.samples.len()
    }

    /// Whether there are none; a data set has some.
    pub fn is_empty(&self) -> bool {
        self.samples.is_empty()
    }

    /// How many frames were left out, by what they lack.
    pub fn left_out(&self) -> &BTreeMap<&'static str, u64> {
        &self.left_out
    }

    /// A sample by number.
    pub fn sample(&self, index: usize) -> Option<Sample> {
        let (drive, frame) = *self.samples.get(index)?;
        Some(self.labelled(drive, frame))
    }

    /// All numbers in an order that depends on nothing but these and how many samples there are: Fisher and Yates's shuffle by
    /// `SplitMix64`.
    pub fn order(&self, seed: u64, epoch: u64) -> Vec<usize> {
        let mut state = mixed(mixed(seed) ^ epoch);
        let mut order: Vec<usize> = (0..self.len()).collect();
        for last in (1..order.len()).rev() {
            state = state.wrapping_add(GOLDEN);
            // The high half of a product: a number below `last + 1`, all as likely up to 2^-40 or so.
            let place = (u128::from(mixed(state)) * (last as u128 + 1)) >> 64;
            order.swap(last, place as usize);
        }
        order
    }

    /// Whole drives to validate by: about this share of those that have samples, at least one, chosen by `seed`. With one drive there
    /// is nothing to train on then; split by time. A share that is not a number counts as 0.
    pub fn split_by_drive(&self, share: f64, seed: u64) -> Split {
        let mut drives: Vec<usize> = self.samples.iter().map(|(drive, _)| *drive).collect();
        drives.dedup();
        let n = drives.len();
        let n_wanted = ((n as f64 * share.clamp(0.0, 1.0)).round() as usize).max(1);
        drives.sort_by_key(|drive| mixed(mixed(seed) ^ *drive as u64));
        drives.truncate(n_wanted);
        self.split(|drive, _| Some(drives.contains(&drive)))
    }

    /// The last part of every drive to validate by, this share of its time (all of it for 1, none for what is not a number); what lies within `gap_s` before it is in neither part.
    pub fn split_by_time(&self, share: f64, gap_s: f64) -> Split {
        let share = share.clamp(0.0, 1.0);
        let mut spans: Vec<Option<(u64, u64)>> = vec![None; self.drives.len()];
        for (drive, frame) in &self.samples {
            let (first, last) = spans[*drive].unwrap_or((frame.end_of_frame, frame.end_of_frame));
            spans[*drive] = Some((first.min(frame.end_of_frame), last.max(frame.end_of_frame)));
        }
        self.split(|drive, frame| {
            let (first, last) = spans[drive]?;
            let left_s = (last - frame.end_of_frame) as f64 * 1e-9;
            let part_s = (last - first) as f64 * 1e-9 * share;
            match left_s {
                left if left < part_s || share >= 1.0 => Some(true),
                left if left < part_s + gap_s.max(0.0) => None,
                _ => Some(false),
            }
        })
    }

    /// Numbers of samples to validate by (true), to train on (false), and to leave out.
    fn split(&self, is_to_validate: impl Fn(usize, &Frame) -> Option<bool>) -> Split {
        let part = |wanted: bool| {
            let samples = self.samples.iter().enumerate();
            let of_part =
                samples.filter(|(_, (drive, frame))| is_to_validate(*drive, frame) == Some(wanted));
            of_part.map(|(index, _)| index).collect()
        };
        Split {
            train: part(false),
            validate: part(true),
        }
    }
}

const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

/// `SplitMix64`'s output function (G. Steele et al., "Fast splittable pseudorandom number generators", 2014).
fn mixed(state: u64) -> u64 {
    let z = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}
