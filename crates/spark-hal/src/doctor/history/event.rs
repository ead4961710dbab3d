//! What a line of the kernel says has happened.
//!
//! ```text
//! NVRM: Xid (PCI:000f:01:00): 79, ...                                    Xid(79)
//! NVRM: GPU 000f:01:00.0: RmInitAdapter failed! ...                      GpuLost
//! NVRM: ... [NV_ERR_NO_MEMORY] ... @ mem_desc.c:1359                     DriverMemory
//! Out of memory: Killed process 4242 (python3) ...                       OutOfMemory
//! mlx5_core 0000:01:00.0: AER: PCIe Bus Error: severity=Uncorrectable (Fatal), ...   Pcie(Fatal)
//! thermal thermal_zone0: acpitz: critical temperature reached            Heat
//! EXT4-fs (nvme0n1p2): recovery complete                                 Unclean
//! ```
//!
//! A message counts by how it begins, so that a program that writes such words into a log is not believed. Words
//! of the kernel: Linux 6.17, `mm/oom_kill.c`, `drivers/pci/pcie/aer.c` (and 6.14, which words it "Uncorrected"),
//! `drivers/thermal/thermal_core.c`, `kernel/reboot.c`, `fs/ext4/super.c`, `fs/xfs/xfs_log.c`; of the driver for
//! ConnectX: `mlx5/core/events.c`; of systemd: `journal/journald-manager.c`.
//!
//! Not read: errors that firmware reports first (APEI), and what file systems on `sd` devices say, which may be
//! sticks that somebody pulled.

use super::when::Moment;

/// How bad an error of PCI Express is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PcieSeverity {
    /// Done again by the hardware.
    Corrected,
    /// Something was lost; the link still works.
    NonFatal,
    /// The link does not work any more.
    Fatal,
}

/// What has happened.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// NVIDIA's driver reported this number.
    Xid(u32),
    /// NVIDIA's driver cannot reach or start the GPU, and says no number.
    GpuLost,
    /// NVIDIA's driver got no memory for itself.
    DriverMemory,
    /// The kernel ended a process for want of memory.
    OutOfMemory {
        /// Its name, 15 characters at most.
        process: String,
        /// Whether its control group had none left, and not the machine.
        of_group: bool,
    },
    /// An error of PCI Express, at this device.
    Pcie {
        severity: PcieSeverity,
        device: String,
    },
    /// Something was too hot.
    Heat {
        /// Whether the kernel switched the machine off for it.
        is_shutdown: bool,
    },
    /// The boot before did not end properly.
    Unclean,
}

/// Something that has happened, and when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) kind: Kind,
    /// `None` if its line has no time.
    pub(crate) when: Option<Moment>,
    /// Microseconds that the kernel had counted since its boot, if its line says so.
    pub(crate) since_boot_us: Option<i64>,
    /// Its words, without the host's name.
    pub(crate) said: String,
}

/// The longest part of a message that is looked at; the kernel's own limit is 1 KiB.
const MESSAGE_BYTES: usize = 2 << 10;

/// What a message of the kernel says has happened.
pub(super) fn kind_of(message: &str) -> Option<Kind> {
    let message = beginning(message);
    xid(message)
        .or_else(|| gpu_lost(message))
        .or_else(|| driver_memory(message))
        .or_else(|| out_of_memory(message))
        .or_else(|| pcie(message))
        .or_else(|| heat(message))
        .or_else(|| unclean(message))
}

/// What a message is quoted as: what names the host and the time has been left out, and paths of a journal
/// name the machine.
pub(super) fn quotation(message: &str, kind: &Kind) -> String {
    if *kind == Kind::Unclean && message.contains("journal") {
        return "system.journal corrupted or uncleanly shut down".to_owned();
    }
    beginning(message).to_owned()
}

fn beginning(message: &str) -> &str {
    let mut end = message.len().min(MESSAGE_BYTES);
    while !message.is_char_boundary(end) {
        end -= 1;
    }
    &message[..end]
}

fn xid(message: &str) -> Option<Kind> {
    let (_, after) = message.strip_prefix("NVRM: Xid (")?.split_once("): ")?;
    let digits = after.split(|c: char| !c.is_ascii_digit()).next()?;
    Some(Kind::Xid(digits.parse().ok()?))
}

