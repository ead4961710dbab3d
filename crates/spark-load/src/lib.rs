//! A machine under load: how fast it reads, copies, computes and multiplies, and what its GPU says meanwhile.
//!
//! ```text
//! run(options) ── look at the GPU ── host: read, copy, multiply
//!              └─ device: read ─ copy ─ arithmetic ─ products, each for its share of the time
//!                   └ queue and wait, over and over ─ rates of the second half ─ once more, results checked
//!                 Monitor of spark-hal beside it: clock, power, heat, reasons     ──> spark_hal::doctor::Load
//! verify(device) ── a kernel, copies, a small network: right or not               ──> Verification
//! ```
//!
//! Measured here, judged by `spark_hal::doctor` (checks `load.*`). Kernels are plain: what memory and lanes give they reach, what libraries
//! of NVIDIA's reach in products they do not. Every result is known beforehand, so that a rate is one of work that was done.
//!
//! A device on which a kernel takes seconds (a driver that interprets it) gets smaller work. Memory: twice 256 MiB on the device,
//! 256 MiB of the host, under the budget of `spark-mem`.
//!
//! ```no_run
//! use spark_load::LoadOptions;
//! use std::time::Duration;
//!
//! let options = LoadOptions::new(Duration::from_secs(10));
//! let load = spark_load::run(&options, &mut |_| true);
//! if let Ok(gpu) = &load.gpu {
//!     println!("{}: {} pieces of work", gpu.name, gpu.phases.len());
//! }
//! ```
//!
//! Deliberately absent: verdicts, several GPUs at once, tuned products, and traffic between machines (`sparkpilot-mpi measure`).

mod arithmetic;
mod error;
mod host;
mod kernels;
mod memory_work;
mod meter;
mod network;
mod options;
mod product;
mod run;
mod verify;
mod watch;

pub use error::LoadError;
pub use meter::Progress;
pub use options::LoadOptions;
pub use run::run;
pub use verify::{Line, Outcome, Verification, verify};

/// The README's example, so that it is compiled and run with the others.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

#[cfg(test)]
mod tests;
