//! How much memory may be taken, asked before the driver is.
//!
//! ```text
//! reserve(n):  used + n <= limit?   and   can the machine spare n besides what is being taken?
//!                  |                          |
//!                  +--- no: OverBudget -------+    yes: used += n until dropped
//! settle():    the memory is taken and touched: the machine's figure shows it
//! ```
//!
//! On a GB10 the driver does not refuse: an allocation too many freezes the host
//! (NVIDIA/open-gpu-kernel-modules#1358). The machine's figure shows memory once it is touched, so this
//! crate's plain memory is touched when it is allocated, and what is allowed and not yet touched is held
//! against the figure besides ([`spare`](crate::spare)): threads cannot be allowed the same bytes,
//! whatever devices they have opened.
//! Deliberately absent: other processes that are allowed the same bytes at the same moment; for
//! them the policy of `spark_hal::memory` leaves a reserve.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use spark_hal::memory::Purpose;

use crate::error::MemError;
pub use crate::spare::LARGE_BYTES;
use crate::spare::{Machine, Pending};

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
    machine: Machine,
    used_bytes: AtomicU64,
    largest_used_bytes: AtomicU64,
}

impl Budget {
    /// A budget of this many bytes that also looks at the machine.
    #[must_use]
    pub fn new(limit_bytes: u64, watch: Watch) -> Self {
        Self::on(Machine::host(), limit_bytes, watch)
    }

    fn on(machine: Machine, limit_bytes: u64, watch: Watch) -> Self {
        Self {
            shared: Arc::new(Shared {
                limit_bytes,
                watch,
                machine,
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

    /// Takes `n_bytes` until the reservation is dropped. Who allocates by it tells when that is done:
    /// [`Reservation::settle`].
    ///
    /// # Errors
    ///
    /// [`MemError::OverBudget`] with what was asked, what is left and what bounds it.
    pub fn reserve(&self, n_bytes: u64) -> Result<Reservation, MemError> {
        let shared = &self.shared;
        let sum = |used: u64| {
            let sum = used.checked_add(n_bytes);
            sum.filter(|sum| *sum <= shared.limit_bytes)
        };
        let over_limit = |used: u64| MemError::OverBudget {
            asked: n_bytes,
            available: shared.limit_bytes.saturating_sub(used),
            why: format!("the limit is {} bytes", shared.limit_bytes),
        };
        // What the limit refuses is never asked of the machine, where it would stand in others' way.
        let used = self.used_bytes();
        if sum(used).is_none() {
            return Err(over_limit(used));
        }
        let pending = match shared.watch.purpose() {
            Some(purpose) => shared.machine.take(n_bytes, purpose)?,
            None => Pending::none(),
        };
        let taken = shared
            .used_bytes
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, sum);
        match taken {
            Ok(before) => {
                let now = before.saturating_add(n_bytes);
                shared.largest_used_bytes.fetch_max(now, Ordering::Relaxed);
                Ok(Reservation {
                    budget: self.clone(),
                    used_bytes: n_bytes,
                    pending,
                })
            }
            Err(used) => {
                pending.give_back();
                Err(over_limit(used))
            }
        }
    }

    /// Takes memory that the program is given, and that no device has, from what the machine can spare;
    /// until the value is dropped, when the memory is there.
    ///
    /// # Errors
    ///
    /// [`MemError::OverBudget`] as above, never for the limit.
    pub(crate) fn take_for_program(&self, n_bytes: u64) -> Result<Pending, MemError> {
        self.shared.machine.take(n_bytes, Purpose::Cpu)
    }
}

impl Watch {
    fn purpose(self) -> Option<Purpose> {
        match self {
            Self::Nothing => None,
            Self::MachineForCpu => Some(Purpose::Cpu),
            Self::MachineForUnifiedGpu => Some(Purpose::UnifiedGpu),
        }
    }
}

/// Bytes taken from a budget, given back when dropped.
#[derive(Debug)]
pub struct Reservation {
    budget: Budget,
    used_bytes: u64,
    pending: Pending,
}

impl Reservation {
    /// Says that the memory it is for has been taken and touched: the machine's own figure shows it
    /// from now on, and it need not be held against that figure besides.
    pub fn settle(&mut self) {
        self.pending.settle();
    }

    /// What is neither there nor given back yet.
    #[cfg(test)]
    pub(crate) fn pending_bytes(&self) -> u64 {
        self.pending.n_bytes()
    }

    /// Says so of a part of it.
    pub(crate) fn settle_part(&mut self, n_bytes: u64) {
        self.pending.settle_part(n_bytes);
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let used = &self.budget.shared.used_bytes;
        used.fetch_sub(self.used_bytes, Ordering::Relaxed);
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

    /// What a device may have says nothing of what its program may.
    #[test]
    fn memory_for_the_program_is_held_against_the_machine_alone() {
        let (machine, _folder) = crate::spare::tests::machine("program");
        let budget = Budget::on(machine, 10, Watch::Nothing);
        let taken = budget.take_for_program(LARGE_BYTES).unwrap();
        assert_eq!(budget.used_bytes(), 0);
        drop(taken);
        assert!(budget.take_for_program(1 << 50).is_err());
    }

    #[test]
    fn what_the_limit_refuses_is_not_pending() {
        let (machine, _folder) = crate::spare::tests::machine("limit");
        let budget = Budget::on(machine, 10, Watch::MachineForCpu);
        for _ in 0..1000 {
            assert!(
                budget.reserve(1 << 30).is_err(),
                "more would not fit the machine"
            );
        }
        let mut kept = budget.reserve(10).unwrap();
        kept.settle();
        assert_eq!((budget.used_bytes(), budget.largest_used_bytes()), (10, 10));
    }

    /// Two devices of one machine: what the limit of the first refuses, the second can have.
    #[test]
    fn what_the_limit_refuses_stands_in_nobodys_way() {
        let (machine, _folder) = crate::spare::tests::machine("bystander");
        let limited = Budget::on(machine.clone(), 10, Watch::MachineForCpu);
        let other = Budget::on(machine, u64::MAX, Watch::MachineForCpu);
        let (large, some) = (20 << 30, 8 << 30);
        drop(other.reserve(large).expect("the machine has it"));
        std::thread::scope(|scope| {
            let refused = scope.spawn(|| (0..2000).all(|_| limited.reserve(large).is_err()));
            for _ in 0..2000 {
                drop(other.reserve(some).expect("nobody takes of it"));
            }
            assert!(refused.join().unwrap());
        });
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
