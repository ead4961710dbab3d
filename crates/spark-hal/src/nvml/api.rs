//! What is asked of NVML, and what it answers when a machine is detected.

use crate::capability::ComputeCapability;
use crate::pci::PciAddress;
use crate::reading::{Failure, Reading};
use crate::version::Version;

use super::sample::{GpuProcess, GpuSample, MemoryFigures};

/// What is asked of NVML.
pub trait NvmlApi {
    /// Version of the display driver, such as 580.95.05.
    fn driver_version(&self) -> Reading<Version>;
    /// Newest CUDA version the driver offers.
    fn cuda_version(&self) -> Reading<Version>;
    /// How many devices there are.
    ///
    /// # Errors
    ///
    /// The library's error.
    fn device_count(&self) -> Result<u32, Failure>;
    /// What does not change about one device.
    ///
    /// # Errors
    ///
    /// The library's error, if the device cannot be reached at all.
    fn describe(&self, index: u32) -> Result<NvmlDevice, Failure>;
    /// What changes about one device.
    ///
    /// # Errors
    ///
    /// The library's error, if the device cannot be reached at all.
    fn sample(&self, index: u32) -> Result<GpuSample, Failure>;
    /// The processes that use one device.
    fn processes(&self, index: u32) -> Reading<Vec<GpuProcess>>;
}

/// What does not change about a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NvmlDevice {
    /// NVML's number for it.
    pub index: u32,
    /// Name for people, such as `NVIDIA GB10`.
    pub name: Reading<String>,
    /// Unique identifier of the device, `GPU-...`.
    pub uuid: Reading<String>,
    /// Its PCI address, by which it is matched with what CUDA and `/sys` tell.
    pub address: Reading<PciAddress>,
    /// Compute capability as NVML tells it.
    pub compute: Reading<ComputeCapability>,
    /// Its memory; not supported on GPUs that use the machine's.
    pub memory: Reading<MemoryFigures>,
    /// Highest clock of the multiprocessors in MHz.
    pub max_sm_clock_mhz: Reading<u32>,
}

/// Everything NVML tells when a machine is detected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NvmlReport {
    /// Version of the display driver, such as 580.95.05.
    pub driver_version: Reading<Version>,
    /// Newest CUDA version the driver offers.
    pub cuda_version: Reading<Version>,
    /// Its devices; one that could not be described gives its failure.
    pub devices: Vec<Result<NvmlDevice, Failure>>,
}

/// More GPUs than any machine has; a library that claims more is not believed.
const DEVICES_LIMIT: u32 = 256;

impl NvmlReport {
    /// Asks for everything.
    ///
    /// # Errors
    ///
    /// The failure of the device count; without it nothing else is worth asking.
    pub fn read(nvml: &dyn NvmlApi) -> Result<Self, Failure> {
        let n_devices = nvml.device_count()?;
        if n_devices > DEVICES_LIMIT {
            return Err(Failure::malformed(
                "nvmlDeviceGetCount",
                &n_devices.to_string(),
                "at most 256 devices",
            ));
        }
        Ok(Self {
            driver_version: nvml.driver_version(),
            cuda_version: nvml.cuda_version(),
            devices: (0..n_devices).map(|index| nvml.describe(index)).collect(),
        })
    }
}
