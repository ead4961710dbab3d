//! Roads: a centre line of straights, arcs and clothoids, with lanes, grade and bank.
//!
//! ```text
//!   segment: length, curvature at its start and at its end, linear between
//!
//!   d (left +) ^      s = distance along the centre line of the ego's lane
//!              |      heading' = curvature
//!              +----> s
//! ```
//!
//! Beyond its last segment a road goes straight on, level, forever. Before s = 0 it
//! goes straight back. Curvature is positive to the left; grade is positive uphill
//! and bank positive where the left side is the higher one, both in rad.
//!
//! Deliberately absent: vertical curvature, junctions, lanes of varying width.

mod description;
mod geometry;
#[cfg(feature = "open-drive")]
mod open_drive;
mod pose;
#[cfg(test)]
mod tests;

pub use description::{RoadDescription, Segment};
pub use geometry::{MAX_SEGMENTS, Road};
#[cfg(feature = "open-drive")]
pub use open_drive::{OpenDriveLane, OpenDriveRoad, read_open_drive};
pub(crate) use pose::Piece;
pub use pose::Pose;
