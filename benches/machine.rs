//! Knowing the machine: reading all of it, the cached answer, and memory alone.
//!
//! ```text
//! machine/files     DMI, PCI, CPUs, memory, network, software; no driver library
//! machine/cached    sparkpilot::hal::machine() after the first call
//! machine/memory    /proc/meminfo, the control group, pressure
//! ```
//!
//! Warm: the kernel has the directories in memory. NVML and CUDA are left out, because
//! their time is the driver's.

use std::hint::black_box;

use criterion::Criterion;
use sparkpilot::hal::{Machine, Memory, Root, Sources, machine};

/// The three ways to ask.
pub(crate) fn detect(criterion: &mut Criterion) {
    let sources = Sources::files(Root::host());
    let seen = Machine::read(&sources);
    let known = machine();
    assert_eq!(
        seen.cpu.cores, known.cpu.cores,
        "two looks at the same machine"
    );
    assert_eq!(
        seen.platform.dmi, known.platform.dmi,
        "two looks at the same machine"
    );

    let mut group = criterion.benchmark_group("machine");
    group.bench_function("files", |bencher| {
        bencher.iter(|| Machine::read(black_box(&sources)));
    });
    group.bench_function("cached", |bencher| bencher.iter(|| black_box(machine())));
    group.bench_function("memory", |bencher| {
        bencher.iter(|| Memory::read(black_box(&sources.root)));
    });
    group.finish();
}
