//! The machine under load (`Facts::load`), held against what owners of healthy and of ill ones have published.
//!
//! | of a GB10 at work | healthy | ill | source, date |
//! |---|---|---|---|
//! | clock | 2184 to 2418 MHz | 500 to 850 MHz | Blackwellboy/model-serving-minefield #55 (2026-08-20); NVIDIA forum 361296; held at 2200: tonyd2wild's #1, below |
//! | power | 45 to 93 W | 15 to 20 W, capped at 30 W | the same #55; eugr/spark-vllm-docker #260; <https://ai-muninn.com/en/blog/dgx-spark-30w-power-safety-mode> |
//! | spinning | | 96 % busy at 16 to 27 W | eugr/spark-vllm-docker #260 (2026-07-17) |
//! | read by a kernel | 206 to 235 GB/s | a 3.3th of it at a clock that looks well | antirez/ds4 #773 (2026-08-10); tonyd2wild/DeepSeek-V4.1-Flash-vLLM-DGX-Spark #1 (2026-09-11) |
//! | copy by the driver, read and write | 183 to 226 GB/s | | the same #1; huggingface/kernels #283 (2026-02-14) |
//! | copy by one CPU thread | about 26 GB/s | a third | sbc-bench; graham33/nixos-dgx-spark (CPPC) |
//!
//! Inferred, and said to be: what arithmetic in registers reaches at a clock. A multiprocessor multiplies and adds on 64
//! or 128 lanes per clock (CUDA C++ Programming Guide, throughput of arithmetic instructions), so that a rate tells the clock that work was
//! done at. Limits between healthy and ill are this crate's choice, well below the one and above the other. Products are not judged by
//! their rate: nobody has published what this project's kernel reaches.

use crate::capability::ComputeCapability;
use crate::doctor::check::{Check, Examination};
use crate::doctor::facts::Facts;
use crate::doctor::load::{GpuLoad, Phase, Results, Work};
use crate::doctor::verdict::{Seen, Severity, Verdict, found, not_examined, seen};
use crate::limits::{BUSY_PERCENT, STUCK_MHZ};
use crate::nvml::{GpuSample, ThrottleReason};
use crate::precision::Precision;
use crate::reading::Reading;

use super::applies::{no_gpu, other_than_spark};

pub(super) const CHECKS: &[Examination<Facts>] = &[
    Examination {
        check: Check {
            id: "load.clocks",
            title: "the GPU runs at its clocks under load",
            source: "Blackwellboy/model-serving-minefield #55 (2026-08-20): 799 MHz and 19.5 W stuck, 2281 MHz and \
                 92.5 W healthy; hoesing/spark-gpu-throttle-check: below 1400 MHz",
        },
        run: clocks,
    },
    Examination {
        check: Check {
            id: "load.power",
            title: "the GPU gets the power of work, and does work with it",
            source: "https://ai-muninn.com/en/blog/dgx-spark-30w-power-safety-mode: capped at 30 W; \
                 eugr/spark-vllm-docker #260 (2026-07-17): 96 % busy at 16-27 W without work",
        },
        run: power,
    },
    Examination {
        check: Check {
            id: "load.arithmetic",
            title: "the GPU computes as fast as its clock says (inferred from its lanes)",
            source: "CUDA C++ Programming Guide, throughput of arithmetic instructions; \
                 tonyd2wild/DeepSeek-V4.1-Flash-vLLM-DGX-Spark #1 (2026-09-11): slow at a normal clock",
        },
        run: arithmetic,
    },
    Examination {
        check: Check {
            id: "load.bandwidth",
            title: "the GPU reads and copies memory as fast as others do",
            source: "antirez/ds4 #773 (2026-08-10): 231-234 GB/s read; \
                 tonyd2wild/DeepSeek-V4.1-Flash-vLLM-DGX-Spark #1 (2026-09-11): 206-235 read, 183-226 copied, a 3.3th read in the slow state",
        },
        run: bandwidth,
    },
    Examination {
        check: Check {
            id: "load.gemm",
            title: "matrix products, and all else that is computed under load, come out right",
            source: "this crate: exact results are known beforehand",
        },
        run: results,
    },
    Examination {
        check: Check {
            id: "load.precision",
            title: "the precision that is recommended is not slower than another, measured here",
            source: "NVIDIA/cutlass #3227 (2026-05-19): native NVFP4 7-25 % slower than FP4 weights at 16 bits on a GB10",
        },
        run: precision,
    },
    Examination {
        check: Check {
            id: "load.host-memory",
            title: "one thread of the processor copies memory as fast as others do",
            source: "sbc-bench of a GB10: about 26 GB/s; graham33/nixos-dgx-spark: a third of it without the kernel's \
                 cppc_cpufreq.auto_sel_mode=1",
        },
        run: host_memory,
    },
];

