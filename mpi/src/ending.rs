//! How all ranks end when one of them cannot go on, and the watchdog that sees when nothing moves.
//!
//! ```text
//! error, signal ──> end_all ──┐
//! watchdog: no step for long ─┴─> flag ──> thread of MPI ──MPI_Abort──> mpirun ends all ranks
//!                                  └── still here after three seconds ──> abort() of this process, which mpirun sees
//! ```
//!
//! The thread of MPI never blocks in the library, so it sees the flag within milliseconds, also while it waits for others. A rank that was killed
//! is mpirun's to notice; one that is stopped, or whose machine is gone, is noticed by those who wait for it.

use std::process::abort;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use spark_program::tell;

/// Exit code of a run that was ended for want of progress.
pub(crate) const STALLED: i32 = 75;

/// How long the library may take to end all.
const FOR_THE_LIBRARY: Duration = Duration::from_secs(3);

/// How often the watchdog looks.
const LOOK: Duration = Duration::from_millis(200);

/// What the threads of a rank know of its end.
#[derive(Clone)]
pub(crate) struct Ending(Arc<State>);

struct State {
    born: Instant,
    /// What all are to end with.
    code: OnceLock<i32>,
    /// Whether the library runs, and this rank makes its way.
    is_joined: AtomicBool,
    /// Whether there are other ranks.
    has_others: AtomicBool,
    /// Whether steps are made.
    is_training: AtomicBool,
    /// Whether this rank waits for others.
    is_waiting: AtomicBool,
    /// Milliseconds from birth to the last thing that moved.
    moved: AtomicU64,
}

impl Ending {
    pub(crate) fn new() -> Self {
        Self(Arc::new(State {
            born: Instant::now(),
            code: OnceLock::new(),
            is_joined: AtomicBool::new(false),
            has_others: AtomicBool::new(false),
            is_training: AtomicBool::new(false),
            is_waiting: AtomicBool::new(false),
            moved: AtomicU64::new(0),
        }))
    }

    /// From now on this rank is watched, and others may wait for it.
    pub(crate) fn join(&self, n_ranks: usize) {
        self.0.has_others.store(n_ranks > 1, Ordering::Release);
        self.0.is_joined.store(true, Ordering::Release);
        self.moved();
    }

    /// Nobody waits for it any more.
    pub(crate) fn leave(&self) {
        self.0.is_joined.store(false, Ordering::Release);
    }

    /// Whether others wait for this rank, or will.
    pub(crate) fn has_others(&self) -> bool {
        self.is_joined() && self.0.has_others.load(Ordering::Acquire)
    }

    fn is_joined(&self) -> bool {
        self.0.is_joined.load(Ordering::Acquire)
    }

    /// Something moved.
    pub(crate) fn moved(&self) {
        let now = self.0.born.elapsed().as_millis() as u64;
        self.0.moved.store(now, Ordering::Release);
    }

    /// Steps begin.
    pub(crate) fn trains(&self) {
        self.moved();
        self.0.is_training.store(true, Ordering::Release);
    }

    /// Runs what waits for others.
    pub(crate) fn waiting<T>(&self, wait: impl FnOnce() -> T) -> T {
        self.0.is_waiting.store(true, Ordering::Release);
        let result = wait();
        self.moved();
        self.0.is_waiting.store(false, Ordering::Release);
        result
    }

    /// What the thread of MPI is to end all with.
    pub(crate) fn asked(&self) -> Option<i32> {
        self.0.code.get().copied()
    }

    /// Ends all ranks, this one among them.
    pub(crate) fn end_all(&self, code: i32) -> ! {
        // Whoever was first has said what all end with.
        let _ = self.0.code.set(code);
        std::thread::sleep(FOR_THE_LIBRARY);
        abort()
    }

    /// Looks whether something moves, until this rank has left. `limits` are those before training and in it.
    pub(crate) fn watch(&self, rank: usize, [start, stall]: [Duration; 2]) {
        while self.is_joined() {
            std::thread::sleep(LOOK);
            let is_training = self.0.is_training.load(Ordering::Acquire);
            let limit = if is_training { stall } else { start };
            let moved = Duration::from_millis(self.0.moved.load(Ordering::Acquire));
            let still = self.0.born.elapsed().saturating_sub(moved);
            if still > limit && self.is_joined() {
                let why = match self.0.is_waiting.load(Ordering::Acquire) {
                    true => "it waits for others",
                    false => "it computes, reads or writes",
                };
                let rest = match is_training {
                    true => "; the last checkpoint is what to go on from",
                    false => "",
                };
                tell(format!(
                    "rank {rank}: nothing has moved for {} s, {why}: all ranks are ended{rest}",
                    still.as_secs()
                ));
                self.end_all(STALLED);
            }
        }
    }
}
