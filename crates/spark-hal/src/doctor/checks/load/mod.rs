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

mod clocks;
mod looks;
mod share;

use crate::doctor::check::{Check, Examination};
use crate::doctor::facts::Facts;
use crate::doctor::load::{Results, Work, in_digits};
use crate::doctor::verdict::{Seen, Severity, Verdict, found, not_examined, seen};
use crate::limits::STUCK_MHZ;
use crate::precision::Precision;

use super::applies::other_than_spark;
use looks::{MEASURE, loaded_any, loaded_spark, median_mhz};
use share::{EMULATED_SHARE, SLOW_SHARE, emulated, share_of_clock};

pub(super) const CHECKS: &[Examination<Facts>] = &[
    Examination {
        check: Check {
            id: "load.clocks",
            title: "the GPU runs at its clocks under load",
            source: "Blackwellboy/model-serving-minefield #55 (2026-08-20): 799 MHz and 19.5 W stuck, 2281 MHz and \
                 92.5 W healthy; hoesing/spark-gpu-throttle-check: below 1400 MHz",
        },
        run: clocks::clocks,
    },
    Examination {
        check: Check {
            id: "load.power",
            title: "the GPU gets the power of work, and does work with it",
            source: "https://ai-muninn.com/en/blog/dgx-spark-30w-power-safety-mode: capped at 30 W; \
                 eugr/spark-vllm-docker #260 (2026-07-17): 96 % busy at 16-27 W without work",
        },
        run: clocks::power,
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

/// Below the slowest of healthy machines (183), and twice what the slow state reads (70).
const SLOW_GB_PER_S: f64 = 150.0;
/// More than memory of 273 GB/s gives.
const MOST_GB_PER_S: f64 = 273.0;
/// A third of 26 GB/s is 8.7.
const SLOW_COPY_GB_PER_S: f64 = 10.0;
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
        // What is no number is no rate either.
        if !(0.0..=MOST_GB_PER_S).contains(&rate) {
            return not_examined(format!(
                "needs a measurement of memory: {} GB/s are more than it has",
                in_digits(rate, 0)
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
    let times = in_digits(gain, 2);
    let recommended = facts.machine.recommended_precision();
    let evidence = gpu
        .products()
        .map(|(phase, ..)| {
            seen(
                phase.work.to_string(),
                format!("{} TFLOPS", in_digits(phase.rate.median, 2)),
            )
        })
        .collect();
    match (recommended == Precision::Fp4, gain) {
        (false, FASTER..) => found(
            Severity::Note,
            format!(
                "fp4 is {times} times as fast as the next format here, by this project's kernels, and {recommended} is recommended without a measurement"
            ),
            evidence,
            "OPENPILOT_DGX_PRECISION=fp4, after `sparkpilot bench --precision all` has shown how exact the model stays",
        ),
        (true, ..1.0) => found(
            Severity::Note,
            format!(
                "fp4 is recommended, and it is slower here: {times} times the speed of another format, by this project's kernels"
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