const MEASURE: &str = "sparkpilot doctor --load 10s";
/// Below every clock of a healthy GB10 at work.
const SLOW_MHZ: u32 = 2000;
/// Between the caps of 30 W and the 45 W and more of healthy ones.
const CAPPED_MW: u32 = 40_000;
/// Below the slowest of healthy machines (183), and twice what the slow state reads (70).
const SLOW_GB_PER_S: f64 = 150.0;
/// More than memory of 273 GB/s gives.
const MOST_GB_PER_S: f64 = 273.0;
/// Share of a rate under which a GPU counts as slow at its clock; the slow state that was seen has 0.3.
const SLOW_SHARE: f64 = 0.5;
/// Below this share of a healthy rate no GPU computes: an interpreter, or a program under a debugger.
const EMULATED_SHARE: f64 = 0.01;
/// A third of 26 GB/s is 8.7.
const SLOW_COPY_GB_PER_S: f64 = 10.0;
/// Percent of time with a kernel before anything was started.
const OTHERS_PERCENT: u32 = 10;

/// What a GPU did; or what it would take to say something of it.
fn loaded(facts: &Facts) -> Result<&GpuLoad, Verdict> {
    let Some(load) = &facts.load else {
        return Err(not_examined(format!("needs work on the GPU: {MEASURE}")));
    };
    let gpu = load
        .gpu
        .as_ref()
        .map_err(|why| not_examined(format!("needs a GPU that can be loaded: {why}")))?;
    let before = gpu
        .before
        .as_ref()
        .map(|before| &before.utilization_percent);
    match before {
        Some(Reading::Value(busy)) if *busy > OTHERS_PERCENT => Err(not_examined(format!(
            "needs a GPU that nobody else uses: it was {busy} % busy before"
        ))),
        _ => Ok(gpu),
    }
}

/// The same of a GB10, whose bands alone are known.
fn loaded_spark(facts: &Facts) -> Result<&GpuLoad, Verdict> {
    other_than_spark(facts).map_or(Ok(()), Err)?;
    let gpu = loaded(facts)?;
    if gpu.compute == Some(ComputeCapability::GB10) {
        Ok(gpu)
    } else {
        Err(not_examined(format!(
            "needs a load of the GB10: {} was loaded",
            gpu.name
        )))
    }
}

fn loaded_any(facts: &Facts) -> Result<&GpuLoad, Verdict> {
    no_gpu(facts).map_or(Ok(()), Err)?;
    loaded(facts)
}

/// Looks at the GPU while it computed.
fn at_work(gpu: &GpuLoad) -> Vec<&GpuSample> {
    let of_arithmetic =
        |phase: &&Phase| matches!(phase.work, Work::Arithmetic | Work::Product { .. });
    let phases = gpu.phases.iter().filter(of_arithmetic);
    phases.flat_map(|phase| &phase.samples).collect()
}

fn median_mhz<'a>(samples: impl IntoIterator<Item = &'a GpuSample>) -> Option<u32> {
    let clocks = samples.into_iter();
    let clocks = clocks.filter_map(|sample| sample.sm_clock_mhz.as_value().copied());
    let mut clocks: Vec<u32> = clocks.collect();
    clocks.sort_unstable();
    clocks.get(clocks.len().saturating_sub(1) / 2).copied()
}

fn most_mw(samples: &[&GpuSample]) -> Option<u32> {
    let power = samples.iter();
    power
        .filter_map(|sample| sample.power_mw.as_value().copied())
        .max()
}

fn is_said(samples: &[&GpuSample], wanted: fn(&ThrottleReason) -> bool) -> bool {
    let reasons = samples
        .iter()
        .filter_map(|sample| sample.throttle.as_value());
    reasons.flatten().any(wanted)
}

