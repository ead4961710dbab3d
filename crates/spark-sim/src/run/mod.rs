//! The closed loop: every next state follows from what the algorithm answered.
//!
//! ```text
//! scenarios --chunks--> blocks of lanes --threads--> results in the order of the input
//!
//! one block, one step:
//!   perceive   noisy sensors                       -> readings in place of the truth
//!   sense      vehicle, road, lead, requests       -> StateBatch
//!   update     the algorithm under test            -> ActionBatch
//!   actuate    delays                              -> commands that arrive now
//!   drive      actuators, vehicle
//!   score      metrics
//!   traffic    actors, lead, collisions
//!
//! who stands on whom:
//! tables (fixed, motion, road, requests)
//!   ^  cars, course          the state of a block
//!   ^  perception, sense, drive, score, traffic, record      the phases of a step
//!   ^  block                 the loop
//!   ^  pool, gpu             many blocks
//! ```
//!
//! Lanes never look at each other and random numbers depend on seed and step only,
//! so results are bit-identical for any number of threads and any split into blocks
//! (given an algorithm that keeps its lanes apart). A scenario that cannot be run,
//! or whose controller fails, is reported in its place; the others go on.
//!
//! With the feature `cuda`, groups of scenarios that a GPU can drive run there, all their steps
//! in one kernel, if the algorithm has a version in CUDA C.

mod block;
mod cars;
mod course;
mod delay;
mod drive;
#[cfg(feature = "cuda")]
mod gpu;
mod latency;
mod outcome;
mod perception;
mod pool;
mod record;
mod report;
mod saved;
mod score;
mod sense;
mod tables;
#[cfg(test)]
mod tests;
mod traffic;

#[cfg(feature = "cuda")]
pub use gpu::{precompile_rollouts, rollout_source, rollout_traffic_source};
pub use latency::Latency;
pub use outcome::{ScenarioError, ScenarioResult, Trace, TraceActor, TraceRow};
pub use pool::{RunOptions, Simulator};
pub use report::RunReport;
pub use saved::{DRIVES_FORMAT, drives_from_bytes, drives_to_bytes};
