//! A check's verdict from what it found and what it could not look at.

use crate::doctor::{Seen, Severity, Verdict, found, seen};

pub(super) const PLAYBOOK: &str = "NVIDIA/dgx-spark-playbooks, nvidia/connect-two-sparks";

/// What is shown of a finding's evidence.
const MOST_EVIDENCE: usize = 24;

/// The finding, if there is evidence of one; else what was not looked at; else all is well.
pub(super) fn concluded(
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