fn gpu_lost(message: &str) -> Option<Kind> {
    let is_it = message.starts_with("NVRM: ")
        && !message.starts_with("NVRM: Xid")
        && ["RmInitAdapter failed", "fallen off the bus"]
            .iter()
            .any(|words| message.contains(words));
    is_it.then_some(Kind::GpuLost)
}

fn driver_memory(message: &str) -> Option<Kind> {
    let is_it = message.starts_with("NVRM: ")
        && message.contains("NV_ERR_NO_MEMORY")
        && message.contains("mem_desc.c");
    is_it.then_some(Kind::DriverMemory)
}

fn out_of_memory(message: &str) -> Option<Kind> {
    const BEGINNINGS: [(&str, bool); 3] = [
        ("Memory cgroup out of memory: Killed process ", true),
        ("Out of memory: Killed process ", false),
        // The sysctl `vm.oom_kill_allocating_task`.
        (
            "Out of memory (oom_kill_allocating_task): Killed process ",
            false,
        ),
    ];
    let (of_group, after) = BEGINNINGS
        .iter()
        .find_map(|(words, of_group)| Some((*of_group, message.strip_prefix(words)?)))?;
    let (_, name) = after.split_once(" (")?;
    // A name may hold brackets itself; the kernel's figures follow it.
    let name = name
        .split_once(") total-vm")
        .or_else(|| name.split_once(')'))?
        .0;
    Some(Kind::OutOfMemory {
        process: name.chars().take(15).collect(),
        of_group,
    })
}

fn pcie(message: &str) -> Option<Kind> {
    // `driver address: AER: ...`; a device without a driver has its bus before the address.
    // Some kernels say the error without that prefix.
    let (who, said) = message
        .split_once(": AER: ")
        .or_else(|| message.split_once(": PCIe Bus Error: severity="))?;
    let device = who.rsplit(' ').next()?;
    if who.split(' ').count() != 2 || device.parse::<crate::pci::PciAddress>().is_err() {
        return None;
    }
    let said = said.strip_prefix("Multiple ").unwrap_or(said);
    let said = said
        .strip_prefix("PCIe Bus Error: severity=")
        .unwrap_or(said);
    let beginnings = [
        ("Uncorrectable (Fatal)", PcieSeverity::Fatal),
        ("Uncorrected (Fatal)", PcieSeverity::Fatal),
        ("Uncorrectable (Non-Fatal)", PcieSeverity::NonFatal),
        ("Uncorrected (Non-Fatal)", PcieSeverity::NonFatal),
        ("Correctable", PcieSeverity::Corrected),
        ("Corrected", PcieSeverity::Corrected),
    ];
    let (_, severity) = beginnings
        .into_iter()
        .find(|(words, _)| said.starts_with(words))?;
    Some(Kind::Pcie {
        severity,
        device: device.to_owned(),
    })
}

fn heat(message: &str) -> Option<Kind> {
    let is_critical =
        message.starts_with("thermal ") && message.contains("critical temperature reached");
    let is_protection = message
        .strip_prefix("HARDWARE PROTECTION ")
        .or_else(|| message.strip_prefix("reboot: HARDWARE PROTECTION "))
        .is_some_and(|after| after.contains("emperature"));
    if is_critical || is_protection {
        return Some(Kind::Heat { is_shutdown: true });
    }
    let is_throttled = message.contains(" temperature above threshold, cpu clock throttled")
        && message.starts_with("CPU");
    let is_adapter =
        message.starts_with("mlx5_core ") && message.contains("High temperature on sensors");
    (is_throttled || is_adapter).then_some(Kind::Heat { is_shutdown: false })
}

