//! A pool of threads whose hand-over costs microseconds.
//!
//! ```text
//! run(n, f):  publish f and state = (epoch + 1, 0), wake sleepers     workers: spin on the epoch,
//!             all take indices: (epoch, i) -> (epoch, i + 1)                   then sleep
//!             caller waits until n indices are done, then closes the epoch
//! ```
//!
//! The caller waits for work that was begun, never for a worker that did not come: on a busy
//! machine it does everything itself. A late worker finds another epoch, or none open, and takes
//! nothing.
//!
//! Which thread takes which index is left to chance; results may not depend on it,
//! so every index must write its own part of the output.
//!
//! Deliberately absent: nesting (an index that calls `run` again runs inline), work
//! stealing and priorities.

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;

/// Turns of the waiting loop before a worker sleeps: some tens of microseconds, longer than
/// the gap between two steps of a network.
const SPINS: u32 = 20_000;

thread_local! {
    /// Set while this thread runs an index of some pool.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// What the workers run: called with an index below the count.
type Task<'a> = &'a (dyn Fn(usize) + Sync);

struct Shared {
    /// Epoch in the high half, next index in the low half.
    state: AtomicU64,
    /// Points to the caller's `Task` while an epoch is open.
    task: AtomicPtr<Task<'static>>,
    count: AtomicUsize,
    done: AtomicUsize,
    panicked: AtomicBool,
    stop: AtomicBool,
    asleep: Mutex<usize>,
    wake: Condvar,
}

/// The next index of an epoch that is closed.
const CLOSED: u64 = u32::MAX as u64;

fn epoch_of(state: u64) -> u64 {
    state >> 32
}

/// A fixed set of threads; the caller of [`Pool::run`] is one of them.
pub struct Pool {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
    /// One caller at a time.
    turn: Mutex<()>,
}

impl Pool {
    /// A pool of `threads` threads (at least one, the caller). Threads the system refuses
    /// to start are done without, which is logged.
    pub fn new(threads: usize) -> Self {
        let shared = Arc::new(Shared {
            state: AtomicU64::new(CLOSED),
            task: AtomicPtr::new(std::ptr::null_mut()),
            count: AtomicUsize::new(0),
            done: AtomicUsize::new(0),
            panicked: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            asleep: Mutex::new(0),
            wake: Condvar::new(),
        });
        let mut workers = Vec::new();
        for i in 1..threads {
            let shared = Arc::clone(&shared);
            let builder = std::thread::Builder::new().name(format!("spark-{i}"));
            match builder.spawn(move || work(&shared)) {
                Ok(worker) => workers.push(worker),
                Err(error) => {
                    tracing::warn!(%error, "running with {i} threads instead of {threads}");
                    break;
                }
            }
        }
        Self {
            shared,
            workers,
            turn: Mutex::new(()),
        }
    }

    /// Threads that take part, the caller included.
    pub fn threads(&self) -> usize {
        self.workers.len() + 1
    }

    /// Calls `f` with a slot and every index below `count`. A slot is below [`Pool::threads`] and
    /// used by one thread, so that it may stand for memory; indices are taken as slots get free.
    ///
    /// # Panics
    ///
    /// As [`Pool::run`].
    pub(crate) fn run_in_slots(&self, count: usize, f: impl Fn(usize, usize) + Sync) {
        let next = AtomicUsize::new(0);
        self.run(self.threads().min(count), |slot| {
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                if index >= count {
                    break;
                }
                f(slot, index);
            }
        });
    }

    /// Calls `f` with every index below `count`, on all threads; returns when all are done.
    ///
    /// # Panics
    ///
    /// If `f` panics on any thread, after all threads have stopped.
    pub fn run(&self, count: usize, f: impl Fn(usize) + Sync) {
        if count <= 1 || self.workers.is_empty() || INSIDE.get() || count as u64 >= CLOSED {
            (0..count).for_each(f);
            return;
        }
        let turn = match self.turn.lock() {
            Ok(turn) => turn,
            Err(poisoned) => poisoned.into_inner(),
        };
        let shared = &*self.shared;
        let task: Task<'_> = &f;
        // Released after the last epoch was closed: whoever sees them sees that it is.
        shared.done.store(0, Ordering::Release);
        shared.count.store(count, Ordering::Release);
        let pointer = (&raw const task).cast_mut().cast::<Task<'static>>();
        shared.task.store(pointer, Ordering::Release);
        let last = epoch_of(shared.state.load(Ordering::Relaxed));
        let epoch = (last + 1) & u64::from(u32::MAX);
        shared.state.store(epoch << 32, Ordering::Release);
        let asleep = match shared.asleep.lock() {
            Ok(asleep) => *asleep,
            Err(poisoned) => *poisoned.into_inner(),
        };
        if asleep > 0 {
            shared.wake.notify_all();
        }
        let own = take_indices(shared, epoch);
        // `task` must outlive every use of it, also when one panicked.
        let mut turns = 0u32;
        while shared.done.load(Ordering::Acquire) != count {
            turns += 1;
            if turns < SPINS {
                std::hint::spin_loop();
            } else {
                std::thread::yield_now();
            }
        }
        shared.state.store(epoch << 32 | CLOSED, Ordering::Release);
        let panicked = shared.panicked.swap(false, Ordering::Relaxed);
        drop(turn);
        if let Some(payload) = own {
            resume_unwind(payload);
        }
        assert!(!panicked, "a thread of the pool panicked");
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        self.shared.state.fetch_add(1 << 32, Ordering::Release);
        drop(self.shared.asleep.lock());
        self.shared.wake.notify_all();
        for worker in self.workers.drain(..) {
            // A worker that panicked has been reported by `run`.
            let _ = worker.join();
        }
    }
}

