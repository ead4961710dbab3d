//! What is wrong with this machine for GPU work, and how to mend it.
//!
//! ```text
//! Facts (files, machine, a few GPU samples, environment)
//!    |---> every check, each within a time limit --> Verdict
//!    v
//! Report --> text, JSON
//! ```
//!
//! A check passes only what it has looked at. An idle GPU says nothing of its clocks under load, an
//! unreadable file nothing of what stands in it: those are "not examined", with what it would take, and
//! counted apart.
//!
//! A check reads files and what the drivers said; it starts no process and needs no
//! root. Its id never changes meaning. Every finding has its evidence (where, what it
//! said), a fix, and a source. Serial numbers and UUIDs are never read, and whatever
//! looks like one is taken out of quoted text; so is the user's home directory.
//!
//! The traps are those of DGX Spark; most checks do not apply to other machines and
//! say so.

mod checks;
mod facts;
mod render;

use std::fmt;
use std::sync::{Arc, mpsc};
use std::time::Duration;

pub use facts::Facts;

/// How long one check may take.
pub const CHECK_LIMIT: Duration = Duration::from_secs(2);

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum Severity {
    /// Good to know; nothing to mend.
    Note,
    /// Something is slower or less safe than it could be.
    Warning,
    /// Something does not work.
    Error,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        })
    }
}

/// Where something was seen and what it said.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Seen {
    /// A path, a call or a variable.
    pub source: String,
    /// Its words, shortened, without anything that looks like a serial number.
    pub said: String,
}

/// What a check found.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// What is the matter, in a sentence.
    pub message: String,
    /// Why one can say so.
    pub evidence: Vec<Seen>,
    /// What to do: a command where there is one, a sentence otherwise.
    pub fix: String,
}

/// The outcome of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum Verdict {
    /// The thing was looked at, and nothing is the matter.
    Passed,
    /// The thing was not looked at, and what that would take: it is idle, cannot be read, or does not
    /// answer. It may be well or not.
    NotExamined(String),
    /// The check says nothing about this machine, and why.
    NotApplicable(String),
    /// Something is the matter.
    Found(Finding),
    /// The check did not end in time; counted with what was not examined.
    TimedOut,
}

/// One check.
#[derive(Debug, Clone, Copy)]
pub struct Check {
    /// Its stable name, `area.subject`.
    pub id: &'static str,
    /// What it looks for.
    pub title: &'static str,
    /// Where the trap is described.
    pub source: &'static str,
    run: fn(&Facts) -> Verdict,
}

/// Every check, in the order of the report.
#[must_use]
pub fn checks() -> Vec<&'static Check> {
    checks::ALL.iter().copied().flatten().collect()
}

/// A check with its outcome.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// The check.
    pub check: &'static Check,
    /// What came of it.
    pub verdict: Verdict,
}

/// The outcome of every check.
#[derive(Debug, Clone)]
pub struct Report {
    /// The machine in one line.
    pub machine: String,
    /// The outcomes, in the order of [`checks`].
    pub outcomes: Vec<Outcome>,
}

impl Report {
    /// The worst finding's severity; `None` if nothing was found.
    #[must_use]
    pub fn worst(&self) -> Option<Severity> {
        self.findings().map(|(_, finding)| finding.severity).max()
    }

    /// The findings, in the order of the checks.
    pub fn findings(&self) -> impl Iterator<Item = (&'static Check, &Finding)> {
        self.outcomes
            .iter()
            .filter_map(|outcome| match &outcome.verdict {
                Verdict::Found(finding) => Some((outcome.check, finding)),
                _ => None,
            })
    }

    /// The outcome of one check.
    #[must_use]
    pub fn verdict(&self, id: &str) -> Option<&Verdict> {
        let outcome = self
            .outcomes
            .iter()
            .find(|outcome| outcome.check.id == id)?;
        Some(&outcome.verdict)
    }

    /// For people: the worst first, then what was not examined; passed checks are only counted.
    #[must_use]
    pub fn to_text(&self) -> String {
        render::text(self)
    }

    /// For programs: every check with its outcome, schema `spark-doctor/2`.
    #[must_use]
    pub fn to_json(&self) -> String {
        render::json(self)
    }
}

/// Examines the running machine. Takes below a second where nothing hangs; while a GPU
/// is busy it watches it for half a second more.
#[must_use]
pub fn examine() -> Report {
    examine_facts(Facts::gather())
}

/// Examines these facts.
#[must_use]
pub fn examine_facts(facts: Facts) -> Report {
    let facts = Arc::new(facts);
    let home = facts.variable("HOME").filter(|home| home.len() > 1);
    let outcomes = checks()
        .into_iter()
        .map(|check| Outcome {
            check,
            verdict: without_home(run_in_time(check, &facts, CHECK_LIMIT), home),
        })
        .collect();
    Report {
        machine: facts.machine.summary(),
        outcomes,
    }
}

/// Runs a check on a thread of its own; one that hangs (a dead disk, a wedged driver
/// behind a sysfs entry) is left behind.
fn run_in_time(check: &'static Check, facts: &Arc<Facts>, limit: Duration) -> Verdict {
    let (done, is_done) = mpsc::channel();
    let facts = Arc::clone(facts);
    let spawned = std::thread::Builder::new()
        .name(format!("doctor {}", check.id))
        .spawn(move || {
            // The report may have gone on without this check.
            let _ = done.send((check.run)(&facts));
        });
    match spawned {
        Ok(_) => match is_done.recv_timeout(limit) {
            Ok(verdict) => verdict,
            Err(mpsc::RecvTimeoutError::Timeout) => Verdict::TimedOut,
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                Verdict::NotExamined("needs a check without a fault: this one panicked".to_owned())
            }
        },
        Err(error) => {
            Verdict::NotExamined(format!("needs a thread, which the system refuses: {error}"))
        }
    }
}

/// Writes `~` for the home directory in evidence: it names the user.
fn without_home(mut verdict: Verdict, home: Option<&str>) -> Verdict {
    if let (Verdict::Found(finding), Some(home)) = (&mut verdict, home) {
        for seen in &mut finding.evidence {
            if let Some(rest) = seen
                .source
                .strip_prefix(home)
                .filter(|rest| rest.starts_with('/'))
            {
                seen.source = format!("~{rest}");
            }
        }
    }
    verdict
}

/// A shortened quotation without anything that looks like an identifier of this machine.
pub(crate) fn redacted(text: &str) -> String {
    let words: Vec<&str> = text
        .split_inclusive(|c: char| c.is_whitespace() || c == ',')
        .collect();
    let shown: String = words
        .into_iter()
        .map(|word| {
            let bare = word.trim_end_matches(|c: char| c.is_whitespace() || c == ',');
            let upper = bare.to_ascii_uppercase();
            let is_marked = ["GPU-", "MIG-", "UUID", "SERIAL"]
                .iter()
                .any(|mark| upper.contains(mark));
            if is_marked || is_uuid(bare) {
                "[removed] "
            } else {
                word
            }
        })
        .collect();
    crate::reading::quote(shown.trim())
}

/// Whether a word holds 8-4-4-4-12 hexadecimal digits.
fn is_uuid(word: &str) -> bool {
    let plain = word.trim_matches(|c: char| !c.is_ascii_alphanumeric());
    let groups: Vec<&str> = plain.split('-').collect();
    let lengths = [8, 4, 4, 4, 12];
    groups.len() == 5
        && groups.iter().zip(lengths).all(|(group, length)| {
            group.len() == length && group.bytes().all(|byte| byte.is_ascii_hexdigit())
        })
}

#[cfg(test)]
mod tests;
