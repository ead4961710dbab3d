//! How much memory may be taken, asked before the driver is.
//!
//! ```text
//! reserve(n):  pending += n     of this process: allowed, but not yet in the machine's figure
//!              pending <= what the machine can spare now?   and   used + n <= limit?
//!                  |                                                |
//!                  +--- no: OverBudget, pending -= n ---------------+    yes: used += n until dropped
//! settle():    pending -= n     the memory is taken and touched: the machine's figure shows it
//! ```
//!
//! On a GB10 the driver does not refuse: an allocation too many freezes the host
//! (NVIDIA/open-gpu-kernel-modules#1358). The machine's figure is read again for every
//! allocation of [`LARGE_BYTES`] or more, and when smaller ones have come to as much, because
//! reading `/proc` costs more than they do.
//!
//! The figure shows memory once it is touched, so this crate's plain memory is touched when it is
//! allocated, and a figure that is read between allowing and touching is held against both:
//! threads cannot be allowed the same bytes, whatever devices they have opened.
//! Deliberately absent: other processes that are allowed the same bytes at the same moment; for
//! them the policy of `spark_hal::memory` leaves a reserve.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};

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
    machine: Machine,
    used_bytes: AtomicU64,
    largest_used_bytes: AtomicU64,
}

/// A machine whose memory several budgets take from.
#[derive(Debug, Clone)]
struct Machine {
    root: Root,
    taking: Arc<Taking>,
}

/// What a process takes of a machine's memory, over all its budgets.
#[derive(Debug, Default)]
struct Taking {
    /// Bytes that are allowed and that the machine's figure may not show yet.
    pending_bytes: AtomicU64,
    /// Bytes asked for since the machine was looked at and had them.
    unseen_bytes: AtomicU64,
    /// The process that takes: a child of `fork` begins with none of its parent's.
    process: AtomicU32,
}

impl Taking {
    /// Forgets what a parent was allocating when it forked: nobody in this process settles it.
    fn begin_anew_in_a_child(&self) {
        let process = std::process::id();
        if self.process.swap(process, Ordering::SeqCst) != process {
            self.pending_bytes.store(0, Ordering::SeqCst);
        }
    }
}

impl Machine {
    /// The one that this process runs on.
    fn host() -> Self {
        static TAKING: LazyLock<Arc<Taking>> = LazyLock::new(|| {
            let taking = Taking::default();
            taking.begin_anew_in_a_child();
            Arc::new(taking)
        });
        TAKING.begin_anew_in_a_child();
        Self {
            root: Root::host(),
            taking: Arc::clone(&TAKING),
        }
    }
}

/// Times that the machine is asked again because memory was taken while it was asked.
const MOST_LOOKS: usize = 8;

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

    /// Whether the machine is looked at, so that what is allowed must be touched to be seen.
    pub(crate) fn watches(&self) -> bool {
        self.shared.watch != Watch::Nothing
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
        let mut reservation = Reservation {
            budget: self.clone(),
            used_bytes: 0,
            pending_bytes: 0,
        };
        if self.watches() {
            let taking = &self.shared.machine.taking;
            let (ordering, sum) = (Ordering::SeqCst, |sum: u64| sum.checked_add(n_bytes));
            let pending = &taking.pending_bytes;
            if pending.fetch_update(ordering, ordering, sum).is_err() {
                return Err(MemError::OverBudget {
                    asked: n_bytes,
                    available: 0,
                    why: "together with what is being allocated it is more than a machine can have"
                        .to_owned(),
                });
            }
            reservation.pending_bytes = n_bytes;
            taking.unseen_bytes.fetch_add(n_bytes, Ordering::Relaxed);
            if taking.unseen_bytes.load(Ordering::Relaxed) >= LARGE_BYTES {
                self.look_at_machine(n_bytes)?;
                taking.unseen_bytes.store(0, Ordering::Relaxed);
            }
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
                reservation.used_bytes = n_bytes;
                Ok(reservation)
            }
            Err(used) => Err(MemError::OverBudget {
                asked: n_bytes,
                available: shared.limit_bytes.saturating_sub(used),
                why: format!("the limit is {} bytes", shared.limit_bytes),
            }),
        }
    }

    /// Holds memory that the program is given, and that no device has, against what the machine can spare.
    ///
    /// # Errors
    ///
    /// [`MemError::OverBudget`] as above, never for the limit.
    pub(crate) fn reserve_for_program(&self, n_bytes: u64) -> Result<Reservation, MemError> {
        let outside = Self::on(self.shared.machine.clone(), u64::MAX, Watch::MachineForCpu);
        outside.reserve(n_bytes)
    }

    /// Holds all that is pending, with these bytes among it, against what the machine can spare.
    fn look_at_machine(&self, n_bytes: u64) -> Result<(), MemError> {
        let purpose = match self.shared.watch {
            Watch::Nothing => return Ok(()),
            Watch::MachineForCpu => Purpose::Cpu,
            Watch::MachineForUnifiedGpu => Purpose::UnifiedGpu,
        };
        let Machine { root, taking } = &self.shared.machine;
        for look in 1.. {
            let pending = taking.pending_bytes.load(Ordering::SeqCst);
            let budget = Memory::read(root).budget(purpose, &BudgetPolicy::default());
            let Reading::Value(budget) = budget else {
                // A machine without these figures has no rule that could be broken.
                return Ok(());
            };
            if budget.allows(pending) {
                return Ok(());
            }
            // What was pending before may be in the figure now, and would count twice.
            if look < MOST_LOOKS && taking.pending_bytes.load(Ordering::SeqCst) != pending {
                continue;
            }
            let others = pending.saturating_sub(n_bytes);
            return Err(MemError::OverBudget {
                asked: n_bytes,
                available: budget.bytes.saturating_sub(others),
                why: format!(
                    "the machine can spare no more now (bound: {:?}, {} bytes are left to others)",
                    budget.bound, budget.reserve_bytes
                ),
            });
        }
        Ok(())
    }
}

