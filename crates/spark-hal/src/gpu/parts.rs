//! The answers of PCI, NVML and CUDA that belong to one GPU.

use crate::cuda::CudaDevice;
use crate::nvml::NvmlDevice;
use crate::pci::{PciAddress, PciDevice};

/// The parts of one GPU that were found to belong together.
#[derive(Debug, Clone, Default)]
pub(super) struct Parts {
    pub(super) pci: Option<PciDevice>,
    pub(super) nvml: Option<NvmlDevice>,
    pub(super) cuda: Option<CudaDevice>,
}

impl Parts {
    /// Where the GPU sits, as far as any of them tells.
    pub(super) fn address(&self) -> Option<PciAddress> {
        let by_nvml = self.nvml.as_ref().and_then(|nvml| nvml.address.as_value());
        let by_cuda = self.cuda.as_ref().and_then(|cuda| cuda.address.as_value());
        let by_pci = self.pci.as_ref().map(|pci| &pci.address);
        by_nvml.or(by_cuda).or(by_pci).copied()
    }
}
