//! How openpilot feeds its networks and reads what they say.
//!
//! ```text
//! camera frames --frame::pack_yuv420--> planes --+
//!                                                v
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
//! Deliberately absent: warping camera images into the model's view, messaging, and
//! the smoothing of actions over time.

mod error;
pub mod frame;
pub mod history;
pub mod metadata;
mod pipeline;

pub mod plan;
pub mod prediction;
pub mod slices;

pub use error::OpenpilotError;
pub use pipeline::{DrivingInput, DrivingOutput, DrivingPipeline};
