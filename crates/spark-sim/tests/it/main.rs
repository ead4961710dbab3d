//! Whole-crate tests of spark-sim.

#![allow(
    clippy::print_stdout,
    reason = "a skipped test says that it was skipped"
)]

#[cfg(feature = "cuda")]
mod device_cases;
#[cfg(feature = "cuda")]
mod gpu;
mod physics;
mod scenario_truth;
mod support;
mod vehicle_truth;
