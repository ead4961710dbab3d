//! One GPU, and which of several to work on.

use crate::capability::ComputeCapability;
use crate::cuda::{Attributes, CudaAttribute};
use crate::pci::{PciAddress, PciDevice};
use crate::precision::Precision;
use crate::reading::Reading;

use super::known;
use super::memory::GpuMemory;
use super::recommend::Recommendation;

/// One NVIDIA GPU, as PCI, NVML and CUDA describe it together.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Gpu {
    /// Its name from the driver, else from its PCI numbers where they are known here.
    pub name: Reading<String>,
    /// Its identifier. Left out of serialised forms: reports get published.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub uuid: Reading<String>,
    /// Its PCI address; `None` if no source told it.
    pub address: Option<PciAddress>,
    /// From the driver; never guessed from a name.
    pub compute_capability: Reading<ComputeCapability>,
    /// Own memory, or the machine's.
    pub memory: Reading<GpuMemory>,
    /// NVML's number for it; `None` if NVML does not list it.
    pub nvml_index: Option<u32>,
    /// Number for CUDA; `None` if this process may not use it through CUDA.
    pub cuda_ordinal: Option<u32>,
    /// Number of streaming multiprocessors, as CUDA tells it.
    pub sm_count: Reading<u32>,
    /// Highest clock of the multiprocessors in MHz.
    pub max_sm_clock_mhz: Reading<u32>,
    /// What CUDA says about it.
    pub attributes: Attributes,
    /// Formats its hardware supports, widest first; only fp32 if unknown.
    pub supported: Vec<Precision>,
    /// The fastest of them, whatever software is installed.
    pub fastest: Precision,
    /// The one to use with what is installed, and why.
    pub recommended: Recommendation,
    /// Its PCI function; `None` where `/sys` does not show it, as in some containers.
    pub pci_device: Option<PciDevice>,
    /// Name as NVML alone tells it.
    pub nvml_name: Reading<String>,
    /// Compute capability as NVML alone tells it.
    pub nvml_compute: Reading<ComputeCapability>,
    /// Name as CUDA alone tells it.
    pub cuda_name: Reading<String>,
    /// Compute capability as CUDA alone tells it.
    pub cuda_compute: Reading<ComputeCapability>,
}

impl Gpu {
    /// Whether it shares the machine's memory.
    #[must_use]
    pub fn is_unified(&self) -> bool {
        matches!(self.memory, Reading::Value(GpuMemory::Unified { .. }))
    }

    /// Whether it is a GB10, by PCI numbers or by the driver's name.
    #[must_use]
    pub fn is_gb10(&self) -> bool {
        let by_pci = self
            .pci_device
            .as_ref()
            .is_some_and(|pci| known::is_gb10_pci(pci.vendor, pci.device));
        let by_name = |name: &Reading<String>, compute: &Reading<ComputeCapability>| {
            matches!((name, compute), (Reading::Value(name), Reading::Value(compute))
                if known::is_gb10_name(name, *compute))
        };
        by_pci
            || by_name(&self.nvml_name, &self.nvml_compute)
            || by_name(&self.cuda_name, &self.cuda_compute)
    }

    /// A CUDA attribute's value.
    #[must_use]
    pub fn attribute(&self, attribute: CudaAttribute) -> Reading<i32> {
        self.attributes.get(attribute)
    }

    /// Whether CUDA can be used on it by this process.
    #[must_use]
    pub fn is_usable(&self) -> bool {
        self.cuda_ordinal.is_some()
    }
}

/// The GPU to work on: usable through CUDA before others, then GB10, then the newer
/// generation, then the larger memory, then the lower number.
#[must_use]
pub fn best(gpus: &[Gpu]) -> Option<&Gpu> {
    let rank = |gpu: &Gpu| {
        let compute = gpu.compute_capability.as_value().copied();
        let memory = gpu.memory.as_value().and_then(GpuMemory::total_bytes);
        (gpu.is_usable(), gpu.is_gb10(), compute, memory)
    };
    // `max_by_key` keeps the last of equals; the first shall win.
    gpus.iter().rev().max_by_key(|gpu| rank(gpu))
}
