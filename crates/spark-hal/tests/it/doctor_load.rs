//! Traps that only work under load shows, each planted in figures of a GB10 and with a healthy twin.

use std::time::Duration;

use spark_hal::ComputeCapability;
use spark_hal::doctor::load::{GpuLoad, HostLoad, Load, Phase, Rate, Results, Work};
use spark_hal::doctor::{Facts, Report, Severity, Verdict, examine_facts};
use spark_hal::nvml::{GpuSample, ThrottleReason};
use spark_hal::{Precision, Reading};

use crate::doctor::has;
use crate::posed::machine;
use crate::recorded::Tree;

const AGAINST: &str = "numbers known beforehand";

/// What NVML says of a GB10 at work.
fn look(clock: u32, power_mw: u32) -> GpuSample {
    GpuSample {
        utilization_percent: Reading::Value(96),
        memory_utilization_percent: Reading::Value(0),
        memory: Reading::NotSupported,
        temperature_c: Reading::Value(71),
        power_mw: Reading::Value(power_mw),
        power_limit_mw: Reading::NotSupported,
        sm_clock_mhz: Reading::Value(clock),
        memory_clock_mhz: Reading::NotSupported,
        performance_state: Reading::Value(0),
        throttle: Reading::Value(Vec::new()),
        energy_mj: Reading::NotSupported,
    }
}

fn rate(value: f64) -> Rate {
    Rate::of(&[0.98 * value, value, 1.01 * value]).expect("numbers")
}

fn product(precision: Precision, rows: usize) -> Work {
    Work::Product {
        precision,
        rows,
        columns: 4096,
        depth: 4096,
    }
}

/// A load of a GB10 that does what healthy ones do, but for what a test changes.
struct Loaded {
    load: Load,
}

impl Loaded {
    fn healthy() -> Self {
        let samples = vec![look(2411, 61_000), look(2398, 63_500), look(2424, 62_000)];
        let phase = |work, value| Phase {
            work,
            took: Duration::from_secs(2),
            rate: rate(value),
            results: Results::Right { against: AGAINST },
            samples: samples.clone(),
        };
        let mut idle = look(2405, 14_500);
        idle.utilization_percent = Reading::Value(0);
        let gpu = GpuLoad {
            name: "NVIDIA GB10".to_owned(),
            compute: Some(ComputeCapability::GB10),
            n_multiprocessors: 48,
            before: Some(idle),
            phases: vec![
                phase(Work::Read, 231.0),
                phase(Work::Copy, 219.0),
                phase(Work::Arithmetic, 28.1),
                phase(product(Precision::Bf16, 64), 9.0),
                phase(product(Precision::Fp8, 64), 11.0),
                phase(product(Precision::Fp4, 64), 10.0),
            ],
            failure: None,
        };
        Self {
            load: Load {
                asked: Duration::from_secs(10),
                took: Duration::from_secs(10),
                is_partial: false,
                host: HostLoad {
                    n_threads: 20,
                    instructions: "neon".to_owned(),
                    read_gb_per_s: Some(rate(110.0)),
                    copy_by_one_gb_per_s: Some(rate(26.0)),
                    gflops: Some(rate(900.0)),
                },
                gpu: Ok(gpu),
            },
        }
    }

    fn gpu(mut self, change: impl FnOnce(&mut GpuLoad)) -> Self {
        change(self.load.gpu.as_mut().expect("a GPU"));
        self
    }

    fn looks(self, change: impl Fn(&mut GpuSample)) -> Self {
        self.gpu(|gpu| {
            let samples = gpu.phases.iter_mut().flat_map(|phase| &mut phase.samples);
            samples.for_each(change);
        })
    }

    /// The driver tells this reason in every look.
    fn says(self, reason: ThrottleReason) -> Self {
        self.looks(move |look| look.throttle = Reading::Value(vec![reason]))
    }

    fn at(self, clock: u32, power_mw: u32) -> Self {
        self.looks(|look| {
            look.sm_clock_mhz = Reading::Value(clock);
            look.power_mw = Reading::Value(power_mw);
        })
    }

    fn rate(self, work: Work, value: f64) -> Self {
        self.gpu(|gpu| {
            let phases = gpu.phases.iter_mut();
            for phase in phases.filter(|phase| phase.work == work) {
                phase.rate = rate(value);
            }
        })
    }

    fn examine_on(&self, name: &str) -> Report {
        let mut facts = Facts::of(Tree::of(name).root(), machine(name));
        facts.load = Some(self.load.clone());
        examine_facts(facts)
    }

