//! What the machine can spare, and what this process is taking of it.
//!
//! ```text
//! take(n)   n, all that is pending, and what settled while the figure was read <= what can be spared?
//!           then pending += n, in one step: of two that fit one by one, one gets it
//! settle    settled += n, pending -= n      the machine's own figure shows it from now on; large memory settles
//!           part by part as it is touched, or others would find it missing twice
//! ```
//!
//! The figure is read for [`LARGE_BYTES`] and more, and when smaller takings have come to as much, because
//! reading `/proc` costs more than they do. What cannot be had at all never becomes pending, so that it stands
//! in nobody's way. Numbers alone are shared, no lock: a child of `fork` would inherit one that is held.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, LazyLock};

use spark_hal::memory::{BudgetPolicy, Memory, Purpose};
use spark_hal::{Reading, Root};

use crate::error::MemError;
use crate::process;

/// Allocations from this size on look at the machine's memory first. In bytes.
pub const LARGE_BYTES: u64 = 1 << 20;
/// Times that the machine is asked again because memory was taken while it was asked.
const MOST_LOOKS: usize = 8;

/// A machine whose memory this process takes from.
#[derive(Debug, Clone)]
pub(crate) struct Machine {
    root: Root,
    taking: Arc<Taking>,
}

/// What a process takes of a machine's memory, on all its devices.
#[derive(Debug, Default)]
struct Taking {
    /// Bytes that are allowed and that the machine's figure may not show yet.
    pending_bytes: AtomicU64,
    /// Bytes that were pending once and are in the figure now.
    settled_bytes: AtomicU64,
    /// Bytes of small takings since the machine was looked at and had them.
    unseen_bytes: AtomicU64,
    /// The process that takes: a child of `fork` begins with nothing of its parent's pending.
    process: AtomicU64,
}

impl Machine {
    /// The one that this process runs on.
    pub(crate) fn host() -> Self {
        static TAKING: LazyLock<Arc<Taking>> = LazyLock::new(Arc::default);
        TAKING.begin_anew_in_a_child();
        Self {
            root: Root::host(),
            taking: Arc::clone(&TAKING),
        }
    }

    /// The one that this root describes, apart from all others.
    #[cfg(test)]
    pub(crate) fn at(root: Root) -> Self {
        Self {
            root,
            taking: Arc::default(),
        }
    }

    /// Takes bytes for this purpose, which are pending until they are settled or dropped.
    ///
    /// # Errors
    ///
    /// [`MemError::OverBudget`].
    pub(crate) fn take(&self, n_bytes: u64, purpose: Purpose) -> Result<Pending, MemError> {
        let taking = &self.taking;
        let unseen = taking.unseen_bytes.load(SeqCst).saturating_add(n_bytes);
        if unseen >= LARGE_BYTES {
            self.take_of_what_is_there(n_bytes, purpose)?;
            taking.unseen_bytes.store(0, SeqCst);
        } else {
            taking.unseen_bytes.fetch_add(n_bytes, SeqCst);
            // Less than what is large, and of what was looked at: no sum of them overflows.
            taking.pending_bytes.fetch_add(n_bytes, SeqCst);
        }
        Ok(Pending {
            taking: Arc::clone(taking),
            n_bytes,
            process: process::own(),
        })
    }

    fn take_of_what_is_there(&self, n_bytes: u64, purpose: Purpose) -> Result<(), MemError> {
        let taking = &self.taking;
        for look in 1.. {
            let settled_before = taking.settled_bytes.load(SeqCst);
            let budget = Memory::read(&self.root).budget(purpose, &BudgetPolicy::default());
            // A machine without these figures has no rule that could be broken.
            let spare = match &budget {
                Reading::Value(budget) => budget.bytes,
                Reading::NotSupported | Reading::Failed(_) => u64::MAX,
            };
            // The figure may show what has settled meanwhile, or not.
            let unsure = || {
                taking
                    .settled_bytes
                    .load(SeqCst)
                    .wrapping_sub(settled_before)
            };
            let taken = taking
                .pending_bytes
                .fetch_update(SeqCst, SeqCst, |pending| {
                    let sum = pending.checked_add(n_bytes)?;
                    (sum.saturating_add(unsure()) <= spare).then_some(sum)
                });
            let Err(pending) = taken else { break };
            if look < MOST_LOOKS && unsure() > 0 {
                continue;
            }
            let why = budget.as_value().map_or_else(
                || "with what is being allocated it is more than any machine has".to_owned(),
                |budget| {
                    format!(
                        "the machine can spare no more now (bound: {:?}, {} bytes are left to others)",
                        budget.bound, budget.reserve_bytes
                    )
                },
            );
            return Err(MemError::OverBudget {
                asked: n_bytes,
                available: spare.saturating_sub(pending),
                why,
            });
        }
        Ok(())
    }
}

