//! Which kind of machine this is, with the evidence that decided it.
//!
//! ```text
//! DMI product_family = DGX Spark      --+
//! PCI 10de:2e12 (GB10)                --+-> DGX Spark   (each is enough)
//! NVML / CUDA: GB10 and compute 12.1  --+
//! /etc/dgx-release + soc_id or cores  --+-> DGX Spark   (only together)
//! device tree "comma ...", /TICI      ----> comma device
//! device tree "NVIDIA Jetson ..."     ----> Jetson
//! ```
//!
//! There is no device tree on a DGX Spark (AMI UEFI, ACPI only), so none is asked
//! about it. Host names are never used: a user can change them. The `soc_id` and the
//! mix of cores are shared with N1X ("RTX Spark") laptops, so they only support.
//!
//! That a GB10 GPU without the family string is a DGX-Spark-class system is inferred:
//! no other product with it is known.
//!
//! Linux only: elsewhere every machine is [`PlatformKind::Other`] without a name.

pub(crate) mod container;
mod dgx_release;
mod dmi;
mod vendor;

use std::fmt;

pub use container::{Container, ContainerKind};
pub use dgx_release::DgxRelease;
pub use dmi::Dmi;
pub use vendor::SparkVendor;

use crate::capability::ComputeCapability;
use crate::cpu::{CoreKind, Cpu};
use crate::evidence::{Evidence, Signal};
use crate::gpu::{Gpu, known};
use crate::pci::PciDevice;
use crate::reading::{Reading, quote};
use crate::root::Root;

/// `soc_id` of the die that GB10 and N1X share (three first-hand dumps).
pub const SOC_ID_GB10_FAMILY: &str = "jep106:0426:8901";

/// The kind of machine.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum PlatformKind {
    /// NVIDIA DGX Spark or another vendor's machine of that family.
    DgxSpark {
        /// The company that built it, by the firmware's strings.
        vendor: SparkVendor,
        /// The vendor's name for it, if the firmware tells.
        model: Option<String>,
    },
    /// A comma device (tici, tizi, mici).
    Comma {
        /// The part of the device tree's model after "comma ".
        model: Option<String>,
    },
    /// An NVIDIA Jetson module or developer kit.
    Jetson {
        /// The device tree's model.
        model: Option<String>,
    },
    /// Anything else: a PC, a server, a virtual machine.
    Other {
        /// The firmware's vendor and product names, if it has any.
        name: Option<String>,
    },
}

/// The machine's kind and everything that was seen on the way to it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Platform {
    /// The kind that the evidence speaks for.
    pub kind: PlatformKind,
    /// What was seen, strongest first.
    pub evidence: Vec<Evidence>,
    /// Observations that do not fit the verdict.
    pub doubts: Vec<String>,
    /// Whether a GB10 was seen (PCI, NVML or CUDA).
    pub has_gb10: bool,
    /// Whether the firmware's family string is DGX Spark's.
    pub is_dgx_spark_family: bool,
    /// Whether DGX OS for Spark is installed.
    pub is_dgx_os: bool,
    /// Whether it is NVIDIA's own box.
    pub is_founders_edition: bool,
    /// Whether this process runs in a container.
    pub is_container: bool,
    /// Which kind of container, by what sign.
    pub container: Option<Container>,
    /// The strings that the firmware gives of the machine (DMI).
    pub dmi: Dmi,
    /// What `/etc/dgx-release` says; not supported where there is none.
    pub dgx_release: Reading<DgxRelease>,
}

