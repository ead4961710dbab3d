//! One type of thread pool for everything that runs on the CPU.
//!
//! ```text
//! Pool      a fixed set of threads; `run` borrows from the caller's stack; threads spin between calls
//! shared()  the pool of this process, made when it is first asked for, never dropped
//! ```
//!
//! Who owns threads: a caller that runs thousands of short steps a second, each on the memory that the
//! last one wrote, makes a pool of its own, so that nobody comes between (a network's runner). Everybody
//! else uses [`shared`]: such calls are rare and come from many places, pools of their own would be more
//! threads than processors, and a number of threads is then a bound on how much is dealt out
//! ([`Pool::run_on`]) and no reason to start any.
//!
//! A call never waits for another one. Where a second thread calls while the pool is busy, it works
//! alone until the pool is free; a task that was shared out and calls again does that work itself. Nothing can therefore
//! wait in a circle, whatever locks the tasks and their callers hold.
//!
//! Safe code cannot break it: see `tests/safe_use.rs`. Deliberately absent: futures, priorities, tasks
//! that outlive their call, and any say in which thread takes which task.

mod pool;

pub use pool::Pool;

use std::num::NonZeroUsize;
use std::sync::OnceLock;

/// Threads that this process may use at a time, as the system says (affinity and control groups
/// counted); one if it does not say.
pub fn usable_threads() -> NonZeroUsize {
    std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)
}

/// The pool of this process, of [`usable_threads`] threads.
///
/// It is made by the first call and stays until the process ends; its threads sleep while nobody uses it.
///
/// ```
/// use std::sync::atomic::{AtomicUsize, Ordering};
///
/// let sum = AtomicUsize::new(0);
/// spark_parallel::shared().run(100, |i| {
///     sum.fetch_add(i, Ordering::Relaxed);
/// });
/// assert_eq!(sum.into_inner(), 4950);
/// ```
pub fn shared() -> &'static Pool {
    static POOL: OnceLock<Pool> = OnceLock::new();
    POOL.get_or_init(|| Pool::new(usable_threads().get()))
}

/// The README's example, so that it is compiled and run with the others.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
