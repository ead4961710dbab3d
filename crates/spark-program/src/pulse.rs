//! Lines on stderr in the place of a bar that nobody sees.
//!
//! ```text
//! stderr is a terminal   the bar of `progress`
//! it is none             every ten seconds   pictures, teacher: 240 of 1200, 95 s left
//! ```
//!
//! For work of minutes, whose log would be silent otherwise.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use indicatif::ProgressBar;

use crate::failure::tell;

/// How long nothing is said of work under way.
const SILENCE: Duration = Duration::from_secs(10);

/// Says every ten seconds how far a bar is that is not drawn, until it is dropped.
///
/// A thread of its own, as the work may be at one piece for longer than that.
#[derive(Debug)]
pub struct Pulse {
    /// Gone, it ends the thread.
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Pulse {
    /// Of this bar; nothing is said where it is drawn.
    #[must_use = "it speaks while it lives"]
    pub fn of(bar: &ProgressBar) -> Self {
        Self::every(SILENCE, bar, tell)
    }

    fn every(silence: Duration, bar: &ProgressBar, say: impl Fn(String) + Send + 'static) -> Self {
        let (end, ended) = channel::<()>();
        let of_thread = bar.clone();
        let speak = move || {
            while ended.recv_timeout(silence) == Err(RecvTimeoutError::Timeout) {
                let (what, position) = (of_thread.message(), of_thread.position());
                say(match of_thread.length() {
                    Some(length) => {
                        let left = left(of_thread.eta(), position, length);
                        format!("{what}: {position} of {length}{left}")
                    }
                    None => what,
                });
            }
        };
        // Without the thread the work goes on unannounced.
        let thread = bar
            .is_hidden()
            .then(|| std::thread::Builder::new().spawn(speak).ok());
        Self {
            end: Some(end),
            thread: thread.flatten(),
        }
    }
}

/// How long it will take at the pace so far, as the bar has it; nothing before the first piece is done, and of the last.
fn left(eta: Duration, position: u64, length: u64) -> String {
    let seconds = eta.as_secs();
    match seconds {
        _ if position == 0 || position >= length || seconds == 0 => String::new(),
        0..120 => format!(", {seconds} s left"),
        _ => format!(", {} min left", seconds.div_ceil(60)),
    }
}

impl Drop for Pulse {
    fn drop(&mut self) {
        self.end = None;
        if let Some(thread) = self.thread.take() {
            // It cannot have panicked: a line that cannot be written is none of its concern.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_that_is_not_drawn_is_told_of_until_it_is_over() {
        let bar = ProgressBar::hidden().with_message("pictures");
        bar.set_length(8);
        bar.set_position(3);
        let (lines, told) = channel();
        let say = move |line| lines.send(line).unwrap();
        let pulse = Pulse::every(Duration::from_millis(1), &bar, say);
        for _ in 0..2 {
            assert_eq!(told.recv().unwrap(), "pictures: 3 of 8");
        }
        drop(pulse);
        for (seconds, at, words) in [
            (95, 1, ", 95 s left"),
            (7200, 1, ", 120 min left"),
            (95, 0, ""),
            (95, 8, ""),
            (0, 1, ""),
        ] {
            assert_eq!(left(Duration::from_secs(seconds), at, 8), words);
        }
        let n_late = told.iter().count(); // it ends, as nobody speaks any more
        assert!(n_late < 1000, "{n_late}");
    }
}
