//! Vector environments for reinforcement learning, with Gymnasium's semantics.
//!
//! ```text
//! reset(seed, observations)
//! step(actions, buffers)  ->  observations, rewards, terminated, truncated     all written in place
//!
//! terminated  the task ended: off the road, a collision
//! truncated   time ran out
//! next step   the step after an end resets that world: its action is ignored, its reward 0
//! same step   the ending step returns the new world's first observation and keeps the last one apart
//! ```
//!
//! Rows are agents, `n_worlds * n_agents` of them, agents of a world side by side. The same
//! seed and actions give the same bits.

mod highway;
mod lane_keeping;
#[cfg(test)]
mod tests;
mod vector;

pub use highway::{HighwayEnv, HighwayEnvConfig};
pub use lane_keeping::{LaneKeepingConfig, LaneKeepingEnv};
pub use vector::{Autoreset, EnvShape, StepBuffers, VectorEnv};
