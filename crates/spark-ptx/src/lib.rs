//! An interpreter of PTX, NVIDIA's assembly, with a sanitizer's checks.
//!
//! ```text
//! text     words, tree                 Module::load(ptx)
//! program  instructions that run         |
//! machine  warps, blocks, grids        module.launch("add", &config, &params, &memory, 2)
//! memory   spaces, shadows               |
//! check    findings                    Report { instructions, findings }
//! ```
//!
//! It runs the text that NVRTC makes of a kernel, inline assembly included, and looks at what a
//! GPU would let pass: accesses outside of allocations, memory and registers that nobody wrote,
//! races, barriers that lanes or warps miss, copies that nobody waited for. Warps and blocks take
//! turns in an order that a seed says.
//!
//! After the manual "PTX ISA 9.1". Deliberately absent: clusters, textures, wgmma, tcgen05 and
//! bulk copies, which are refused by name when a file is loaded; caches and timing.

#![forbid(unsafe_code)]

mod check;
pub mod convert;
mod error;
pub mod float;
pub mod form;
mod limits;
mod machine;
mod memory;
mod module;
mod program;
pub mod tensor;
mod text;

pub use check::{AccessKind, Finding, FindingKind, MissedAllocation};
pub use error::{LaunchError, LoadError};
pub use limits::Limits;
pub use memory::{Allocation, GlobalMemory, OwnedMemory, Shadow};
pub use module::{Entry, Global, LaunchConfig, Module, Report};