/// Bytes taken from a budget, given back when dropped.
#[derive(Debug)]
pub struct Reservation {
    budget: Budget,
    used_bytes: u64,
    pending_bytes: u64,
}

impl Reservation {
    /// Says that the memory it is for has been taken and touched: the machine's own figure shows it
    /// from now on, and it need not be held against that figure besides.
    pub fn settle(&mut self) {
        let pending = std::mem::take(&mut self.pending_bytes);
        let taking = &self.budget.shared.machine.taking;
        taking.pending_bytes.fetch_sub(pending, Ordering::SeqCst);
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.settle();
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

    /// A machine that can spare 10 MiB, for these tests alone. The folder lasts as long as the value.
    fn machine(name: &str) -> (Machine, Folder) {
        let folder = std::env::temp_dir().join(format!("spark-mem-{name}-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("proc")).unwrap();
        let folder = Folder(folder);
        // Enough that the reserve of the policy is a share: the test asks what is left.
        let text = "MemTotal: 67108864 kB\nMemFree: 33554432 kB\nMemAvailable: 33554432 kB\n\
                    SwapTotal: 0 kB\nSwapFree: 0 kB\n";
        std::fs::write(folder.0.join("proc/meminfo"), text).unwrap();
        let machine = Machine {
            root: Root::at(&folder.0),
            taking: Arc::default(),
        };
        (machine, folder)
    }

    struct Folder(std::path::PathBuf);

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    /// What the machine can spare now, as the refusal of more tells.
    fn available(budget: &Budget) -> u64 {
        match budget.reserve(1 << 50) {
            Err(MemError::OverBudget { available, .. }) => available,
            other => panic!("{other:?}"),
        }
    }

    /// Two handles of a GPU, two threads: what the first is taking the second cannot have too.
    #[test]
    fn what_is_being_allocated_is_held_against_the_machine_whoever_asks() {
        let (machine, _folder) = machine("pending");
        let first = Budget::on(machine.clone(), u64::MAX, Watch::MachineForCpu);
        let second = Budget::on(machine, u64::MAX, Watch::MachineForUnifiedGpu);
        let spare = available(&first);
        assert!(spare > 1 << 30);
        let mut taken = first.reserve(spare / 3 * 2).unwrap();
        assert_eq!(available(&first), spare - spare / 3 * 2);
        assert!(second.reserve(spare / 2).is_err());
        assert!(second.reserve(u64::MAX).is_err());
        // The figure of this machine never changes; on a true one it does when memory is touched.
        taken.settle();
        assert_eq!(available(&first), spare);
        drop(taken);
        assert_eq!((available(&first), first.used_bytes()), (spare, 0));
        drop(first.reserve(spare / 2).unwrap());
        assert_eq!(available(&first), spare);
    }

    /// What a device may have says nothing of what its program may.
    #[test]
    fn memory_for_the_program_is_held_against_the_machine_alone() {
        let (machine, _folder) = machine("program");
        let budget = Budget::on(machine, 10, Watch::Nothing);
        let taken = budget.reserve_for_program(LARGE_BYTES).unwrap();
        assert_eq!(budget.used_bytes(), 0);
        drop(taken);
        assert!(budget.reserve_for_program(1 << 50).is_err());
    }

    #[test]
    fn a_child_does_not_wait_for_what_its_parent_was_allocating() {
        let taking = Taking::default();
        taking.begin_anew_in_a_child();
        taking.pending_bytes.store(5, Ordering::SeqCst);
        taking.begin_anew_in_a_child();
        assert_eq!(taking.pending_bytes.load(Ordering::SeqCst), 5);
        taking.process.fetch_add(1, Ordering::SeqCst); // as a child finds it
        taking.begin_anew_in_a_child();
        assert_eq!(taking.pending_bytes.load(Ordering::SeqCst), 0);
    }

    #[test]
    fn small_reservations_are_held_against_the_machine_when_they_have_come_to_a_large_one() {
        let (machine, folder) = machine("small");
        let budget = Budget::on(machine, u64::MAX, Watch::MachineForCpu);
        let full = "MemTotal: 67108864 kB\nMemFree: 0 kB\nMemAvailable: 0 kB\n";
        std::fs::write(folder.0.join("proc/meminfo"), full).unwrap();
        let small = LARGE_BYTES / 8;
        let kept: Vec<_> = (0..9).map(|_| budget.reserve(small)).collect();
        let refused = kept.iter().position(Result::is_err);
        assert_eq!(refused, Some(7), "the eighth makes a large one");
        assert!(
            kept[8].is_err(),
            "and none is given before the machine can spare it"
        );
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
