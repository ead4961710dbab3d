//! Where models are loaded from.

use crate::doctor::check::{Check, Examination};
use crate::doctor::facts::Facts;
use crate::doctor::verdict::{Severity, Verdict, found, not_applicable, not_examined, seen};
use crate::reading::Reading;

pub(super) const CHECKS: &[Examination<Facts>] = &[Examination {
    check: Check {
        id: "storage.nvme-link",
        title: "NVMe drives have their full PCIe link",
        source: "ggml-org/llama.cpp PR #18012: loading is bound by the drive once mmap is avoided",
    },
    run: nvme_link,
}];

fn nvme_link(facts: &Facts) -> Verdict {
    const DRIVES: &str = "/sys/class/nvme";
    let drives = match facts.root.entries(DRIVES) {
        Reading::Value(drives) => drives,
        Reading::NotSupported if facts.root.exists("/sys/class") => Vec::new(),
        _ => return not_examined(format!("needs {DRIVES}")),
    };
    if drives.is_empty() {
        return not_applicable("no NVMe drive");
    }
    let mut evidence = Vec::new();
    let mut unknown = None;
    for drive in &drives {
        for what in ["speed", "width"] {
            let entry = |state: &str| format!("{DRIVES}/{drive}/device/{state}_link_{what}");
            let (now, most) = (
                facts.root.line(&entry("current")),
                facts.root.line(&entry("max")),
            );
            let numbers = [&now, &most].map(|text| leading_number(text.as_value()?));
            match numbers {
                [Some(is), Some(could)] if is < could => {
                    let said = format!("{now} of {most}");
                    evidence.push(seen(entry("current"), said));
                }
                [Some(_), Some(_)] => {}
                _ => unknown = Some(entry("current")),
            }
        }
    }
    if evidence.is_empty() {
        return match unknown {
            Some(entry) => not_examined(format!("needs a number in {entry} and its maximum")),
            None => Verdict::Passed,
        };
    }
    found(
        Severity::Note,
        "an NVMe drive uses less than its PCIe link could",
        evidence,
        "a sleeping drive may report less; if it stays so under load, reseat it or update its \
         firmware, and load models with direct I/O instead of mmap",
    )
}

/// `16.0 GT/s PCIe` is 16; `Unknown` is no number.
fn leading_number(text: &str) -> Option<f64> {
    text.split_whitespace().next()?.parse().ok()
}