fn unclean(message: &str) -> Option<Kind> {
    let of_disk = |prefix: &str| {
        let (device, said) = message.strip_prefix(prefix)?.split_once("): ")?;
        let is_built_in = ["nvme", "dm-", "md", "mmcblk"]
            .iter()
            .any(|kind| device.starts_with(kind));
        is_built_in.then_some(said)
    };
    let is_recovered = of_disk("EXT4-fs (")
        .is_some_and(|said| said.starts_with("recovery complete"))
        || of_disk("XFS (").is_some_and(|said| said.starts_with("Starting recovery"));
    let is_journal = message.starts_with("systemd-journald[")
        && message.contains("/system.journal corrupted or uncleanly shut down");
    (is_recovered || is_journal).then_some(Kind::Unclean)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pcie_error(severity: PcieSeverity, device: &str) -> Option<Kind> {
        Some(Kind::Pcie {
            severity,
            device: device.to_owned(),
        })
    }

    #[test]
    fn messages_are_what_they_begin_with() {
        use PcieSeverity::{Corrected, Fatal, NonFatal};
        let killed = |process: &str, of_group| {
            Some(Kind::OutOfMemory {
                process: process.to_owned(),
                of_group,
            })
        };
        for (message, wanted) in [
            (
                "NVRM: Xid (PCI:000f:01:00): 79, GPU has fallen off the bus.",
                Some(Kind::Xid(79)),
            ),
            (
                "NVRM: Xid (0000:03:00): 14, Channel 00000001",
                Some(Kind::Xid(14)),
            ),
            ("NVRM: Xid (PCI:000f:01:00): 31", Some(Kind::Xid(31))),
            ("NVRM: Xid (PCI:000f:01:00): x, 79", None),
            (
                "NVRM: GPU 000f:01:00.0: RmInitAdapter failed! (0x23:0x65:1426)",
                Some(Kind::GpuLost),
            ),
            (
                "NVRM: GPU 000f:01:00.0: GPU has fallen off the bus.",
                Some(Kind::GpuLost),
            ),
            ("app: GPU has fallen off the bus.", None),
            (
                "Out of memory (oom_kill_allocating_task): Killed process 42 (x) total-vm:1kB",
                killed("x", false),
            ),
            (
                "mlx5_core 0000:01:00.0: PCIe Bus Error: severity=Uncorrected (Fatal), type=x",
                pcie_error(Fatal, "0000:01:00.0"),
            ),
            ("NVRM: Xid (PCI:000f:01:00): 99999999999999, x", None),
            ("app: NVRM: Xid (PCI:000f:01:00): 79, x", None),
            (
                "Out of memory: Killed process 42 (python3) total-vm:1kB",
                killed("python3", false),
            ),
            (
                "Out of memory: Killed process 42 (a) b) total-vm:1kB",
                killed("a) b", false),
            ),
            (
                "Memory cgroup out of memory: Killed process 1 (x), UID 0",
                killed("x", true),
            ),
            (
                "pcieport 0000:00:00.0: AER: Uncorrectable (Fatal) error message received from 0000:01:00.0",
                pcie_error(Fatal, "0000:00:00.0"),
            ),
            (
                "mlx5_core 0000:01:00.0: AER: PCIe Bus Error: severity=Uncorrected (Non-Fatal), type=x",
                pcie_error(NonFatal, "0000:01:00.0"),
            ),
            (
                "pcieport 0002:00:00.0: AER: Multiple Corrected error received: 0002:01:00.0",
                pcie_error(Corrected, "0002:00:00.0"),
            ),
            ("pcieport 0000:00:00.0: AER: enabled with IRQ 12", None),
            ("a b c: AER: Corrected", None),
            (
                "thermal thermal_zone4: acpitz: critical temperature reached",
                Some(Kind::Heat { is_shutdown: true }),
            ),
            (
                "reboot: HARDWARE PROTECTION shutdown (Temperature too high)",
                Some(Kind::Heat { is_shutdown: true }),
            ),
            (
                "CPU3: Core temperature above threshold, cpu clock throttled (total events = 1)",
                Some(Kind::Heat { is_shutdown: false }),
            ),
            (
                "EXT4-fs (nvme0n1p2): recovery complete",
                Some(Kind::Unclean),
            ),
            ("EXT4-fs (sda1): recovery complete", None),
            ("EXT4-fs (nvme0n1p2): mounted filesystem", None),
            (
                "systemd-journald[9]: File /var/log/journal/0/system.journal corrupted or uncleanly shut down, renaming",
                Some(Kind::Unclean),
            ),
            (
                "systemd-journald[9]: File /var/log/journal/0/user-1000.journal corrupted or uncleanly shut down, x",
                None,
            ),
            ("", None),
        ] {
            assert_eq!(kind_of(message), wanted, "{message}");
        }
    }

    #[test]
    fn long_messages_are_cut_between_characters() {
        let long = format!("NVRM: Xid (PCI:000f:01:00): 13, {}", "é".repeat(100_000));
        assert_eq!(kind_of(&long), Some(Kind::Xid(13)));
        assert!(quotation(&long, &Kind::Xid(13)).len() <= MESSAGE_BYTES);
    }
}
