//! The whole machine, put together.
//!
//! ```text
//! root (files) ---> CPU, memory, PCI, DMI ---+
//! NVML -----------> devices -----------------+--> Machine
//! CUDA driver ----> devices, attributes -----+
//! ```
//!
//! Linux only.

use std::sync::OnceLock;

use crate::bytes::gibibytes;
use crate::config::{Config, PrecisionChoice, config};
use crate::cpu::Cpu;
use crate::cuda::{self, CudaApi, CudaReport, CudaUnavailable};
use crate::gpu::{self, Gpu, GpuMemory};
use crate::memory::Memory;
use crate::network::Network;
use crate::nvml::{self, NvmlApi, NvmlReport};
use crate::pci::{self, PciDevice};
use crate::platform::Platform;
use crate::precision::Precision;
use crate::reading::{Failure, Reading, quote};
use crate::root::Root;
use crate::stack::Stack;
use crate::version::Version;

/// A machine, as it was when it was looked at.
///
/// # Examples
///
/// ```
/// use spark_hal::{Machine, Root, Sources};
///
/// // What `spark_hal::machine()` finds here, but of files below a folder: here none.
/// let machine = Machine::read(&Sources::files(Root::at("a-folder-without-files")));
/// assert!(!machine.is_dgx_spark());
/// assert!(machine.kernel.as_value().is_none()); // a reading that says why, no empty text
/// assert!(machine.gpus.is_empty());
/// ```
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Machine {
    /// What kind of machine, and why.
    pub platform: Platform,
    /// Kernel release, as `uname -r` tells.
    pub kernel: Reading<String>,
    /// The processor: its cores, their kinds, and how many this process may use.
    pub cpu: Cpu,
    /// Memory at the time of detection; [`Memory::read`] looks again.
    pub memory: Memory,
    /// NVIDIA GPUs, whether usable or not.
    pub gpus: Vec<Gpu>,
    /// The ports that join several DGX Sparks.
    pub network: Network,
    /// NVIDIA's driver, CUDA toolkit and libraries, as far as they are installed.
    pub stack: Stack,
    /// Why NVML could not be asked, if so.
    pub nvml_failure: Option<String>,
    /// Why CUDA cannot be used, if so.
    pub cuda_failure: Option<String>,
    /// Why an empty list of GPUs does not say that there are none, if so: as in a record of a few files.
    pub gpus_unknown: Option<String>,
}

/// Where a machine is read from.
pub struct Sources<'a> {
    /// The directory that stands for `/`; a recorded machine has its own.
    pub root: Root,
    /// NVML, or why it is not asked.
    pub nvml: Result<&'a dyn NvmlApi, Failure>,
    /// The CUDA driver, or why it is not asked.
    pub cuda: Result<&'a dyn CudaApi, CudaUnavailable>,
}

/// Where Linux lists buses, that of PCI among them.
const BUSES: &str = "/sys/bus";

/// Why drivers said nothing of a machine that is a record.
pub(crate) const FILES_ONLY: &str = "only files were read";

impl Sources<'static> {
    /// Only files: no driver library is opened.
    #[must_use]
    pub fn files(root: Root) -> Self {
        let reason = FILES_ONLY.to_owned();
        Self {
            root,
            nvml: Err(Failure::NoSource {
                reason: reason.clone(),
            }),
            cuda: Err(CudaUnavailable::LibraryMissing { reason }),
        }
    }
}

impl Machine {
    /// Looks at the running machine: files, NVML, and the CUDA driver unless `CUDA=0`.
    ///
    /// Opening the driver takes up to a second where there is one. [`machine`] does it
    /// once per process.
    #[must_use]
    pub fn detect() -> Self {
        let nvml = nvml::open();
        Self::read(&Sources {
            root: Root::host(),
            nvml: nvml
                .as_ref()
                .map(|nvml| nvml as &dyn NvmlApi)
                .map_err(Clone::clone),
            cuda: cuda::driver().map(|cuda| cuda as &dyn CudaApi),
        })
    }

    /// Looks at a machine through these sources.
    #[must_use]
    pub fn read(sources: &Sources<'_>) -> Self {
        let root = &sources.root;
        let nvml = sources
            .nvml
            .as_ref()
            .map_err(Clone::clone)
            .and_then(|nvml| NvmlReport::read(*nvml));
        let cuda = sources
            .cuda
            .as_ref()
            .map_err(Clone::clone)
            .and_then(|cuda| CudaReport::read(*cuda));
        let cpu = Cpu::read(root);
        let memory = Memory::read(root);
        let pci = pci::devices(root, &[pci::VENDOR_NVIDIA, pci::VENDOR_MELLANOX]);
        let mut stack = Stack::read(root, offered_cuda(&nvml, &cuda));
        if let (Reading::NotSupported, Ok(report)) = (&stack.driver, &nvml) {
            // A container may hide /proc/driver.
            stack.driver = report.driver_version.clone();
        }
        let gpus = merge(&pci, &nvml, &cuda, &memory, &stack);
        // A machine may have no PCI bus; every one has buses.
        let is_blank = gpus.is_empty() && !root.entries(BUSES).is_value();
        Self {
            platform: Platform::detect(root, &cpu, &pci, &gpus),
            kernel: root
                .line("/proc/sys/kernel/osrelease")
                .map(|release| quote(&release)),
            nvml_failure: nvml.err().map(|why| why.to_string()),
            cuda_failure: cuda.err().map(|why| why.to_string()),
            gpus_unknown: is_blank.then(|| format!("there is no {BUSES}")),
            cpu,
            memory,
            network: Network::read(root, pci.as_value().map(Vec::as_slice).unwrap_or_default()),
            gpus,
            stack,
        }
    }

