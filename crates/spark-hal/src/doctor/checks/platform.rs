//! The machine as a whole: identity, the kernel's memory, processor.

use crate::doctor::check::{Check, Examination};
use crate::doctor::facts::Facts;
use crate::doctor::verdict::{Severity, Verdict, found, not_applicable, not_examined, seen};
use crate::reading::Reading;

use super::applies::other_than_spark;

pub(super) const CHECKS: &[Examination<Facts>] = &[
    Examination {
        check: Check {
            id: "platform.identity",
            title: "all signs agree on what machine this is",
            source: "canonical/secboot PR #560",
        },
        run: identity,
    },
    Examination {
        check: Check {
            id: "platform.cma",
            title: "the kernel's contiguous memory adds up",
            source: "NVIDIA/NV-Kernels pull requests #590, #591 (2026-09); MiaAI-Lab/\
                 DeepSeek-v4-Flash-DSpark-2x-DGX-Spark issue #259",
        },
        run: cma,
    },
    Examination {
        check: Check {
            id: "platform.cppc",
            title: "the processor picks its own clocks (CPPC autonomous mode)",
            source: "graham33/nixos-dgx-spark, option cppcAutonomousMode: off means a third of \
                 the memory bandwidth of one thread",
        },
        run: cppc,
    },
];

fn identity(facts: &Facts) -> Verdict {
    let platform = &facts.machine.platform;
    if !facts.has_signs() {
        return not_examined("needs /sys/class/dmi/id or /sys/bus/pci/devices");
    }
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

/// Pages that each processor may keep of a count to itself, so that the sum is off by them (Linux mm/vmstat.c, `stat_threshold`).
const PAGES_OF_A_PROCESSOR: u64 = 125;
/// Processors of a GB10, where they cannot be counted.
const PROCESSORS: u64 = 20;

/// By how much the kernel's count of free pages may be wrong on a healthy machine.
fn counting_error(facts: &Facts) -> u64 {
    let n_cores = facts.machine.cpu.cores.len() as u64;
    let processors = if n_cores == 0 { PROCESSORS } else { n_cores };
    let kernel = facts.machine.kernel.as_value();
    // NVIDIA names its kernels with large pages so.
    let has_large_pages = kernel.is_some_and(|release| release.ends_with("-64k"));
    let page_bytes = if has_large_pages { 64 << 10 } else { 4 << 10 };
    processors * PAGES_OF_A_PROCESSOR * page_bytes
}

/// As the file itself writes it.
fn kilobytes(bytes: u64) -> String {
    format!("{} kB", bytes / 1024)
}

fn cma(facts: &Facts) -> Verdict {
    const CMDLINE: &str = "/proc/cmdline";
    // Kernels from 7.0 on keep it without being asked; that it is so here follows from the counts.
    const KEPT: &str = "which Kexec HandOver keeps for the next kernel (inferred): cudaMalloc and RDMA cannot pin it \
         (ENOMEM)";
    const OFF: &str = "add `kho=off` to GRUB_CMDLINE_LINUX_DEFAULT in /etc/default/grub, then sudo update-grub && \
         sudo reboot";
    let info = &facts.machine.memory.meminfo;
    if !info.total_bytes.is_value() {
        return not_examined("needs /proc/meminfo");
    }
    let (total, free) = match (&info.cma_total_bytes, &info.cma_free_bytes) {
        (Reading::Value(total), Reading::Value(free)) => (total, free),
        (Reading::NotSupported, Reading::NotSupported) => {
            return not_applicable("this kernel has no contiguous memory area");
        }
        _ => return not_examined("needs CmaTotal and CmaFree in /proc/meminfo"),
    };
    if *free <= total.saturating_add(counting_error(facts)) {
        return Verdict::Passed;
    }
    let cmdline = facts.root.line(CMDLINE);
    let words = cmdline.as_ref().map(|line| line.split_whitespace());
    let setting = words.map(|mut words| words.rfind(|word| word.starts_with("kho=")));
    let (told, cause, fix) = match &setting {
        Reading::Value(Some("kho=off")) => (
            "kho=off",
            "though Kexec HandOver is off: something else keeps memory that cudaMalloc and RDMA cannot pin",
            "report the kernel's version to its maker; an older kernel may do better",
        ),
        Reading::Value(Some(_)) => (
            "kho= with another value than off",
            "as Kexec HandOver keeps memory for the next kernel, which cudaMalloc and RDMA cannot pin (ENOMEM)",
            "take `kho=...` out of GRUB_CMDLINE_LINUX_DEFAULT in /etc/default/grub, put `kho=off` there, then \
             sudo update-grub && sudo reboot",
        ),
        Reading::Value(None) => ("no kho=off", KEPT, OFF),
        Reading::NotSupported | Reading::Failed(_) => ("cannot be read", KEPT, OFF),
    };
    found(
        Severity::Warning,
        format!("the kernel counts more free contiguous memory than it has, {cause}"),
        vec![
            seen("/proc/meminfo CmaTotal", kilobytes(*total)),
            seen("/proc/meminfo CmaFree", kilobytes(*free)),
            seen(CMDLINE, told),
        ],
        fix,
    )
}

fn cppc(facts: &Facts) -> Verdict {
    const PARAMETER: &str = "/sys/module/cppc_cpufreq/parameters/auto_sel_mode";
    const POLICIES: &str = "/sys/devices/system/cpu/cpufreq";
    if let Some(verdict) = other_than_spark(facts) {
        return verdict;
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
        (None, Some(value)) if states.is_empty() && matches!(value.as_str(), "1" | "Y") => {
            return Verdict::Passed;
        }
        (None, _) if !states.is_empty() && states.iter().all(|(_, state)| state == "1") => {
            return Verdict::Passed;
        }
        _ => {
            return not_examined(format!(
                "needs 0 or 1 in {POLICIES}/policy*/auto_select or {PARAMETER}"
            ));
        }
    };
    found(
        Severity::Warning,
        "the processor does not pick its own clocks: one thread gets about a third of the \
         memory bandwidth",
        vec![evidence],
        "add `cppc_cpufreq.auto_sel_mode=1` to the kernel command line and reboot",
    )
}
