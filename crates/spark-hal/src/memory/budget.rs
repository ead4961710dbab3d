//! How much may be allocated before the operating system is driven into the wall.
//!
//! ```text
//! reserve = min(8 GiB, an eighth of all memory)           left to everybody else
//! budget  = min(available - reserve, share * total)       CPU: also the container's headroom
//! ```
//!
//! On a GB10 over-commitment is not refused: the host freezes or resets
//! (NVIDIA/open-gpu-kernel-modules#1358). So the figure must be asked *before*
//! allocating. The defaults: tools for DGX Spark keep 8 to 10 GiB free, and vLLM is
//! stable with 0.80 to 0.87 of the memory (issue reports); an eighth instead of 8 GiB
//! keeps small machines usable and is this crate's choice.

use crate::reading::Reading;

use super::state::Memory;

/// Whose memory a budget is for, which decides what binds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Memory of this process; the container's limit counts.
    Cpu,
    /// GPU memory on a unified machine; the container's limit does not bind it.
    UnifiedGpu,
}

/// How careful to be.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct BudgetPolicy {
    /// Bytes left alone; `None` for the smaller of 8 GiB and an eighth of the total.
    pub reserve_bytes: Option<u64>,
    /// The largest share of all memory to take, 0 to 1.
    pub largest_share: f64,
    /// Whether free swap counts as available. Data that a GPU works on must not be
    /// swapped, so the default is no.
    pub count_swap: bool,
}

impl Default for BudgetPolicy {
    fn default() -> Self {
        Self {
            reserve_bytes: None,
            largest_share: 0.85,
            count_swap: false,
        }
    }
}

impl BudgetPolicy {
    /// Leaving this many bytes alone.
    #[must_use]
    pub fn with_reserve_bytes(mut self, bytes: u64) -> Self {
        self.reserve_bytes = Some(bytes);
        self
    }

    /// Taking at most this share of all memory, 0 to 1.
    #[must_use]
    pub fn with_largest_share(mut self, share: f64) -> Self {
        self.largest_share = share;
        self
    }

    /// Counting free swap as available, or not.
    #[must_use]
    pub fn with_swap(mut self, counts: bool) -> Self {
        self.count_swap = counts;
        self
    }
}

/// What bounded a budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum Bound {
    /// Available memory less the reserve.
    Available,
    /// The largest share of the total.
    Share,
    /// The limit of the container or control group.
    Container,
}

/// Bytes that may be allocated now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct MemoryBudget {
    /// Bytes that may be allocated.
    pub bytes: u64,
    /// The tightest of the bounds, which set `bytes`.
    pub bound: Bound,
    /// What was left alone.
    pub reserve_bytes: u64,
}

const LARGEST_RESERVE_BYTES: u64 = 8 << 30;

impl MemoryBudget {
    /// Whether an allocation of this size fits.
    #[must_use]
    pub fn allows(&self, bytes: u64) -> bool {
        bytes <= self.bytes
    }
}

impl Memory {
    /// How much may be allocated now without driving the machine into the wall.
    ///
    /// Look at memory again before every large allocation: the figures are those of the
    /// moment this value was read.
    #[must_use]
    pub fn budget(&self, purpose: Purpose, policy: &BudgetPolicy) -> Reading<MemoryBudget> {
        let info = &self.meminfo;
        let swap = info
            .swap_free_bytes
            .as_value()
            .copied()
            .filter(|_| policy.count_swap)
            .unwrap_or(0);
        let container = match purpose {
            Purpose::Cpu => self.cgroup_headroom_bytes.as_value().copied(),
            Purpose::UnifiedGpu => None,
        };
        info.total_bytes.clone().and_then(|total| {
            let small = LARGEST_RESERVE_BYTES.min(total / 8);
            let reserve_bytes = policy.reserve_bytes.unwrap_or(small);
            // A share outside 0..=1 (or NaN) is taken as the nearest end of it.
            let share = if policy.largest_share >= 0.0 {
                policy.largest_share.min(1.0)
            } else {
                0.0
            };
            let by_share = (total as f64 * share) as u64;
            info.available_bytes.clone().map(|available| {
                let by_available = available.saturating_add(swap).saturating_sub(reserve_bytes);
                let bounds = [
                    (by_available, Bound::Available),
                    (by_share, Bound::Share),
                    (container.unwrap_or(u64::MAX), Bound::Container),
                ];
                let (bytes, bound) = bounds
                    .into_iter()
                    .min_by_key(|(bytes, _)| *bytes)
                    .unwrap_or(bounds[0]);
                MemoryBudget {
                    bytes,
                    bound,
                    reserve_bytes,
                }
            })
        })
    }
}
