//! The outcome of every check.

use super::check::Check;
use super::load::Load;
use super::verdict::{Finding, Severity, Verdict};

/// A check with its outcome.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// The check that was run.
    pub check: &'static Check,
    /// What came of it.
    pub verdict: Verdict,
}

/// The outcome of every check.
///
/// # Examples
///
/// ```
/// use spark_hal::doctor;
///
/// let report = doctor::examine();
/// for (check, finding) in report.findings() {
///     println!("{}: {} {}", check.id, finding.message, finding.fix);
/// }
/// ```
#[derive(Debug, Clone)]
pub struct Report {
    /// The machine in one line.
    pub machine: String,
    /// The outcomes, in the order of [`super::checks()`].
    pub outcomes: Vec<Outcome>,
    /// What was measured under load, if it was.
    pub load: Option<Load>,
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
}
