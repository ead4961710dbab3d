//! Whether checks of an area say anything about this machine.

use crate::doctor::facts::Facts;
use crate::doctor::verdict::{Verdict, not_applicable, not_examined};
use crate::gpu::Gpu;

/// Why a check does not run here, if the traps of DGX Spark are not those of this machine.
pub(super) fn other_than_spark(facts: &Facts) -> Option<Verdict> {
    if facts.is_spark() {
        None
    } else if facts.has_signs() {
        Some(not_applicable("concerns DGX Spark only"))
    } else {
        Some(not_examined(
            "needs to know whether this is a DGX Spark: /sys/class/dmi/id or /sys/bus/pci/devices",
        ))
    }
}

/// Why a check of GPUs does not run here, if there is none.
pub(super) fn no_gpu(facts: &Facts) -> Option<Verdict> {
    if !facts.machine.gpus.is_empty() {
        None
    } else if facts.machine.gpus_unknown.is_none() {
        Some(not_applicable("no NVIDIA GPU"))
    } else {
        Some(not_examined(
            "needs to know whether there is an NVIDIA GPU: /sys/bus/pci/devices, or a driver",
        ))
    }
}

/// Whether a DGX Spark's own GPU is not on its PCI bus, which could be read.
pub(super) fn gpu_is_gone(facts: &Facts) -> bool {
    let devices = facts.root.entries("/sys/bus/pci/devices");
    facts.is_spark()
        && facts.machine.gpus.is_empty()
        && !facts.machine.platform.is_container
        && devices
            .as_value()
            .is_some_and(|devices| !devices.is_empty())
}

/// Why a check of unified memory does not run here.
pub(super) fn no_unified(facts: &Facts) -> Option<Verdict> {
    let gpus = &facts.machine.gpus;
    if gpus.iter().any(Gpu::is_unified) {
        return None;
    }
    if let Some(verdict) = no_gpu(facts) {
        return Some(verdict);
    }
    if gpus.iter().all(|gpu| gpu.memory.is_value()) {
        return Some(not_applicable("no GPU with unified memory"));
    }
    Some(not_examined(
        "needs to know whose memory the GPU works in: CUDA, NVML or /proc/meminfo",
    ))
}
