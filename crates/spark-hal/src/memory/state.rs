//! The machine's memory at one moment, and NVIDIA's rule for what of it can be allocated.

use crate::cgroup::Cgroup;
use crate::reading::Reading;
use crate::root::Root;

use super::meminfo::Meminfo;
use super::pressure::Pressure;

/// The machine's memory at one moment. All figures in bytes.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Memory {
    /// The figures of `/proc/meminfo`, each a reading of its own.
    pub meminfo: Meminfo,
    /// Headroom under this process's control group; not supported = no limit.
    pub cgroup_headroom_bytes: Reading<u64>,
    /// The group's limit; not supported = no limit.
    pub cgroup_limit_bytes: Reading<u64>,
    /// Time lost waiting for memory; not supported if the kernel does not count it.
    pub pressure: Reading<Pressure>,
}

/// NVIDIA's estimate of what can be allocated on unified memory. In bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct NvidiaEstimate {
    /// Available: ordinary memory, or free huge pages if any are configured.
    pub available_bytes: u64,
    /// Free swap; zero if huge pages are configured, which cannot be swapped.
    pub free_swap_bytes: u64,
}

impl Memory {
    /// Reads `/proc/meminfo` and the control group.
    #[must_use]
    pub fn read(root: &Root) -> Self {
        let cgroup = Cgroup::read(root);
        Self {
            meminfo: Meminfo::read(root),
            cgroup_headroom_bytes: cgroup.memory_headroom_bytes,
            cgroup_limit_bytes: cgroup.memory_limit_bytes,
            pressure: Pressure::read(root),
        }
    }

    /// NVIDIA's recommended estimate for unified memory, exactly.
    ///
    /// ```text
    /// available = MemAvailable;  swap = SwapFree
    /// if HugePages_Total != 0:
    ///     available = HugePages_Free * Hugepagesize;  swap = 0
    /// ```
    ///
    /// # Source
    ///
    /// `getAvailableMemory` on the DGX Spark known-issues page,
    /// <https://docs.nvidia.com/dgx/dgx-spark/known-issues.html>.
    #[must_use]
    pub fn nvidia_rule(&self) -> Reading<NvidiaEstimate> {
        let info = &self.meminfo;
        if matches!(info.huge_pages_total, Reading::Value(total) if total != 0) {
            return self
                .hugetlb_free_bytes()
                .map(|available_bytes| NvidiaEstimate {
                    available_bytes,
                    free_swap_bytes: 0,
                });
        }
        let free_swap_bytes = info.swap_free_bytes.as_value().copied().unwrap_or(0);
        info.available_bytes
            .clone()
            .map(|available_bytes| NvidiaEstimate {
                available_bytes,
                free_swap_bytes,
            })
    }

    /// Free huge pages in bytes.
    #[must_use]
    pub fn hugetlb_free_bytes(&self) -> Reading<u64> {
        let size = self.meminfo.huge_page_bytes.clone();
        self.meminfo
            .huge_pages_free
            .clone()
            .and_then(|pages| size.map(|bytes| pages.saturating_mul(bytes)))
    }

    /// What CPU allocations may still take: the smaller of `MemAvailable` and the
    /// control group's headroom.
    #[must_use]
    pub fn available_to_cpu_bytes(&self) -> Reading<u64> {
        let headroom = self
            .cgroup_headroom_bytes
            .as_value()
            .copied()
            .unwrap_or(u64::MAX);
        self.meminfo
            .available_bytes
            .clone()
            .map(|available| available.min(headroom))
    }

    /// What GPU allocations on unified memory may still take: `MemAvailable`.
    ///
    /// Control groups do not bind them (lab-stack.com, "DGX Spark memory hard wall").
    #[must_use]
    pub fn available_to_gpu_bytes(&self) -> Reading<u64> {
        self.meminfo.available_bytes.clone()
    }
}
