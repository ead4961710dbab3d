//! How openpilot feeds its networks and reads what they say.
//!
//! ```text
//! camera frames --warp::warp_to_planes--> planes --+
//!                                                  v
//!                     pipeline: frame queue -> vision -> hidden state -> feature queue -+
//!                     desire --rising edge--> pulse queue ------------------------------+-> policy
//!                                                |                                      |
//!                                          prediction <---------- slices ---------------+
//!                                                |
//!                                        plan -> curvature, acceleration
//! ```
//!
//! Source: openpilot's `selfdrive/modeld` of February 2026 (MIT). Numbers that belong
//! to a network generation are stated once, in [`slices`].
//!
//! Deliberately absent: messaging, and the smoothing of actions over time.

mod error;
pub mod frame;
pub mod history;
pub mod metadata;
mod pipeline;

mod output_slice;
pub mod plan;
pub mod prediction;
pub mod recurrent;
pub mod slices;
pub mod warp;

pub use error::OpenpilotError;
pub use pipeline::{DrivingInput, DrivingOutput, DrivingPipeline};
