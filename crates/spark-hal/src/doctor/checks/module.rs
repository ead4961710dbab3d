//! The driver's kernel module: which one it is, and whether the next kernel has one.

use crate::doctor::check::{Check, Examination};
use crate::doctor::facts::Facts;
use crate::doctor::verdict::{Severity, Verdict, found, not_applicable, not_examined, seen};
use crate::gpu::Gpu;
use crate::reading::Reading;

use super::applies::{no_gpu, other_than_spark};

pub(super) const CHECKS: &[Examination<Facts>] = &[
    Examination {
        check: Check {
            id: "driver.open-module",
            title: "the driver's kernel module is the open one, without which a GB10 does not work",
            source: "Start9Labs/start-technologies pull request #3693 (2026-08-14); NVIDIA's README of 580.159.03, \
                 kernel_open: Blackwell is supported by the open modules only",
        },
        run: open_module,
    },
    Examination {
        check: Check {
            id: "driver.next-kernel",
            title: "every installed kernel newer than the running one has an NVIDIA module",
            source: "hasso5703/dgx-spark-qwen38 issue #26",
        },
        run: next_kernel,
    },
];

fn open_module(facts: &Facts) -> Verdict {
    const PATH: &str = "/proc/driver/nvidia/version";
    if !facts.machine.platform.has_gb10 {
        return other_than_spark(facts).unwrap_or_else(|| {
            not_examined(
                "needs to know whether the GPU is a GB10: /sys/bus/pci/devices, or a driver",
            )
        });
    }
    let text = match facts.root.text(PATH) {
        Reading::Value(text) => text,
        Reading::NotSupported => return not_examined(format!("needs {PATH}: a loaded driver")),
        Reading::Failed(why) => return not_examined(format!("needs {PATH}: {why}")),
    };
    let banner = text.lines().find(|line| line.starts_with("NVRM version:"));
    match banner {
        Some(banner) if banner.contains(" Open Kernel Module ") => Verdict::Passed,
        Some(banner) if banner.contains(" Kernel Module ") => {
            let works = facts.machine.gpus.iter().any(Gpu::is_usable);
            found(
                if works {
                    Severity::Warning
                } else {
                    Severity::Error
                },
                if works {
                    "the driver's kernel module is the proprietary one: it works here and now, but not from \
                     580.173.02 on"
                } else {
                    "the driver's kernel module is the proprietary one, which does not start a GB10"
                },
                vec![seen(PATH, banner)],
                "sudo apt install nvidia-driver-580-open && sudo reboot",
            )
        }
        _ => not_examined(format!(
            "needs a line in {PATH} that says which module it is"
        )),
    }
}

fn next_kernel(facts: &Facts) -> Verdict {
    const MODULES: &str = "/lib/modules";
    if let Some(verdict) = no_gpu(facts) {
        return verdict;
    }
    if facts.machine.platform.is_container {
        return not_applicable("in a container, which has no kernels");
    }
    let Reading::Value(running) = &facts.machine.kernel else {
        return not_examined("needs /proc/sys/kernel/osrelease, to know which kernels are newer");
    };
    let kernels = facts.root.entries(MODULES).value().unwrap_or_default();
    let list_of = |kernel: &String| facts.root.text(&format!("{MODULES}/{kernel}/modules.dep"));
    let is_next = |kernel: &String| release_numbers(kernel) > release_numbers(running);
    let unread = kernels
        .iter()
        .find(|kernel| is_next(kernel) && matches!(list_of(kernel), Reading::Failed(_)));
    let has_module = |kernel: &String| {
        let list = list_of(kernel).value()?;
        let names = list
            .lines()
            .filter_map(|line| line.split(':').next()?.rsplit('/').next());
        Some(names.into_iter().any(|name| name.starts_with("nvidia.ko")))
    };
    let known: Vec<(&String, bool)> = kernels
        .iter()
        .filter_map(|kernel| Some((kernel, has_module(kernel)?)))
        .collect();
    let n_with = known.iter().filter(|(_, has)| *has).count();
    if n_with == 0 {
        return not_examined(format!(
            "needs {MODULES}/*/modules.dep that name the driver's module"
        ));
    }
    let without: Vec<&(&String, bool)> = known
        .iter()
        .filter(|(kernel, has)| !has && is_next(kernel))
        .collect();
    if without.is_empty() {
        return match unread {
            Some(kernel) => not_examined(format!("needs {MODULES}/{kernel}/modules.dep")),
            None => Verdict::Passed,
        };
    }
    let evidence = without
        .iter()
        .map(|(kernel, _)| seen(format!("{MODULES}/{kernel}/modules.dep"), "no nvidia.ko"));
    found(
        Severity::Warning,
        "a newer kernel, which the next boot takes, has no NVIDIA module: there is no GPU then",
        evidence.collect(),
        format!(
            "sudo apt install linux-modules-nvidia-580-open-{}",
            without[0].0
        ),
    )
}

/// The numbers that a kernel's release begins with, which boot menus sort by.
fn release_numbers(release: &str) -> Vec<u64> {
    let parts = release.split(['.', '-', '_', '+']);
    parts.map_while(|part| part.parse().ok()).collect()
}
