//! The items that the program looks at: by checks of the doctor, by what drivers said, by files.

use sparkpilot::hal::cpu::format_cpu_list;
use sparkpilot::hal::doctor::{Facts, Report, Severity, Verdict};
use sparkpilot::hal::gpu::CudaAttribute;
use sparkpilot::hal::{Gpu, Machine, PlatformKind, Precision, Reading};

use super::item::{Item, Part, State};

/// Formats that a GB10 has, by its compute capability.
const OF_GB10: [Precision; 4] = [
    Precision::Fp16,
    Precision::Bf16,
    Precision::Fp8,
    Precision::Fp4,
];

pub(super) fn items(facts: &Facts, report: &Report) -> Vec<Item> {
    let by_checks = |part, what, ids: &[&str]| by_checks(report, part, what, ids);
    let mut items = vec![
        by_checks(
            Part::Environment,
            "a GPU is there, and programs can compute on it",
            &["driver.loaded", "gpu.usable"],
        ),
        name(facts),
        identity(facts, report),
        formats(facts),
        by_checks(
            Part::Environment,
            "driver and libraries fit it and each other",
            &["driver.branch", "driver.installed", "stack.versions"],
        ),
        by_checks(
            Part::Environment,
            "containers can be given the GPU",
            &["container.toolkit"],
        ),
        figures(facts),
        memory(facts),
        by_checks(
            Part::Memory,
            "memory is free for models, and nothing presses",
            &["memory.low", "memory.page-cache", "memory.huge-pages"],
        ),
        by_checks(Part::Stress, "the GPU is not too hot", &["gpu.hot"]),
        by_checks(
            Part::Stress,
            "a GPU at work has its clocks and draws its power",
            &["gpu.low-power", "gpu.spinning"],
        ),
    ];
    items.push(under_load(facts, report));
    items.extend(unpublished(facts));
    items
}

/// By what `--load` measured, or left to a person who has not asked for it.
fn under_load(facts: &Facts, report: &Report) -> Item {
    let what = "clocks, power and bandwidth under load are those of a healthy machine";
    match &facts.load {
        Some(_) => {
            let ids = ["load.clocks", "load.power", "load.bandwidth", "load.gemm"];
            by_checks(report, Part::Stress, what, &ids)
        }
        None => item(
            Part::Stress,
            what,
            State::ByHand,
            "sparkpilot doctor --load 10s; with --hardware it is judged here",
        ),
    }
}

fn item(part: Part, what: &'static str, state: State, said: impl Into<String>) -> Item {
    Item {
        part,
        what,
        state,
        said: said.into(),
    }
}

/// Done if all of these checks passed or have notes only; the worst of them decides.
fn by_checks(report: &Report, part: Part, what: &'static str, ids: &[&str]) -> Item {
    let (mut failed, mut open, mut seen) = (Vec::new(), Vec::new(), Vec::new());
    let mut n_looked = 0;
    for id in ids {
        match report.verdict(id) {
            Some(Verdict::Passed) => {
                n_looked += 1;
                seen.push(format!("{id} passed"));
            }
            // That there is no GPU is a note, and nothing that was looked at.
            Some(Verdict::Found(finding)) if finding.severity == Severity::Note => {
                n_looked += usize::from(*id != "gpu.usable");
                seen.push(format!("{id}: {}", finding.message));
            }
            Some(Verdict::Found(finding)) => failed.push(format!("{id}: {}", finding.message)),
            Some(Verdict::NotExamined(why)) => open.push(format!("{id} {why}")),
            Some(Verdict::TimedOut) => open.push(format!("{id} did not end in time")),
            Some(Verdict::NotApplicable(why)) => seen.push(format!("{id}: {why}")),
            None => open.push(format!("{id} is no check")),
        }
    }
    let (state, said) = match (failed.is_empty(), open.is_empty(), n_looked) {
        (false, ..) => (State::Failed, failed),
        (_, false, _) => (State::NotHere, open),
        (_, _, 0) => (State::NotHere, seen),
        _ => (State::Done, seen),
    };
    item(part, what, state, said.join("; "))
}

