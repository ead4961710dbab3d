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
mod scenario_page;
mod scenario_truth;
mod steering;
mod support;
#[cfg(feature = "cuda")]
mod traffic_cases;
#[cfg(feature = "cuda")]
mod traffic_figures;
mod variation;
mod vehicle_truth;
