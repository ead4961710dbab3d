//! The checks, by area.
//!
//! Limits that are not in a check's source (8 GiB available, 85 degrees, 16 GiB of
//! locked memory, 90 % busy) are this crate's choice.

mod container;
mod driver;
mod gpu;
mod memory;
mod network;
mod platform;
mod python;
mod storage;

use super::{Check, Facts, Finding, Seen, Severity, Verdict, redacted};

/// Every check, in the order of the report.
pub(super) static ALL: &[&[Check]] = &[
    platform::CHECKS,
    driver::CHECKS,
    gpu::CHECKS,
    memory::CHECKS,
    network::CHECKS,
    storage::CHECKS,
    container::CHECKS,
    python::CHECKS,
];

const NOT_SPARK: &str = "concerns DGX Spark only";

fn not_applicable(why: &str) -> Verdict {
    Verdict::NotApplicable(why.to_owned())
}

fn found(
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

fn seen(source: impl Into<String>, said: impl ToString) -> Seen {
    Seen {
        source: source.into(),
        said: redacted(&said.to_string()),
    }
}
