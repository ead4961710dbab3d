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

/// Why a check does not run here, if the traps of DGX Spark are not those of this machine.
fn other_than_spark(facts: &Facts) -> Option<Verdict> {
    if facts.is_spark() {
        None
    } else if facts.has_signs() {
        Some(not_applicable("concerns DGX Spark only"))
    } else {
        Some(not_examined(
            "needs to know whether this is a DGX Spark: /sys/class/dmi/id or /sys/bus/pci/devices",
        ))
    }
}

/// Why a check of GPUs does not run here, if there is none.
fn no_gpu(facts: &Facts) -> Option<Verdict> {
    if !facts.machine.gpus.is_empty() {
        None
    } else if facts.root.entries("/sys/bus").is_value() {
        Some(not_applicable("no NVIDIA GPU"))
    } else {
        Some(not_examined(
            "needs to know whether there is an NVIDIA GPU: /sys/bus/pci/devices, or a driver",
        ))
    }
}

/// Why a check of unified memory does not run here.
fn no_unified(facts: &Facts) -> Option<Verdict> {
    let gpus = &facts.machine.gpus;
    if gpus.iter().any(crate::gpu::Gpu::is_unified) {
        return None;
    }
    if let Some(verdict) = no_gpu(facts) {
        return Some(verdict);
    }
    if gpus.iter().all(|gpu| gpu.memory.is_value()) {
        return Some(not_applicable("no GPU with unified memory"));
    }
    Some(not_examined(
        "needs to know whose memory the GPU works in: CUDA, NVML or /proc/meminfo",
    ))
}

fn not_examined(needed: impl Into<String>) -> Verdict {
    Verdict::NotExamined(needed.into())
}

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
