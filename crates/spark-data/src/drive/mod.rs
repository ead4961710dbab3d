//! A segment's log as signals, frames and labels.
//!
//! ```text
//! log ── read once ──> Drive    series of readings by time, frames of each camera, counts, why the log ended
//!                        ├──> labels of a frame      speed, yaw rate, lead, lanes, path
//!                        ├──> Summary                counts, duration, distance, speed; a picture
//!                        └──> Dataset                frames with labels, in an order of (seed, epoch), split
//! ```
//!
//! Deliberately absent: pictures. No decoder of HEVC or H.264 is part of this crate; [`Frames`] says which picture of a video
//! file a frame is.

mod dataset;
mod frames;
mod labels;
mod signals;
mod summary;

pub use dataset::{Dataset, DatasetError, DatasetOptions, Sample, Split};
pub use frames::{Camera, Frame, Frames};
pub use labels::{Labels, Source, Sourced};
pub use signals::{Drive, Lane, Lead, Motion};
pub use summary::Summary;
