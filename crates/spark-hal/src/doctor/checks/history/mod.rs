//! What has happened: the kernel's logs, with dates.

mod aged;

use crate::doctor::check::{Check, Examination};
use crate::doctor::facts::Facts;
use crate::doctor::history::xid::{XidAction, XidMeaning, meaning};
use crate::doctor::history::{Kind, PcieSeverity};
use crate::doctor::verdict::{Severity, Verdict};

use aged::{Judgement, QUOTED, count_of, examine, times};

pub(super) const CHECKS: &[Examination<Facts>] = &[
    Examination {
        check: Check {
            id: "memory.kernel-log",
            title: "the driver did not run out of memory",
            source: "NVIDIA/open-gpu-kernel-modules issue #1358, dgx-spark-playbooks issue #97",
        },
        run: driver_memory,
    },
    Examination {
        check: Check {
            id: "history.xid",
            title: "the driver reported no error of the GPU (Xid)",
            source: "https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html",
        },
        run: xid,
    },
    Examination {
        check: Check {
            id: "history.oom",
            title: "the kernel ended no process for want of memory",
            source: "Linux mm/oom_kill.c; awdemos/spark-doctor",
        },
        run: out_of_memory,
    },
    Examination {
        check: Check {
            id: "history.pcie-errors",
            title: "no error of PCI Express (AER)",
            source: "MiaAI-Lab/DeepSeek-v4-Flash-DSpark-2x-DGX-Spark issue #146: fatal AER of a ConnectX-7",
        },
        run: pcie_errors,
    },
    Examination {
        check: Check {
            id: "history.thermal",
            title: "nothing was too hot",
            source: "Linux drivers/thermal/thermal_core.c, kernel/reboot.c, mlx5/core/events.c",
        },
        run: thermal,
    },
    Examination {
        check: Check {
            id: "history.unclean-boot",
            title: "the machine was always shut down properly",
            source: "tonyd2wild/DeepSeek-v4-Flash-Vision-Exp-DSpark-1M-NVFP4-KV-2x-DGX-Spark issue #31",
        },
        run: unclean_boot,
    },
];

fn driver_memory(facts: &Facts) -> Verdict {
    examine(
        facts,
        |kind| *kind == Kind::DriverMemory,
        |found| Judgement {
            severity: Severity::Error,
            message: format!(
                "the driver ran out of memory {}: the host may have frozen or will",
                times(count_of(found))
            ),
            fix: "keep 8-10 GiB free: lower budgets to 0.80-0.87 of the memory, install earlyoom, \
                  switch swap off on a GPU host"
                .to_owned(),
        },
    )
}

fn xid(facts: &Facts) -> Verdict {
    examine(
        facts,
        |kind| matches!(kind, Kind::Xid(_) | Kind::GpuLost),
        |found| {
            let mut meant: Vec<(u32, XidMeaning, usize)> = found
                .iter()
                .filter_map(|(kind, tally)| match kind {
                    Kind::Xid(number) => {
                        Some((*number, meaning(*number, &tally.said), tally.count))
                    }
                    _ => None,
                })
                .collect();
            meant.sort_by_key(|(_, meaning, _)| std::cmp::Reverse(meaning.action));
            let action = meant
                .first()
                .map_or(XidAction::Nothing, |(_, meaning, _)| meaning.action);
            let is_lost = found.iter().any(|(kind, _)| **kind == Kind::GpuLost);
            let mut named: Vec<String> = meant
                .iter()
                .take(QUOTED)
                .map(|(number, meaning, count)| {
                    format!(
                        "Xid {number} {} ({}, {})",
                        times(*count),
                        meaning.words,
                        meaning.class.name()
                    )
                })
                .collect();
            let action = if is_lost { XidAction::Reboot } else { action };
            if is_lost {
                named.insert(0, "that it cannot reach or start the GPU".to_owned());
            }
            Judgement {
                severity: match action {
                    XidAction::Nothing => Severity::Note,
                    XidAction::RestartProgram | XidAction::AskSupport => Severity::Warning,
                    XidAction::ResetGpu | XidAction::Reboot => Severity::Error,
                },
                message: format!("the driver reported {}", named.join(", ")),
                fix: action.advice().to_owned(),
            }
        },
    )
}