    fn examine(&self) -> Report {
        self.examine_on("nvidia-dgx-spark")
    }

    #[track_caller]
    fn passes(&self, id: &str) {
        let report = self.examine();
        assert_eq!(report.verdict(id), Some(&Verdict::Passed), "{id}");
    }

    #[track_caller]
    fn has(&self, id: &str, severity: Severity, words: &str) {
        has(&self.examine(), id, severity, words);
    }

    #[track_caller]
    fn is_not_examined(&self, id: &str, words: &str) {
        let report = self.examine();
        let Some(Verdict::NotExamined(why)) = report.verdict(id) else {
            panic!("{id}: {:?}", report.verdict(id));
        };
        assert!(why.contains(words), "{why}");
    }
}

const ALL: [&str; 7] = [
    "load.clocks",
    "load.power",
    "load.arithmetic",
    "load.bandwidth",
    "load.gemm",
    "load.precision",
    "load.host-memory",
];

#[test]
fn a_healthy_spark_passes_under_load() {
    for id in ALL {
        Loaded::healthy().passes(id);
    }
    // A clock held at 2100 MHz, as some do against heat, and a transient word of the power's limit are none of an illness.
    let held = Loaded::healthy().at(2093, 52_900).looks(|look| {
        look.throttle = Reading::Value(vec![ThrottleReason::ApplicationClocks]);
    });
    let capped_for_a_moment = Loaded::healthy().gpu(|gpu| {
        gpu.phases[3].samples[0].throttle = Reading::Value(vec![ThrottleReason::PowerCap]);
    });
    for twin in [held, capped_for_a_moment] {
        for id in ["load.clocks", "load.power", "load.bandwidth"] {
            twin.passes(id);
        }
    }
}

#[test]
fn without_a_load_nothing_is_said_of_one() {
    let name = "nvidia-dgx-spark";
    let report = examine_facts(Facts::of(Tree::of(name).root(), machine(name)));
    for id in ALL {
        let Some(Verdict::NotExamined(why)) = report.verdict(id) else {
            panic!("{id}: {:?}", report.verdict(id));
        };
        assert!(why.contains("sparkpilot doctor --load 10s"), "{why}");
    }
    assert!(!report.to_text().contains("under load ("));
    assert!(!report.to_json().contains("\"load\""));
}

#[test]
fn clocks_that_are_stuck() {
    let stuck = Loaded::healthy().at(611, 15_000);
    stuck.has("load.clocks", Severity::Error, "611 MHz");
    stuck.has("load.power", Severity::Error, "15 W at most");
    // Low clocks are the finding: what they slow down is none of its own.
    let slow = Loaded::healthy()
        .at(611, 15_000)
        .rate(Work::Read, 92.0)
        .rate(Work::Arithmetic, 7.1);
    slow.is_not_examined("load.bandwidth", "load.clocks");
    slow.passes("load.arithmetic");
    // One look of many falls on the start of a kernel.
    Loaded::healthy()
        .gpu(|gpu| gpu.phases[2].samples[0].sm_clock_mhz = Reading::Value(208))
        .passes("load.clocks");
    // Somebody holds them there, or heat does.
    let said = |reason| {
        Loaded::healthy()
            .at(900, 45_000)
            .looks(move |look| look.throttle = Reading::Value(vec![reason]))
    };
    said(ThrottleReason::ApplicationClocks).is_not_examined("load.clocks", "nvidia-smi -rgc");
    said(ThrottleReason::SoftwareThermal).has("load.clocks", Severity::Warning, "too hot");
    Loaded::healthy()
        .looks(|look| look.sm_clock_mhz = Reading::NotSupported)
        .is_not_examined("load.clocks", "clock");
}

/// Between the stuck ones and those that owners published (2184 to 2418 MHz).
#[test]
fn clocks_below_those_of_healthy_ones() {
    let at = |clock| Loaded::healthy().at(clock, 52_900);
    for clock in [1400, 1710, 1999] {
        at(clock).has("load.clocks", Severity::Warning, "2184 to 2418");
    }
    for clock in [2000, 2093, 2183] {
        at(clock).has("load.clocks", Severity::Note, "a little below");
    }
    for clock in [2184, 2281, 2418, 2500] {
        at(clock).passes("load.clocks");
    }
    // Somebody set a limit.
    let held = |clock| at(clock).says(ThrottleReason::ApplicationClocks);
    held(2093).passes("load.clocks");
    held(1710).is_not_examined("load.clocks", "nvidia-smi -rgc");
    // A moment of it explains nothing.
    let moment = at(1710).gpu(|gpu| {
        gpu.phases[3].samples[0].throttle = Reading::Value(vec![ThrottleReason::ApplicationClocks]);
    });
    moment.has("load.clocks", Severity::Warning, "1710 MHz");
}

