//! A pool of threads whose hand-over costs about a microsecond (0.7 on two virtual cores).
//!
//! ```text
//! run(n, f):  indices 0..n are dealt out in ranges, one share per thread:
//!             share t = (epoch, first, end), a word on a cache line of its own
//!             workers spin on the epoch of their share, then sleep
//!             all: own share from its front, (e, i, j) -> (e, i + 1, j), then the others' from
//!                  their backs, (e, i, j) -> (e, i, j - 1)
//!             caller waits until n indices are done
//! ```
//!
//! A thread gets the same part of the indices every time. Steps of a network share their work out
//! by place, so that what a thread wrote in one step is in its own cache in the next, and slow
//! threads lose the end of their share to fast ones.
//!
//! The caller waits for work that was begun, never for a worker that did not come: on a busy
//! machine it does everything itself. A late worker finds its share used up.
//!
//! Which thread takes which index is left to chance in the end; results may not depend on it,
//! so every index must write its own part of the output.
//!
//! Deliberately absent: nesting (an index that calls `run` again runs inline) and priorities.

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;

/// Turns of the waiting loop before a worker sleeps: up to a millisecond, much longer than the gap
/// between two steps of a network.
const SPINS: u32 = 20_000;

/// Indices dealt out at most; more are done in groups of neighbours.
const MAX_INDICES: usize = u16::MAX as usize;

thread_local! {
    /// The slot of this thread while it runs an index of some pool.
    static SLOT: Cell<Option<usize>> = const { Cell::new(None) };
}

/// What the threads run: called with a slot and an index below the count.
type Task<'a> = &'a (dyn Fn(usize, usize) + Sync);

/// Indices left of one thread's part: epoch in bits 32.., the next one in bits 16..32, the one
/// after the last in bits 0..16.
#[derive(Clone, Copy, PartialEq)]
struct Left(u64);

impl Left {
    fn new(epoch: u32, first: usize, end: usize) -> Self {
        Self(u64::from(epoch) << 32 | (first as u64) << 16 | end as u64)
    }

    fn epoch(self) -> u32 {
        (self.0 >> 32) as u32
    }

    fn range(self) -> (usize, usize) {
        (
            (self.0 >> 16) as usize & MAX_INDICES,
            self.0 as usize & MAX_INDICES,
        )
    }
}

/// One thread's part of an epoch, alone on its pair of cache lines (processors fetch them in pairs).
#[repr(align(128))]
struct Share {
    left: AtomicU64,
    /// Points to the caller's `Task` while indices are left.
    task: AtomicPtr<Task<'static>>,
}

/// A counter alone on its pair of cache lines.
#[repr(align(128))]
struct Counter(AtomicUsize);

struct Shared {
    shares: Box<[Share]>,
    /// Indices that are done.
    done: Counter,
    panicked: AtomicBool,
    stop: AtomicBool,
    /// Workers that sleep or are about to; changed with `turn_in` locked.
    asleep: AtomicUsize,
    turn_in: Mutex<()>,
    wake: Condvar,
}

/// More than any processor has; each thread has an address space and a share of every task.
const MAX_THREADS: usize = 1024;

/// A fixed set of threads; the caller of [`Pool::run`] is one of them.
pub(crate) struct Pool {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
    /// The last epoch, and one caller at a time.
    turn: Mutex<u32>,
}

