//! A segment's log, or a minute of comma2k19, as signals, frames and labels.
//!
//! ```text
//! log ── read once ──> Drive    series of readings by time, frames of each camera, counts, why the log ended
//!                        ├──> labels of a frame      speed, yaw rate, lead, lanes, path
//!                        ├──> Summary                counts, duration, distance, speed; a picture
//!                        └──> Dataset                frames with labels, in an order of (seed, epoch), split
//! ```
//!
//! Deliberately absent: pictures, which [`video`](crate::video) gives; [`Frames`] says which picture of a video file a frame is.

mod dataset;
mod frames;
mod labels;
mod minute;
mod signals;
mod summary;

pub use dataset::{Dataset, DatasetError, DatasetOptions, Sample, Split};
pub use frames::{Camera, Frame, Frames};
pub use labels::{Labels, Source, Sourced};
pub use signals::{Drive, Lane, Lead, Motion};
pub use summary::Summary;
