//! How much memory may be taken, asked before the driver is.
//!
//! ```text
//! reserve(n):  used + n <= limit?   and   n <= what the machine can spare now?
//!                  |                          |
//!                  +--- no: OverBudget -------+        yes: used += n until dropped
//! ```
//!
//! On a GB10 the driver does not refuse: an allocation too many freezes the host
//! (NVIDIA/open-gpu-kernel-modules#1358). The machine's figure is read again for every
//! allocation of [`LARGE_BYTES`] or more; smaller ones are held against the limit alone,
//! because reading `/proc` costs more than they do.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use spark_hal::memory::{BudgetPolicy, Memory, Purpose};
use spark_hal::{Reading, Root};

use crate::error::MemError;

/// Allocations from this size on look at the machine's memory first. In bytes.
pub const LARGE_BYTES: u64 = 1 << 20;

/// What the machine can spare now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Watch {
    /// Not asked: the limit alone counts.
    Nothing,
    /// The machine's memory, for allocations of this process.
    MachineForCpu,
    /// The machine's memory, for a GPU that shares it.
    MachineForUnifiedGpu,
}

/// A limit on what may be allocated, and what is allocated. Cloning shares the count.
#[derive(Debug, Clone)]
pub struct Budget {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    limit_bytes: u64,
    watch: Watch,
    used_bytes: AtomicU64,
    largest_used_bytes: AtomicU64,
}

impl Budget {
    /// A budget of this many bytes that also looks at the machine.
    #[must_use]
    pub fn new(limit_bytes: u64, watch: Watch) -> Self {
        Self {
            shared: Arc::new(Shared {
                limit_bytes,
                watch,
                used_bytes: AtomicU64::new(0),
                largest_used_bytes: AtomicU64::new(0),
            }),
        }
    }

    /// The limit in bytes.
    #[must_use]
    pub fn limit_bytes(&self) -> u64 {
        self.shared.limit_bytes
    }

    /// Bytes that living allocations have reserved of it now.
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        self.shared.used_bytes.load(Ordering::Relaxed)
    }

    /// The most bytes that were ever reserved at once.
    #[must_use]
    pub fn largest_used_bytes(&self) -> u64 {
        self.shared.largest_used_bytes.load(Ordering::Relaxed)
    }

    /// Takes `n_bytes` until the reservation is dropped.
    ///
    /// # Errors
    ///
    /// [`MemError::OverBudget`] with what was asked, what is left and what bounds it.
    pub fn reserve(&self, n_bytes: u64) -> Result<Reservation, MemError> {
        if n_bytes >= LARGE_BYTES {
            self.look_at_machine(n_bytes)?;
        }
        let shared = &self.shared;
        let taken = shared
            .used_bytes
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
                used.checked_add(n_bytes)
                    .filter(|sum| *sum <= shared.limit_bytes)
            });
        match taken {
            Ok(before) => {
                let now = before.saturating_add(n_bytes);
                shared.largest_used_bytes.fetch_max(now, Ordering::Relaxed);
                Ok(Reservation {
                    budget: self.clone(),
                    n_bytes,
                })
            }
            Err(used) => Err(MemError::OverBudget {
                asked: n_bytes,
                available: shared.limit_bytes.saturating_sub(used),
                why: format!("the limit is {} bytes", shared.limit_bytes),
            }),
        }
    }

    fn look_at_machine(&self, n_bytes: u64) -> Result<(), MemError> {
        let purpose = match self.shared.watch {
            Watch::Nothing => return Ok(()),
            Watch::MachineForCpu => Purpose::Cpu,
            Watch::MachineForUnifiedGpu => Purpose::UnifiedGpu,
        };
        let memory = Memory::read(&Root::host());
        match memory.budget(purpose, &BudgetPolicy::default()) {
            Reading::Value(budget) if budget.allows(n_bytes) => Ok(()),
            Reading::Value(budget) => Err(MemError::OverBudget {
                asked: n_bytes,
                available: budget.bytes,
                why: format!(
                    "the machine can spare no more now (bound: {:?}, {} bytes are left to others)",
                    budget.bound, budget.reserve_bytes
                ),
            }),
            // A machine without these figures has no rule that could be broken.
            Reading::NotSupported | Reading::Failed(_) => Ok(()),
        }
    }
}

/// Bytes taken from a budget, given back when dropped.
#[derive(Debug)]
pub struct Reservation {
    budget: Budget,
    n_bytes: u64,
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let used = &self.budget.shared.used_bytes;
        used.fetch_sub(self.n_bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_dropped_can_be_taken_again() {
        let budget = Budget::new(100, Watch::Nothing);
        let first = budget.reserve(60).unwrap();
        match budget.reserve(41) {
            Err(MemError::OverBudget {
                asked: 41,
                available: 40,
                why,
            }) => assert!(why.contains("100"), "{why}"),
            other => panic!("{other:?}"),
        }
        drop(first);
        let all = budget.reserve(100).unwrap();
        assert_eq!(
            (budget.used_bytes(), budget.largest_used_bytes()),
            (100, 100)
        );
        drop(all);
        assert_eq!(budget.used_bytes(), 0);
    }

    #[test]
    fn sums_that_overflow_are_refused() {
        let budget = Budget::new(u64::MAX, Watch::Nothing);
        let _first = budget.reserve(10).unwrap();
        assert!(budget.reserve(u64::MAX).is_err());
        assert_eq!(budget.used_bytes(), 10);
    }

    #[test]
    fn more_than_the_machine_has_is_refused_before_the_limit_counts() {
        for watch in [Watch::MachineForCpu, Watch::MachineForUnifiedGpu] {
            let budget = Budget::new(u64::MAX, watch);
            let refused = budget.reserve(1 << 60);
            match refused {
                Err(MemError::OverBudget { asked, why, .. }) => {
                    assert_eq!(asked, 1 << 60);
                    assert!(why.contains("machine"), "{why}");
                }
                other => panic!("{other:?}"),
            }
        }
    }
}
