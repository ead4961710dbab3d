//! A pool of threads whose hand-over costs microseconds.
//!
//! ```text
//! run(n, f):  publish f, epoch += 1, wake sleepers      workers: spin on epoch, then sleep
//!             all take indices from one counter until n is reached
//!             caller waits until every worker has checked out
//! ```
//!
//! Which thread takes which index is left to chance; results may not depend on it,
//! so every index must write its own part of the output.
//!
//! Deliberately absent: nesting (an index that calls `run` again runs inline), work
//! stealing and priorities.

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
    epoch: AtomicU64,
    /// Points to the caller's `Task` while an epoch is under way.
    task: AtomicPtr<Task<'static>>,
    count: AtomicUsize,
    next: AtomicUsize,
    working: AtomicUsize,
    panicked: AtomicBool,
    stop: AtomicBool,
    asleep: Mutex<usize>,
    wake: Condvar,
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
            epoch: AtomicU64::new(0),
            task: AtomicPtr::new(std::ptr::null_mut()),
            count: AtomicUsize::new(0),
            next: AtomicUsize::new(0),
            working: AtomicUsize::new(0),
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

    /// Calls `f` with every index below `count`, on all threads; returns when all are done.
    ///
    /// # Panics
    ///
    /// If `f` panics on any thread, after all threads have stopped.
    pub fn run(&self, count: usize, f: impl Fn(usize) + Sync) {
        if count <= 1 || self.workers.is_empty() || INSIDE.get() {
            (0..count).for_each(f);
            return;
        }
        let turn = match self.turn.lock() {
            Ok(turn) => turn,
            Err(poisoned) => poisoned.into_inner(),
        };
        let shared = &*self.shared;
        let task: Task<'_> = &f;
        shared.count.store(count, Ordering::Relaxed);
        shared.next.store(0, Ordering::Relaxed);
        shared.working.store(self.workers.len(), Ordering::Relaxed);
        let pointer = (&raw const task).cast_mut().cast::<Task<'static>>();
        shared.task.store(pointer, Ordering::Relaxed);
        shared.epoch.fetch_add(1, Ordering::Release);
        let asleep = match shared.asleep.lock() {
            Ok(asleep) => *asleep,
            Err(poisoned) => *poisoned.into_inner(),
        };
        if asleep > 0 {
            shared.wake.notify_all();
        }
        let own = catch_unwind(AssertUnwindSafe(|| take_indices(shared, task)));
        // `task` must outlive every worker's use of it, also when this thread unwinds.
        let mut turns = 0u32;
        while shared.working.load(Ordering::Acquire) != 0 {
            turns += 1;
            if turns < SPINS {
                std::hint::spin_loop();
            } else {
                std::thread::yield_now();
            }
        }
        let panicked = shared.panicked.swap(false, Ordering::Relaxed);
        drop(turn);
        if let Err(payload) = own {
            resume_unwind(payload);
        }
        assert!(!panicked, "a thread of the pool panicked");
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        self.shared.epoch.fetch_add(1, Ordering::Release);
        drop(self.shared.asleep.lock());
        self.shared.wake.notify_all();
        for worker in self.workers.drain(..) {
            // A worker that panicked has been reported by `run`.
            let _ = worker.join();
        }
    }
}

fn take_indices(shared: &Shared, task: Task<'_>) {
    INSIDE.set(true);
    let count = shared.count.load(Ordering::Relaxed);
    loop {
        let i = shared.next.fetch_add(1, Ordering::Relaxed);
        if i >= count {
            break;
        }
        task(i);
    }
    INSIDE.set(false);
}

fn work(shared: &Shared) {
    let mut seen = 0;
    loop {
        seen = wait_for_epoch(shared, seen);
        if shared.stop.load(Ordering::Relaxed) {
            return;
        }
        let task = shared.task.load(Ordering::Relaxed);
        // SAFETY: `run` stored a pointer to a live `Task` before the epoch this thread has just
        // acquired, and keeps it alive until `working`, decremented below, is zero.
        let task: Task<'_> = unsafe { *task };
        if catch_unwind(AssertUnwindSafe(|| take_indices(shared, task))).is_err() {
            INSIDE.set(false);
            shared.panicked.store(true, Ordering::Relaxed);
        }
        shared.working.fetch_sub(1, Ordering::Release);
    }
}

/// Waits for an epoch other than `seen`: first spinning, then asleep.
fn wait_for_epoch(shared: &Shared, seen: u64) -> u64 {
    for _ in 0..SPINS {
        let epoch = shared.epoch.load(Ordering::Acquire);
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
        let epoch = shared.epoch.load(Ordering::Acquire);
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
