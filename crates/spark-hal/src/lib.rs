//! What machine is this: DGX Spark or not, GPUs, memory, CPU, software, configuration.
//!
//! ```no_run
//! let machine = spark_hal::machine();
//! println!("{}", machine.summary());
//! for seen in &machine.platform.evidence {
//!     println!("  {seen}");
//! }
//! if let Some(gpu) = spark_hal::best_gpu() {
//!     println!("use {}: {}", gpu.recommended.precision, gpu.recommended.reason);
//! }
//! ```
//!
//! ```text
//! cluster                     what is wrong between several machines
//! doctor  monitor             what is wrong with it, what it does
//! machine                     all of it, put together
//! platform  gpu               several sources merged, with evidence
//! nvml  cuda  stack  cpu  memory  network  pci  process  cgroup
//!                             one source each; the drivers are asked with care
//! config  root                environment variables; files, or a recorded machine
//! reading  version  precision  capability  limits  ...
//!                             what the answers are made of
//! ```
//!
//! Imports point down or along a row, never up and never in a circle.
//!
//! Detection is for Linux only: it reads `/proc`, `/sys` and `/etc` and opens `.so` files. Where
//! they are absent, readings are [`Reading::NotSupported`] or say what is missing.
//!
//! Everything is read through a [`Root`] and the traits [`nvml::NvmlApi`] and
//! [`cuda::CudaApi`], so recorded machines drive the tests. Nothing is started as a
//! process, nothing needs root, and no serial number is kept. Driver libraries are
//! opened at run time: one binary works with and without them.

mod bytes;
mod capability;
mod cgroup;
pub mod cluster;
pub mod config;
pub mod cpu;
pub mod cuda;
pub mod doctor;
mod evidence;
pub mod gpu;
mod in_time;
mod json;
mod library;
mod limits;
mod machine;
pub mod memory;
pub mod monitor;
pub mod network;
pub mod nvml;
pub mod pci;
pub mod platform;
mod precision;
pub mod process;
mod python;
mod reading;
mod record;
mod recorded;
mod root;
mod spread;
pub mod stack;
mod version;

pub use capability::ComputeCapability;
pub use cgroup::Cgroup;
pub use config::{Config, config};
pub use evidence::{Evidence, Signal};
pub use gpu::{Gpu, GpuMemory};
pub use machine::{
    Machine, Sources, best_gpu, is_dgx_spark, is_nvidia_available, machine, nvidia_gpus,
    recommended_precision,
};
pub use memory::{Memory, MemoryBudget};
pub use network::Network;
pub use platform::{Platform, PlatformKind};
pub use precision::{Precision, UnknownPrecision};
pub use process::ProcessMemory;
pub use reading::{Failure, Reading};
pub use record::record;
pub use recorded::{RecordError, unpack_record};
pub use root::Root;

/// The README's example, so that it is compiled and run with the others.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
