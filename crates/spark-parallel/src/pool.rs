//! A pool of threads that spin between calls, so that handing work over costs little.
//!
//! ```text
//! run(n, f):  indices 0..n are dealt out in ranges, one share per thread:
//!             share t = (epoch, first, end), a word on a cache line of its own
//!             workers spin on the epoch of their share, then sleep
//!             all: own share from its front, (e, i, j) -> (e, i + 1, j), then the others' from
//!                  their backs, (e, i, j) -> (e, i, j - 1)
//!             caller waits until n indices are done: first spinning, then asleep
//! ```
//!
//! A thread gets the same part of the indices every time. Steps of a network share their work out
//! by place, so that what a thread wrote in one step is in its own cache in the next, and slow
//! threads lose the end of their share to fast ones.
//!
//! The caller waits for work that was begun, never for a worker that did not come: on a busy
//! machine it does everything itself. A late worker finds its share used up.
//!
//! Nor does it wait for another caller: while one has the pool, a second does its indices one by one
//! itself, and deals out what is left when the pool becomes free.
//!
//! Which thread takes which index is left to chance in the end; results may not depend on it,
//! so every index must write its own part of the output.
//!
//! Deliberately absent: nesting (an index that was shared out and calls `run` again, of whatever pool, runs
//! inline) and priorities.

#![allow(
    unsafe_code,
    reason = "work borrows from the caller's stack while other threads run it"
)]

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread::JoinHandle;

/// Turns of the waiting loop before a thread sleeps: up to a millisecond, much longer than the gap
/// between two steps of a network.
const SPINS: u32 = 20_000;

/// As much as a program's first thread usually has: code without optimisation takes several megabytes where
/// kernels of many values are inlined into one frame. Only what is touched becomes memory.
const STACK_BYTES: usize = 8 << 20;

/// Indices dealt out at most; more are done in groups of neighbours.
const MAX_INDICES: usize = u16::MAX as usize;

thread_local! {
    /// The slot of this thread while it runs an index of some pool.
    static SLOT: Cell<Option<usize>> = const { Cell::new(None) };
}

/// What the threads run: called with a slot and an index below the count.
type Task<'a> = &'a (dyn Fn(usize, usize) + Sync);

/// What a panic carries.
type Payload = Box<dyn Any + Send>;

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
    /// Whether an index of this epoch panicked; those behind it are left out.
    panicked: AtomicBool,
    /// What the first of them carried.
    payload: Mutex<Option<Payload>>,
    stop: AtomicBool,
    /// Workers that sleep or are about to; changed with `turn_in` locked.
    asleep: AtomicUsize,
    /// Whether the caller sleeps or is about to; changed with `turn_in` locked.
    caller_asleep: AtomicBool,
    turn_in: Mutex<()>,
    wake: Condvar,
    wake_caller: Condvar,
}

/// A fixed set of threads; the caller of [`Pool::run`] is one of them.
///
/// ```
/// let pool = spark_parallel::Pool::new(2);
/// let mut rows = vec![[1.0f32; 64]; 8];
/// pool.for_each(&mut rows, |row| row.iter_mut().for_each(|x| *x *= 2.0));
/// assert_eq!(rows, vec![[2.0; 64]; 8]);
/// ```
///
/// What the threads share must be safe to share:
///
/// ```compile_fail,E0277
/// let count = std::cell::Cell::new(0);
/// spark_parallel::Pool::new(2).run(8, |_| count.set(count.get() + 1));
/// ```
pub struct Pool {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
    /// The last epoch, and one caller at a time.
    turn: Mutex<u32>,
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pool")
            .field("threads", &self.threads())
            .finish_non_exhaustive()
    }
}

impl Pool {
    /// Threads of a pool at most, more than any processor has: each has an address space and a share of
    /// every run.
    pub const MAX_THREADS: usize = 1024;

