//! One place of a page that is wrong.

use std::fmt;

/// Printed as `page:line: message`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Finding {
    pub(super) page: String,
    /// From 1; 0 when the whole page is meant.
    pub(super) line: usize,
    pub(super) message: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.page, self.line, self.message)
    }
}
