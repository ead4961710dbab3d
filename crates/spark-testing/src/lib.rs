//! What tests of several crates share: stand-ins for NVIDIA's driver libraries, so that the
//! code which talks to them is tested on machines without a GPU; the reference data; the settings
//! of tests; numbers that are the same everywhere; an allocator that counts.
//!
//! ```text
//! test --> StandIn::new()?.with_nvml(Age::Current, script)?
//!            = a directory with libnvidia-ml.so.1 and nvml.txt
//!      --> open that file: nvml-wrapper, unmodified, asks the stand-in
//!
//! test --> driver::StandInDriver::load(&build)?.pose(Persona::Jetson)
//!            = a CUDA driver that computes, as one of four GPUs: kernels run as PTX
//!      --> cudarc, unmodified, runs on it
//! ```
//!
//! The scripts' language is in `stand_in/script.rs`, the fields in `stand_in/nvml.rs`
//! and `stand_in/cuda.rs`. A program started as a process finds the stand-ins through
//! `LD_LIBRARY_PATH`. Scripted stand-ins compute nothing: they only answer questions.

mod allocator;
mod data;
pub mod driver;
mod numbers;
pub mod settings;
mod stand_in;

pub use allocator::{Measuring, Watch};
pub use data::{test_data, test_videos};
pub use numbers::numbers;
pub use stand_in::{Age, StandIn};
