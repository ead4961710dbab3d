//! The GPU at work: clocks, heat, and what it cannot do.

use crate::doctor::check::{Check, Examination};
use crate::doctor::facts::Facts;
use crate::doctor::verdict::{Seen, Severity, Verdict, found, not_examined, seen};
use crate::gpu::CudaAttribute;
use crate::limits::{BUSY_PERCENT, HOT_C, STUCK_MHZ};
use crate::nvml::{GpuSample, ThrottleReason};
use crate::reading::Reading;

use super::applies::{gpu_is_gone, no_gpu, other_than_spark};

pub(super) const CHECKS: &[Examination<Facts>] = &[
    Examination {
        check: Check {
            id: "gpu.usable",
            title: "CUDA offers an NVIDIA GPU to programs",
            source: "this crate: spark_hal::cuda",
        },
        run: usable,
    },
    Examination {
        check: Check {
            id: "gpu.low-power",
            title: "a busy GPU runs at its clocks",
            source: "parallelArchitect/sparkview, spark-gpu-throttle-check: stuck at 500-850 MHz and \
                 15-30 W while busy",
        },
        run: low_power,
    },
    Examination {
        check: Check {
            id: "gpu.spinning",
            title: "a busy GPU draws the power of work",
            source: "eugr/spark-vllm-docker issue #260: 96 % busy at 16-27 W, spinning without work",
        },
        run: spinning,
    },
    Examination {
        check: Check {
            id: "gpu.hot",
            title: "the GPU is not too hot",
            source: "NVIDIA developer forum, shutdowns under load",
        },
        run: hot,
    },
    Examination {
        check: Check {
            id: "gpu.direct-rdma",
            title: "nothing expects GPUDirect RDMA or GPUDirect Storage",
            source: "https://docs.nvidia.com/dgx/dgx-spark-porting-guide/porting/cuda.html",
        },
        run: direct_rdma,
    },
];

/// Power under which a busy GB10 at full clock counts as spinning: a little above the 16 to 27 W seen.
const SPINNING_MW: u32 = 28_000;

