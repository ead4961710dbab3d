//! What a check is, and how one is run.

use super::verdict::Verdict;

/// One check of the doctor: a trap, and where it is described.
#[derive(Debug, Clone, Copy)]
pub struct Check {
    /// Its stable name, `area.subject`.
    pub id: &'static str,
    /// What it looks for.
    pub title: &'static str,
    /// Where the trap is described.
    pub source: &'static str,
}

/// A check with the function that looks for its trap in facts that were gathered before: those of one machine
/// ([`Facts`](super::Facts)), or those of several ([`Cluster`](crate::cluster::Cluster)).
pub(crate) struct Examination<F: 'static> {
    pub(crate) check: Check,
    pub(crate) run: fn(&F) -> Verdict,
}