impl Taking {
    /// Forgets what a parent was allocating when it forked: nobody in this process settles it.
    fn begin_anew_in_a_child(&self) {
        let process = process::own();
        let before = self.process.swap(process, SeqCst);
        if before != process && before != 0 {
            self.pending_bytes.store(0, SeqCst);
        }
    }
}

/// Bytes that are being taken.
#[derive(Debug)]
pub(crate) struct Pending {
    taking: Arc<Taking>,
    n_bytes: u64,
    /// The process that takes them: in a child of it they count for nothing.
    process: u64,
}

impl Pending {
    /// Nothing, for what no machine is asked for.
    pub(crate) fn none() -> Self {
        Self {
            taking: Arc::default(),
            n_bytes: 0,
            process: 0,
        }
    }

    #[cfg(test)]
    pub(crate) fn n_bytes(&self) -> u64 {
        self.n_bytes
    }

    /// They are there, and the machine's own figure shows it.
    pub(crate) fn settle(&mut self) {
        self.settle_part(self.n_bytes);
    }

    /// So many of them are there.
    pub(crate) fn settle_part(&mut self, n_bytes: u64) {
        let n_bytes = n_bytes.min(self.n_bytes);
        self.n_bytes -= n_bytes;
        if n_bytes == 0 || self.process != process::own() {
            return;
        }
        // In this order: whoever sees fewer pending sees them settled.
        self.taking.settled_bytes.fetch_add(n_bytes, SeqCst);
        self.taking.pending_bytes.fetch_sub(n_bytes, SeqCst);
    }