impl Pool {
    /// A pool of `threads` threads (at least one, the caller). Threads beyond [`MAX_THREADS`] and those
    /// the system refuses to start are done without, which is logged.
    pub(crate) fn new(threads: usize) -> Self {
        if threads > MAX_THREADS {
            tracing::warn!("running with {MAX_THREADS} threads instead of {threads}");
        }
        let threads = threads.min(MAX_THREADS);
        let share = |_| Share {
            left: AtomicU64::new(0),
            task: AtomicPtr::new(std::ptr::null_mut()),
        };
        let shared = Arc::new(Shared {
            shares: (0..threads.max(1)).map(share).collect(),
            done: Counter(AtomicUsize::new(0)),
            panicked: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            asleep: AtomicUsize::new(0),
            turn_in: Mutex::new(()),
            wake: Condvar::new(),
        });
        let mut workers = Vec::new();
        for i in 1..threads {
            let shared = Arc::clone(&shared);
            let builder = std::thread::Builder::new().name(format!("spark-{i}"));
            match builder.spawn(move || shared.work(i)) {
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
            turn: Mutex::new(0),
        }
    }

    /// Threads that take part, the caller included.
    pub(crate) fn threads(&self) -> usize {
        self.workers.len() + 1
    }

    /// Calls `f` with every index below `count`, on all threads; returns when all are done.
    ///
    /// # Panics
    ///
    /// If `f` panics on any thread, after all threads have stopped.
    pub(crate) fn run(&self, count: usize, f: impl Fn(usize) + Sync) {
        self.run_in_slots(count, |_slot, index| f(index));
    }

    /// Calls `f` with a slot and every index below `count`. A slot is below [`Pool::threads`] and
    /// used by one thread at a time, so that it may stand for memory.
    ///
    /// # Panics
    ///
    /// As [`Pool::run`].
    pub(crate) fn run_in_slots(&self, count: usize, f: impl Fn(usize, usize) + Sync) {
        if count <= 1 || self.workers.is_empty() || SLOT.get().is_some() {
            // Memory has room for the slots of this pool, which may be smaller than the one around
            // it; inline, one slot is as good as another.
            let slot = SLOT
                .get()
                .filter(|&slot| slot < self.threads())
                .unwrap_or(0);
            (0..count).for_each(|index| f(slot, index));
        } else if count <= MAX_INDICES {
            self.run_shared(count, &f);
        } else {
            let group = |i: usize| (i as u128 * count as u128 / MAX_INDICES as u128) as usize;
            self.run_shared(MAX_INDICES, &|slot, i| {
                (group(i)..group(i + 1)).for_each(|index| f(slot, index));
            });
        }
    }

    fn run_shared(&self, count: usize, task: Task<'_>) {
        let mut turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        *turn = turn.wrapping_add(1);
        let (epoch, shared, threads) = (*turn, &*self.shared, self.threads());
        let pointer = (&raw const task).cast_mut().cast::<Task<'static>>();
        shared.done.0.store(0, Ordering::Relaxed);
        for (t, share) in shared.shares[..threads].iter().enumerate() {
            let (first, end) = (count * t / threads, count * (t + 1) / threads);
            // Nothing is left of the last epoch, so that nobody uses the pointer before it is
            // published with the indices.
            share.task.store(pointer, Ordering::Relaxed);
            let left = Left::new(epoch, first, end).0;
            share.left.store(left, Ordering::Release);
        }
        shared.wake_sleepers();
        let own = shared.take_indices(0);
        // `task` must outlive every use of it, also when one panicked.
        let mut turns = 0u32;
        while shared.done.0.load(Ordering::Acquire) != count {
            turns += 1;
            if turns < SPINS {
                std::hint::spin_loop();
            } else {
                std::thread::yield_now();
            }
        }
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
        let shared = &*self.shared;
        shared.stop.store(true, Ordering::Relaxed);
        let turn = self.turn.get_mut().unwrap_or_else(PoisonError::into_inner);
        for share in &shared.shares {
            let left = Left::new(turn.wrapping_add(1), 0, 0).0;
            share.left.store(left, Ordering::Release);
        }
        shared.wake_sleepers();
        for worker in self.workers.drain(..) {
            // A worker that panicked has been reported by `run`.
            let _ = worker.join();
        }
    }
}

impl Shared {
    /// Wakes the workers that sleep, after their shares were changed.
    fn wake_sleepers(&self) {
        // With the fence of `wait_for_epoch`: either this sees that a worker is about to sleep, or
        // that worker sees its share changed.
        fence(Ordering::SeqCst);
        if self.asleep.load(Ordering::Relaxed) > 0 {
            // A worker that was seen awake on its way to sleep holds the lock until it waits.
            drop(self.turn_in.lock());
            self.wake.notify_all();
        }
    }

    /// Runs indices until none is left; the payload of the first panic here.
    fn take_indices(&self, slot: usize) -> Option<Box<dyn Any + Send>> {
        let mut payload = None;
        let mut taken = 0;
        SLOT.set(Some(slot));
        let threads = self.shares.len();
        for distance in 0..threads {
            let share = &self.shares[(slot + distance) % threads];
            while let Some((task, index)) = share.take(distance == 0) {
                taken += 1;
                // SAFETY: the index was left and is not done, so the caller of `run_shared`, whose
                // `Task` this points to, still waits.
                let task: Task<'_> = unsafe { *task };
                if let Err(panic) = catch_unwind(AssertUnwindSafe(|| task(slot, index))) {
                    self.panicked.store(true, Ordering::Relaxed);
                    match payload {
                        None => payload = Some(panic),
                        Some(_) => discard(panic),
                    }
                }
            }
        }
        SLOT.set(None);
        if taken > 0 {
            self.done.0.fetch_add(taken, Ordering::Release);
        }
        payload
    }