    /// Whether the hardware is a DGX Spark of any vendor. The environment does not
    /// matter; see [`Machine::use_dgx_features`].
    #[must_use]
    pub fn is_dgx_spark(&self) -> bool {
        self.platform.is_dgx_spark()
    }

    /// Whether to use DGX Spark features: the hardware is one and the environment
    /// (`OPENPILOT_DGX_ENABLED`, `OPENPILOT_DISABLE_DGX`) does not forbid it.
    #[must_use]
    pub fn use_dgx_features(&self) -> bool {
        self.is_dgx_spark() && config().dgx_features_allowed()
    }

    /// The GPU to work on.
    #[must_use]
    pub fn best_gpu(&self) -> Option<&Gpu> {
        gpu::best(&self.gpus)
    }

    /// The precision for the best GPU, fp32 without one.
    #[must_use]
    pub fn recommended_precision(&self) -> Precision {
        self.best_gpu()
            .map_or(Precision::Fp32, |gpu| gpu.recommended.precision)
    }

    /// The precision to run in: what the environment fixes, else the recommended one.
    #[must_use]
    pub fn chosen_precision(&self, config: &Config) -> Precision {
        match config.precision {
            PrecisionChoice::Fixed(precision) => precision,
            PrecisionChoice::Auto => self.recommended_precision(),
        }
    }

    /// One line: platform, processor, memory, GPU. Holds no serial numbers or host names.
    #[must_use]
    pub fn summary(&self) -> String {
        let none = match self.gpus_unknown {
            Some(_) => "unknown whether there is an NVIDIA GPU",
            None => "no NVIDIA GPU",
        };
        let mut parts = vec![self.platform.kind.to_string(), self.cpu.summary()];
        if let Reading::Value(bytes) = self.memory.meminfo.total_bytes {
            parts.push(format!("{} memory", gibibytes(bytes)));
        }
        parts.push(self.best_gpu().map_or_else(|| none.to_owned(), gpu_summary));
        parts.join(", ")
    }
}

fn gpu_summary(gpu: &Gpu) -> String {
    let name = gpu.name.as_value().map_or("NVIDIA GPU", String::as_str);
    let compute = gpu.compute_capability.as_value();
    let compute = compute.map_or_else(
        || "no driver".to_owned(),
        |compute| format!("compute {compute}"),
    );
    match gpu.memory.as_value() {
        Some(GpuMemory::Unified { .. }) => format!("{name} ({compute}, unified memory)"),
        Some(GpuMemory::Dedicated { total_bytes, .. }) => {
            format!("{name} ({compute}, {})", gibibytes(*total_bytes))
        }
        None => format!("{name} ({compute})"),
    }
}

type NvmlOutcome = Result<NvmlReport, Failure>;
type CudaOutcome = Result<CudaReport, CudaUnavailable>;

/// CUDA's own word first: it is what programs run through.
fn offered_cuda(nvml: &NvmlOutcome, cuda: &CudaOutcome) -> Reading<Version> {
    match (cuda, nvml) {
        (Ok(cuda), _) if cuda.version.is_value() => cuda.version.clone(),
        (_, Ok(nvml)) => nvml.cuda_version.clone(),
        (Ok(cuda), _) => cuda.version.clone(),
        (Err(why), _) => Reading::Failed(Failure::NoSource {
            reason: why.to_string(),
        }),
    }
}

fn merge(
    pci: &Reading<Vec<PciDevice>>,
    nvml: &NvmlOutcome,
    cuda: &CudaOutcome,
    memory: &Memory,
    stack: &Stack,
) -> Vec<Gpu> {
    let nvml_devices = nvml.iter().flat_map(|report| &report.devices);
    let cuda_devices = cuda.iter().flat_map(|report| &report.devices);
    let nvml_devices: Vec<_> = nvml_devices
        .filter_map(|device| device.clone().ok())
        .collect();
    let cuda_devices: Vec<_> = cuda_devices
        .filter_map(|device| device.clone().ok())
        .collect();
    let pci = pci.as_value().map(Vec::as_slice).unwrap_or_default();
    gpu::merge(pci, &nvml_devices, &cuda_devices, memory, stack)
}

/// The running machine, looked at once per process. Logs then in one line why CUDA
/// cannot be used, if so.
pub fn machine() -> &'static Machine {
    static MACHINE: OnceLock<Machine> = OnceLock::new();
    MACHINE.get_or_init(|| {
        let machine = Machine::detect();
        if let Some(why) = &machine.cuda_failure {
            tracing::info!("work runs on the CPU: {why}");
        }
        machine
    })
}

/// Whether the running machine is a DGX Spark of any vendor.
#[must_use]
pub fn is_dgx_spark() -> bool {
    machine().is_dgx_spark()
}

/// The NVIDIA GPUs of the running machine.
#[must_use]
pub fn nvidia_gpus() -> &'static [Gpu] {
    &machine().gpus
}

/// The GPU to work on.
#[must_use]
pub fn best_gpu() -> Option<&'static Gpu> {
    machine().best_gpu()
}

/// Whether an NVIDIA GPU can be used through CUDA by this process.
#[must_use]
pub fn is_nvidia_available() -> bool {
    machine().gpus.iter().any(Gpu::is_usable)
}

/// The precision to use on this GPU with the installed software.
#[must_use]
pub fn recommended_precision(gpu: &Gpu) -> Precision {
    gpu.recommended.precision
}