    /// They are not taken after all.
    pub(crate) fn give_back(mut self) {
        let n_bytes = std::mem::take(&mut self.n_bytes);
        if n_bytes > 0 && self.process == process::own() {
            self.taking.pending_bytes.fetch_sub(n_bytes, SeqCst);
        }
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.settle();
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A machine of its own that has memory to spare. The folder lasts as long as the value.
    pub(crate) fn machine(name: &str) -> (Machine, Folder) {
        let folder = std::env::temp_dir().join(format!("spark-mem-{name}-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("proc")).unwrap();
        let folder = Folder(folder);
        folder.write(
            "MemTotal: 67108864 kB\nMemFree: 33554432 kB\nMemAvailable: 33554432 kB\n\
             SwapTotal: 0 kB\nSwapFree: 0 kB\n",
        );
        (Machine::at(Root::at(&folder.0)), folder)
    }

    pub(crate) struct Folder(std::path::PathBuf);

    impl Folder {
        pub(crate) fn write(&self, meminfo: &str) {
            std::fs::write(self.0.join("proc/meminfo"), meminfo).unwrap();
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    /// What the machine can spare now, as the refusal of more tells.
    fn available(machine: &Machine) -> u64 {
        match machine.take(1 << 50, Purpose::Cpu) {
            Err(MemError::OverBudget { available, .. }) => available,
            other => panic!("{other:?}"),
        }
    }

    /// Two handles of a GPU, two threads: what the first is taking the second cannot have too.
    #[test]
    fn what_is_being_allocated_is_held_against_the_machine_whoever_asks() {
        let (machine, _folder) = machine("pending");
        let spare = available(&machine);
        assert!(spare > 1 << 30);
        let mut taken = machine.take(spare / 3 * 2, Purpose::Cpu).unwrap();
        assert_eq!(available(&machine), spare - spare / 3 * 2);
        assert!(machine.take(spare / 2, Purpose::Cpu).is_err());
        assert!(machine.take(u64::MAX, Purpose::UnifiedGpu).is_err());
        // The figure of this machine never changes; on a true one it does when memory is touched.
        taken.settle();
        assert_eq!(available(&machine), spare);
        drop(taken);
        drop(machine.take(spare / 2, Purpose::Cpu).unwrap());
        assert_eq!(available(&machine), spare);
    }

    #[test]
    fn of_many_that_ask_at_once_as_many_get_as_there_is() {
        let (machine, _folder) = machine("many");
        let (spare, n_threads) = (available(&machine), 6);
        let taken: Vec<_> = std::thread::scope(|scope| {
            let ask = || machine.take(spare / 3, Purpose::Cpu);
            let asked: Vec<_> = (0..n_threads).map(|_| scope.spawn(ask)).collect();
            asked.into_iter().map(|one| one.join().unwrap()).collect()
        });
        assert_eq!(taken.iter().filter(|one| one.is_ok()).count(), 3);
    }

    /// Somebody who asks for more than any machine has stands in nobody's way.
    #[test]
    fn what_cannot_be_had_is_never_pending() {
        let (machine, _folder) = machine("doomed");
        std::thread::scope(|scope| {
            let doomed =
                scope.spawn(|| (0..200).all(|_| machine.take(1 << 60, Purpose::Cpu).is_err()));
            for _ in 0..200 {
                drop(machine.take(LARGE_BYTES, Purpose::Cpu).unwrap());
            }
            assert!(doomed.join().unwrap());
        });
    }

    #[test]
    fn small_takings_are_held_against_the_machine_when_they_have_come_to_a_large_one() {
        let (machine, folder) = machine("small");
        folder.write("MemTotal: 67108864 kB\nMemFree: 0 kB\nMemAvailable: 0 kB\n");
        let small = LARGE_BYTES / 8;
        let kept: Vec<_> = (0..9).map(|_| machine.take(small, Purpose::Cpu)).collect();
        let refused = kept.iter().position(Result::is_err);
        assert_eq!(refused, Some(7), "the eighth makes a large one");
        assert!(
            kept[8].is_err(),
            "and none is given before the machine can spare it"
        );
    }

    #[test]
    fn what_a_child_inherits_counts_for_nothing_when_it_goes() {
        let (machine, _folder) = machine("inherited");
        let taking = Arc::clone(&machine.taking);
        let mut held = machine.take(5 * LARGE_BYTES, Purpose::Cpu).unwrap();
        // As a child finds it.
        held.process ^= 1;
        taking.pending_bytes.store(0, SeqCst);
        drop(held);
        assert_eq!(taking.pending_bytes.load(SeqCst), 0);
        drop(machine.take(LARGE_BYTES, Purpose::Cpu).unwrap());
    }

    /// Memory that is being touched is in the machine's figure page by page.
    #[test]
    fn parts_that_are_there_are_not_held_against_the_machine_besides() {
        let (machine, _folder) = machine("parts");
        let spare = available(&machine);
        let mut taken = machine.take(spare / 2, Purpose::Cpu).unwrap();
        assert_eq!(available(&machine), spare - spare / 2);
        taken.settle_part(spare / 8);
        assert_eq!(available(&machine), spare - spare / 2 + spare / 8);
        taken.settle_part(u64::MAX);
        assert_eq!(available(&machine), spare);
        drop(taken);
        assert_eq!(available(&machine), spare);
        machine.take(spare / 2, Purpose::Cpu).unwrap().give_back();
        assert_eq!(available(&machine), spare);
    }

    #[test]
    fn a_child_does_not_wait_for_what_its_parent_was_allocating() {
        let taking = Taking::default();
        taking.begin_anew_in_a_child();
        taking.pending_bytes.store(5, SeqCst);
        taking.begin_anew_in_a_child();
        assert_eq!(taking.pending_bytes.load(SeqCst), 5);
        taking.process.fetch_add(1, SeqCst); // as a child finds it
        taking.begin_anew_in_a_child();
        assert_eq!(taking.pending_bytes.load(SeqCst), 0);
    }
}
