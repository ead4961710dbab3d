//! Labels: what a network is to say of a frame, from what was recorded later or by other sensors.
//!
//! ```text
//! poses of the camera (comma2k19), or its motion (logs) ──> where it will be, in its own frame now   path
//! signals with times ──> the value at a frame, and how far from a reading it is                      series
//! ```
//!
//! Axes of paths are the camera's: x forward, y right, z down, metres.

mod path;
mod series;

pub use path::{MODEL_TIMES, Poses, PosesError};
pub use series::{Reading, Series};
