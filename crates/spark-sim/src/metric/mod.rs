//! How well a scenario went: one set of numbers, their meaning, and their sums while driving.
//!
//! ```text
//! step --> Sums (f32, 64 steps) --> Totals (f64) --+
//!      \-> Extremes (f32) -------------------------+--> Metrics
//! ```
//!
//! Rates of change are per second: a controller that steps twice as often is not
//! twice as smooth. A lane's steps count until its scenario ends or fails.

mod accumulate;
mod catalogue;
mod checks;
mod metrics;

pub(crate) use accumulate::{Accumulator, Extremes, Sums};
#[cfg(feature = "cuda")]
pub(crate) use accumulate::{Extreme, Totals};
pub use catalogue::{CATALOGUE, Direction, EVENTS, EventInfo, Margin, MetricInfo, Role};
pub use metrics::{Collision, Metrics};
