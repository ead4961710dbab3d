//! The real NVML through `nvml-wrapper`, which opens it at run time.

use std::collections::BTreeMap;
use std::ffi::OsStr;

use nvml_wrapper::enum_wrappers::device::{Clock, TemperatureSensor};
use nvml_wrapper::enums::device::UsedGpuMemory;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{Device, Nvml};

use crate::capability::ComputeCapability;
use crate::library;
use crate::reading::{Failure, Reading, quote};
use crate::version::Version;

use super::api::{NvmlApi, NvmlDevice};
use super::sample::{GpuProcess, GpuSample, MemoryFigures, throttle_reasons};

/// Where the driver's library is: by the linker's search, then where NixOS and WSL
/// keep it outside of that search.
const LIBRARIES: [&str; 3] = [
    "libnvidia-ml.so.1",
    "/run/opengl-driver/lib/libnvidia-ml.so.1",
    "/usr/lib/wsl/lib/libnvidia-ml.so.1",
];

/// NVML, opened and started. Calls may hang: use it through [`super::Bounded`].
#[derive(Debug)]
pub struct LiveNvml {
    nvml: Nvml,
}

impl LiveNvml {
    /// Opens the system's library.
    ///
    /// # Errors
    ///
    /// [`Failure::NoSource`] without a library, [`Failure::Call`] if it cannot start.
    pub fn open() -> Result<Self, Failure> {
        let mut outcome = Self::open_library(OsStr::new(LIBRARIES[0]));
        for other in &LIBRARIES[1..] {
            if matches!(outcome, Err(Failure::NoSource { .. }))
                && std::path::Path::new(other).exists()
            {
                outcome = Self::open_library(OsStr::new(other));
            }
        }
        outcome
    }

    /// Opens this library file, or this name by the linker's search.
    ///
    /// # Errors
    ///
    /// As [`LiveNvml::open`].
    pub fn open_library(file: &OsStr) -> Result<Self, Failure> {
        match Nvml::builder().lib_path(file).init() {
            Ok(nvml) => {
                // The library must outlive its last caller: a driver library may have
                // threads of its own, and this one is used on a thread that ends.
                library::open(&[&file.to_string_lossy()]).map_err(|why| Failure::NoSource {
                    reason: format!("no NVML: {why}"),
                })?;
                Ok(Self { nvml })
            }
            Err(NvmlError::LibloadingError(error)) => Err(Failure::NoSource {
                reason: format!("no NVML: {}", quote(&error.to_string())),
            }),
            Err(error) => Err(failure("nvmlInit", &error)),
        }
    }

    fn device(&self, index: u32) -> Result<Device<'_>, Failure> {
        let found = self.nvml.device_by_index(index);
        found.map_err(|error| failure("nvmlDeviceGetHandleByIndex", &error))
    }
}

fn failure(call: &'static str, error: &NvmlError) -> Failure {
    Failure::Call {
        call,
        reason: quote(&error.to_string()),
    }
}

fn reading<T>(call: &'static str, result: Result<T, NvmlError>) -> Reading<T> {
    match result {
        Ok(value) => Reading::Value(value),
        Err(NvmlError::NotSupported) => Reading::NotSupported,
        Err(error) => Reading::Failed(failure(call, &error)),
    }
}

fn memory(device: &Device<'_>) -> Reading<MemoryFigures> {
    reading("nvmlDeviceGetMemoryInfo", device.memory_info()).map(|info| MemoryFigures {
        total_bytes: info.total,
        free_bytes: info.free,
        used_bytes: info.used,
    })
}

impl NvmlApi for LiveNvml {
    fn driver_version(&self) -> Reading<Version> {
        reading("nvmlSystemGetDriverVersion", self.nvml.sys_driver_version())
            .and_then(|text| text.parse().into())
    }

    fn cuda_version(&self) -> Reading<Version> {
        let number = reading(
            "nvmlSystemGetCudaDriverVersion",
            self.nvml.sys_cuda_driver_version(),
        );
        number.and_then(|number| match Version::from_cuda_number(number) {
            Some(version) => Reading::Value(version),
            None => Reading::Failed(Failure::malformed(
                "nvmlSystemGetCudaDriverVersion",
                &number.to_string(),
                "a CUDA version number",
            )),
        })
    }

