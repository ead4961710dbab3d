//! What changes about a GPU from moment to moment.

use std::fmt;

use crate::reading::Reading;

/// One look at a GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct GpuSample {
    /// Percent of the last period in which a kernel ran.
    pub utilization_percent: Reading<u32>,
    /// Percent of the last period in which memory was read or written. On a GB10
    /// this stays 0 and means nothing (lablup/all-smi issue #80).
    pub memory_utilization_percent: Reading<u32>,
    /// Its memory; not supported on GPUs that use the machine's.
    pub memory: Reading<MemoryFigures>,
    /// Temperature of the chip in degrees Celsius.
    pub temperature_c: Reading<u32>,
    /// Power drawn in milliwatts.
    pub power_mw: Reading<u32>,
    /// Power limit in force in milliwatts.
    pub power_limit_mw: Reading<u32>,
    /// Clock of the multiprocessors in MHz.
    pub sm_clock_mhz: Reading<u32>,
    /// Clock of the memory in MHz.
    pub memory_clock_mhz: Reading<u32>,
    /// Performance state: 0 is the fastest, 15 the slowest.
    pub performance_state: Reading<u32>,
    /// Why the clocks are lower than they could be.
    pub throttle: Reading<Vec<ThrottleReason>>,
    /// Energy since the driver was loaded, in millijoules.
    pub energy_mj: Reading<u64>,
}

impl GpuSample {
    /// Why the clocks are lower than they could be while something runs: all reasons but that nothing does.
    pub fn reasons_at_work(&self) -> impl Iterator<Item = ThrottleReason> + '_ {
        let reasons = self.throttle.as_value().into_iter().flatten().copied();
        reasons.filter(|reason| *reason != ThrottleReason::Idle)
    }
}

/// NVML's memory figures of a GPU with its own memory. In bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct MemoryFigures {
    /// Size of the GPU's memory.
    pub total_bytes: u64,
    /// Bytes that nobody has allocated.
    pub free_bytes: u64,
    /// Bytes that are allocated, by any process.
    pub used_bytes: u64,
}

/// A process that uses a GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct GpuProcess {
    /// Number of the process, as NVML gives it.
    pub pid: u32,
    /// GPU memory it uses, in bytes.
    pub memory_bytes: Reading<u64>,
}

/// Why clocks are lower than they could be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum ThrottleReason {
    /// Nothing runs, so clocks are low: no cause for concern.
    Idle,
    /// Clocks set by an application or an administrator.
    ApplicationClocks,
    /// The board's power limit is reached.
    PowerCap,
    /// Hardware slowdown by half or more: heat, power brake or power draw.
    HardwareSlowdown,
    /// Another GPU of a synchronised group is slower.
    SyncBoost,
    /// The driver lowers clocks because the GPU or its memory is hot.
    SoftwareThermal,
    /// The hardware lowers clocks, by half or more, because it is too hot.
    HardwareThermal,
    /// An external power brake.
    PowerBrake,
    /// Clocks fixed for a display.
    Display,
    /// A bit this crate does not know.
    Unknown,
}

impl ThrottleReason {
    /// Every reason.
    pub const ALL: [Self; 10] = [
        Self::Idle,
        Self::ApplicationClocks,
        Self::PowerCap,
        Self::HardwareSlowdown,
        Self::SyncBoost,
        Self::SoftwareThermal,
        Self::HardwareThermal,
        Self::PowerBrake,
        Self::Display,
        Self::Unknown,
    ];

    /// Whether heat is the reason.
    #[must_use]
    pub fn is_thermal(self) -> bool {
        matches!(self, Self::SoftwareThermal | Self::HardwareThermal)
    }

    /// A name without blanks for tables and files, such as `power_cap`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::ApplicationClocks => "application_clocks",
            Self::PowerCap => "power_cap",
            Self::HardwareSlowdown => "hardware_slowdown",
            Self::SyncBoost => "sync_boost",
            Self::SoftwareThermal => "software_thermal",
            Self::HardwareThermal => "hardware_thermal",
            Self::PowerBrake => "power_brake",
            Self::Display => "display",
            Self::Unknown => "unknown",
        }
    }
}

impl fmt::Display for ThrottleReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Splits NVML's bit mask (`nvmlClocksEventReason*` of nvml.h).
#[must_use]
pub fn throttle_reasons(bits: u64) -> Vec<ThrottleReason> {
    const BITS: [(u64, ThrottleReason); 9] = [
        (0x1, ThrottleReason::Idle),
        (0x2, ThrottleReason::ApplicationClocks),
        (0x4, ThrottleReason::PowerCap),
        (0x8, ThrottleReason::HardwareSlowdown),
        (0x10, ThrottleReason::SyncBoost),
        (0x20, ThrottleReason::SoftwareThermal),
        (0x40, ThrottleReason::HardwareThermal),
        (0x80, ThrottleReason::PowerBrake),
        (0x100, ThrottleReason::Display),
    ];
    let known: u64 = BITS.iter().map(|(bit, _)| bit).sum();
    let named = BITS
        .iter()
        .filter(|(bit, _)| bits & bit != 0)
        .map(|(_, reason)| *reason);
    let unknown = (bits & !known != 0).then_some(ThrottleReason::Unknown);
    named.chain(unknown).collect()
}