/// What NVML said meanwhile, each in one line.
fn meanwhile(samples: &[&GpuSample]) -> Vec<Seen> {
    let mut evidence = Vec::new();
    if let Some(clock) = median_mhz(samples.iter().copied()) {
        evidence.push(seen(
            "nvmlDeviceGetClockInfo",
            format!("{clock} MHz, the median of {} looks", samples.len()),
        ));
    }
    if let Some(power) = most_mw(samples) {
        evidence.push(seen(
            "nvmlDeviceGetPowerUsage",
            format!("{:.1} W at most", f64::from(power) / 1e3),
        ));
    }
    if let Some(last) = samples.last() {
        evidence.push(seen(
            "nvmlDeviceGetUtilizationRates",
            format!("{} %", last.utilization_percent),
        ));
        evidence.push(seen(
            "nvmlDeviceGetTemperature",
            format!("{} C", last.temperature_c),
        ));
        let reasons = last.throttle.as_value().map(|reasons| {
            let names: Vec<&str> = reasons.iter().map(|reason| reason.name()).collect();
            if names.is_empty() {
                "none".to_owned()
            } else {
                names.join(" ")
            }
        });
        evidence.push(seen(
            "nvmlDeviceGetCurrentClocksThrottleReasons",
            reasons.unwrap_or_else(|| "not told".to_owned()),
        ));
    }
    evidence
}

const UNPLUG: &str = "if clocks were set with nvidia-smi -lgc: sudo nvidia-smi -rgc; else shut down, unplug the \
     supply from wall and machine for a minute, use the original one of 240 W; then update the firmware; if it comes back, \
     the machine is a case for its warranty";

fn clocks(facts: &Facts) -> Verdict {
    let gpu = match loaded_spark(facts) {
        Ok(gpu) => gpu,
        Err(verdict) => return verdict,
    };
    let samples = at_work(gpu);
    let Some(clock) = median_mhz(samples.iter().copied()) else {
        return not_examined("needs the clock of the multiprocessors from NVML under load");
    };
    if clock >= STUCK_MHZ {
        return Verdict::Passed;
    }
    if is_said(&samples, |reason| reason.is_thermal()) {
        return found(
            Severity::Warning,
            format!("under load the GPU gets too hot and falls to {clock} MHz"),
            meanwhile(&samples),
            "free the air flow; until then: sudo nvidia-smi -lgc 0,2100",
        );
    }
    if is_said(&samples, |reason| {
        *reason == ThrottleReason::ApplicationClocks
    }) {
        return not_examined(format!(
            "needs clocks that nobody holds at {clock} MHz: sudo nvidia-smi -rgc"
        ));
    }
    found(
        Severity::Error,
        format!("under load the GPU stays at {clock} MHz, of about 2400"),
        meanwhile(&samples),
        UNPLUG,
    )
}

fn power(facts: &Facts) -> Verdict {
    let gpu = match loaded_spark(facts) {
        Ok(gpu) => gpu,
        Err(verdict) => return verdict,
    };
    let samples = at_work(gpu);
    let Some(most) = most_mw(&samples) else {
        return not_examined("needs the power drawn from NVML under load");
    };
    if most >= CAPPED_MW {
        return Verdict::Passed;
    }
    let is_busy = |sample: &&GpuSample| {
        let busy = sample.utilization_percent.as_value();
        busy.is_none_or(|busy| *busy > BUSY_PERCENT)
    };
    if !samples.iter().all(is_busy) {
        return not_examined("needs a GPU that is busy under load, as NVML sees it");
    }
    let watts = f64::from(most) / 1e3;
    let Some(clock) = median_mhz(samples.iter().copied()) else {
        return not_examined(format!(
            "needs the clock of the multiprocessors from NVML: {watts:.0} W say too little alone"
        ));
    };
    let is_held = is_said(&samples, |reason| {
        *reason == ThrottleReason::ApplicationClocks
    });
    let is_capped = is_said(&samples, |reason| *reason == ThrottleReason::PowerCap);
    if is_capped || (clock < SLOW_MHZ && !is_held) {
        return found(
            Severity::Error,
            format!(
                "under load the GPU draws {watts:.0} W at most and runs at {clock} MHz: its power is capped, healthy ones draw 45 to 93 W"
            ),
            meanwhile(&samples),
            UNPLUG,
        );
    }
    // Little power, full clock: the work done says whether it computes or waits.
    match share_of_clock(gpu) {
        Err(verdict) => verdict,
        Ok(share) if share.of_expected >= SLOW_SHARE => Verdict::Passed,
        Ok(share) => found(
            Severity::Warning,
            format!(
                "the GPU is busy at full clock, draws {watts:.0} W and gets little done: something spins"
            ),
            [meanwhile(&samples), vec![share.seen]].concat(),
            "see with nvidia-smi what else runs on it, and end that; if it cannot be ended, reboot",
        ),
    }
}