    fn device_count(&self) -> Result<u32, Failure> {
        self.nvml
            .device_count()
            .map_err(|error| failure("nvmlDeviceGetCount", &error))
    }

    fn describe(&self, index: u32) -> Result<NvmlDevice, Failure> {
        let device = self.device(index)?;
        let compute = device.cuda_compute_capability();
        Ok(NvmlDevice {
            index,
            name: reading("nvmlDeviceGetName", device.name()).map(|name| quote(&name)),
            uuid: reading("nvmlDeviceGetUUID", device.uuid()),
            address: reading("nvmlDeviceGetPciInfo", device.pci_info())
                .and_then(|pci| pci.bus_id.parse().into()),
            compute: reading("nvmlDeviceGetCudaComputeCapability", compute).and_then(|compute| {
                match (u32::try_from(compute.major), u32::try_from(compute.minor)) {
                    (Ok(major), Ok(minor)) => Reading::Value(ComputeCapability { major, minor }),
                    _ => Reading::Failed(Failure::malformed(
                        "nvmlDeviceGetCudaComputeCapability",
                        &format!("{}.{}", compute.major, compute.minor),
                        "numbers that are not negative",
                    )),
                }
            }),
            memory: memory(&device),
            max_sm_clock_mhz: reading(
                "nvmlDeviceGetMaxClockInfo",
                device.max_clock_info(Clock::SM),
            ),
        })
    }

    fn sample(&self, index: u32) -> Result<GpuSample, Failure> {
        let device = self.device(index)?;
        let utilization = reading("nvmlDeviceGetUtilizationRates", device.utilization_rates());
        let throttle = device.current_throttle_reasons();
        Ok(GpuSample {
            utilization_percent: utilization.as_ref().map(|rates| rates.gpu),
            memory_utilization_percent: utilization.map(|rates| rates.memory),
            memory: memory(&device),
            temperature_c: reading(
                "nvmlDeviceGetTemperature",
                device.temperature(TemperatureSensor::Gpu),
            ),
            power_mw: reading("nvmlDeviceGetPowerUsage", device.power_usage()),
            power_limit_mw: reading(
                "nvmlDeviceGetEnforcedPowerLimit",
                device.enforced_power_limit(),
            ),
            sm_clock_mhz: reading("nvmlDeviceGetClockInfo SM", device.clock_info(Clock::SM)),
            memory_clock_mhz: reading(
                "nvmlDeviceGetClockInfo memory",
                device.clock_info(Clock::Memory),
            ),
            performance_state: reading(
                "nvmlDeviceGetPerformanceState",
                device.performance_state().map(|state| state.as_c()),
            ),
            throttle: reading("nvmlDeviceGetCurrentClocksThrottleReasons", throttle)
                .map(|reasons| throttle_reasons(reasons.bits())),
            energy_mj: reading(
                "nvmlDeviceGetTotalEnergyConsumption",
                device.total_energy_consumption(),
            ),
        })
    }

    fn processes(&self, index: u32) -> Reading<Vec<GpuProcess>> {
        let device = match self.device(index) {
            Ok(device) => device,
            Err(why) => return Reading::Failed(why),
        };
        let computing = device.running_compute_processes();
        let compute = reading("nvmlDeviceGetComputeRunningProcesses", computing);
        // A process that computes and draws is in both lists with the same figure;
        // machines without a display may refuse the second list.
        let drawing = device.running_graphics_processes().unwrap_or_default();
        compute.map(|processes| {
            let by_pid: BTreeMap<u32, GpuProcess> = processes
                .into_iter()
                .chain(drawing)
                .map(|process| {
                    let memory_bytes = match process.used_gpu_memory {
                        UsedGpuMemory::Used(bytes) => Reading::Value(bytes),
                        UsedGpuMemory::Unavailable => Reading::NotSupported,
                    };
                    (
                        process.pid,
                        GpuProcess {
                            pid: process.pid,
                            memory_bytes,
                        },
                    )
                })
                .collect();
            by_pid.into_values().collect()
        })
    }
}
