//! Work that may hang, on a thread of its own: it costs a time limit and not the program.
//!
//! ```text
//! caller            thread
//!   | -- work -----> |  runs it
//!   | <-- answer --- |
//!   |   or: time over -> the thread is left behind
//! ```

use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoAnswer {
    /// The system refuses another thread.
    #[error("the system refuses a thread: {0}")]
    NoThread(#[from] std::io::Error),
    /// The work was not done in time.
    #[error("no answer within {0:?}")]
    TimedOut(Duration),
    /// The work panicked, which ended its thread.
    #[error("its thread has ended")]
    Panicked,
}

/// Runs `work` on a thread of this name and waits for its answer at most `limit`.
///
/// # Errors
///
/// Why there is no answer.
pub(crate) fn run<T: Send + 'static>(
    thread: impl Into<String>,
    limit: Duration,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, NoAnswer> {
    let (done, is_done) = mpsc::channel();
    std::thread::Builder::new()
        .name(thread.into())
        .spawn(move || {
            // Nobody waits any more if this fails, and nothing is left to do.
            let _ = done.send(work());
        })?;
    is_done.recv_timeout(limit).map_err(|error| match error {
        RecvTimeoutError::Timeout => NoAnswer::TimedOut(limit),
        RecvTimeoutError::Disconnected => NoAnswer::Panicked,
    })
}
