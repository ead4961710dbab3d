//! What a card takes: the bounds that a launch is held against.
//!
//! Figures of compute capabilities 8.0 to 12.1 from the CUDA C++ Programming Guide 13.0, table
//! "Technical Specifications per Compute Capability".

/// Bytes of local memory, with the parameters of calls, that all threads of a block may have together. Not a card's
/// figure: it bounds what a launch takes here, as [`MOST_REGISTER_BYTES`] does.
pub const MOST_LOCAL_BYTES: u64 = 64 << 20;

/// Bytes of the registers of all threads of a block, as PTX numbers them; a card has fewer and spills.
pub const MOST_REGISTER_BYTES: u64 = 256 << 20;

/// Threads of a block, whatever its [`Limits`] say: a set of its warps is a number of 32 bits.
pub const MOST_THREADS: u64 = 1024;

/// Blocks of a grid, whatever its [`Limits`] say.
pub const MOST_BLOCKS: u64 = i64::MAX as u64;

/// Bytes of shared memory of a block, whatever its [`Limits`] say: every thread of the interpreter keeps up to 17 for one.
pub const MOST_SHARED_BYTES: u64 = 4 << 20;

/// Bounds of a card. A launch is held against them, [`MOST_THREADS`], [`MOST_BLOCKS`] and [`MOST_SHARED_BYTES`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Threads of a block.
    pub max_threads: u64,
    /// Threads of a block along x, y and z.
    pub max_block: [u32; 3],
    /// Blocks of a grid along x, y and z.
    pub max_grid: [u32; 3],
    /// Shared memory of a block in bytes, static and dynamic, with the opt-in.
    pub max_shared_bytes: u64,
    /// Bytes of parameters.
    pub max_parameter_bytes: u64,
    /// Multiprocessors.
    pub n_multiprocessors: u32,
}

impl Limits {
    /// An NVIDIA GB10: 48 multiprocessors, 99 KiB of shared memory for a block.
    pub const GB10: Limits = Limits::of(48, 99);
    /// An H200: 132 multiprocessors, 227 KiB of shared memory for a block.
    pub const H200: Limits = Limits::of(132, 227);
    /// A Jetson AGX Orin: 16 multiprocessors, 163 KiB of shared memory for a block.
    pub const ORIN: Limits = Limits::of(16, 163);
    /// An A100: 108 multiprocessors, 163 KiB of shared memory for a block.
    pub const A100: Limits = Limits::of(108, 163);

    const fn of(n_multiprocessors: u32, shared_kib: u64) -> Limits {
        Limits {
            max_threads: 1024,
            max_block: [1024, 1024, 64],
            max_grid: [i32::MAX as u32, 65_535, 65_535],
            max_shared_bytes: shared_kib << 10,
            max_parameter_bytes: 32_764,
            n_multiprocessors,
        }
    }
}
