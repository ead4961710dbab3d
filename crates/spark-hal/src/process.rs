//! Memory of the running process. Linux only: `/proc/self/status`.

use crate::reading::{Failure, Reading};
use crate::root::Root;

/// Resident memory of this process, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct ProcessMemory {
    /// What is in memory now (`VmRSS`).
    pub resident_bytes: u64,
    /// The most since the process began (`VmHWM`).
    pub peak_resident_bytes: u64,
}

impl ProcessMemory {
    /// Reads `/proc/self/status` of the running machine.
    #[must_use]
    pub fn now() -> Reading<Self> {
        Self::read(&Root::host())
    }

    /// Reads `/proc/self/status` under `root`.
    #[must_use]
    pub fn read(root: &Root) -> Reading<Self> {
        const PATH: &str = "/proc/self/status";
        root.text(PATH).and_then(|status| {
            let field = |key: &str| {
                let value = status.lines().find_map(|line| line.strip_prefix(key))?;
                let kibibytes: u64 = value.trim().strip_suffix("kB")?.trim().parse().ok()?;
                kibibytes.checked_mul(1024)
            };
            match (field("VmRSS:"), field("VmHWM:")) {
                (Some(resident_bytes), Some(peak_resident_bytes)) => Reading::Value(Self {
                    resident_bytes,
                    peak_resident_bytes,
                }),
                _ => Reading::Failed(Failure::malformed(PATH, &status, "VmRSS and VmHWM in kB")),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_memory_and_its_peak_grows() {
        let before = ProcessMemory::now().value().expect("Linux tells");
        assert!(before.resident_bytes > 0);
        let block = std::hint::black_box(vec![1_u8; 64 << 20]);
        let after = ProcessMemory::now().value().expect("Linux tells");
        assert!(after.peak_resident_bytes >= before.resident_bytes + block.len() as u64 / 2);
        assert!(after.peak_resident_bytes >= after.resident_bytes);
    }
}
