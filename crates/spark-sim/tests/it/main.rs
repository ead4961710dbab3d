//! Whole-crate tests of spark-sim.

mod support;
mod vehicle_truth;
