//! Training without a trainer: groups, AdamW, clipping, accumulation, schedules.
//!
//! ```text
//! for micro-batch:  accumulator.add(&loss.backward()?)?
//! let mut gradients = accumulator.mean()?
//! clip_by_norm(&mut gradients, 1.0)?
//! optimiser.step(&gradients, schedule.factor(step))?
//! ```
//!
//! Each part works alone beside other loops and optimisers. The optimiser's state can be read and set, so
//! that a run can be resumed where it stopped.

mod adamw;
mod gradients;
mod groups;
mod schedule;

pub use adamw::{AdamW, Group, State};
pub use gradients::{Accumulator, Gradients, clip_by_norm};
pub use groups::{LoraPlus, VariableGroups};
pub use schedule::{Plateau, Schedule};