#[test]
fn heat_is_a_finding_and_its_advice_is_of_heat() {
    let advice = |loaded: &Loaded, id: &str| {
        let report = loaded.examine();
        let Some(Verdict::Found(finding)) = report.verdict(id) else {
            panic!("{id}: {:?}", report.verdict(id));
        };
        assert_eq!(finding.severity, Severity::Warning, "{finding:?}");
        assert!(finding.message.contains("hot"), "{finding:?}");
        for word in ["air", "dust", "cooler"] {
            assert!(finding.fix.contains(word), "{finding:?}");
        }
        for word in ["unplug", "warranty", "capped"] {
            assert!(!format!("{} {}", finding.message, finding.fix).contains(word));
        }
    };
    for reason in [
        ThrottleReason::SoftwareThermal,
        ThrottleReason::HardwareThermal,
    ] {
        // At a clock and with watts that look well, and at those that do not.
        advice(&Loaded::healthy().says(reason), "load.clocks");
        Loaded::healthy().says(reason).passes("load.power");
        let slow = Loaded::healthy().at(1100, 28_000).says(reason);
        advice(&slow, "load.clocks");
        advice(&slow, "load.power");
    }
    let degrees = |celsius| {
        let slow = Loaded::healthy().at(1100, 28_000);
        slow.looks(move |look| look.temperature_c = Reading::Value(celsius))
    };
    advice(&degrees(86), "load.clocks");
    advice(&degrees(86), "load.power");
    degrees(85).has("load.power", Severity::Error, "capped");
    let capped = degrees(88).at(2411, 61_000).says(ThrottleReason::PowerCap);
    advice(&capped, "load.power");
    // Healthy twins: warm at full clock, and a moment of heat.
    degrees(84).at(2411, 61_000).passes("load.clocks");
    let moment = Loaded::healthy().gpu(|gpu| {
        gpu.phases[3].samples[0].throttle = Reading::Value(vec![ThrottleReason::HardwareThermal]);
    });
    moment.passes("load.clocks");
    moment.passes("load.power");
}

#[test]
fn a_supply_that_brakes() {
    let braked = Loaded::healthy().says(ThrottleReason::PowerBrake);
    braked.has("load.power", Severity::Warning, "supply");
    braked.passes("load.clocks");
    let moment = Loaded::healthy().gpu(|gpu| {
        gpu.phases[3].samples[0].throttle = Reading::Value(vec![ThrottleReason::PowerBrake]);
    });
    moment.passes("load.power");
}

/// An H100 of 700 W at its limit is as it should be; heat and a brake are ills of every GPU.
#[test]
fn a_card_of_a_data_centre_at_its_limit_is_well() {
    let card = |reason| {
        let card = Loaded::healthy().at(1650, 698_000).says(reason);
        let card = card.rate(Work::Arithmetic, 52.0).gpu(|gpu| {
            gpu.name = "NVIDIA H100".to_owned();
            gpu.compute = Some("9.0".parse().expect("a capability"));
            gpu.n_multiprocessors = 132;
        });
        card.examine_on("h100-server")
    };
    let report = card(ThrottleReason::PowerCap);
    for id in ALL {
        let verdict = report.verdict(id);
        assert!(!matches!(verdict, Some(Verdict::Found(_))), "{verdict:?}");
    }
    assert_eq!(report.verdict("load.arithmetic"), Some(&Verdict::Passed));
    let hot = card(ThrottleReason::HardwareThermal);
    has(&hot, "load.clocks", Severity::Warning, "too hot");
    let braked = card(ThrottleReason::PowerBrake);
    has(&braked, "load.power", Severity::Warning, "brakes");
}

#[test]
fn spinning_at_18_watts() {
    // Busy, at its clock, and next to nothing is done.
    let spins = Loaded::healthy()
        .at(2411, 18_000)
        .rate(Work::Arithmetic, 1.2);
    spins.has("load.power", Severity::Warning, "something spins");
    spins.has("load.arithmetic", Severity::Warning, "1.2 of 29.6 TFLOPS");
    // Little power with all the work done is no illness, whatever the sensor says.
    Loaded::healthy().at(2411, 18_000).passes("load.power");
    // Another program's kernel: the figures are of both.
    let beside = Loaded::healthy().gpu(|gpu| {
        gpu.before = Some(look(2411, 18_000));
    });
    for id in ["load.power", "load.arithmetic", "load.bandwidth"] {
        beside.is_not_examined(id, "96 % busy before");
    }
}