/// Why there is no GPU to look at: a record of a few files does not say that there is none.
fn no_gpu(machine: &Machine) -> &'static str {
    match machine.gpus_unknown {
        Some(_) => "unknown whether there is an NVIDIA GPU",
        None => "no NVIDIA GPU",
    }
}

fn name(facts: &Facts) -> Item {
    const WHAT: &str = "the driver tells its name and compute capability, those of the machine";
    let machine = &facts.machine;
    let part = Part::Environment;
    let Some(gpu) = machine.best_gpu() else {
        return item(part, WHAT, State::NotHere, no_gpu(machine));
    };
    let (name, compute) = match (&gpu.name, &gpu.compute_capability) {
        (Reading::Value(name), Reading::Value(compute)) => (name, compute),
        (_, compute) => {
            return item(
                part,
                WHAT,
                State::NotHere,
                format!("compute capability: {compute}"),
            );
        }
    };
    let said = format!("{name}, {compute}");
    let is_expected = !machine.is_dgx_spark() || gpu.is_gb10();
    match is_expected {
        true => item(part, WHAT, State::Done, said),
        false => item(
            part,
            WHAT,
            State::Failed,
            format!("{said}, in a machine that says it is a DGX Spark"),
        ),
    }
}

fn identity(facts: &Facts, report: &Report) -> Item {
    const WHAT: &str = "it is known for what it is: a DGX Spark as one, any other as none";
    let kind = &facts.machine.platform.kind;
    let mut item = by_checks(report, Part::Environment, WHAT, &["platform.identity"]);
    if item.state == State::Done {
        let is_spark = matches!(kind, PlatformKind::DgxSpark { .. });
        let word = if is_spark { "" } else { ", no DGX Spark" };
        item.said = format!("{kind}{word}; compare with what stands on the machine");
    }
    item
}

fn formats(facts: &Facts) -> Item {
    const WHAT: &str = "its hardware has FP16, BF16, FP8 and FP4";
    let part = Part::Environment;
    let known = |gpu: &&Gpu| gpu.compute_capability.is_value();
    let Some(gpu) = facts.machine.best_gpu().filter(known) else {
        return item(part, WHAT, State::NotHere, "no compute capability was told");
    };
    let names: Vec<String> = gpu.supported.iter().map(ToString::to_string).collect();
    let said = format!(
        "{} by its compute capability; that they compute, --verify shows",
        names.join(", ")
    );
    let has_all = OF_GB10.iter().all(|format| gpu.supported.contains(format));
    match (gpu.is_gb10(), has_all) {
        (true, false) => item(part, WHAT, State::Failed, said),
        (_, true) => item(part, WHAT, State::Done, said),
        // Another GPU may do without some.
        (false, false) => item(part, WHAT, State::NotHere, format!("this GPU has {said}")),
    }
}

fn figures(facts: &Facts) -> Item {
    const WHAT: &str = "temperature, power and clock are told";
    let part = Part::Monitoring;
    let Some(look) = facts.looks.last().filter(|look| !look.is_empty()) else {
        return item(
            part,
            WHAT,
            State::NotHere,
            "NVML was not asked, or told of no GPU",
        );
    };
    let missing = look.values().find_map(|sample| {
        let figures = [
            ("temperature", sample.temperature_c.is_value()),
            ("power", sample.power_mw.is_value()),
            ("clock", sample.sm_clock_mhz.is_value()),
        ];
        figures.into_iter().find(|(_, is_told)| !is_told)
    });
    if let Some((figure, _)) = missing {
        return item(
            part,
            WHAT,
            State::NotHere,
            format!("NVML does not tell the {figure}"),
        );
    }
    let told = look.values().map(|sample| {
        format!(
            "{} C, {} mW, {} MHz",
            sample.temperature_c, sample.power_mw, sample.sm_clock_mhz
        )
    });
    item(part, WHAT, State::Done, told.collect::<Vec<_>>().join("; "))
}

