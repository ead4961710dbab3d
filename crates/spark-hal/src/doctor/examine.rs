//! Runs every check, each within a time limit.

use std::sync::Arc;
use std::time::Duration;

use crate::in_time::{self, NoAnswer};

use super::check::{Check, Examination};
use super::checks::ALL;
use super::facts::Facts;
use super::report::{Outcome, Report};
use super::verdict::Verdict;

/// How long one check may take.
pub const CHECK_LIMIT: Duration = Duration::from_secs(2);

/// Every check, in the order of the report.
#[must_use]
pub fn checks() -> Vec<&'static Check> {
    all().map(|examination| &examination.check).collect()
}

fn all() -> impl Iterator<Item = &'static Examination<Facts>> {
    ALL.iter().copied().flatten()
}

/// Examines the running machine. Takes below a second where nothing hangs; while a GPU
/// is busy it watches it for half a second more.
#[must_use]
pub fn examine() -> Report {
    examine_facts(Facts::gather())
}

/// Runs every check on facts that were gathered before, each with a time limit.
#[must_use]
pub fn examine_facts(facts: Facts) -> Report {
    let facts = Arc::new(facts);
    let home = facts.variable("HOME").filter(|home| home.len() > 1);
    let outcomes = all()
        .map(|examination| Outcome {
            check: &examination.check,
            verdict: without_home(run_in_time(examination, &facts, CHECK_LIMIT), home),
        })
        .collect();
    Report {
        machine: facts.machine.summary(),
        outcomes,
        load: facts.load.clone(),
    }
}

/// Runs a check on a thread of its own; one that hangs (a dead disk, a wedged driver
/// behind a sysfs entry) is left behind.
pub(super) fn run_in_time(
    examination: &'static Examination<Facts>,
    facts: &Arc<Facts>,
    limit: Duration,
) -> Verdict {
    let facts = Arc::clone(facts);
    let name = format!("doctor {}", examination.check.id);
    match in_time::run(name, limit, move || (examination.run)(&facts)) {
        Ok(verdict) => verdict,
        Err(NoAnswer::TimedOut(_)) => Verdict::TimedOut,
        Err(NoAnswer::Panicked) => {
            Verdict::NotExamined("needs a check without a fault: this one panicked".to_owned())
        }
        Err(NoAnswer::NoThread(error)) => {
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