fn out_of_memory(facts: &Facts) -> Verdict {
    examine(
        facts,
        |kind| matches!(kind, Kind::OutOfMemory { .. }),
        |found| {
            let of_groups = found
                .iter()
                .all(|(kind, _)| matches!(kind, Kind::OutOfMemory { of_group: true, .. }));
            let names: Vec<&str> = found
                .iter()
                .filter_map(|(kind, _)| match kind {
                    Kind::OutOfMemory { process, .. } => Some(process.as_str()),
                    _ => None,
                })
                .take(QUOTED)
                .collect();
            let whose = if of_groups {
                "a container's or service's limit was reached"
            } else {
                "the machine had no memory left"
            };
            Judgement {
                severity: Severity::Warning,
                message: format!(
                    "the kernel ended a process {}, as {whose}: {}",
                    times(count_of(found)),
                    names.join(", ")
                ),
                fix: if of_groups {
                    "raise the limit of that container or service (--memory, MemoryMax)"
                } else {
                    "keep 8-10 GiB free: lower budgets to 0.80-0.87 of the memory, install earlyoom"
                }
                .to_owned(),
            }
        },
    )
}

fn pcie_errors(facts: &Facts) -> Verdict {
    examine(
        facts,
        |kind| matches!(kind, Kind::Pcie { .. }),
        |found| {
            let worst = found.iter().filter_map(|(kind, _)| match kind {
                Kind::Pcie { severity, .. } => Some(*severity),
                _ => None,
            });
            let worst = worst.max().unwrap_or(PcieSeverity::Corrected);
            let mut devices: Vec<&str> = found
                .iter()
                .filter_map(|(kind, _)| match kind {
                    Kind::Pcie { severity, device } if *severity == worst => Some(device.as_str()),
                    _ => None,
                })
                .collect();
            devices.sort_unstable();
            devices.dedup();
            devices.truncate(QUOTED);
            let devices = devices.join(", ");
            match worst {
                PcieSeverity::Fatal => Judgement {
                    severity: Severity::Error,
                    message: format!(
                        "a fatal error of PCI Express at {devices}: what is behind that link does not work until \
                         a reboot"
                    ),
                    fix: "reboot; unplug the power for 60 s if it comes back, then update the firmware \
                          (sudo fwupdmgr update) or ask the vendor"
                        .to_owned(),
                },
                PcieSeverity::NonFatal => Judgement {
                    severity: Severity::Warning,
                    message: format!("an error of PCI Express that was not corrected at {devices}"),
                    fix: "check cable and card, then update the firmware (sudo fwupdmgr update)".to_owned(),
                },
                PcieSeverity::Corrected => Judgement {
                    severity: Severity::Note,
                    message: format!(
                        "errors of PCI Express at {devices}, {}, which the hardware corrected",
                        times(count_of(found))
                    ),
                    fix: "nothing to mend while they are few; check the card's seat if they are thousands"
                        .to_owned(),
                },
            }
        },
    )
}

fn thermal(facts: &Facts) -> Verdict {
    examine(
        facts,
        |kind| matches!(kind, Kind::Heat { .. }),
        |found| {
            let is_shutdown = found
                .iter()
                .any(|(kind, _)| matches!(kind, Kind::Heat { is_shutdown: true }));
            Judgement {
                severity: if is_shutdown {
                    Severity::Error
                } else {
                    Severity::Warning
                },
                message: if is_shutdown {
                    "the kernel switched the machine off, as it was too hot".to_owned()
                } else {
                    format!(
                        "something was too hot {} and ran slower or warned",
                        times(count_of(found))
                    )
                },
                fix: "give it air, clean its vents; cap the GPU's clock meanwhile: sudo nvidia-smi -lgc 0,2100"
                    .to_owned(),
            }
        },
    )
}

fn unclean_boot(facts: &Facts) -> Verdict {
    examine(
        facts,
        |kind| *kind == Kind::Unclean,
        |found| {
            let last = found.iter().filter_map(|(_, tally)| tally.last).max();
            let before = last.map_or_else(String::new, |last| format!(" before {last}"));
            Judgement {
                severity: Severity::Warning,
                message: format!(
                    "the machine stopped without shutting down{before}: power, heat, a freeze or a button \
                     (inferred: a disk or the journal had to be recovered)"
                ),
                fix: "see history.thermal, history.xid and memory.kernel-log for what came before; if all are \
                      well, check the power supply (the original 240 W) and run NVIDIA's field diagnostics"
                    .to_owned(),
            }
        },
    )
}