    /// A pool of `threads` threads (at least one, the caller). Threads beyond [`Pool::MAX_THREADS`] and
    /// those that the system refuses to start are done without, which is logged.
    pub fn new(threads: usize) -> Self {
        if threads > Self::MAX_THREADS {
            let most = Self::MAX_THREADS;
            tracing::warn!("running with {most} threads instead of {threads}");
        }
        let threads = threads.min(Self::MAX_THREADS);
        let share = |_| Share {
            left: AtomicU64::new(0),
            task: AtomicPtr::new(std::ptr::null_mut()),
        };
        let shared = Arc::new(Shared {
            shares: (0..threads.max(1)).map(share).collect(),
            done: Counter(AtomicUsize::new(0)),
            panicked: AtomicBool::new(false),
            payload: Mutex::new(None),
            stop: AtomicBool::new(false),
            asleep: AtomicUsize::new(0),
            caller_asleep: AtomicBool::new(false),
            turn_in: Mutex::new(()),
            wake: Condvar::new(),
            wake_caller: Condvar::new(),
        });
        let mut workers = Vec::new();
        for i in 1..threads {
            let shared = Arc::clone(&shared);
            let builder = std::thread::Builder::new()
                .name(format!("spark-{i}"))
                .stack_size(STACK_BYTES);
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
    pub fn threads(&self) -> usize {
        self.workers.len() + 1
    }

    /// Calls `f` once with every index below `count`, on all threads; returns when all calls have.
    ///
    /// Calls must not wait for each other: how many run at a time is not promised. On a thread that runs
    /// an index shared out between threads, of this or another pool, everything is done by that thread, in
    /// order; so are the first ones while another caller has the pool. A call of one index is not shared
    /// out, so that what is called inside it may be.
    ///
    /// # Panics
    ///
    /// If `f` panics, with what the first panic carried, after all threads have stopped. Indices that
    /// were not begun are left out.
    pub fn run(&self, count: usize, f: impl Fn(usize) + Sync) {
        self.run_in_slots(count, |_slot, index| f(index));
    }

    /// As [`Pool::run`], on at most `threads` threads, the caller included; zero counts as one.
    ///
    /// # Panics
    ///
    /// As [`Pool::run`].
    pub fn run_on(&self, threads: usize, count: usize, f: impl Fn(usize) + Sync) {
        if threads >= self.threads().min(count) {
            return self.run(count, f);
        }
        // As many loops as threads, each of which takes the next index.
        let next = AtomicUsize::new(0);
        self.run(threads.max(1), |_| {
            let end = EndOnPanic { next: &next, count };
            while let Some(index) = end.take() {
                f(index);
            }
        });
    }

    /// Calls `f` with a slot and every index below `count`. A slot is below [`Pool::threads`], and
    /// no two calls of one run have the same slot at a time, so that it may stand for memory. Inside an
    /// index that was shared out between threads, by a pool no smaller than this one, the slot is that of this
    /// index; other calls inside calls have slots of their own, so memory of a slot belongs to one call alone.
    ///
    /// # Panics
    ///
    /// As [`Pool::run`].
    pub fn run_in_slots(&self, count: usize, f: impl Fn(usize, usize) + Sync) {
        if count <= 1 || self.workers.is_empty() || SLOT.get().is_some() {
            // Memory has room for the slots of this pool, which may be smaller than the one around
            // it; inline, one slot is as good as another.
            let slot = SLOT
                .get()
                .filter(|&slot| slot < self.threads())
                .unwrap_or(0);
            return (0..count).for_each(|index| f(slot, index));
        }
        let mut begun = 0;
        let turn = loop {
            match self.turn.try_lock() {
                Ok(turn) => break turn,
                Err(TryLockError::Poisoned(turn)) => break turn.into_inner(),
                Err(TryLockError::WouldBlock) => {
                    if begun == count {
                        return;
                    }
                    // This thread's slot in the rest of the run.
                    f(0, begun);
                    begun += 1;
                }
            }
        };
        let left = count - begun;
        if left <= MAX_INDICES {
            return self.run_shared(turn, left, &|slot, i| f(slot, begun + i));
        }
        let group = |i: usize| begun + (i as u128 * left as u128 / MAX_INDICES as u128) as usize;
        self.run_shared(turn, MAX_INDICES, &|slot, i| {
            for index in group(i)..group(i + 1) {
                if self.shared.panicked.load(Ordering::Relaxed) {
                    return;
                }
                f(slot, index);
            }
        });
    }

    /// Calls `f` once with every item, as [`Pool::run`] does with indices.
    ///
    /// # Panics
    ///
    /// As [`Pool::run`].
    pub fn for_each<T: Send>(&self, items: impl IntoIterator<Item = T>, f: impl Fn(T) + Sync) {
        let items: Vec<_> = items.into_iter().map(|x| Mutex::new(Some(x))).collect();
        self.run(items.len(), |i| {
            // Each index is run once, so that the item is there.
            let item = lock(&items[i]).take();
            item.into_iter().for_each(&f);
        });
    }

    /// What `f` gives for every item, in their order.
    ///
    /// # Panics
    ///
    /// As [`Pool::run`].
    pub fn map<T: Send, R: Send>(
        &self,
        items: impl IntoIterator<Item = T>,
        f: impl Fn(T) -> R + Sync,
    ) -> Vec<R> {
        let items = items.into_iter().map(|item| (item, Mutex::new(None)));
        let (items, results): (Vec<T>, Vec<Mutex<Option<R>>>) = items.unzip();
        self.for_each(items.into_iter().zip(&results), |(item, result)| {
            let value = f(item);
            *lock(result) = Some(value);
        });
        let results = results.into_iter().map(Mutex::into_inner);
        results
            .filter_map(|result| result.unwrap_or_else(PoisonError::into_inner))
            .collect()
    }

    fn run_shared(&self, mut turn: MutexGuard<'_, u32>, count: usize, task: Task<'_>) {
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
        shared.wake_sleepers(count.saturating_sub(1));
        shared.take_indices(0);
        // `task` must outlive every use of it, also when one panicked.
        shared.wait_for(count);
        let payload = match shared.panicked.swap(false, Ordering::Relaxed) {
            true => lock(&shared.payload).take(),
            false => None,
        };
        drop(turn);
        if let Some(payload) = payload {
            resume_unwind(payload);
        }
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
        shared.wake_sleepers(self.workers.len());
        for worker in self.workers.drain(..) {
            // Workers catch every panic of a task.
            let _ = worker.join();
        }
    }
}

impl Shared {
    /// Wakes as many workers that sleep, after their shares were changed.
    fn wake_sleepers(&self, wanted: usize) {
        // With the fence of `wait_for_epoch`: either this sees that a worker is about to sleep, or
        // that worker sees its share changed.
        fence(Ordering::SeqCst);
        let asleep = self.asleep.load(Ordering::Relaxed);
        if asleep == 0 {
            return;
        }
        // A worker that was seen awake on its way to sleep holds the lock until it waits.
        drop(lock(&self.turn_in));
        if wanted >= asleep {
            self.wake.notify_all();
        } else {
            (0..wanted).for_each(|_| self.wake.notify_one());
        }
    }

    /// Runs indices until none is left.
    fn take_indices(&self, slot: usize) {
        let mut taken = 0;
        SLOT.set(Some(slot));
        let threads = self.shares.len();
        for distance in 0..threads {
            let share = &self.shares[(slot + distance) % threads];
            while let Some((task, index)) = share.take(distance == 0) {
                taken += 1;
                if self.panicked.load(Ordering::Relaxed) {
                    continue;
                }
                // SAFETY: this thread took the index and has not counted it as done, so the caller
                // of `run_shared`, whose `Task` this points to, still waits.
                let task: Task<'_> = unsafe { *task };
                if let Err(payload) = catch_unwind(AssertUnwindSafe(|| task(slot, index))) {
                    self.keep_first(payload);
                }
            }
        }
        SLOT.set(None);
        if taken > 0 {
            // With the caller's `SeqCst` in `wait_for`: either it sees these indices done, or this
            // sees that it is about to sleep.
            self.done.0.fetch_add(taken, Ordering::SeqCst);
            if self.caller_asleep.load(Ordering::SeqCst) {
                drop(lock(&self.turn_in));
                self.wake_caller.notify_one();
            }
        }
    }

    /// Keeps what a panic carried for the caller, unless there was one before.
    fn keep_first(&self, payload: Payload) {
        let mut first = lock(&self.payload);
        let later = match &*first {
            Some(_) => Some(payload),
            None => {
                *first = Some(payload);
                None
            }
        };
        drop(first);
        self.panicked.store(true, Ordering::Relaxed);
        later.into_iter().for_each(discard);
    }

    /// What worker `slot` does.
    fn work(&self, slot: usize) {
        let mut seen = 0;
        loop {
            seen = self.wait_for_epoch(slot, seen);
            if self.stop.load(Ordering::Relaxed) {
                return;
            }
            self.take_indices(slot);
        }
    }

    /// Waits for an epoch other than `seen`, or the end: first spinning, then asleep.
    fn wait_for_epoch(&self, slot: usize, seen: u32) -> u32 {
        let now = || Left(self.shares[slot].left.load(Ordering::Acquire)).epoch();
        for _ in 0..SPINS {
            let epoch = now();
            if epoch != seen {
                return epoch;
            }
            std::hint::spin_loop();
        }
        let mut guard = lock(&self.turn_in);
        self.asleep.fetch_add(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        loop {
            let epoch = now();
            // Who slept through 2^32 epochs sees none, but must see the end.
            if epoch != seen || self.stop.load(Ordering::Relaxed) {
                self.asleep.fetch_sub(1, Ordering::Relaxed);
                return epoch;
            }
            guard = self
                .wake
                .wait(guard)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits until `count` indices are done: first spinning, then asleep.
    fn wait_for(&self, count: usize) {
        for _ in 0..SPINS {
            if self.done.0.load(Ordering::Acquire) == count {
                return;
            }
            std::hint::spin_loop();
        }
        let mut guard = lock(&self.turn_in);
        self.caller_asleep.store(true, Ordering::SeqCst);
        while self.done.0.load(Ordering::SeqCst) != count {
            guard = self
                .wake_caller
                .wait(guard)
                .unwrap_or_else(PoisonError::into_inner);
        }
        self.caller_asleep.store(false, Ordering::Relaxed);
    }
}

/// Nothing behind these locks can be left half changed.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Drops the payload of a panic. Dropping may panic as well, which must not leave a thread of the
/// pool before its indices are counted as done: others may still use the task.
fn discard(payload: Payload) {
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
                // Read behind the exchange, however old `left` was: the pointer stays as it was
                // published with this index until the index is done.
                Ok(_) => return Some((self.task.load(Ordering::Relaxed), index)),
                Err(now) => left = now,
            }
        }
    }
}

/// The next index of [`Pool::run_on`]; dropped by a panic, it leaves none.
struct EndOnPanic<'a> {
    next: &'a AtomicUsize,
    count: usize,
}

impl EndOnPanic<'_> {
    fn take(&self) -> Option<usize> {
        let one_more = |index| (index < self.count).then_some(index + 1);
        let order = Ordering::Relaxed;
        self.next.fetch_update(order, order, one_more).ok()
    }
}

impl Drop for EndOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.next.store(self.count, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests;
