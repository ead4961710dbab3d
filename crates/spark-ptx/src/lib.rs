//! An interpreter of PTX, NVIDIA's assembly, with a sanitizer's checks.
//!
//! ```text
//! text     words, tree                       Module::load(ptx)
//! program  instructions that run               |
//! machine  warps, blocks, grids              module.launch("add", &config, &params, &memory, 2)
//! memory   spaces, shadows                     |
//! check    findings                          Report { instructions, findings }
//!
//! float    exact float arithmetic, rounded once; comparisons; approximations     bits -> bits
//! convert  cvt: integers, floats, packed floats of 4, 6, 8, 16 bits              bits -> bits
//! tensor   mma, ldmatrix, stmatrix, movmatrix over the registers of one warp     lanes -> lanes
//! target   which GPU's instructions and which GPU's tensor core
//! form     why an instruction with these modifiers does not exist
//! ```
//!
//! It runs the text that NVRTC makes of a kernel, inline assembly included, and looks at what a
//! GPU would let pass: accesses outside of allocations, memory and registers that nobody wrote,
//! races, barriers at which lanes or warps stand while others go on, copies that are read before
//! anybody waited for them. Warps and blocks take turns in an order that a seed says.
//!
//! Races are those of threads of a block in shared and in global memory, and those of blocks in global
//! memory. Lanes of a warp have one order, so that lanes which wait for each other in a loop hang until the
//! launch's limit, and fences order nothing: flags in memory count as races. So does what an atomic tells
//! the threads of its own block.
//!
//! # What is not seen
//!
//! - In global memory, a write after a read: of lanes of a warp never, of warps and blocks in an order in
//!   which the read comes first. Run several seeds.
//! - In global memory, races of a warp's lanes in a word that they share by bytes or halves, and after 127
//!   barriers of the warp between two of the block. Of several writers of parts of one word the last is known.
//! - Races across more than 2047 phases in global and about a million in shared memory; every barrier of some
//!   warps begins one. Blocks whose numbers differ by a multiple of 2^23 count as one.
//! - Races of a block with others once it has looked at the result of an atomic on global memory of more than
//!   `.cta`: others may have told it that they are done, and whether they did is not followed.
//! - Writes of the same value, and `volatile` or `.relaxed` accesses with each other, are no races at all.
//! - A barrier of some lanes of a warp counts as one of all of them. A row that `ldmatrix` reads counts as read by
//!   the lane that gives its address.
//! - Bounds are those of an allocation, of a block's shared memory and of a thread's local memory, not of each
//!   array in these. An address of local memory that comes from another thread leads to one's own.
//! - A carry flag that no instruction has set is 0.
//! - A register that was not written and that only `mov` and `shfl` read: these carry it, whatever becomes of it.
//!   Any other instruction that reads it is a finding, `selp` included where it chooses the other operand.
//! - In code with loops of several entries, or loops 64 deep, where lanes meet depends on the order of the text.
//!
//! # Speed
//!
//! A thread runs 47 million instructions of warps a second in arithmetic, 11 million in shared and 9 million
//! in global memory, all checks on (the best of a few runs on a virtual machine's two cores with other work
//! on them, 2026-11-28: `cargo run --release -p spark-ptx --example throughput`).
//!
//! ```
//! use spark_ptx::{LaunchConfig, Module, OwnedMemory};
//!
//! let module = Module::load("
//!     .version 9.0 .target sm_121a .address_size 64
//!     .visible .entry number(.param .u64 out) {
//!         .reg .b32 %r<2>; .reg .b64 %rd<4>;
//!         ld.param.u64 %rd1, [out];
//!         mov.u32 %r1, %tid.x;
//!         mul.wide.u32 %rd2, %r1, 4;
//!         add.s64 %rd3, %rd1, %rd2;
//!         st.global.u32 [%rd3], %r1;
//!         ret;
//!     }")?;
//! let mut memory = OwnedMemory::new();
//! let out = memory.allocate(4 * 64);
//! let config = LaunchConfig::new([1, 1, 1], [65, 1, 1]);
//! let report = module.launch("number", &config, &out.to_le_bytes(), &memory, 1)?;
//! assert_eq!(memory.read_u32(out, 3), [0, 1, 2]);
//! // Thread 64 writes behind the end.
//! assert_eq!((report.findings.len(), report.findings[0].lane), (1, 0));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! After the manual "PTX ISA 9.1". Every block is a cluster of its own. Deliberately absent: clusters
//! of several blocks; textures, mbarrier, wgmma, tcgen05, bulk copies, `mapa`, `alloca`, `stacksave`, `testp`, `fns`,
//! `vadd` and its like, values of `.b128` and `%reserved_smem_offset_1`, which are refused by name when a file
//! is loaded; caches and timing. Nothing here shares code with the crates it tests.

#![forbid(unsafe_code)]

mod check;
pub mod convert;
mod error;
pub mod float;
pub mod form;
mod lanes;
mod limits;
mod machine;
mod memory;
mod module;
#[cfg(test)]
mod oracle;
mod program;
pub mod target;
pub mod tensor;
mod text;

pub use check::{AccessKind, Finding, FindingKind, MissedAllocation};
pub use error::{LaunchError, LoadError};
pub use form::FormError;
pub use lanes::Lanes;
pub use limits::{
    Limits, MOST_BLOCKS, MOST_LOCAL_BYTES, MOST_REGISTER_BYTES, MOST_SHARED_BYTES, MOST_THREADS,
};
pub use memory::{Allocation, GlobalMemory, OwnedMemory, Shadow};
pub use module::{Entry, Global, LaunchConfig, MOST_GLOBAL_BYTES, Module, Report};
pub use target::Target;
