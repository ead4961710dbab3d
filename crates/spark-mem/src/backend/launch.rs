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

/// Bytes that all parameters of a kernel have at most, on every GPU and driver.
pub(crate) const PARAMETER_BYTES: usize = 4096;

/// How a launch is queued, besides its shape.
///
/// # Examples
///
/// ```
/// use spark_mem::LaunchOptions;
///
/// let early = LaunchOptions::new().with_programmatic_dependency(true);
/// assert_ne!(early, LaunchOptions::new());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct LaunchOptions {
    /// Whether the kernel may begin before the one in front of it in the stream has ended. It
    /// waits for that one's results itself, by `griddepcontrol.wait`. A device of compute
    /// capability below 9.0, and one that is no GPU, begins it when the other has ended.
    pub programmatic_dependency: bool,
}

impl LaunchOptions {
    /// Begins when what is in front of it in the stream has ended.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// With or without an early beginning; see [`LaunchOptions::programmatic_dependency`].
    #[must_use]
    pub fn with_programmatic_dependency(mut self, begins_early: bool) -> Self {
        self.programmatic_dependency = begins_early;
        self
    }
}

/// What one argument of a launch is.
#[derive(Debug, Clone, Copy)]
enum Item {
    /// Memory, by the device's address.
    Memory { len_bytes: usize },
    /// A number or a structure.
    Value { len_bytes: usize },
}

/// The arguments of a launch, each in words of its own.
#[derive(Debug, Clone, Default)]
pub(crate) struct Arguments {
    words: Vec<u64>,
    /// Each argument and its first word.
    items: Vec<(Item, usize)>,
}

impl Arguments {
    pub(crate) fn push_memory(&mut self, address: u64, len_bytes: usize) {
        self.items
            .push((Item::Memory { len_bytes }, self.words.len()));
        self.words.push(address);
    }

    pub(crate) fn push_value(&mut self, bytes: &[u8]) {
        let len_bytes = bytes.len();
        self.items
            .push((Item::Value { len_bytes }, self.words.len()));
        self.words
            .extend(bytes.chunks(size_of::<u64>()).map(|chunk| {
                let mut word = [0; size_of::<u64>()];
                word[..chunk.len()].copy_from_slice(chunk);
                u64::from_ne_bytes(word)
            }));
    }

    /// Where each argument begins.
    #[cfg(feature = "cuda")]
    pub(crate) fn places(&self) -> impl Iterator<Item = *const u64> {
        let words = &self.words;
        self.items.iter().map(|(_, word)| &raw const words[*word])
    }

    /// Each argument as a host version gets it; `resolve` tells where the host finds memory.
    pub(crate) fn for_host(&self, resolve: impl Fn(u64) -> *mut u8) -> Vec<HostArgument> {
        let argument = |&(item, word): &(Item, usize)| match item {
            Item::Memory { len_bytes } => HostArgument::Memory {
                pointer: resolve(self.words[word]),
                len_bytes,
            },
            Item::Value { len_bytes } => HostArgument::Value {
                pointer: (&raw const self.words[word]).cast(),
                len_bytes,
            },
        };
        self.items.iter().map(argument).collect()
    }
}

/// An argument as the host version of a kernel gets it.
#[derive(Debug, Clone, Copy)]
pub enum HostArgument {
    /// Memory the host may touch for the length of the call.
    #[doc(hidden)]
    Memory { pointer: *mut u8, len_bytes: usize },
    /// The bytes of a number or a structure, for the length of the call.
    #[doc(hidden)]
    Value {
        pointer: *const u8,
        len_bytes: usize,
    },
}

/// The host version of a kernel, its types taken off.
pub(crate) type HostFunction = Arc<dyn Fn(LaunchShape, &[HostArgument]) + Send + Sync>;
