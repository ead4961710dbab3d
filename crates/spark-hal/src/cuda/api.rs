//! What is asked of the CUDA driver, what it answers, and why it cannot be asked.

use crate::capability::ComputeCapability;
use crate::library::LibraryUnavailable;
use crate::pci::PciAddress;
use crate::reading::{Failure, Reading};
use crate::version::Version;

use super::attribute::Attributes;

/// What is asked of the CUDA driver.
pub trait CudaApi {
    /// The CUDA version the driver offers.
    fn version(&self) -> Reading<Version>;
    /// How many devices this process may use.
    ///
    /// # Errors
    ///
    /// The driver's error.
    fn device_count(&self) -> Result<u32, Failure>;
    /// One device.
    ///
    /// # Errors
    ///
    /// The driver's error, if the device cannot be had at all.
    fn describe(&self, ordinal: u32) -> Result<CudaDevice, Failure>;
}

/// A device as the CUDA driver describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CudaDevice {
    /// CUDA's number for it.
    pub ordinal: u32,
    /// Name for people, such as `NVIDIA GB10`.
    pub name: Reading<String>,
    /// Its identifier, written as NVML writes it.
    pub uuid: Reading<String>,
    /// Its PCI address, by which it is matched with what NVML and `/sys` tell.
    pub address: Reading<PciAddress>,
    /// Compute capability as the CUDA driver tells it.
    pub compute: Reading<ComputeCapability>,
    /// Its memory in bytes; on unified memory about all of the machine's.
    pub total_memory_bytes: Reading<u64>,
    /// What the driver answered about each attribute.
    pub attributes: Attributes,
}

/// Why CUDA cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CudaUnavailable {
    /// The environment says `CUDA=0`.
    #[error("switched off by CUDA=0")]
    Disabled,
    /// There is no driver library.
    #[error("no CUDA driver on this machine ({reason})")]
    LibraryMissing {
        /// Why the library was not opened, in the dynamic linker's words.
        reason: String,
    },
    /// The driver is too old for what every caller needs.
    #[error("the CUDA driver has no `{symbol}`: it is too old")]
    SymbolMissing {
        /// The first symbol that is missing.
        symbol: &'static str,
    },
    /// The driver refused to start.
    #[error("the CUDA driver does not start: error {code} ({name})")]
    InitFailed {
        /// The driver's error number, a `CUresult`.
        code: i32,
        /// Its name, where it is a common one.
        name: &'static str,
    },
    /// The driver works and has no device for this process.
    #[error("the CUDA driver has no device for this process")]
    NoDevice,
    /// A call failed after the driver had started.
    #[error("the CUDA driver failed: {0}")]
    Failed(#[from] Failure),
}

impl From<LibraryUnavailable> for CudaUnavailable {
    fn from(why: LibraryUnavailable) -> Self {
        match why {
            LibraryUnavailable::Missing { reason } => Self::LibraryMissing { reason },
            LibraryUnavailable::SymbolMissing { symbol } => Self::SymbolMissing { symbol },
        }
    }
}

/// Everything the CUDA driver tells when a machine is detected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CudaReport {
    /// The CUDA version the driver offers.
    pub version: Reading<Version>,
    /// The devices this process may use; one that could not be described gives its failure.
    pub devices: Vec<Result<CudaDevice, Failure>>,
}

/// More GPUs than any machine has; a driver that claims more is not believed.
const DEVICES_LIMIT: u32 = 256;

impl CudaReport {
    /// Asks for everything.
    ///
    /// # Errors
    ///
    /// [`CudaUnavailable::NoDevice`], or the failure of the device count.
    pub fn read(cuda: &dyn CudaApi) -> Result<Self, CudaUnavailable> {
        let n_devices = cuda.device_count()?;
        if n_devices == 0 {
            return Err(CudaUnavailable::NoDevice);
        }
        if n_devices > DEVICES_LIMIT {
            let got = n_devices.to_string();
            return Err(Failure::malformed("cuDeviceGetCount", &got, "at most 256 devices").into());
        }
        Ok(Self {
            version: cuda.version(),
            devices: (0..n_devices)
                .map(|ordinal| cuda.describe(ordinal))
                .collect(),
        })
    }
}
