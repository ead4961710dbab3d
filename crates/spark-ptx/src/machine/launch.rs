//! What all blocks of a launch share and none changes.

use std::sync::atomic::{AtomicBool, AtomicU64};

use crate::limits::Limits;
use crate::memory::{Allocation, GlobalMemory};
use crate::program::{CodeOf, EntryOf, Program};
use crate::target::Target;

use super::global_races::GlobalRaces;

/// A launch while it runs.
pub(crate) struct Launch<'a> {
    pub(crate) program: &'a Program,
    pub(crate) entry: &'a EntryOf,
    pub(crate) code: &'a CodeOf,
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    pub(crate) n_threads: u32,
    pub(crate) dynamic_shared_bytes: u32,
    /// Shared memory of a block with what the system takes.
    pub(crate) shared_end: u32,
    pub(crate) seed: u64,
    pub(crate) limits: Limits,
    pub(crate) params: &'a [u8],
    pub(crate) memory: &'a dyn GlobalMemory,
    /// Sorted by their first address.
    pub(crate) allocations: Vec<Allocation>,
    /// Whether one of them is constant memory.
    pub(crate) has_constants: bool,
    pub(crate) races: GlobalRaces,
    pub(crate) constants_32: Vec<[u32; 32]>,
    pub(crate) constants_64: Vec<[u64; 32]>,
    /// Instructions of warps that are left.
    pub(crate) budget: AtomicU64,
    pub(crate) budget_limit: u64,
    /// Set when the launch is over before its end.
    pub(crate) stopped: AtomicBool,
}

impl Launch<'_> {
    /// Whose tensor arithmetic is followed.
    pub(crate) fn target(&self) -> Target {
        self.program.target
    }

    /// Whether an address lies in constant memory.
    pub(crate) fn is_constant(&self, address: u64) -> bool {
        let found = || self.find(address, 0);
        self.has_constants && found().is_some_and(|idx| self.allocations[idx].is_read_only)
    }

    /// The allocation that holds an address, by its number; `hint` is looked at first.
    #[inline]
    pub(crate) fn find(&self, address: u64, hint: usize) -> Option<usize> {
        let holds = |allocation: &Allocation| {
            address >= allocation.base && address - allocation.base < allocation.len
        };
        if self.allocations.get(hint).is_some_and(holds) {
            return Some(hint);
        }
        let after = self.allocations.partition_point(|it| it.base <= address);
        let idx = after.checked_sub(1)?;
        holds(&self.allocations[idx]).then_some(idx)
    }
}