/// What arithmetic reached of what lanes and clock allow.
struct Share {
    of_expected: f64,
    tflops: f64,
    expected: f64,
    seen: Seen,
}

/// Additions with multiplication that a multiprocessor does per clock.
fn lanes(compute: ComputeCapability) -> Option<u32> {
    match compute.sm() {
        50..60 | 61 | 62 | 86..=90 | 100..=121 => Some(128),
        60 | 70..=80 => Some(64),
        _ => None,
    }
}

fn share_of_clock(gpu: &GpuLoad) -> Result<Share, Verdict> {
    let Some(phase) = gpu.phase(Work::Arithmetic) else {
        return Err(not_examined(format!("needs a run to its end: {MEASURE}")));
    };
    let tflops = phase.rate.median;
    let Some(lanes) = gpu.compute.and_then(lanes) else {
        return Err(not_examined(format!(
            "needs to know how many lanes a multiprocessor of {} has: {tflops:.2} TFLOPS were measured",
            gpu.name
        )));
    };
    let Some(clock) = median_mhz(&phase.samples) else {
        return Err(not_examined(format!(
            "needs the clock of the multiprocessors from NVML under load: {tflops:.2} TFLOPS were measured"
        )));
    };
    let per_clock = f64::from(gpu.n_multiprocessors) * f64::from(lanes) * 2.0;
    let expected = per_clock * f64::from(clock) / 1e6;
    if expected <= 0.0 || tflops < EMULATED_SHARE * expected {
        return Err(emulated(&format!("{tflops:.6} TFLOPS")));
    }
    Ok(Share {
        of_expected: tflops / expected,
        tflops,
        expected,
        seen: seen(
            "arithmetic of f32 in registers",
            format!(
                "{tflops:.2} TFLOPS; {} multiprocessors of {lanes} lanes at {clock} MHz reach {expected:.2} at most",
                gpu.n_multiprocessors
            ),
        ),
    })
}

fn emulated(rate: &str) -> Verdict {
    not_examined(format!(
        "needs a GPU that computes by itself: {rate} are those of an emulated one, or of a program under a debugger"
    ))
}

fn arithmetic(facts: &Facts) -> Verdict {
    let share = loaded_any(facts).and_then(share_of_clock);
    match share {
        Err(verdict) => verdict,
        Ok(share) if share.of_expected >= SLOW_SHARE => Verdict::Passed,
        Ok(share) => found(
            Severity::Warning,
            format!(
                "the GPU is slow at the clock that it tells: {:.1} of {:.1} TFLOPS, inferred from its lanes",
                share.tflops, share.expected
            ),
            vec![share.seen],
            "see that nothing else runs on it and measure once more; if it stays: shut down, unplug the power for a minute, \
             update firmware and driver",
        ),
    }
}

fn bandwidth(facts: &Facts) -> Verdict {
    let gpu = match loaded_spark(facts) {
        Ok(gpu) => gpu,
        Err(verdict) => return verdict,
    };
    let mut slow = Vec::new();
    for (work, healthy) in [(Work::Read, "206 to 235"), (Work::Copy, "183 to 226")] {
        let Some(phase) = gpu.phase(work) else {
            return not_examined(format!("needs a run to its end: {MEASURE}"));
        };
        let rate = phase.rate.median;
        if rate < EMULATED_SHARE * SLOW_GB_PER_S {
            return emulated(&format!("{rate:.6} GB/s"));
        }
        if rate > MOST_GB_PER_S {
            return not_examined(format!(
                "needs a measurement of memory: {rate:.0} GB/s are more than it has"
            ));
        }
        let Some(clock) = median_mhz(&phase.samples) else {
            return not_examined(format!(
                "needs the clock of the multiprocessors from NVML under load: {rate:.0} GB/s were measured ({work})"
            ));
        };
        if rate < SLOW_GB_PER_S {
            if clock < STUCK_MHZ {
                return not_examined(format!(
                    "needs a GPU at its clocks, see load.clocks: {rate:.0} GB/s at {clock} MHz"
                ));
            }
            slow.push(seen(
                work.to_string(),
                format!("{rate:.0} GB/s at {clock} MHz; healthy ones {healthy}"),
            ));
        }
    }
    if slow.is_empty() {
        return Verdict::Passed;
    }
    found(
        Severity::Warning,
        "memory is slow for the GPU, though its clock is not",
        slow,
        "end what else uses memory and measure once more; if it stays: shut down, unplug the power for a minute, update \
         firmware and driver (owners saw it go with BIOS 5.36_0ACUM027 and driver 580.173.02)",
    )
}