fn memory(facts: &Facts) -> Item {
    const WHAT: &str = "memory is told, of a GPU without its own the machine's";
    let part = Part::Monitoring;
    match facts.machine.best_gpu().map(|gpu| &gpu.memory) {
        None => item(part, WHAT, State::NotHere, no_gpu(&facts.machine)),
        Some(Reading::Value(memory)) => item(part, WHAT, State::Done, memory.to_string()),
        Some(other) => item(part, WHAT, State::NotHere, other.to_string()),
    }
}

/// Values of this machine that stand in no publication: to be read off and written down.
fn unpublished(facts: &Facts) -> Vec<Item> {
    let machine = &facts.machine;
    let part = Part::Unpublished;
    if !machine.is_dgx_spark() {
        let what = "values of a DGX Spark that are not published";
        return vec![item(part, what, State::NotHere, "this is none")];
    }
    let told = |what, value: Option<String>, why: &str| match value {
        Some(value) => item(part, what, State::Done, value),
        None => item(part, what, State::NotHere, why),
    };
    let dmi = &machine.platform.dmi;
    let strings = [
        &dmi.sys_vendor,
        &dmi.product_name,
        &dmi.product_version,
        &dmi.board_name,
    ];
    let strings = strings.map(Reading::as_value);
    let strings: Vec<&str> = strings.into_iter().flatten().map(String::as_str).collect();
    let capacities = machine.cpu.kinds().into_iter().map(|(kind, ids)| {
        let first = machine.cpu.core(*ids.first()?)?;
        Some(format!("{kind} {}", first.capacity.as_value()?))
    });
    let clusters = machine.cpu.clusters.iter();
    let clusters: Vec<String> = clusters.map(|cpus| format_cpu_list(cpus)).collect();
    let attributes = [
        CudaAttribute::HostNativeAtomicSupported,
        CudaAttribute::DirectManagedMemAccessFromHost,
        CudaAttribute::ConcurrentManagedAccess,
        CudaAttribute::HostAllocDmaBufSupported,
        CudaAttribute::OnlyPartialHostNativeAtomicSupported,
    ];
    let attributes = attributes.map(|attribute| {
        let gpu = machine.best_gpu()?;
        let value = gpu.attribute(attribute).value()?;
        Some(format!("{attribute:?} {value}"))
    });
    let attributes: Vec<String> = attributes.into_iter().flatten().collect();
    let container = match &machine.platform.container {
        None => Err("not in a container"),
        Some(_) => Ok(format!(
            "DMI {}, PCI {}, /etc/dgx-release {}",
            readable(dmi.product_family.is_value()),
            readable(facts.root.entries("/sys/bus/pci/devices").is_value()),
            readable(machine.platform.dgx_release.is_value()),
        )),
    };
    vec![
        told(
            "the strings by which its vendor names it",
            (!strings.is_empty()).then(|| strings.join(" / ")),
            "DMI cannot be read",
        ),
        told(
            "capacity of each kind of core",
            capacities
                .collect::<Option<Vec<_>>>()
                .filter(|all| !all.is_empty())
                .map(|all| all.join(", ")),
            "cpu_capacity is not there",
        ),
        told(
            "which CPUs share an L3 cache",
            (!clusters.is_empty()).then(|| clusters.join(" and ")),
            "the caches of its CPUs are not told",
        ),
        told(
            "what CUDA says of memory that CPU and GPU share",
            (!attributes.is_empty()).then(|| attributes.join(", ")),
            "CUDA was not asked",
        ),
        match container {
            Ok(said) => item(
                part,
                "what a container sees of the machine",
                State::Done,
                said,
            ),
            Err(why) => item(
                part,
                "what a container sees of the machine",
                State::NotHere,
                why,
            ),
        },
    ]
}

fn readable(is_readable: bool) -> &'static str {
    match is_readable {
        true => "readable",
        false => "hidden",
    }
}
