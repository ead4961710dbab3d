//! Whose memory a GPU works in: its own, or the machine's.
//!
//! ```text
//! CUDA attribute "integrated"                1 -> unified     0 -> own
//! else PCI numbers or name of GB10, N1X, Tegra -> unified
//! else NVML memory query "not supported"       -> unified     (documented below)
//! else NVML memory query with a total > 0      -> own
//! else                                         -> unknown, with the reason
//! ```
//!
//! NVML's documentation says that a GPU without a framebuffer of its own answers
//! `NVML_ERROR_NOT_SUPPORTED` to the memory query. Any *other* failure of that query
//! says nothing: a discrete card whose query fails is not unified. NVML's totals are
//! not believed on unified GPUs (an N1X answered 8128 MiB, unslothai/unsloth#10283).

use std::fmt;

use crate::bytes::gibibytes;
use crate::cuda::CudaAttribute;
use crate::memory::Memory;
use crate::nvml::MemoryFigures;
use crate::reading::{Failure, Reading};

use super::known;
use super::parts::Parts;

/// A GPU's memory. In bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(tag = "kind", rename_all = "snake_case"))]
pub enum GpuMemory {
    /// CPU and GPU use the same memory.
    Unified {
        /// All of the machine's memory (`MemTotal`).
        total_bytes: u64,
        /// What can be allocated now (`MemAvailable`).
        available_bytes: u64,
        /// Whether the GPU walks the CPU's page tables, if CUDA told.
        shares_page_tables: Option<bool>,
    },
    /// The GPU has its own.
    Dedicated {
        /// Size of the GPU's own memory.
        total_bytes: u64,
        /// Free and used at the time of detection, if told.
        figures: Option<MemoryFigures>,
        /// Whether CPU and GPU reach each other's memory coherently (Grace Hopper),
        /// if CUDA told.
        is_coherent: Option<bool>,
    },
}

impl GpuMemory {
    /// Size of the memory the GPU uses: its own, or all of the machine's.
    #[must_use]
    pub fn total_bytes(&self) -> Option<u64> {
        let (Self::Unified { total_bytes, .. } | Self::Dedicated { total_bytes, .. }) = self;
        Some(*total_bytes)
    }

    /// What can be allocated now, if told.
    #[must_use]
    pub fn available_bytes(&self) -> Option<u64> {
        match self {
            Self::Unified {
                available_bytes, ..
            } => Some(*available_bytes),
            Self::Dedicated { figures, .. } => figures.map(|figures| figures.free_bytes),
        }
    }
}

impl fmt::Display for GpuMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unified {
                total_bytes,
                available_bytes,
                ..
            } => {
                let (total, available) = (gibibytes(*total_bytes), gibibytes(*available_bytes));
                write!(f, "{total} shared with the CPU, {available} available")
            }
            Self::Dedicated {
                total_bytes,
                figures,
                ..
            } => {
                write!(f, "{} of its own", gibibytes(*total_bytes))?;
                match figures {
                    Some(figures) => write!(f, ", {} free", gibibytes(figures.free_bytes)),
                    None => Ok(()),
                }
            }
        }
    }
}

/// Decides from all sources.
pub(super) fn judge(parts: &Parts, machine: &Memory) -> Reading<GpuMemory> {
    match is_unified(parts) {
        Some(true) => unified(parts, machine),
        Some(false) => dedicated(parts),
        None => unknown(parts),
    }
}

fn flag(parts: &Parts, attribute: CudaAttribute) -> Option<bool> {
    parts.cuda.as_ref()?.attributes.flag(attribute).value()
}

fn is_unified(parts: &Parts) -> Option<bool> {
    if let Some(integrated) = flag(parts, CudaAttribute::Integrated) {
        return Some(integrated);
    }
    let is_known = parts.pci.as_ref().is_some_and(|pci| {
        known::is_gb10_pci(pci.vendor, pci.device) || known::is_n1x_pci(pci.vendor, pci.device)
    });
    let name = parts.nvml.as_ref().and_then(|nvml| nvml.name.as_value());
    if is_known || name.is_some_and(|name| known::is_unified_name(name)) {
        return Some(true);
    }
    if parts.cuda.is_some() {
        return Some(false);
    }
    match parts.nvml.as_ref().map(|nvml| &nvml.memory) {
        Some(Reading::NotSupported) => Some(true),
        Some(Reading::Value(figures)) if figures.total_bytes > 0 => Some(false),
        _ => None,
    }
}

fn unified(parts: &Parts, machine: &Memory) -> Reading<GpuMemory> {
    let total = machine.meminfo.total_bytes.clone();
    let available = machine.available_to_gpu_bytes();
    let shares_page_tables = flag(parts, CudaAttribute::PageableMemoryAccessUsesHostPageTables);
    total.and_then(|total_bytes| {
        available.map(|available_bytes| GpuMemory::Unified {
            total_bytes,
            available_bytes,
            shares_page_tables,
        })
    })
}

fn dedicated(parts: &Parts) -> Reading<GpuMemory> {
    let figures = parts
        .nvml
        .as_ref()
        .and_then(|nvml| nvml.memory.clone().value());
    let by_cuda = parts
        .cuda
        .as_ref()
        .and_then(|cuda| cuda.total_memory_bytes.clone().value());
    let total = figures
        .map(|figures| figures.total_bytes)
        .filter(|total| *total > 0)
        .or(by_cuda);
    match total {
        Some(total_bytes) => Reading::Value(GpuMemory::Dedicated {
            total_bytes,
            figures,
            is_coherent: flag(parts, CudaAttribute::PageableMemoryAccessUsesHostPageTables),
        }),
        None => unknown(parts),
    }
}

fn unknown(parts: &Parts) -> Reading<GpuMemory> {
    let reason = match parts.nvml.as_ref().map(|nvml| &nvml.memory) {
        Some(Reading::Failed(why)) => return Reading::Failed(why.clone()),
        Some(Reading::Value(_)) => "NVML says a total of 0 bytes and CUDA was not asked",
        Some(Reading::NotSupported) => "NVML has no memory figure and CUDA none either",
        None => "neither NVML nor CUDA was asked",
    };
    Reading::Failed(Failure::NoSource {
        reason: reason.to_owned(),
    })
}
