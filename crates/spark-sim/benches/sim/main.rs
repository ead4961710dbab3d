//! Speed of the simulator. Run: `cargo bench -p spark-sim --features model --bench sim [-- FILTER]`
//!
//! Vehicles, the closed loop and the learned model are first compared with a slower path, other cases checked to be
//! plausible; then each is timed:
//! 21 runs of at least 50 ms. Printed as CSV, in units per second:
//! `case,unit,runs,min,median,max,median_cpu`; the last column divides by the
//! processor time of the calling thread instead of the wall clock, which is the
//! figure to read for single-thread cases on a shared machine. State stays in
//! cache unless the name says `dram`; creating inputs and reading results is
//! outside the clock. `cargo test` runs the checks only.

#![allow(clippy::print_stdout, reason = "a benchmark's output is its product")]

mod closed_loop;
#[cfg(feature = "model")]
mod learned;
mod parts;
mod timing;
mod traffic;
mod vehicle;

fn main() {
    let timing = timing::Timing::from_arguments();
    vehicle::run(&timing);
    closed_loop::run(&timing);
    traffic::run(&timing);
    parts::run(&timing);
    #[cfg(feature = "model")]
    learned::run(&timing);
}
