//! Global memory as the caller gives it: allocations, and bytes behind them.
//!
//! ```text
//! allocations   [base ........ base + len)   [base .... base + len)     checked here, once per access
//! bytes         load / store / update        the caller's: its own, or memory that a host shares
//! shadow        one bit per byte: written since it was allocated
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Memory that kernels reach by global addresses.
///
/// Blocks run on several threads, so every method takes `&self`. The interpreter asks for
/// addresses inside of one allocation only, as `allocations` gave them when the launch began.
pub trait GlobalMemory: Sync {
    /// All allocations that a kernel may touch, in any order. They do not overlap.
    fn allocations(&self) -> Vec<Allocation>;

    /// Copies bytes out of memory.
    fn load(&self, address: u64, bytes: &mut [u8]);

    /// Copies bytes into memory.
    fn store(&self, address: u64, bytes: &[u8]);

    /// Changes 4 bytes at an address that is a multiple of 4, as one step; returns the old value.
    fn update_32(&self, address: u64, change: &mut dyn FnMut(u32) -> u32) -> u32;

    /// Changes 8 bytes at an address that is a multiple of 8, as one step; returns the old value.
    fn update_64(&self, address: u64, change: &mut dyn FnMut(u64) -> u64) -> u64;
}

/// A stretch of addresses.
#[derive(Debug, Clone)]
pub struct Allocation {
    /// Its first address.
    pub base: u64,
    /// Its length in bytes.
    pub len: u64,
    /// Which of its bytes were written. Without one every byte counts as written.
    pub shadow: Option<Arc<Shadow>>,
    /// Whether it is constant memory: kernels only read it, by `.const` or by generic addresses.
    pub is_read_only: bool,
    /// What a finding calls it.
    pub name: Option<String>,
}

/// One bit for each byte of an allocation: whether it was written.
#[derive(Debug)]
pub struct Shadow {
    words: Vec<AtomicU64>,
}

impl Shadow {
    /// A shadow of memory that nobody has written.
    #[must_use]
    pub fn new(len_bytes: usize) -> Shadow {
        let words = len_bytes.div_ceil(64);
        Shadow {
            words: (0..words).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// Notes that bytes were written.
    pub fn mark(&self, offset: usize, len: usize) {
        for (idx, mask) in masks(offset, len) {
            if let Some(word) = self.words.get(idx) {
                // Most memory is written again and again: looking is cheaper than locking a line.
                if word.load(Ordering::Relaxed) & mask != mask {
                    word.fetch_or(mask, Ordering::Relaxed);
                }
            }
        }
    }

    /// The first byte of a stretch that was not written, as an offset in the allocation.
    #[must_use]
    pub fn first_unwritten(&self, offset: usize, len: usize) -> Option<usize> {
        for (idx, mask) in masks(offset, len) {
            let word = self.words.get(idx)?;
            let missing = mask & !word.load(Ordering::Relaxed);
            if missing != 0 {
                return Some(idx * 64 + missing.trailing_zeros() as usize);
            }
        }
        None
    }
}

/// Words of 64 bits that hold a stretch of bits, and which of their bits it has.
fn masks(offset: usize, len: usize) -> impl Iterator<Item = (usize, u64)> {
    let end = offset.saturating_add(len);
    (offset / 64..end.div_ceil(64)).map(move |idx| {
        let low = offset.saturating_sub(idx * 64).min(63);
        let high = (end - idx * 64).min(64);
        let mask = (u64::MAX << low) & (u64::MAX >> (64 - high));
        (idx, mask)
    })
}