#[test]
fn power_that_is_capped_at_30_watts() {
    Loaded::healthy()
        .at(1710, 30_100)
        .has("load.power", Severity::Error, "30 W at most");
    let told = Loaded::healthy()
        .at(2411, 30_100)
        .looks(|look| look.throttle = Reading::Value(vec![ThrottleReason::PowerCap]));
    told.has("load.power", Severity::Error, "power_cap");
    Loaded::healthy().at(1710, 52_900).passes("load.power");
    // Told in a good part of the looks it is a finding whatever the watts are.
    let told = Loaded::healthy().says(ThrottleReason::PowerCap);
    told.has("load.power", Severity::Warning, "capped in 12 of 12 looks");
    told.passes("load.clocks");
    told.looks(|look| look.power_mw = Reading::NotSupported)
        .has("load.power", Severity::Warning, "power_cap in 12 of 12");
    Loaded::healthy()
        .looks(|look| look.power_mw = Reading::NotSupported)
        .is_not_examined("load.power", "power");
    Loaded::healthy()
        .at(1710, 30_100)
        .looks(|look| look.utilization_percent = Reading::Value(40))
        .is_not_examined("load.power", "busy");
}

#[test]
fn slow_at_a_normal_clock() {
    // The state that owners saw: reading a 3.3th, the driver's copy as ever.
    let slow = Loaded::healthy().rate(Work::Read, 70.0);
    slow.has("load.bandwidth", Severity::Warning, "70 GB/s at 2411 MHz");
    slow.passes("load.clocks");
    Loaded::healthy()
        .rate(Work::Copy, 80.0)
        .has("load.bandwidth", Severity::Warning, "80 GB/s");
    Loaded::healthy().rate(Work::Arithmetic, 9.0).has(
        "load.arithmetic",
        Severity::Warning,
        "inferred",
    );
    // The slowest of eight healthy machines.
    Loaded::healthy()
        .rate(Work::Read, 206.0)
        .rate(Work::Copy, 183.0)
        .passes("load.bandwidth");
}

#[test]
fn figures_that_no_gpu_gives_are_not_judged() {
    // An interpreter of kernels, a program under a sanitizer.
    let emulated = Loaded::healthy()
        .rate(Work::Read, 0.004)
        .rate(Work::Arithmetic, 0.000_01);
    emulated.is_not_examined("load.bandwidth", "emulated");
    emulated.is_not_examined("load.arithmetic", "emulated");
    emulated.is_not_examined("load.precision", "emulated");
    // Without NVML there is no clock to judge by.
    let silent = Loaded::healthy().gpu(|gpu| {
        gpu.before = None;
        gpu.phases
            .iter_mut()
            .for_each(|phase| phase.samples.clear());
    });
    for id in [
        "load.clocks",
        "load.power",
        "load.arithmetic",
        "load.bandwidth",
    ] {
        silent.is_not_examined(id, "NVML");
    }
    silent.passes("load.gemm");
    // More than memory gives: a cache was read.
    Loaded::healthy()
        .rate(Work::Read, 900.0)
        .is_not_examined("load.bandwidth", "more than it has");
    // More than lanes and clock give: a clock that does not count, a kernel that was left out.
    let healthy = 2411.0 * 48.0 * 256.0 / 1e6;
    Loaded::healthy()
        .rate(Work::Arithmetic, 1.09 * healthy)
        .passes("load.arithmetic");
    for rate in [1.11 * healthy, 900.0, 1e308] {
        let fast = Loaded::healthy().rate(Work::Arithmetic, rate);
        fast.is_not_examined("load.arithmetic", "no rate of a GPU");
    }
    // No text grows with its figures.
    let absurd = Loaded::healthy().gpu(|gpu| {
        for phase in &mut gpu.phases {
            phase.rate = rate(1e308);
        }
    });
    absurd.is_not_examined("load.bandwidth", "1e308 GB/s");
    let report = absurd.examine();
    let json = report.to_json();
    serde_json::from_str::<serde_json::Value>(&json).expect("JSON");
    for text in [report.to_text(), json] {
        assert!(!text.contains(&"0".repeat(20)), "{text}");
    }
    // A run that was ended early says what it has.
    let mut partial = Loaded::healthy().gpu(|gpu| gpu.phases.truncate(1));
    partial.load.is_partial = true;
    for id in ["load.bandwidth", "load.arithmetic", "load.gemm"] {
        partial.is_not_examined(id, "to its end");
    }
    let text = partial.examine().to_text();
    assert!(text.contains("ended before it was over"), "{text}");
}