impl Platform {
    /// Judges what is under `root` together with what CPU, PCI and GPUs say.
    #[must_use]
    pub fn detect(root: &Root, cpu: &Cpu, pci: &Reading<Vec<PciDevice>>, gpus: &[Gpu]) -> Self {
        let dmi = Dmi::read(root);
        let dgx_release = DgxRelease::read(root);
        let mut evidence = Vec::new();
        evidence.extend(family_evidence(&dmi));
        evidence.extend(pci_evidence(pci));
        evidence.extend(gpu_evidence(gpus));
        let supporting = [soc_evidence(root), core_evidence(cpu)];
        let is_n1x = devices(pci)
            .iter()
            .any(|device| known::is_n1x_pci(device.vendor, device.device));
        // An N1X shares the supporting signs: they say nothing where one is seen.
        let is_supported = !is_n1x && supporting.iter().any(Option::is_some);
        evidence.extend(release_evidence(&dgx_release, is_supported));
        evidence.extend(supporting.into_iter().flatten());

        let is_dgx_spark_family = dmi.is_dgx_spark_family();
        let has_gb10 = evidence.iter().any(|seen| {
            seen.decides && matches!(seen.signal, Signal::PciDevice | Signal::Nvml | Signal::Cuda)
        });
        let is_dgx_os = dgx_release.as_value().is_some_and(DgxRelease::is_dgx_spark);
        let is_spark = evidence.iter().any(|seen| seen.decides);
        let vendor = SparkVendor::from_dmi(&dmi);
        let kind = if is_spark {
            PlatformKind::DgxSpark {
                vendor,
                model: vendor.model(&dmi),
            }
        } else {
            device_tree_kind(root, &mut evidence).unwrap_or_else(|| PlatformKind::Other {
                name: firmware_name(&dmi),
            })
        };
        let mut doubts = Vec::new();
        if is_spark && !has_gb10 && gpus.iter().any(|gpu| gpu.pci_device.is_some()) {
            doubts.push("the system is called DGX Spark, but its NVIDIA GPU is no GB10".to_owned());
        }
        if is_spark && !is_dgx_spark_family && dmi.product_family.is_value() {
            doubts.push("a GB10 in a system whose product family is not DGX Spark".to_owned());
        }
        if is_spark && is_x86(cpu) {
            doubts.push(
                "the firmware calls this a DGX Spark, but its processor is none of Arm: a virtual machine, or \
                 strings that somebody set"
                    .to_owned(),
            );
        }
        let container = container::detect(root);
        Self {
            is_founders_edition: is_spark && is_dgx_spark_family && vendor == SparkVendor::Nvidia,
            is_container: container.is_some(),
            container,
            kind,
            evidence,
            doubts,
            has_gb10,
            is_dgx_spark_family,
            is_dgx_os,
            dmi,
            dgx_release,
        }
    }

    /// Whether the hardware is a DGX Spark of any vendor.
    #[must_use]
    pub fn is_dgx_spark(&self) -> bool {
        matches!(self.kind, PlatformKind::DgxSpark { .. })
    }
}

impl fmt::Display for PlatformKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DgxSpark {
                vendor,
                model: Some(model),
            } => {
                // Several vendors begin the model with their own name.
                let repeats = model.starts_with(&vendor.to_string());
                let maker = if repeats {
                    String::new()
                } else {
                    format!("{vendor} ")
                };
                write!(f, "DGX Spark ({maker}{model})")
            }
            Self::DgxSpark {
                vendor,
                model: None,
            } => write!(f, "DGX Spark ({vendor})"),
            Self::Comma { model } => write!(f, "comma {}", model.as_deref().unwrap_or("device")),
            Self::Jetson { model } => f.write_str(model.as_deref().unwrap_or("NVIDIA Jetson")),
            Self::Other { name } => f.write_str(name.as_deref().unwrap_or("unnamed machine")),
        }
    }
}

/// Whether every core is of a vendor that makes x86 processors.
fn is_x86(cpu: &Cpu) -> bool {
    let mut kinds = cpu.cores.iter().map(|core| core.kind);
    !cpu.cores.is_empty() && kinds.all(|kind| matches!(kind, CoreKind::Intel | CoreKind::Amd))
}

fn family_evidence(dmi: &Dmi) -> Option<Evidence> {
    let said = dmi
        .is_dgx_spark_family()
        .then(|| dmi.product_family.as_value())??;
    Some(Evidence {
        signal: Signal::DmiFamily,
        source: format!("{}/product_family", dmi::DIRECTORY),
        said: said.clone(),
        proves: "a system of the DGX Spark family",
        decides: true,
    })
}

fn devices(pci: &Reading<Vec<PciDevice>>) -> &[PciDevice] {
    pci.as_value().map(Vec::as_slice).unwrap_or_default()
}

fn pci_evidence(pci: &Reading<Vec<PciDevice>>) -> Vec<Evidence> {
    devices(pci)
        .iter()
        .filter_map(|device| {
            let proves = known::pci_meaning(device.vendor, device.device)?;
            Some(Evidence {
                signal: Signal::PciDevice,
                source: device.path(),
                said: device.id(),
                proves,
                decides: known::is_gb10_pci(device.vendor, device.device),
            })
        })
        .collect()
}