/// Runs indices of `epoch` until none is left or another epoch is open; the payload of the first
/// panic here.
fn take_indices(shared: &Shared, epoch: u64) -> Option<Box<dyn Any + Send>> {
    let mut payload = None;
    INSIDE.set(true);
    while let Some((task, index)) = take_index(shared, epoch) {
        // SAFETY: the index is one of this epoch's and not done, so the caller of `run`, whose
        // `Task` this points to, still waits.
        let task: Task<'_> = unsafe { *task };
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| task(index))) {
            shared.panicked.store(true, Ordering::Relaxed);
            payload.get_or_insert(panic);
        }
        shared.done.fetch_add(1, Ordering::Release);
    }
    INSIDE.set(false);
    payload
}

/// The next index of `epoch` and its task, if one is left.
fn take_index(shared: &Shared, epoch: u64) -> Option<(*mut Task<'static>, usize)> {
    let mut state = shared.state.load(Ordering::Acquire);
    loop {
        // If these are of a later epoch, this one was closed before they were stored, and the
        // exchange below fails. (It could succeed for a thread that slept through 2^32 epochs.)
        let count = shared.count.load(Ordering::Acquire);
        let task = shared.task.load(Ordering::Acquire);
        let next = state & CLOSED;
        if epoch_of(state) != epoch || next >= count as u64 {
            return None;
        }
        match shared.state.compare_exchange_weak(
            state,
            state + 1,
            Ordering::AcqRel,
            Ordering::Acquire,
        ) {
            Ok(_) => return Some((task, next as usize)),
            Err(now) => state = now,
        }
    }
}

fn work(shared: &Shared) {
    let mut seen = 0;
    loop {
        seen = wait_for_epoch(shared, seen);
        if shared.stop.load(Ordering::Relaxed) {
            return;
        }
        take_indices(shared, seen);
    }
}

/// Waits for an epoch other than `seen`: first spinning, then asleep.
fn wait_for_epoch(shared: &Shared, seen: u64) -> u64 {
    for _ in 0..SPINS {
        let epoch = epoch_of(shared.state.load(Ordering::Acquire));
        if epoch != seen {
            return epoch;
        }
        std::hint::spin_loop();
    }
    let mut asleep = match shared.asleep.lock() {
        Ok(asleep) => asleep,
        Err(poisoned) => poisoned.into_inner(),
    };
    *asleep += 1;
    loop {
        let epoch = epoch_of(shared.state.load(Ordering::Acquire));
        if epoch != seen {
            *asleep -= 1;
            return epoch;
        }
        asleep = match shared.wake.wait(asleep) {
            Ok(asleep) => asleep,
            Err(poisoned) => poisoned.into_inner(),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_index_runs_once_whatever_the_thread_count() {
        for threads in 1..=4 {
            let pool = Pool::new(threads);
            for count in [0, 1, 2, 7, 1000] {
                let hits: Vec<AtomicUsize> = (0..count).map(|_| AtomicUsize::new(0)).collect();
                pool.run(count, |i| {
                    hits[i].fetch_add(1, Ordering::Relaxed);
                });
                assert!(hits.iter().all(|h| h.load(Ordering::Relaxed) == 1));
            }
        }
    }

    #[test]
    fn sleeping_workers_wake_up() {
        let pool = Pool::new(3);
        for _ in 0..3 {
            std::thread::sleep(std::time::Duration::from_millis(20));
            let sum = AtomicUsize::new(0);
            pool.run(100, |i| {
                sum.fetch_add(i, Ordering::Relaxed);
            });
            assert_eq!(sum.into_inner(), 4950);
        }
    }

    #[test]
    fn a_panic_reaches_the_caller_and_the_pool_lives_on() {
        let pool = Pool::new(2);
        let result = catch_unwind(AssertUnwindSafe(|| {
            pool.run(50, |i| assert_ne!(i, 25, "index 25 is refused"));
        }));
        assert!(result.is_err());
        let sum = AtomicUsize::new(0);
        pool.run(10, |i| {
            sum.fetch_add(i, Ordering::Relaxed);
        });
        assert_eq!(sum.into_inner(), 45);
    }

    #[test]
    fn nested_runs_are_done_inline() {
        let pool = Pool::new(2);
        let sum = AtomicUsize::new(0);
        pool.run(4, |_| {
            pool.run(5, |i| {
                sum.fetch_add(i, Ordering::Relaxed);
            });
        });
        assert_eq!(sum.into_inner(), 40);
    }
}
