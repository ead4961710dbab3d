//! A bar on stderr for work that takes a while; nothing is drawn where stderr is no terminal.

use std::sync::{Mutex, PoisonError};

use indicatif::{ProgressBar, ProgressStyle};

/// The bar that is drawn, for lines of the log to go around it.
static DRAWN: Mutex<Option<ProgressBar>> = Mutex::new(None);

/// A bar of `len` steps; without a length it waits for the work to set one.
pub fn progress(len: Option<u64>) -> ProgressBar {
    let bar = len.map_or_else(ProgressBar::no_length, ProgressBar::new);
    let style = ProgressStyle::with_template("{msg:32} {wide_bar} {pos}/{len} {eta}");
    let bar = bar.with_style(style.expect("a template whose words indicatif knows"));
    *DRAWN.lock().unwrap_or_else(PoisonError::into_inner) = Some(bar.clone());
    bar
}

/// Writes to stderr with the bar out of the way.
pub(crate) fn aside<T>(write: impl FnOnce() -> T) -> T {
    let drawn = DRAWN.lock().unwrap_or_else(PoisonError::into_inner).clone();
    match drawn {
        Some(bar) if !bar.is_finished() => bar.suspend(write),
        _ => write(),
    }
}
