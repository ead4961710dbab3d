//! The machine as a whole: identity, kernel, processor.

use super::{Check, Facts, NOT_SPARK, Severity, Verdict, found, not_applicable, seen};
use crate::reading::Reading;

pub(super) const CHECKS: &[Check] = &[
    Check {
        id: "platform.identity",
        title: "all signs agree on what machine this is",
        source: "canonical/secboot PR #560",
        run: identity,
    },
    Check {
        id: "platform.kernel",
        title: "the kernel is not one with known faults",
        source: "issue reports on 7.0.0-1019-nvidia: RDMA registration fails with ENOMEM",
        run: kernel,
    },
    Check {
        id: "platform.cma",
        title: "the kernel's contiguous memory adds up",
        source: "issue reports on 7.0.0-1019-nvidia",
        run: cma,
    },
    Check {
        id: "platform.cppc",
        title: "the processor picks its own clocks (CPPC autonomous mode)",
        source: "graham33/nixos-dgx-spark, option cppcAutonomousMode: off means a third of \
                 the memory bandwidth of one thread",
        run: cppc,
    },
];

fn identity(facts: &Facts) -> Verdict {
    let platform = &facts.machine.platform;
    if platform.doubts.is_empty() {
        return Verdict::Passed;
    }
    let evidence = platform
        .evidence
        .iter()
        .map(|sign| seen(&*sign.source, &sign.said))
        .collect();
    found(
        Severity::Warning,
        platform.doubts.join("; "),
        evidence,
        "report this machine's strings: its vendor may use new ones",
    )
}

fn kernel(facts: &Facts) -> Verdict {
    let Reading::Value(release) = &facts.machine.kernel else {
        return not_applicable("the kernel's release is not readable");
    };
    if !release.starts_with("7.0.0-1019") {
        return Verdict::Passed;
    }
    found(
        Severity::Warning,
        "this kernel fails to register memory for RDMA",
        vec![seen("/proc/sys/kernel/osrelease", release)],
        "choose the previous kernel in the boot menu, and keep it until a newer one is out",
    )
}

fn cma(facts: &Facts) -> Verdict {
    let info = &facts.machine.memory.meminfo;
    let (Some(total), Some(free)) = (
        info.cma_total_bytes.as_value(),
        info.cma_free_bytes.as_value(),
    ) else {
        return not_applicable("this kernel has no contiguous memory area");
    };
    if *total > 0 || *free == 0 {
        return Verdict::Passed;
    }
    found(
        Severity::Warning,
        "the kernel counts free contiguous memory although it has none",
        vec![
            seen("/proc/meminfo CmaTotal", total),
            seen("/proc/meminfo CmaFree", free),
        ],
        "choose the previous kernel in the boot menu",
    )
}

fn cppc(facts: &Facts) -> Verdict {
    const PARAMETER: &str = "/sys/module/cppc_cpufreq/parameters/auto_sel_mode";
    const POLICIES: &str = "/sys/devices/system/cpu/cpufreq";
    if !facts.is_spark() {
        return not_applicable(NOT_SPARK);
    }
    // The state of every policy is stronger than the parameter that set it.
    let policies = facts.root.entries(POLICIES).value().unwrap_or_default();
    let states: Vec<(String, String)> = policies
        .iter()
        .filter(|name| name.starts_with("policy"))
        .filter_map(|name| {
            let path = format!("{POLICIES}/{name}/auto_select");
            let state = facts.root.line(&path).value()?;
            Some((path, state))
        })
        .collect();
    let off = states.iter().find(|(_, state)| state == "0");
    let parameter = facts.root.line(PARAMETER).value();
    let evidence = match (&off, &parameter) {
        (Some((path, state)), _) => seen(path, state),
        (None, Some(value)) if states.is_empty() && matches!(value.as_str(), "0" | "N") => {
            seen(PARAMETER, value)
        }
        (None, None) if states.is_empty() => return not_applicable("the kernel does not tell"),
        _ => return Verdict::Passed,
    };
    found(
        Severity::Warning,
        "the processor does not pick its own clocks: one thread gets about a third of the \
         memory bandwidth",
        vec![evidence],
        "add `cppc_cpufreq.auto_sel_mode=1` to the kernel command line and reboot",
    )
}
