//! Whether the CUDA driver can be used, asked without risk.
//!
//! ```text
//! dlopen libcuda.so.1 -> every symbol there? -> cuInit -> version -> count
//!        |                    |                   |
//!   LibraryMissing       SymbolMissing         InitFailed, NoDevice, TimedOut
//! ```
//!
//! Other crates reach CUDA through bindings that end the process when a library or
//! symbol is missing. Nothing of theirs may be called before [`driver`] said yes, and
//! nothing newer than CUDA 12.0 before [`CudaDriver::has_symbol`] said yes.

mod live;

use std::sync::OnceLock;

pub use live::CudaDriver;

use crate::config::{CudaUse, config};
use crate::gpu::{Attributes, ComputeCapability};
use crate::pci::PciAddress;
use crate::reading::{Failure, Reading};
use crate::stack::Version;

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
    /// Its name.
    pub name: Reading<String>,
    /// Its identifier, written as NVML writes it.
    pub uuid: Reading<String>,
    /// Where it sits.
    pub address: Reading<PciAddress>,
    /// Its compute capability.
    pub compute: Reading<ComputeCapability>,
    /// Its memory in bytes; on unified memory about all of the machine's.
    pub total_memory_bytes: Reading<u64>,
    /// Its attributes.
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
        /// The linker's words.
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
        /// `CUresult`.
        code: i32,
        /// Its name, where it is a common one.
        name: &'static str,
    },
    /// The driver works and has no device for this process.
    #[error("the CUDA driver has no device for this process")]
    NoDevice,
    /// A call failed.
    #[error("the CUDA driver failed: {0}")]
    Failed(#[from] Failure),
}

/// The CUDA driver of this process, opened and started once.
///
/// # Errors
///
/// Why it cannot be used; the same answer for the life of the process.
pub fn driver() -> Result<&'static CudaDriver, CudaUnavailable> {
    static DRIVER: OnceLock<Result<CudaDriver, CudaUnavailable>> = OnceLock::new();
    if config().cuda == CudaUse::Never {
        return Err(CudaUnavailable::Disabled);
    }
    DRIVER
        .get_or_init(live::open_in_time)
        .as_ref()
        .map_err(Clone::clone)
}

/// Checks the promise of `CUDA=1`: CUDA can be had, or the program must not go on.
///
/// # Errors
///
/// Why CUDA cannot be had, if the environment requires it. Without `CUDA=1` always `Ok`.
pub fn check_required() -> Result<(), CudaUnavailable> {
    keep_promise(config().cuda, || {
        driver()?.device_count().map_err(Into::into)
    })
}

fn keep_promise(
    promise: CudaUse,
    n_devices: impl FnOnce() -> Result<u32, CudaUnavailable>,
) -> Result<(), CudaUnavailable> {
    match promise {
        CudaUse::Auto | CudaUse::Never => Ok(()),
        CudaUse::Require if n_devices()? == 0 => Err(CudaUnavailable::NoDevice),
        CudaUse::Require => Ok(()),
    }
}

/// Whether a library can be opened by one of these names and has all these symbols.
///
/// For the optional libraries (NVRTC, cuBLASLt, ...) whose bindings end the process
/// when something is missing. The library stays open, so that a later opening by its
/// plain name finds it.
///
/// # Errors
///
/// [`CudaUnavailable::LibraryMissing`] or [`CudaUnavailable::SymbolMissing`].
pub fn probe_library(names: &[&str], symbols: &[&'static str]) -> Result<(), CudaUnavailable> {
    live::probe_library(names, symbols)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_promise_makes_missing_cuda_an_error() {
        let missing = || Err(CudaUnavailable::SymbolMissing { symbol: "cuInit" });
        assert_eq!(keep_promise(CudaUse::Auto, missing), Ok(()));
        assert_eq!(keep_promise(CudaUse::Never, missing), Ok(()));
        assert_eq!(
            keep_promise(CudaUse::Require, missing),
            missing().map(|_: u32| ())
        );
        assert_eq!(
            keep_promise(CudaUse::Require, || Ok(0)),
            Err(CudaUnavailable::NoDevice)
        );
        assert_eq!(keep_promise(CudaUse::Require, || Ok(1)), Ok(()));
    }
}