    /// What worker `slot` does.
    fn work(&self, slot: usize) {
        let mut seen = 0;
        loop {
            seen = self.wait_for_epoch(slot, seen);
            if self.stop.load(Ordering::Relaxed) {
                return;
            }
            if let Some(payload) = self.take_indices(slot) {
                discard(payload);
            }
        }
    }

    /// Waits for an epoch other than `seen`: first spinning, then asleep.
    fn wait_for_epoch(&self, slot: usize, seen: u32) -> u32 {
        let now = || Left(self.shares[slot].left.load(Ordering::Acquire)).epoch();
        for _ in 0..SPINS {
            let epoch = now();
            if epoch != seen {
                return epoch;
            }
            std::hint::spin_loop();
        }
        let mut guard = self.turn_in.lock().unwrap_or_else(PoisonError::into_inner);
        self.asleep.fetch_add(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        loop {
            let epoch = now();
            if epoch != seen {
                self.asleep.fetch_sub(1, Ordering::Relaxed);
                return epoch;
            }
            guard = self
                .wake
                .wait(guard)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Drops the payload of a panic. Dropping may panic as well, which must not leave a thread of the
/// pool before its indices are counted as done: others may still use the task.
fn discard(payload: Box<dyn Any + Send>) {
    if let Err(another) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        std::mem::forget(another);
    }
}

impl Share {
    /// An index that is left and its task: the first for the owner, the last for others.
    fn take(&self, is_owner: bool) -> Option<(*mut Task<'static>, usize)> {
        let mut left = self.left.load(Ordering::Acquire);
        loop {
            let (first, end) = Left(left).range();
            if first >= end {
                return None;
            }
            // That of this epoch: were all its indices taken in between, the exchange below would
            // fail. (It could succeed for a thread that slept through 2^32 epochs.)
            let task = self.task.load(Ordering::Acquire);
            let (index, rest) = match is_owner {
                true => (first, (first + 1, end)),
                false => (end - 1, (first, end - 1)),
            };
            let rest = Left::new(Left(left).epoch(), rest.0, rest.1).0;
            let order = (Ordering::AcqRel, Ordering::Acquire);
            match self
                .left
                .compare_exchange_weak(left, rest, order.0, order.1)
            {
                Ok(_) => return Some((task, index)),
                Err(now) => left = now,
            }
        }
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
    fn no_number_of_threads_is_too_many() {
        let pool = Pool::new(usize::MAX);
        assert!((1..=MAX_THREADS).contains(&pool.threads()));
        let sum = AtomicUsize::new(0);
        pool.run(5000, |i| {
            sum.fetch_add(i, Ordering::Relaxed);
        });
        assert_eq!(sum.into_inner(), 4999 * 2500);
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

    /// Something that panics when it is dropped.
    struct Bomb;

    impl Drop for Bomb {
        fn drop(&mut self) {
            if !std::thread::panicking() {
                panic!("dropped");
            }
        }
    }

    #[test]
    fn payloads_that_panic_when_dropped_leave_no_index_behind() {
        let pool = Pool::new(2);
        for _ in 0..20 {
            let done = AtomicUsize::new(0);
            let result = catch_unwind(AssertUnwindSafe(|| {
                pool.run(50, |_| {
                    done.fetch_add(1, Ordering::Relaxed);
                    std::panic::panic_any(Bomb);
                });
            }));
            assert_eq!(
                done.into_inner(),
                50,
                "all were run before the caller went on"
            );
            std::mem::forget(result);
        }
    }

    #[test]
    fn a_smaller_pool_inside_a_larger_one_gives_its_own_slots() {
        let outer = Pool::new(4);
        let inner = Pool::new(2);
        // Every thread of the outer pool holds its first index until all have one.
        let begun = AtomicUsize::new(0);
        let greatest = AtomicUsize::new(0);
        outer.run(4, |_| {
            begun.fetch_add(1, Ordering::Relaxed);
            while begun.load(Ordering::Relaxed) < 4 {
                std::thread::yield_now();
            }
            inner.run_in_slots(3, |slot, _| {
                greatest.fetch_max(slot, Ordering::Relaxed);
            });
        });
        assert!(greatest.into_inner() < inner.threads());
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
