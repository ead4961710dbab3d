//! `cargo xtask gpu`: tests and benchmarks for a GPU machine that has no cargo.
//!
//! ```text
//! here    bundle   builds target/gpu/<triple>/ and packs it into <triple>.tar.xz
//! there   ./run    starts the bundle's own copy of this program: `xtask gpu-suites`
//!           nvrtc      finds NVIDIA's compiler for the kernels, in the bundle or on the machine
//!           suites     runs every suite whatever became of the ones before it, each for eight
//!                      minutes at most; its output goes to the screen and to a log of its own
//!           outcome    what a suite's output says: tests, failures, figures  ──> report.json
//! ```
//!
//! The CUDA driver is always the machine's own. Deliberately absent: settings of the GPU (clocks,
//! modes, partitions); they are read and reported, never changed.

mod bundle;
mod nvrtc;
mod outcome;
mod suites;

pub(crate) use bundle::run as bundle;
pub(crate) use suites::{Options as SuiteOptions, run as run_suites};