fn results(facts: &Facts) -> Verdict {
    let gpu = match loaded_any(facts) {
        Ok(gpu) => gpu,
        Err(verdict) => return verdict,
    };
    let wrong = gpu.phases.iter().filter_map(|phase| match &phase.results {
        Results::Wrong { against, what } => Some(seen(
            format!("{}, against {against}", phase.work),
            what.as_str(),
        )),
        Results::Right { .. } => None,
    });
    let wrong: Vec<Seen> = wrong.collect();
    if !wrong.is_empty() {
        return found(
            Severity::Error,
            "the GPU computes wrong results under load",
            wrong,
            "measure once more; if it stays wrong, do not trust what it computes: update driver and firmware, then the \
             warranty",
        );
    }
    match (&gpu.failure, gpu.products().next()) {
        (Some(failure), _) => not_examined(format!("needs a run to its end: {failure}")),
        (None, None) => not_examined(format!("needs a run to its end: {MEASURE}")),
        (None, Some(_)) => Verdict::Passed,
    }
}

fn precision(facts: &Facts) -> Verdict {
    let gpu = match loaded_any(facts) {
        Ok(gpu) => gpu,
        Err(verdict) => return verdict,
    };
    let Some(gain) = gpu.fp4_gain() else {
        return not_examined("needs products in fp4 and in another format on this GPU");
    };
    // Rates of what is no GPU say nothing of one.
    if let Err(verdict) = share_of_clock(gpu) {
        return verdict;
    }
    let recommended = facts.machine.recommended_precision();
    let evidence = gpu
        .products()
        .map(|(phase, ..)| {
            seen(
                phase.work.to_string(),
                format!("{:.2} TFLOPS", phase.rate.median),
            )
        })
        .collect();
    match (recommended == Precision::Fp4, gain) {
        (false, FASTER..) => found(
            Severity::Note,
            format!(
                "fp4 is {gain:.2} times as fast as the next format here, by this project's kernels, and {recommended} is recommended without a measurement"
            ),
            evidence,
            "OPENPILOT_DGX_PRECISION=fp4, after `sparkpilot bench --precision all` has shown how exact the model stays",
        ),
        (true, ..1.0) => found(
            Severity::Note,
            format!(
                "fp4 is recommended, and it is slower here: {gain:.2} times the speed of another format, by this project's kernels"
            ),
            evidence,
            "OPENPILOT_DGX_PRECISION=fp8",
        ),
        _ => Verdict::Passed,
    }
}

/// How much faster counts.
const FASTER: f64 = 1.1;

fn host_memory(facts: &Facts) -> Verdict {
    if let Some(verdict) = other_than_spark(facts) {
        return verdict;
    }
    let rate = facts
        .load
        .as_ref()
        .map(|load| load.host.copy_by_one_gb_per_s);
    let Some(rate) = rate else {
        return not_examined(format!("needs work on the processor: {MEASURE}"));
    };
    let Some(rate) = rate else {
        return not_examined(format!("needs a run to its end: {MEASURE}"));
    };
    if rate.max >= SLOW_COPY_GB_PER_S {
        return Verdict::Passed;
    }
    found(
        Severity::Warning,
        "one thread copies memory at a third of what others do",
        vec![seen(
            "copy by one thread",
            format!("{:.1} GB/s at most; healthy ones about 26", rate.max),
        )],
        "cppc_cpufreq.auto_sel_mode=1 on the kernel command line, see platform.cppc; end what else works and measure once more",
    )
}
