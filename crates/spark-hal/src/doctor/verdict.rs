//! What a check can say.

use std::fmt;

use super::redact::redacted;

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
    /// Nothing can be said of the thing, and what that would take: it is idle, cannot be read, does not
    /// answer, or is hidden by something else. It may be well or not.
    NotExamined(String),
    /// The check says nothing about this machine, and why.
    NotApplicable(String),
    /// Something is the matter.
    Found(Finding),
    /// The check did not end in time; counted with what was not examined.
    TimedOut,
}

pub(crate) fn not_examined(needed: impl Into<String>) -> Verdict {
    Verdict::NotExamined(needed.into())
}

pub(crate) fn not_applicable(why: &str) -> Verdict {
    Verdict::NotApplicable(why.to_owned())
}

pub(crate) fn found(
    severity: Severity,
    message: impl Into<String>,
    evidence: Vec<Seen>,
    fix: impl Into<String>,
) -> Verdict {
    Verdict::Found(Finding {
        severity,
        message: message.into(),
        evidence,
        fix: fix.into(),
    })
}

pub(crate) fn seen(source: impl Into<String>, said: impl ToString) -> Seen {
    Seen {
        source: source.into(),
        said: redacted(&said.to_string()),
    }
}