fn usable(facts: &Facts) -> Verdict {
    let machine = &facts.machine;
    if machine.gpus.iter().any(crate::gpu::Gpu::is_usable) {
        return Verdict::Passed;
    }
    let why = machine
        .cuda_failure
        .as_deref()
        .unwrap_or("no device could be described");
    if gpu_is_gone(facts) {
        return found(
            Severity::Error,
            "this is a DGX Spark and its GPU is gone from the PCI bus",
            vec![
                seen("/sys/bus/pci/devices", "no NVIDIA display device"),
                seen("CUDA", why),
            ],
            "reboot; if it stays away, unplug the power for 60 s, then see history.xid and ask the vendor",
        );
    }
    if let (Some(verdict @ Verdict::NotExamined(_)), [false, _]) =
        (no_gpu(facts), facts.asked_drivers())
    {
        return verdict;
    }
    if machine.gpus.is_empty() {
        let listed = if facts.root.entries("/sys/bus/pci/devices").is_value() {
            "no NVIDIA display device"
        } else {
            "not readable"
        };
        return found(
            Severity::Note,
            "there is no NVIDIA GPU here: work runs on the CPU",
            vec![seen("/sys/bus/pci/devices", listed), seen("CUDA", why)],
            "nothing to mend, unless a GPU is plugged in: then see `lspci -d 10de:`",
        );
    }
    if let [false, _] = facts.asked_drivers() {
        return not_examined("needs the CUDA driver, which was not asked: files alone do not say");
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
    if let Some(verdict) = other_than_spark(facts) {
        return verdict;
    }
    at_work(facts, &|looks| {
        let last = looks[looks.len() - 1];
        let throttle = reasons(last);
        let clocks: Option<Vec<u32>> = looks
            .iter()
            .map(|look| look.sm_clock_mhz.as_value().copied())
            .collect();
        let Some(clocks) = clocks else {
            return not_examined("needs the clock of the multiprocessors from NVML");
        };
        // One look may fall on the start of a kernel.
        if clocks.iter().any(|clock| *clock >= STUCK_MHZ) {
            return Verdict::Passed;
        }
        if throttle.contains(&ThrottleReason::ApplicationClocks) {
            return not_examined(format!(
                "needs clocks that nobody holds at {} MHz: sudo nvidia-smi -rgc",
                last.sm_clock_mhz
            ));
        }
        if is_hot(last) {
            return not_examined("needs a cool GPU; see gpu.hot");
        }
        found(
            Severity::Error,
            "the GPU is busy, cool and slow: its power supply is not trusted or its firmware is stuck",
            working(last),
            "shut down, unplug the power for a minute, use the original 240 W supply; then \
             update the firmware",
        )
    })
}

fn spinning(facts: &Facts) -> Verdict {
    if let Some(verdict) = other_than_spark(facts) {
        return verdict;
    }
    at_work(facts, &|looks| {
        let last = looks[looks.len() - 1];
        let most = looks.iter().map(|look| look.power_mw.as_value().copied());
        let most: Option<Vec<u32>> = most.collect();
        let Some(most) = most.and_then(|power| power.into_iter().max()) else {
            return not_examined("needs the power drawn from NVML");
        };
        let is_slow = last
            .sm_clock_mhz
            .as_value()
            .is_some_and(|clock| *clock < STUCK_MHZ);
        if most >= SPINNING_MW {
            return Verdict::Passed;
        }
        if is_slow {
            return not_examined("needs a GPU at its clocks; see gpu.low-power");
        }
        found(
            Severity::Warning,
            "the GPU is busy at full clock and draws no more power than an idle loop: a kernel may \
             wait for ever",
            working(last),
            "see whether the program still makes progress; if not, end it, and if it cannot be \
             ended, reboot",
        )
    })
}

/// Judges every GPU that worked through all looks; what nothing ran on was not examined.
fn at_work(facts: &Facts, judge: &dyn Fn(&[&GpuSample]) -> Verdict) -> Verdict {
    let mut needed = "needs an NVML that answers".to_owned();
    let mut n_passed = 0;
    let mut n_gpus = 0;
    for gpu in &facts.machine.gpus {
        n_gpus += 1;
        let looks = gpu.nvml_index.map(|number| facts.looks_at(number));
        let looks = looks.unwrap_or_default();
        let Some(last) = looks.last() else {
            continue;
        };
        if !last.utilization_percent.is_value() {
            needed = "needs the utilization of the GPU from NVML".to_owned();
            continue;
        }
        if looks.len() < 2 || !looks.iter().all(|look| is_busy(look)) {
            needed = format!(
                "needs a GPU at work (more than {BUSY_PERCENT} % busy); it was {} % busy: run a \
                 program on it and the doctor beside it",
                last.utilization_percent
            );
            continue;
        }
        match judge(&looks) {
            Verdict::Passed => n_passed += 1,
            Verdict::NotExamined(why) => needed = why,
            verdict => return verdict,
        }
    }
    if n_passed > 0 && n_passed == n_gpus {
        Verdict::Passed
    } else {
        not_examined(needed)
    }
}

fn is_busy(look: &GpuSample) -> bool {
    look.utilization_percent
        .as_value()
        .is_some_and(|busy| *busy > BUSY_PERCENT)
}

fn reasons(look: &GpuSample) -> &[ThrottleReason] {
    look.throttle
        .as_value()
        .map(Vec::as_slice)
        .unwrap_or_default()
}

fn is_hot(look: &GpuSample) -> bool {
    let is_warm = |degrees: &u32| *degrees >= HOT_C;
    look.temperature_c.as_value().is_some_and(is_warm)
        || reasons(look).iter().any(|reason| reason.is_thermal())
}

/// What a working GPU said.
fn working(look: &GpuSample) -> Vec<Seen> {
    vec![
        seen(
            "nvmlDeviceGetUtilizationRates",
            percent(&look.utilization_percent),
        ),
        seen(
            "nvmlDeviceGetClockInfo",
            format!("{} MHz", look.sm_clock_mhz),
        ),
        seen(
            "nvmlDeviceGetTemperature",
            format!("{} C", look.temperature_c),
        ),
        seen("nvmlDeviceGetPowerUsage", format!("{} mW", look.power_mw)),
    ]
}

fn percent(reading: &Reading<u32>) -> String {
    format!("{reading} %")
}

fn hot(facts: &Facts) -> Verdict {
    if let Some(verdict) = no_gpu(facts) {
        return verdict;
    }
    let mut n_known = 0;
    for gpu in &facts.machine.gpus {
        let looks = gpu.nvml_index.map(|number| facts.looks_at(number));
        let Some(sample) = looks.and_then(|looks| looks.last().copied()) else {
            continue;
        };
        let degrees = sample.temperature_c.as_value();
        let throttle = reasons(sample);
        let is_throttled = throttle.iter().any(|reason| reason.is_thermal());
        if degrees.is_none_or(|degrees| *degrees <= HOT_C) && !is_throttled {
            n_known += usize::from(degrees.is_some());
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
    if n_known == facts.machine.gpus.len() {
        Verdict::Passed
    } else {
        not_examined("needs the temperature of every GPU from NVML")
    }
}

fn direct_rdma(facts: &Facts) -> Verdict {
    const MODULES: [&str; 4] = ["nvidia-peermem", "nvidia_peermem", "nvidia-fs", "nvidia_fs"];
    const LOAD: &str = "/etc/modules-load.d";
    if let Some(verdict) = other_than_spark(facts) {
        return verdict;
    }
    let supported = facts.attribute(CudaAttribute::GpuDirectRdmaSupported);
    if matches!(supported, Reading::Value(value) if value != 0) {
        return Verdict::Passed;
    }
    let listing = facts.root.entries(LOAD);
    let files = listing.as_value().map(Vec::as_slice).unwrap_or_default();
    let read = |file: &String| facts.root.text(&format!("{LOAD}/{file}"));
    let expected = files.iter().find_map(|file| {
        let path = format!("{LOAD}/{file}");
        let text = read(file).value()?;
        let line = text.lines().find(|line| MODULES.contains(&line.trim()))?;
        Some(seen(path, line.trim()))
    });
    let Some(expected) = expected else {
        // A system that loads nothing by name has no such folder; one without /etc was not seen.
        if matches!(listing, Reading::Failed(_)) || !facts.root.exists("/etc") {
            return not_examined(format!("needs {LOAD}"));
        }
        if let Some(file) = files.iter().find(|file| !read(file).is_value()) {
            return not_examined(format!("needs {LOAD}/{file}"));
        }
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
