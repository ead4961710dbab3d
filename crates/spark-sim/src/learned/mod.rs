//! Driving a learned model of a car: the controls challenge.
//!
//! ```text
//!            steer, roll, v, a (20 steps)          predicted lateral acceleration
//!   segment ---------+                               |
//!                    v                               v
//!   controller --> history [b, 20, 4] + tokens [b, 20] --> model --> logits [b, 20, 1024]
//!        ^                                                             | last step, /0.8, softmax
//!        +------------------- current lateral acceleration <-- bin <---+ one uniform number
//! ```
//!
//! The model is behind [`LearnedDynamics`]; `ModelDynamics` (feature `model`) runs an ONNX file
//! through `spark-onnx`. This crate brings no trained network. Every segment
//! keeps its own random numbers, seeded from its name as the challenge does; a
//! controller never sees seed or generator.
//!
//! Rules, costs and constants: commaai/controls_challenge be8edfa.

mod challenge;
#[cfg(feature = "model")]
mod last_step;
#[cfg(feature = "model")]
mod model;
#[cfg(feature = "model")]
mod network;
mod random;
mod rules;
mod segment;
#[cfg(test)]
mod tests;
mod tokenizer;

pub use challenge::{
    Challenge, ChallengeController, ChallengeCost, ChallengePid, ChallengeState, FuturePlan,
    LearnedDynamics, Rollout,
};
#[cfg(feature = "model")]
pub use model::ModelDynamics;
#[cfg(feature = "model")]
pub use network::random_dynamics;
pub use rules::{CONTEXT, CONTROL_START, COST_END, DT, STATE_SIZE};
pub use segment::{Segment, SegmentRow, read_segment};
pub use tokenizer::{N_BINS, decode, encode};
