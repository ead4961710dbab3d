//! What a check is.

use super::facts::Facts;
use super::verdict::Verdict;

/// One check of the doctor: a trap, and how it is looked for.
#[derive(Debug, Clone, Copy)]
pub struct Check {
    /// Its stable name, `area.subject`.
    pub id: &'static str,
    /// What it looks for.
    pub title: &'static str,
    /// Where the trap is described.
    pub source: &'static str,
    /// Looks for the trap in facts that were gathered before.
    pub(super) run: fn(&Facts) -> Verdict,
}
