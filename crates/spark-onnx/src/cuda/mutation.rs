//! Kernels that a test makes wrong on purpose: one place of their text is changed for what this thread loads.

use std::cell::Cell;

/// What stands in a kernel or a header, and what is to stand there.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Change {
    pub(crate) from: &'static str,
    pub(crate) to: &'static str,
}

thread_local! {
    static CURRENT: Cell<Option<Change>> = const { Cell::new(None) };
}

impl Change {
    /// `text`, changed where it says so.
    pub(super) fn of(self, text: &str) -> String {
        text.replace(self.from, self.to)
    }

    /// Calls `work` while this change is made of everything that is loaded.
    pub(crate) fn during<R>(self, work: impl FnOnce() -> R) -> R {
        CURRENT.set(Some(self));
        let result = work();
        CURRENT.set(None);
        result
    }
}

pub(super) fn current() -> Option<Change> {
    CURRENT.get()
}
