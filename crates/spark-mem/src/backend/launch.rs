//! A launch: how many threads, and the arguments with their types taken off.

use std::sync::Arc;

use crate::error::MemError;

/// Threads of a block at most, on every GPU so far.
const THREADS_PER_BLOCK: u32 = 1024;
/// Blocks along y and z at most.
const GRID_YZ: u32 = 65_535;

/// How many threads run, and how much shared memory a block gets when launched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LaunchShape {
    /// Blocks along x, y and z.
    pub grid: [u32; 3],
    /// Threads of a block along x, y and z.
    pub block: [u32; 3],
    /// Dynamic shared memory of a block in bytes.
    pub shared_bytes: u32,
}

impl LaunchShape {
    /// Enough blocks of `threads_per_block` threads for one thread per element.
    ///
    /// # Errors
    ///
    /// [`MemError::LaunchShape`] if the grid would be larger than any GPU runs, or a block.
    pub fn for_elements(n: usize, threads_per_block: u32) -> Result<Self, MemError> {
        let n_blocks = n.div_ceil(threads_per_block.max(1) as usize).max(1);
        let shape = Self {
            grid: [u32::try_from(n_blocks).unwrap_or(u32::MAX), 1, 1],
            block: [threads_per_block, 1, 1],
            shared_bytes: 0,
        };
        shape.check().map(|()| shape)
    }

    /// Whether a GPU runs this.
    pub(crate) fn check(&self) -> Result<(), MemError> {
        let Self { grid, block, .. } = *self;
        let why = |why| Err(MemError::LaunchShape { grid, block, why });
        if grid.contains(&0) || block.contains(&0) {
            return why("no dimension may be 0");
        }
        let threads = block.iter().try_fold(1_u32, |n, size| n.checked_mul(*size));
        if threads.is_none_or(|threads| threads > THREADS_PER_BLOCK) || block[2] > 64 {
            return why("a block has at most 1024 threads, 64 of them along z");
        }
        if grid[0] > i32::MAX as u32 || grid[1] > GRID_YZ || grid[2] > GRID_YZ {
            return why("a grid has at most 2^31 - 1, 65535 and 65535 blocks");
        }
        Ok(())
    }
}

/// One argument of a launch.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Argument {
    /// Memory, by the device's address.
    Memory { address: u64, len_bytes: usize },
    /// A number, in its first bytes.
    Scalar { bytes: [u8; 8] },
}

/// An argument as the host version of a kernel gets it.
#[derive(Debug, Clone, Copy)]
pub enum HostArgument {
    /// Memory the host may touch for the length of the call.
    #[doc(hidden)]
    Memory { pointer: *mut u8, len_bytes: usize },
    /// A number, in the first of these bytes.
    #[doc(hidden)]
    Scalar { bytes: [u8; 8] },
}

/// The host version of a kernel, its types taken off.
pub(crate) type HostFunction = Arc<dyn Fn(LaunchShape, &[HostArgument]) + Send + Sync>;
