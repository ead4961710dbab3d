//! How much of the processor this process may use: affinity and container quota.

use crate::cgroup::Cgroup;
use crate::reading::{Failure, Reading};
use crate::root::Root;

use super::list::parse_cpu_list;

/// The limits on CPU use.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct CpuLimits {
    /// CPUs in the process's affinity mask (`Cpus_allowed_list`).
    pub allowed: Reading<Vec<u32>>,
    /// CPU time the cgroup allows, in thousandths of a CPU; not supported = no quota.
    pub quota_cpus: Reading<u64>,
}

impl CpuLimits {
    /// Reads `/proc/self/status` and the cgroup.
    #[must_use]
    pub fn read(root: &Root) -> Self {
        const STATUS: &str = "/proc/self/status";
        let allowed = root.text(STATUS).and_then(|status| {
            let line = status
                .lines()
                .find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
            let Some(list) = line else {
                return Reading::NotSupported;
            };
            match parse_cpu_list(list) {
                Some(ids) => Reading::Value(ids),
                None => Reading::Failed(Failure::malformed(STATUS, list, "a list of CPUs")),
            }
        });
        Self {
            allowed,
            quota_cpus: Cgroup::read(root).cpu_quota_milli,
        }
    }
}