fn gpu_evidence(gpus: &[Gpu]) -> Vec<Evidence> {
    let mut seen = Vec::new();
    for gpu in gpus {
        let answers = [
            (
                Signal::Nvml,
                "NVML name and compute capability",
                &gpu.nvml_name,
                &gpu.nvml_compute,
            ),
            (
                Signal::Cuda,
                "CUDA name and compute capability",
                &gpu.cuda_name,
                &gpu.cuda_compute,
            ),
        ];
        for (signal, source, name, compute) in answers {
            let (Some(name), Some(compute)) = (name.as_value(), compute.as_value()) else {
                continue;
            };
            if known::is_gb10_name(name, *compute) {
                seen.push(Evidence {
                    signal,
                    source: source.to_owned(),
                    said: format!("{name}, {compute}"),
                    proves: "a GB10 GPU",
                    decides: *compute == ComputeCapability::GB10,
                });
            }
        }
    }
    seen
}

fn release_evidence(release: &Reading<DgxRelease>, supported: bool) -> Option<Evidence> {
    let release = release.as_value()?;
    let is_spark = release.is_dgx_spark();
    Some(Evidence {
        signal: Signal::DgxRelease,
        source: dgx_release::PATH.to_owned(),
        said: release.name.clone(),
        proves: if is_spark {
            "DGX OS for DGX Spark"
        } else {
            "DGX OS of another DGX system"
        },
        decides: is_spark && supported,
    })
}

fn soc_evidence(root: &Root) -> Option<Evidence> {
    const PATH: &str = "/sys/devices/soc0/soc_id";
    let said = root
        .line(PATH)
        .value()
        .filter(|id| id == SOC_ID_GB10_FAMILY)?;
    Some(Evidence {
        signal: Signal::SocId,
        source: PATH.to_owned(),
        said,
        proves: "the die of GB10 and N1X",
        decides: false,
    })
}

fn core_evidence(cpu: &Cpu) -> Option<Evidence> {
    let count = |kind| cpu.cores.iter().filter(|core| core.kind == kind).count();
    let (fast, efficient) = (count(CoreKind::CortexX925), count(CoreKind::CortexA725));
    (fast == 10 && efficient == 10).then(|| Evidence {
        signal: Signal::CpuCores,
        source: "MIDR of every CPU".to_owned(),
        said: format!("{fast} x Cortex-X925, {efficient} x Cortex-A725"),
        proves: "the CPU of GB10 and N1X",
        decides: false,
    })
}

/// comma devices and Jetsons, which have a device tree.
///
/// Sources: openpilot `system/hardware` (`/TICI`, model "comma tici" and so on);
/// Jetson Linux (`/etc/nv_tegra_release`, model "NVIDIA Jetson ...").
fn device_tree_kind(root: &Root, evidence: &mut Vec<Evidence>) -> Option<PlatformKind> {
    const MODELS: [&str; 2] = [
        "/proc/device-tree/model",
        "/sys/firmware/devicetree/base/model",
    ];
    let model = MODELS
        .iter()
        .find_map(|path| Some((*path, quote(&root.line(path).value()?))));
    let mut note = |signal, source: &str, said: &str, proves| {
        evidence.push(Evidence {
            signal,
            source: source.to_owned(),
            said: said.to_owned(),
            proves,
            decides: true,
        });
    };
    if let Some((path, text)) = model {
        if let Some(name) = text.strip_prefix("comma ") {
            note(Signal::DeviceTree, path, &text, "a comma device");
            return Some(PlatformKind::Comma {
                model: Some(name.trim().to_owned()),
            });
        }
        if text.starts_with("NVIDIA Jetson") {
            note(Signal::DeviceTree, path, &text, "a Jetson");
            return Some(PlatformKind::Jetson { model: Some(text) });
        }
    }
    if root.exists("/TICI") {
        note(Signal::MarkerFile, "/TICI", "present", "a comma device");
        return Some(PlatformKind::Comma { model: None });
    }
    if root.exists("/etc/nv_tegra_release") {
        note(
            Signal::MarkerFile,
            "/etc/nv_tegra_release",
            "present",
            "a Jetson",
        );
        return Some(PlatformKind::Jetson { model: None });
    }
    None
}

fn firmware_name(dmi: &Dmi) -> Option<String> {
    let parts = [&dmi.sys_vendor, &dmi.product_name].map(Reading::as_value);
    let words: Vec<&str> = parts.into_iter().flatten().map(String::as_str).collect();
    (!words.is_empty()).then(|| words.join(" "))
}
