//! What is wrong with this machine for GPU work, and how to mend it.
//!
//! ```text
//! Facts (files, machine, a few GPU samples, environment)
//!    |---> every check, each within a time limit --> Verdict
//!    v
//! Report --> text, JSON --> Publication: the same without what names the machine
//! ```
//!
//! A check passes only what it has looked at. An idle GPU says nothing of its clocks under load, an
//! unreadable file nothing of what stands in it: those are "not examined", with what it would take, and
//! counted apart.
//!
//! Clocks, power and rates of a machine at work (`load.*`) are judged where somebody has measured them: [`load`] is their data.
//!
//! A check reads files and what the drivers said; it starts no process and needs no
//! root. Its id never changes meaning. Every finding has its evidence (where, what it
//! said), a fix, and a source. Serial numbers and UUIDs are never kept, and whatever
//! looks like one is taken out of quoted text; so is the user's home directory.
//!
//! The traps are those of DGX Spark; most checks do not apply to other machines and
//! say so. Linux only.

mod check;
mod checks;
mod examine;
mod facts;
mod history;
mod known_bad;
pub mod load;
mod publication;
mod redact;
mod render;
mod report;
mod verdict;

pub use check::Check;
pub(crate) use check::Examination;
pub use examine::{CHECK_LIMIT, checks, examine, examine_facts};
pub use facts::Facts;
pub use load::Load;
pub use publication::Publication;
pub use report::{Outcome, Report};
pub use verdict::{Finding, Seen, Severity, Verdict};
pub(crate) use verdict::{found, not_applicable, not_examined, seen};

#[cfg(test)]
mod tests;
