//! The comma2k19 data set: minutes of a drive as arrays of numbers, with poses of the camera.
//!
//! ```text
//! <segment>/global_pose/{frame_times, frame_positions, frame_velocities, frame_orientations}
//!           processed_log/CAN/{speed, steering_angle}/{t, value}
//! ```
//!
//! Source: H. Schafer et al., "A Commute in Data: The comma2k19 Dataset", arXiv:1812.05752. Times are seconds since the
//! device started, positions metres of an Earth-centred frame (ECEF), orientations quaternions w, x, y, z from the camera's
//! frame (forward, right, down) to it.
//!
//! Deliberately absent: raw GNSS and CAN, and the video, which the data set has as HEVC.

mod npy;
mod segment;

pub use npy::{Array, NpyError, Values};
pub use segment::{Comma2k19, Comma2k19Error};