#[test]
fn results_that_are_wrong() {
    let wrong = Loaded::healthy().gpu(|gpu| {
        gpu.phases[4].results = Results::Wrong {
            against: AGAINST,
            what: "row 3, column 7: 12 and not 11".to_owned(),
        };
    });
    wrong.has("load.gemm", Severity::Error, "12 and not 11");
    let failed = Loaded::healthy().gpu(|gpu| gpu.failure = Some("no memory".to_owned()));
    failed.is_not_examined("load.gemm", "no memory");
}

#[test]
fn fp4_that_is_faster_where_it_is_not_recommended() {
    let faster = Loaded::healthy().rate(product(Precision::Fp4, 64), 16.5);
    faster.has("load.precision", Severity::Note, "1.50 times");
    // Faster in one shape and not in another is not faster.
    let mixed = Loaded::healthy()
        .rate(product(Precision::Fp4, 64), 16.5)
        .gpu(|gpu| {
            for (precision, value) in [(Precision::Fp8, 60.0), (Precision::Fp4, 59.0)] {
                let mut large = gpu.phases[4].clone();
                large.work = product(precision, 2048);
                large.rate = rate(value);
                gpu.phases.push(large);
            }
        });
    mixed.passes("load.precision");
    // Within a tenth nothing is said.
    Loaded::healthy()
        .rate(product(Precision::Fp4, 64), 11.9)
        .passes("load.precision");
    Loaded::healthy()
        .gpu(|gpu| gpu.phases.truncate(5))
        .is_not_examined("load.precision", "fp4");
}

#[test]
fn a_processor_whose_memory_sleeps() {
    let mut slow = Loaded::healthy();
    slow.load.host.copy_by_one_gb_per_s = Some(rate(8.6));
    slow.has("load.host-memory", Severity::Warning, "8.7 GB/s");
    slow.load.host.copy_by_one_gb_per_s = None;
    slow.is_not_examined("load.host-memory", "to its end");
}

/// Bands are those of a GB10: other machines are told their figures alone.
#[test]
fn other_gpus_are_not_held_against_a_spark() {
    let mut other = Loaded::healthy().at(900, 20_000).gpu(|gpu| {
        gpu.name = "NVIDIA H100".to_owned();
        gpu.compute = Some("9.0".parse().expect("a capability"));
        gpu.n_multiprocessors = 132;
    });
    other.load.host.copy_by_one_gb_per_s = Some(rate(4.0));
    let other = other.rate(Work::Arithmetic, 28.0);
    let report = other.examine_on("h100-server");
    for id in [
        "load.clocks",
        "load.power",
        "load.bandwidth",
        "load.host-memory",
    ] {
        let verdict = report.verdict(id);
        assert!(
            matches!(verdict, Some(Verdict::NotApplicable(_))),
            "{id}: {verdict:?}"
        );
    }
    assert_eq!(report.verdict("load.arithmetic"), Some(&Verdict::Passed));
    // A card in a Spark is not its GB10.
    other.is_not_examined("load.clocks", "NVIDIA H100 was loaded");
}

#[test]
fn figures_are_in_text_and_in_json() {
    let report = Loaded::healthy().examine();
    let text = report.to_text();
    for words in [
        "under load (10.0 of 10 s)",
        "231 GB/s",
        "2411 MHz, 62.0 W, 71 C, 96 % busy; results right",
        "product fp8 64x4096x4096",
        "copy, one thread",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    let json: serde_json::Value = serde_json::from_str(&report.to_json()).expect("JSON");
    assert_eq!(json["schema"], "spark-doctor/2");
    let gpu = &json["load"]["gpu"];
    assert_eq!(gpu["phases"][0]["rate"]["median"], 231.0);
    assert_eq!(gpu["phases"][0]["samples"][0]["sm_clock_mhz"], 2411);
    assert_eq!(gpu["phases"][5]["precision"], "fp4");
    assert_eq!(gpu["phases"][5]["is_right"], true);
    assert_eq!(json["load"]["host"]["gflops"]["n"], 3);
    let mut none = Loaded::healthy();
    none.load.gpu = Err("this build has no CUDA".to_owned());
    let report = none.examine();
    assert!(report.to_text().contains("GPU: not loaded: this build"));
    let json: serde_json::Value = serde_json::from_str(&report.to_json()).expect("JSON");
    assert_eq!(json["load"]["gpu"]["not_loaded"], "this build has no CUDA");
    none.is_not_examined("load.gemm", "this build has no CUDA");
}
