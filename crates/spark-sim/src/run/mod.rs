//! The closed loop: every next state follows from what the algorithm answered.
//!
//! ```text
//! scenarios --chunks--> blocks of lanes --threads--> results in the order of the input
//!
//! one block, one step:
//!   sense      vehicle, road, lead, requests       -> StateBatch
//!   update     the algorithm under test            -> ActionBatch
//!   actuate    delays                              -> commands that arrive now
//!   drive      actuators, vehicle, metrics
//!   traffic    actors, lead, collisions
//! ```
//!
//! Lanes never look at each other and random numbers depend on seed and step only,
//! so results are bit-identical for any number of threads and any split into blocks
//! (given an algorithm that keeps its lanes apart). A scenario that cannot be run,
//! or whose controller fails, is reported in its place; the others go on.
//!
//! Runs on the CPU. There is no GPU path yet: asking for one is an error.

mod block;
mod delay;
mod drive;
mod latency;
mod outcome;
mod pool;
mod sense;
#[cfg(test)]
mod tests;
mod traffic;

pub use latency::Latency;
pub use outcome::{ScenarioError, ScenarioResult, Trace, TraceActor, TraceRow};
pub use pool::{RunOptions, RunReport, Simulator};
