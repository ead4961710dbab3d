//! What is found wrong while a kernel runs.

mod finding;
mod sink;

pub use finding::{AccessKind, Finding, FindingKind, MissedAllocation};
pub(crate) use sink::{Place, Sink};
