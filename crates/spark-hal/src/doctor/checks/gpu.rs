//! The GPU at work: clocks, heat, and what it cannot do.

use super::super::facts::BUSY_PERCENT;
use super::{Check, Facts, NOT_SPARK, Severity, Verdict, found, not_applicable, seen};
use crate::gpu::CudaAttribute;
use crate::nvml::{GpuSample, ThrottleReason};
use crate::reading::Reading;

pub(super) const CHECKS: &[Check] = &[
    Check {
        id: "gpu.usable",
        title: "programs can compute on an NVIDIA GPU",
        source: "this crate: spark_hal::cuda",
        run: usable,
    },
    Check {
        id: "gpu.low-power",
        title: "a busy GPU runs at its clocks",
        source: "parallelArchitect/sparkview, spark-gpu-throttle-check: stuck at 500-850 MHz and \
                 15-30 W while busy",
        run: low_power,
    },
    Check {
        id: "gpu.hot",
        title: "the GPU is not too hot",
        source: "NVIDIA developer forum, shutdowns under load",
        run: hot,
    },
    Check {
        id: "gpu.direct-rdma",
        title: "nothing expects GPUDirect RDMA or GPUDirect Storage",
        source: "https://docs.nvidia.com/dgx/dgx-spark-porting-guide/porting/cuda.html",
        run: direct_rdma,
    },
];

/// Clock under which a busy GB10 counts as stuck (sparkview's limit).
const STUCK_MHZ: u32 = 1400;
const HOT_C: u32 = 85;

fn usable(facts: &Facts) -> Verdict {
    let machine = &facts.machine;
    if machine.gpus.iter().any(crate::gpu::Gpu::is_usable) {
        return Verdict::Passed;
    }
    let why = machine
        .cuda_failure
        .as_deref()
        .unwrap_or("no device could be described");
    if machine.gpus.is_empty() {
        return found(
            Severity::Note,
            "there is no NVIDIA GPU here: work runs on the CPU",
            vec![
                seen("/sys/bus/pci/devices", "no NVIDIA display device"),
                seen("CUDA", why),
            ],
            "nothing to mend, unless a GPU is plugged in: then see `lspci -d 10de:`",
        );
    }
    found(
        Severity::Error,
        "there is an NVIDIA GPU and programs cannot compute on it",
        vec![seen("CUDA", why)],
        "check that CUDA and CUDA_VISIBLE_DEVICES do not hide it and that libcuda.so.1 is \
         installed with the driver",
    )
}

fn low_power(facts: &Facts) -> Verdict {
    if !facts.is_spark() {
        return not_applicable(NOT_SPARK);
    }
    if facts.looks.is_empty() {
        return not_applicable("NVML did not answer");
    }
    for gpu in &facts.machine.gpus {
        let Some(number) = gpu.nvml_index else {
            continue;
        };
        let looks = facts.looks_at(number);
        // One look may fall on the start of a kernel; a cap set by somebody is no fault.
        if looks.len() < 2 || !looks.iter().all(|look| is_stuck(look)) {
            continue;
        }
        let last = looks[looks.len() - 1];
        return found(
            Severity::Error,
            "the GPU is busy, cool and slow: its power supply is not trusted or its firmware is stuck",
            vec![
                seen(
                    "nvmlDeviceGetUtilizationRates",
                    percent(&last.utilization_percent),
                ),
                seen(
                    "nvmlDeviceGetClockInfo",
                    format!("{} MHz", last.sm_clock_mhz),
                ),
                seen(
                    "nvmlDeviceGetTemperature",
                    format!("{} C", last.temperature_c),
                ),
                seen("nvmlDeviceGetPowerUsage", format!("{} mW", last.power_mw)),
            ],
            "shut down, unplug the power for a minute, use the original 240 W supply; then \
             update the firmware",
        );
    }
    Verdict::Passed
}

fn is_stuck(look: &GpuSample) -> bool {
    let throttle = look
        .throttle
        .as_value()
        .map(Vec::as_slice)
        .unwrap_or_default();
    let is_capped = throttle.contains(&ThrottleReason::ApplicationClocks);
    let is_cool = look
        .temperature_c
        .as_value()
        .is_none_or(|degrees| *degrees < HOT_C)
        && !throttle.iter().any(|reason| reason.is_thermal());
    let is_busy = look
        .utilization_percent
        .as_value()
        .is_some_and(|busy| *busy > BUSY_PERCENT);
    let is_slow = look
        .sm_clock_mhz
        .as_value()
        .is_some_and(|clock| *clock < STUCK_MHZ);
    is_busy && is_slow && is_cool && !is_capped
}

fn percent(reading: &Reading<u32>) -> String {
    format!("{reading} %")
}

fn hot(facts: &Facts) -> Verdict {
    let Some(look) = facts.looks.last() else {
        return not_applicable("NVML did not answer");
    };
    for sample in look.values() {
        let degrees = sample.temperature_c.as_value().copied().unwrap_or(0);
        let throttle = sample
            .throttle
            .as_value()
            .map(Vec::as_slice)
            .unwrap_or_default();
        let is_throttled = throttle.iter().any(|reason| reason.is_thermal());
        if degrees <= HOT_C && !is_throttled {
            continue;
        }
        let reasons: Vec<&str> = throttle.iter().map(|reason| reason.name()).collect();
        return found(
            Severity::Warning,
            "the GPU is too hot",
            vec![
                seen(
                    "nvmlDeviceGetTemperature",
                    format!("{} C", sample.temperature_c),
                ),
                seen(
                    "nvmlDeviceGetCurrentClocksThrottleReasons",
                    reasons.join(" "),
                ),
            ],
            "free the air flow; until then: sudo nvidia-smi -lgc 0,2100",
        );
    }
    Verdict::Passed
}

fn direct_rdma(facts: &Facts) -> Verdict {
    const MODULES: [&str; 4] = ["nvidia-peermem", "nvidia_peermem", "nvidia-fs", "nvidia_fs"];
    const LOAD: &str = "/etc/modules-load.d";
    if !facts.is_spark() {
        return not_applicable(NOT_SPARK);
    }
    let supported = facts.attribute(CudaAttribute::GpuDirectRdmaSupported);
    if matches!(supported, Reading::Value(value) if value != 0) {
        return Verdict::Passed;
    }
    let files = facts.root.entries(LOAD).value().unwrap_or_default();
    let expected = files.iter().find_map(|file| {
        let path = format!("{LOAD}/{file}");
        let text = facts.root.text(&path).value()?;
        let line = text.lines().find(|line| MODULES.contains(&line.trim()))?;
        Some(seen(path, line.trim()))
    });
    let Some(expected) = expected else {
        return Verdict::Passed;
    };
    let mut evidence = vec![expected];
    if supported.is_value() {
        evidence.push(seen(
            "CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED",
            supported,
        ));
    }
    found(
        Severity::Warning,
        "this system loads a module for GPUDirect, which a GB10 does not have",
        evidence,
        "remove the line; for RDMA allocate with cudaHostAlloc and register with ibv_reg_mr",
    )
}
