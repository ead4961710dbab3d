//! Ctrl-C, `kill` and closed pipes.
//!
//! ```text
//! SIGPIPE          the process ends at once and says nothing, as `yes | head -1` does
//! SIGINT, SIGTERM  no file being written   the process ends at once, by that signal
//!                  while `LastWords` are   … and says them first
//!                  inside `postponed`      … when it is over, so that the file is whole; the user is
//!                                          told if that takes longer than a moment
//!                  inside `sleep`          … it wakes and says so: the program ends itself
//!                  a second one            ends the process whatever it does
//! ```
//!
//! Rust ignores SIGPIPE, so that a closed pipe would be an error of `println` and a panic.
//! Deliberately absent: SIGHUP and the rest, which keep their defaults.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGINT, SIGPIPE, SIGTERM};

use crate::failure::tell;

/// How long a file may take before somebody who wants to end the program is told.
const A_MOMENT: Duration = Duration::from_secs(1);

/// What the thread that receives signals and the program tell each other.
struct State {
    /// Pieces of work that a signal waits for.
    n_postponing: usize,
    /// The signal that waits.
    received: Option<i32>,
    /// What is said when a signal ends the process at once.
    last_words: Option<String>,
}

static STATE: Mutex<State> = Mutex::new(State {
    n_postponing: 0,
    received: None,
    last_words: None,
});
static RECEIVED: Condvar = Condvar::new();

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Gives SIGPIPE the effect that it has in programs of other languages.
pub(crate) fn end_quietly_on_a_closed_pipe() {
    let always = Arc::new(std::sync::atomic::AtomicBool::new(true));
    // Without it a closed pipe is loud, nothing worse.
    let _ = signal_hook::flag::register_conditional_default(SIGPIPE, always);
}

/// From now on SIGINT and SIGTERM wait for what is [`postponed`].
pub(crate) fn let_files_be_finished() {
    // A shell without job control starts background work with SIGINT ignored: so it stays.
    let wanted = [SIGINT, SIGTERM].into_iter();
    let wanted = wanted.filter(|&signal| !is_ignored(signal));
    // Without the handlers or the thread the signals keep their default effect.
    let Ok(mut signals) = signal_hook::iterator::Signals::new(wanted) else {
        return;
    };
    let receive = move || {
        for signal in signals.forever() {
            let mut state = state();
            let is_idle = state.n_postponing == 0;
            if is_idle || state.received.is_some() {
                if let Some(words) = state.last_words.take().filter(|_| is_idle) {
                    say_before_the_end(words);
                }
                end(signal);
            }
            state.received = Some(signal);
            RECEIVED.notify_all();
            drop(state);
            // Without the thread the user waits without a word.
            let _ = std::thread::Builder::new().spawn(say_what_is_waited_for);
        }
    };
    let _ = std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(receive);
}

/// A pipe that nobody reads, or a slow disk, can hold a file up for ever.
fn say_what_is_waited_for() {
    std::thread::sleep(A_MOMENT);
    // What waits in `sleep` has taken the signal, and ends by itself.
    let state = state();
    let is_waiting = state.n_postponing > 0 && state.received.is_some();
    drop(state);
    if is_waiting {
        tell(
            "the program ends when the file under way is written; a second signal ends it at once",
        );
    }
}

/// Says it within a moment or not at all: whoever reads stderr may have stopped, and the program is to end.
fn say_before_the_end(words: String) {
    let (done, is_done) = mpsc::channel();
    let say = move || {
        tell(words);
        // Nobody waits any more if it took too long.
        let _ = done.send(());
    };
    if std::thread::Builder::new().spawn(say).is_ok() {
        let _ = is_done.recv_timeout(A_MOMENT);
    }
}

/// What Ctrl-C says before it ends the program, while this value lives: where the user stands then. Of two the later one is said, and
/// none when either is gone. A signal that waits for a file under way ends the program without them.
#[derive(Debug)]
#[must_use = "the words are said while this lives"]
pub struct LastWords(());

impl LastWords {
    /// From now on.
    pub fn new(words: impl Into<String>) -> Self {
        state().last_words = Some(words.into());
        Self(())
    }
}

impl Drop for LastWords {
    fn drop(&mut self) {
        state().last_words = None;
    }
}

/// Runs `work`; Ctrl-C meanwhile takes effect when it is over. For writing a file, so that
/// neither a half one nor a temporary one stays behind.
pub fn postponed<T>(work: impl FnOnce() -> T) -> T {
    let _guard = Postponing::begin();
    work()
}

struct Postponing;

impl Postponing {
    fn begin() -> Self {
        state().n_postponing += 1;
        Self
    }
}

impl Drop for Postponing {
    fn drop(&mut self) {
        let mut state = state();
        state.n_postponing -= 1;
        if let (0, Some(signal)) = (state.n_postponing, state.received) {
            end(signal);
        }
    }
}

/// Waits that long, or until Ctrl-C; then it returns the exit code to end with, 128 and the
/// signal's number as shells have it.
#[must_use]
pub fn sleep(duration: Duration) -> Option<u8> {
    let deadline = Instant::now().checked_add(duration);
    let mut state = state();
    state.n_postponing += 1;
    while state.received.is_none() {
        let left = match deadline {
            Some(deadline) => deadline.saturating_duration_since(Instant::now()),
            None => Duration::MAX,
        };
        if left.is_zero() {
            break;
        }
        let waited = RECEIVED.wait_timeout(state, left);
        state = waited.unwrap_or_else(PoisonError::into_inner).0;
    }
    state.n_postponing -= 1;
    let signal = state.received.take()?;
    u8::try_from(128 + signal).ok()
}

/// Ends the process as if nobody had caught the signal.
fn end(signal: i32) {
    // It does not return for these signals; if it did, the program would go on.
    let _ = signal_hook::low_level::emulate_default_handler(signal);
}

/// Whether this process was started with the signal ignored.
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}
