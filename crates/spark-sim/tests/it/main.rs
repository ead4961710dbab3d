//! Whole-crate tests of spark-sim.

#![allow(
    clippy::print_stdout,
    reason = "a skipped test says that it was skipped"
)]

#[cfg(feature = "cuda")]
mod device_cases;
mod gate;
#[cfg(feature = "cuda")]
mod gpu;
mod grip;
mod outside_forces;
mod physics;
mod return_to_path;
mod scenario_truth;
mod steering;
mod support;
mod vehicle_truth;
