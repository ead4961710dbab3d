//! What openpilot's driving models mean: how they are fed and what their outputs say.
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
//! `spark-onnx` runs the networks and knows nothing of this. [`DrivingPipeline`] is the whole chain of
//! a vision and a policy network; [`recurrent`] is for the networks before it, which hand a state
//! from frame to frame. [`slices::OutputLayout`] names the parts of any network's output vector, [`heads::HeadMeaning`]
//! says what each is to a loss.
//! [`view`] makes a network's inputs of recorded pictures. [`zoo`] builds networks with the same inputs and outputs and random weights.
//!
//! Source: openpilot's `selfdrive/modeld` of February 2026 (MIT).
//!
//! Deliberately absent: messaging, and the smoothing of actions over time.

pub mod driver_view;
mod error;
pub mod frame;
pub mod heads;
pub mod history;
pub mod metadata;
mod output_slice;
mod pipeline;
pub mod plan;
pub mod prediction;
pub mod recurrent;
pub mod slices;
pub mod view;
pub mod warp;
pub mod zoo;

pub use error::OpenpilotError;
pub use pipeline::{DrivingInput, DrivingOutput, DrivingPipeline};

/// The README's example, so that it is compiled and run with the others.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
