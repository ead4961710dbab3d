//! Where models are loaded from.

use super::{Check, Facts, Severity, Verdict, found, not_applicable, seen};

pub(super) const CHECKS: &[Check] = &[Check {
    id: "storage.nvme-link",
    title: "NVMe drives have their full PCIe link",
    source: "ggml-org/llama.cpp PR #18012: loading is bound by the drive once mmap is avoided",
    run: nvme_link,
}];

fn nvme_link(facts: &Facts) -> Verdict {
    const DRIVES: &str = "/sys/class/nvme";
    let drives = facts.root.entries(DRIVES).value().unwrap_or_default();
    if drives.is_empty() {
        return not_applicable("no NVMe drive");
    }
    let mut evidence = Vec::new();
    for drive in &drives {
        for what in ["speed", "width"] {
            let entry = |state: &str| format!("{DRIVES}/{drive}/device/{state}_link_{what}");
            let (now, most) = (
                facts.root.line(&entry("current")),
                facts.root.line(&entry("max")),
            );
            if let (Some(now), Some(most)) = (now.as_value(), most.as_value())
                && leading_number(now) < leading_number(most)
            {
                evidence.push(seen(entry("current"), format!("{now} of {most}")));
            }
        }
    }
    if evidence.is_empty() {
        return Verdict::Passed;
    }
    found(
        Severity::Note,
        "an NVMe drive uses less than its PCIe link could",
        evidence,
        "a sleeping drive may report less; if it stays so under load, reseat it or update its \
         firmware, and load models with direct I/O instead of mmap",
    )
}

/// `16.0 GT/s PCIe` is 16; no number is 0, so that two unknown words are equal.
fn leading_number(text: &str) -> f64 {
    text.split_whitespace()
        .next()
        .and_then(|word| word.parse().ok())
        .unwrap_or(0.0)
}
