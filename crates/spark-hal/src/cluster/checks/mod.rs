//! The checks of a cluster, by subject. Each says what it found or what it lacks; a finding comes before what could not be looked at.
//!
//! Limits that are not in a check's source (0.1 s between two clocks) are this crate's choice.

mod addresses;
mod bandwidth;
mod causes;
mod links;
mod measured;
mod persistence;
mod rdma;
mod software;
mod way;

use crate::doctor::{Examination, Seen, Severity, Verdict, found, seen};

use super::facts::Cluster;

pub(super) const PLAYBOOK: &str = "NVIDIA/dgx-spark-playbooks, nvidia/connect-two-sparks";

/// Every check, in the order of the report.
pub(super) static ALL: &[&[Examination<Cluster>]] = &[
    links::CHECKS,
    addresses::CHECKS,
    rdma::CHECKS,
    software::CHECKS,
    persistence::CHECKS,
    measured::CHECKS,
    bandwidth::CHECKS,
];

/// What is shown of a finding's evidence.
const MOST_EVIDENCE: usize = 24;

/// The finding, if there is evidence of one; else what was not looked at; else all is well.
fn concluded(
    severity: Severity,
    message: impl Into<String>,
    mut evidence: Vec<Seen>,
    fix: impl Into<String>,
    unseen: Option<Verdict>,
) -> Verdict {
    let n_more = evidence.len().saturating_sub(MOST_EVIDENCE);
    if n_more > 0 {
        evidence.truncate(MOST_EVIDENCE);
        evidence.push(seen("and more like these", n_more));
    }
    match unseen {
        _ if !evidence.is_empty() => found(severity, message, evidence, fix),
        Some(verdict) => verdict,
        None => Verdict::Passed,
    }
}
