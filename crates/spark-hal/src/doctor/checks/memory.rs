//! Unified memory: what tools misread, and what ends in a frozen machine.

use crate::bytes::gibibytes;
use crate::doctor::check::{Check, Examination};
use crate::doctor::facts::Facts;
use crate::doctor::verdict::{Severity, Verdict, found, not_applicable, not_examined, seen};
use crate::limits::{LOW_MEMORY_BYTES, STALLED_PERCENT};
use crate::reading::Reading;

use super::applies::{no_unified, other_than_spark};

const KNOWN_ISSUES: &str = "https://docs.nvidia.com/dgx/dgx-spark/known-issues.html";

pub(super) const CHECKS: &[Examination<Facts>] = &[
    Examination {
        check: Check {
            id: "memory.reporting",
            title: "what GPU tools say about memory",
            source: KNOWN_ISSUES,
        },
        run: reporting,
    },
    Examination {
        check: Check {
            id: "memory.page-cache",
            title: "the page cache leaves room for cudaMalloc",
            source: "vllm-project/vllm issue #35313, NVIDIA/cuQuantum issue #215",
        },
        run: page_cache,
    },
    Examination {
        check: Check {
            id: "memory.huge-pages",
            title: "NVIDIA's memory estimate sees ordinary memory",
            source: KNOWN_ISSUES,
        },
        run: huge_pages,
    },
    Examination {
        check: Check {
            id: "memory.low",
            title: "enough memory is left for the system",
            source: "NVIDIA/open-gpu-kernel-modules issue #1358: over-commitment freezes the host",
        },
        run: low,
    },
    Examination {
        check: Check {
            id: "memory.pressure",
            title: "memory does not keep every task waiting a tenth of the time",
            source: "parallelArchitect/gb10-uma-diagnostics; Linux Documentation/accounting/psi.rst; the limit is this crate's",
        },
        run: pressure,
    },
];

/// From here on the page cache is worth a word.
const LARGE_CACHE_BYTES: u64 = 8 << 30;

fn reporting(facts: &Facts) -> Verdict {
    if let Some(verdict) = no_unified(facts) {
        return verdict;
    }
    let unified = facts.machine.gpus.iter().filter(|gpu| gpu.is_unified());
    let sample = unified
        .filter_map(|gpu| facts.looks_at(gpu.nvml_index?).last().copied())
        .next();
    let Some(sample) = sample else {
        return not_examined("needs an NVML that answers");
    };
    let is_told = match &sample.memory {
        Reading::Value(figures) => figures.total_bytes > 0,
        Reading::NotSupported => false,
        Reading::Failed(why) => {
            return not_examined(format!("needs NVML's memory query, which fails: {why}"));
        }
    };
    let available = facts.machine.memory.available_to_gpu_bytes();
    found(
        Severity::Note,
        if is_told {
            "GPU tools show a memory total here that is not the GPU's: it uses the machine's memory"
        } else {
            "GPU tools show no memory here (N/A or 0): the GPU uses the machine's memory"
        },
        vec![
            seen(
                "nvmlDeviceGetMemoryInfo",
                if is_told {
                    "a total"
                } else if sample.memory.is_value() {
                    "0"
                } else {
                    "not supported"
                },
            ),
            seen("/proc/meminfo MemAvailable", available.map(gibibytes)),
        ],
        "nothing to mend; read /proc/meminfo, or spark_hal::Memory",
    )
}

fn page_cache(facts: &Facts) -> Verdict {
    if let Some(verdict) = no_unified(facts) {
        return verdict;
    }
    let info = &facts.machine.memory.meminfo;
    let (Some(free), Some(available)) =
        (info.free_bytes.as_value(), info.available_bytes.as_value())
    else {
        return not_examined("needs /proc/meminfo");
    };
    // The cache only hurts where little is free without it.
    let cache = available.saturating_sub(*free);
    if cache <= LARGE_CACHE_BYTES || *free > *available / 2 {
        return Verdict::Passed;
    }
    found(
        Severity::Warning,
        format!(
            "cudaMemGetInfo counts {} of droppable file cache as used: programs that believe it \
             refuse to start",
            gibibytes(cache)
        ),
        vec![
            seen("/proc/meminfo MemFree", gibibytes(*free)),
            seen("/proc/meminfo MemAvailable", gibibytes(*available)),
        ],
        "sudo sh -c 'sync; echo 3 > /proc/sys/vm/drop_caches'   # or load files with O_DIRECT",
    )
}

fn huge_pages(facts: &Facts) -> Verdict {
    let memory = &facts.machine.memory;
    if let Some(verdict) = no_unified(facts) {
        return verdict;
    }
    let pages = match &memory.meminfo.huge_pages_total {
        Reading::Value(pages) => *pages,
        // A kernel without huge pages has no such line.
        Reading::NotSupported if memory.meminfo.total_bytes.is_value() => 0,
        _ => return not_examined("needs HugePages_Total in /proc/meminfo"),
    };
    if pages == 0 {
        return not_applicable("no huge pages are reserved");
    }
    let (Some(estimate), Some(ordinary)) = (
        memory.nvidia_rule().value(),
        memory.meminfo.available_bytes.as_value(),
    ) else {
        return not_examined("needs /proc/meminfo");
    };
    if estimate.available_bytes >= *ordinary / 2 {
        return Verdict::Passed;
    }
    found(
        Severity::Warning,
        format!(
            "programs that follow NVIDIA's rule see {} instead of {}: it counts huge pages only, \
             once any are reserved",
            gibibytes(estimate.available_bytes),
            gibibytes(*ordinary)
        ),
        vec![seen("/proc/meminfo HugePages_Total", pages)],
        "sudo sysctl vm.nr_hugepages=0   # unless a program needs them",
    )
}

fn low(facts: &Facts) -> Verdict {
    if let Some(verdict) = other_than_spark(facts) {
        return verdict;
    }
    let Reading::Value(available) = facts.machine.memory.meminfo.available_bytes else {
        return not_examined("needs /proc/meminfo");
    };
    if available >= LOW_MEMORY_BYTES {
        return Verdict::Passed;
    }
    found(
        Severity::Error,
        format!(
            "only {} are available: the next GPU allocation may freeze the host",
            gibibytes(available)
        ),
        vec![seen("/proc/meminfo MemAvailable", gibibytes(available))],
        "end a program; keep budgets at 0.80-0.87 of the memory and install earlyoom",
    )
}

fn pressure(facts: &Facts) -> Verdict {
    const PATH: &str = "/proc/pressure/memory";
    let Reading::Value(pressure) = facts.machine.memory.pressure else {
        return not_examined(format!(
            "needs {PATH}: a kernel that counts pressure (psi=1)"
        ));
    };
    let worst = pressure.full.avg10_percent.max(pressure.full.avg60_percent);
    if worst < STALLED_PERCENT {
        return Verdict::Passed;
    }
    let full = pressure.full;
    found(
        Severity::Error,
        format!(
            "every task waited for memory during {worst} % of the last seconds, {STALLED_PERCENT} are the limit"
        ),
        vec![seen(
            PATH,
            format!(
                "full avg10={} avg60={}",
                full.avg10_percent, full.avg60_percent
            ),
        )],
        "end a program or lower its memory budget; this comes before a freeze",
    )
}
