//! Joins the answers of PCI, NVML and CUDA about the same GPU.

use crate::capability::ComputeCapability;
use crate::cuda::{Attributes, CudaAttribute, CudaDevice};
use crate::memory::Memory;
use crate::nvml::NvmlDevice;
use crate::pci::{PciAddress, PciDevice, VENDOR_NVIDIA};
use crate::precision::Precision;
use crate::reading::{Failure, Reading};
use crate::stack::Stack;

use super::device::Gpu;
use super::parts::Parts;
use super::recommend::recommend;
use super::{known, memory};

/// One [`Gpu`] per device that any source knows: NVML's order first, then CUDA's, then PCI's.
#[must_use]
pub fn merge(
    pci: &[PciDevice],
    nvml: &[NvmlDevice],
    cuda: &[CudaDevice],
    machine: &Memory,
    stack: &Stack,
) -> Vec<Gpu> {
    let mut all: Vec<Parts> = Vec::new();
    for device in nvml {
        let address = device.address.as_value().copied();
        all.push(Parts {
            pci: address.and_then(|address| pci_at(pci, address)),
            nvml: Some(device.clone()),
            cuda: None,
        });
    }
    for device in cuda {
        let same = all
            .iter_mut()
            .find(|parts| parts.cuda.is_none() && is_same(parts, device));
        if let Some(parts) = same {
            parts.cuda = Some(device.clone());
        } else {
            let address = device.address.as_value().copied();
            all.push(Parts {
                pci: address.and_then(|address| pci_at(pci, address)),
                nvml: None,
                cuda: Some(device.clone()),
            });
        }
    }
    for device in pci
        .iter()
        .filter(|device| device.vendor == VENDOR_NVIDIA && device.is_display())
    {
        let is_new = all
            .iter()
            .all(|parts| parts.address() != Some(device.address));
        if is_new {
            all.push(Parts {
                pci: Some(device.clone()),
                nvml: None,
                cuda: None,
            });
        }
    }
    all.into_iter()
        .map(|parts| describe(parts, machine, stack))
        .collect()
}

fn pci_at(pci: &[PciDevice], address: PciAddress) -> Option<PciDevice> {
    pci.iter().find(|device| device.address == address).cloned()
}

/// By PCI address; by UUID where a source could not tell the address.
fn is_same(parts: &Parts, cuda: &CudaDevice) -> bool {
    let Some(nvml) = &parts.nvml else {
        return false;
    };
    match (nvml.address.as_value(), cuda.address.as_value()) {
        (Some(a), Some(b)) => a == b,
        _ => matches!((&nvml.uuid, &cuda.uuid), (Reading::Value(a), Reading::Value(b)) if a == b),
    }
}

fn describe(parts: Parts, machine: &Memory, stack: &Stack) -> Gpu {
    let nvml = parts.nvml.as_ref();
    let cuda = parts.cuda.as_ref();
    let nvml_name = ask(nvml, "NVML", |gpu| gpu.name.clone());
    let cuda_name = ask(cuda, "CUDA", |gpu| gpu.name.clone());
    let nvml_compute = ask(nvml, "NVML", |gpu| gpu.compute.clone());
    let cuda_compute = ask(cuda, "CUDA", |gpu| gpu.compute.clone());
    let attributes = cuda.map_or_else(Attributes::default, |gpu| gpu.attributes.clone());
    let clock_by_cuda = attributes
        .count(CudaAttribute::ClockRate)
        .map(|khz| khz / 1000);
    let clock_by_nvml = ask(nvml, "NVML", |gpu| gpu.max_sm_clock_mhz.clone());
    let compute_capability = first(&cuda_compute, &nvml_compute);
    let compute = compute_capability.as_value().copied();
    Gpu {
        name: first(
            &nvml_name,
            &first(&cuda_name, &known_name(parts.pci.as_ref())),
        ),
        uuid: first(
            &ask(nvml, "NVML", |gpu| gpu.uuid.clone()),
            &ask(cuda, "CUDA", |gpu| gpu.uuid.clone()),
        ),
        address: parts.address(),
        memory: memory::judge(&parts, machine),
        nvml_index: nvml.map(|gpu| gpu.index),
        cuda_ordinal: cuda.map(|gpu| gpu.ordinal),
        sm_count: attributes.count(CudaAttribute::MultiprocessorCount),
        max_sm_clock_mhz: first(&clock_by_nvml, &clock_by_cuda),
        supported: compute.map_or_else(|| vec![Precision::Fp32], ComputeCapability::supported),
        fastest: compute.map_or(Precision::Fp32, ComputeCapability::fastest),
        recommended: recommend(compute, cuda.is_some(), stack),
        compute_capability,
        attributes,
        pci_device: parts.pci,
        nvml_name,
        nvml_compute,
        cuda_name,
        cuda_compute,
    }
}

/// What a source says of a GPU, or that it does not know the GPU.
fn ask<S, T>(source: Option<&S>, who: &str, get: impl Fn(&S) -> Reading<T>) -> Reading<T> {
    source.map_or_else(
        || no_source(&format!("{who} did not describe this GPU")),
        get,
    )
}

/// The first source with a value; without one, the first source's reason.
fn first<T: Clone>(preferred: &Reading<T>, other: &Reading<T>) -> Reading<T> {
    match (preferred, other) {
        (Reading::Value(_), _) => preferred.clone(),
        (_, Reading::Value(_)) => other.clone(),
        _ => preferred.clone(),
    }
}

fn known_name(pci: Option<&PciDevice>) -> Reading<String> {
    match pci {
        Some(pci) if known::is_gb10_pci(pci.vendor, pci.device) => {
            Reading::Value("NVIDIA GB10".to_owned())
        }
        Some(pci) => no_source(&format!("no driver names PCI device {}", pci.id())),
        None => no_source("no driver to ask"),
    }
}

fn no_source<T>(reason: &str) -> Reading<T> {
    Reading::Failed(Failure::NoSource {
        reason: reason.to_owned(),
    })
}
