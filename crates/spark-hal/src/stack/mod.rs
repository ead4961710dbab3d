//! NVIDIA software on this machine: where, which version, and enough for a GB10 or not.
//!
//! ```text
//! driver       /proc/driver/nvidia/version, /sys/module/nvidia/version
//! toolkit      /usr/local/cuda/version.json
//! libraries    lib<name>.so.<version> in the usual directories
//! ```
//!
//! Versions are read from file names and text files; nothing is loaded or started.
//! Libraries inside Python environments are not looked for. Linux only.

mod device_code;
mod inventory;
mod libraries;
mod name;
mod precision;
mod requirement;

pub use device_code::{CodeKind, CodeTarget, DeviceCode, Reach};
pub use inventory::Stack;
pub use libraries::Library;
pub use name::LibraryName;
pub use precision::MissingSoftware;
pub use requirement::Verdict;

pub use crate::version::Version;
