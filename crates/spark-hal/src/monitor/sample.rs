//! One look at one GPU.

use crate::nvml::{GpuProcess, GpuSample};
use crate::reading::{Failure, Reading};

/// One look at one GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Sample {
    /// Milliseconds since the monitor started.
    pub at_ms: u64,
    /// NVML's number of the GPU.
    pub gpu: u32,
    /// Whether it works in the machine's memory. NVML's memory figures are then not kept: they are
    /// those of no memory (an N1X answered 8128 MiB).
    pub is_unified: bool,
    /// What NVML told, or why it told nothing.
    pub readings: Result<GpuSample, String>,
    /// Processes that use the GPU.
    pub processes: Reading<Vec<GpuProcess>>,
    /// All of the machine's memory in bytes.
    pub machine_total_bytes: Reading<u64>,
    /// What of it is available, in bytes.
    pub machine_available_bytes: Reading<u64>,
}

impl Sample {
    /// Memory in use where the GPU works: its own, or the machine's on unified memory.
    /// In bytes.
    #[must_use]
    pub fn memory_used_bytes(&self) -> Reading<u64> {
        let own = match &self.readings {
            Ok(_) if self.is_unified => Reading::NotSupported,
            Ok(readings) => readings.memory.clone(),
            Err(why) => {
                return Reading::Failed(Failure::Call {
                    call: "nvml sample",
                    reason: why.clone(),
                });
            }
        };
        match own {
            Reading::Value(figures) if figures.total_bytes > 0 => {
                Reading::Value(figures.used_bytes)
            }
            Reading::Failed(why) => Reading::Failed(why),
            Reading::Value(_) | Reading::NotSupported => {
                let available = self.machine_available_bytes.clone();
                self.machine_total_bytes
                    .clone()
                    .and_then(|total| available.map(|available| total.saturating_sub(available)))
            }
        }
    }
}
