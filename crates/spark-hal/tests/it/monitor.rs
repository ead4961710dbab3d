//! Recordings of posed GPUs.

use std::time::{Duration, Instant};

use spark_hal::monitor::{KnownGpus, Look, Looker, Monitor, MonitorOptions, Sampler};
use spark_hal::nvml::{Bounded, NvmlApi, NvmlDevice, ThrottleReason};
use spark_hal::nvml::{GpuProcess, GpuSample};
use spark_hal::{Failure, Reading};
use spark_testing::Age;

use crate::posed::pose;
use crate::recorded::{Tree, machine_file};

const WORKING: &str = "device\n\
    utilization = 10,0 | 50,0 | 90,0 | 90,0\n\
    temperature = 50 | 60 | not_supported\n\
    power_mw = 10000 | 20000 | 30000\n\
    memory = not_supported\n\
    sm_clock = 2000\n\
    throttle = 0x1 | 0x4 | 0x24\n\
    energy_mj = 1000 | 3500 | 6000\n\
    processes = 7:4096\n";

fn sampler(script: &str) -> Sampler {
    let tree = Tree::of("nvidia-dgx-spark");
    let posed = pose(Age::Current, script);
    Sampler::with(Box::new(posed.nvml.unwrap()), tree.root(), &[]).unwrap()
}

#[test]
fn statistics_are_those_of_the_answers() {
    let tree = Tree::of("nvidia-dgx-spark");
    let posed = pose(Age::Current, WORKING);
    let sampler = Sampler::with(Box::new(posed.nvml.unwrap()), tree.root(), &[]).unwrap();
    let mut recording = spark_hal::monitor::Recording::default();
    for samples in sampler.every(Duration::from_millis(10)).take(4) {
        recording.samples.extend(samples);
    }
    let summary = recording.summary(0);
    let utilization = summary.utilization_percent.unwrap();
    assert_eq!(
        (utilization.n, utilization.min, utilization.max),
        (4, 10.0, 90.0)
    );
    assert!((utilization.mean - 60.0).abs() < 1e-9 && utilization.p95 == 90.0);
    assert_eq!(
        summary.temperature_c.unwrap().n,
        2,
        "no answer counts for nothing"
    );
    assert!((summary.power_w.unwrap().max - 30.0).abs() < 1e-9);
    assert!((summary.energy_j.unwrap() - 5.0).abs() < 1e-9);
    let wanted = [
        (ThrottleReason::PowerCap, 3),
        (ThrottleReason::SoftwareThermal, 2),
    ];
    assert_eq!(summary.throttle, wanted);
    // Unified: the machine's memory is what is in use.
    let used = (125_513_944_u64 - 118_000_000) * 1024;
    assert_eq!(
        recording.samples[0].memory_used_bytes(),
        Reading::Value(used)
    );
    assert_eq!(recording.summary(5).utilization_percent, None);
}

#[test]
fn the_buffer_is_bounded_and_counts_what_it_drops() {
    let options = MonitorOptions::default()
        .with_interval(Duration::from_millis(10))
        .with_capacity(3);
    let (seen, samples) = std::sync::mpsc::channel();
    let monitor = Monitor::start_with(sampler(WORKING), &options, move |sample| {
        let _ = seen.send(sample.at_ms);
    })
    .unwrap();
    for _ in 0..6 {
        samples.recv_timeout(Duration::from_secs(5)).unwrap();
    }
    let recording = monitor.stop();
    assert_eq!(recording.samples.len(), 3);
    assert!(recording.n_dropped >= 2, "{}", recording.n_dropped);
}

#[test]
fn stopping_does_not_wait_for_a_driver_that_hangs() {
    let options = MonitorOptions::default();
    let monitor = Monitor::start_with(sampler("device\ntemperature = hang\n"), &options, |_| ());
    std::thread::sleep(Duration::from_millis(50));
    let begin = Instant::now();
    let _ = monitor.unwrap().stop();
    assert!(begin.elapsed() < Duration::from_millis(200));
}

#[test]
fn a_gpu_that_is_lost_is_told_in_every_form() {
    let mut sampler = sampler("device\nhandle = lost\n");
    let recording = spark_hal::monitor::Recording {
        samples: sampler.look(),
        n_dropped: 0,
    };
    assert_eq!(recording.summary(0).n_failed, 1);
    assert!(recording.to_csv().contains("bus"));
    let line: serde_json::Value = serde_json::from_str(&recording.to_json_lines()).unwrap();
    assert!(line["failed"].as_str().unwrap().contains("bus"));
}

#[test]
fn rows_have_as_many_cells_as_the_header() {
    for script in [
        WORKING,
        "device\nhandle = lost\n",
        "device\npower_mw = unknown\n",
    ] {
        let recording = spark_hal::monitor::Recording {
            samples: sampler(script).look(),
            n_dropped: 0,
        };
        let csv = recording.to_csv();
        let mut lines = csv.lines().map(|line| {
            let unquoted: String = line.split('"').step_by(2).collect();
            unquoted.split(',').count()
        });
        let n_columns = lines.next().unwrap();
        assert!(lines.all(|n_cells| n_cells == n_columns), "{csv}");
        for line in recording.to_json_lines().lines() {
            let _: serde_json::Value = serde_json::from_str(line).expect("valid JSON");
        }
    }
}

#[test]
fn a_gpu_that_is_not_there_is_refused() {
    let posed = pose(Age::Current, WORKING);
    let root = Tree::empty();
    assert!(Sampler::with(Box::new(posed.nvml.unwrap()), root.root(), &[1]).is_err());
}

/// A GPU that works in the machine's memory, and whose driver answers with a total all the same.
#[test]
fn totals_of_nvml_are_never_shown_for_unified_memory() {
    const WRONG: &str = "8522825728";
    for machine in [
        "nvidia-dgx-spark",
        "n1x-look-alike",
        "spark-container-without-sysfs",
    ] {
        let script = std::fs::read_to_string(machine_file(machine, "nvml.txt")).unwrap();
        let kept = script.lines().filter(|line| !line.starts_with("memory ="));
        let mut script: Vec<&str> = kept.collect();
        let told = format!("memory = {WRONG},4261412864,4261412864");
        let name = script
            .iter()
            .position(|line| line.starts_with("name ="))
            .unwrap();
        script.insert(name, &told);
        let script = script.join("\n");
        let tree = Tree::of(machine);
        let posed = pose(Age::Current, &script);
        let mut sampler = Sampler::with(Box::new(posed.nvml.unwrap()), tree.root(), &[]).unwrap();
        let recording = spark_hal::monitor::Recording {
            samples: sampler.look(),
            n_dropped: 0,
        };
        let sample = &recording.samples[0];
        assert!(sample.is_unified, "{machine}");
        let total = sample.machine_total_bytes.as_value().unwrap();
        let available = sample.machine_available_bytes.as_value().unwrap();
        let used = Reading::Value(total - available);
        assert_eq!(sample.memory_used_bytes(), used, "{machine}");
        let all = format!(
            "{recording:?} {} {} {}",
            recording.to_csv(),
            recording.to_json_lines(),
            recording.summary(0)
        );
        assert!(
            !all.contains(WRONG) && !all.contains("4261412864"),
            "{machine}: {all}"
        );
        let machine_read = crate::posed::read_with(&tree, Some(&script), None);
        let gpu = &machine_read.gpus[0];
        let shown = format!("{} {:?} {}", machine_read.summary(), gpu.memory, gpu.memory);
        assert!(
            gpu.is_unified() && !shown.contains(WRONG),
            "{machine}: {shown}"
        );
        assert!(!shown.contains("7.9 GiB"), "{machine}: {shown}");
    }
    // A card with memory of its own keeps its figures.
    let script = std::fs::read_to_string(machine_file("gh200-look-alike", "nvml.txt")).unwrap();
    let posed = pose(Age::Current, &script);
    let tree = Tree::of("gh200-look-alike");
    let mut sampler = Sampler::with(Box::new(posed.nvml.unwrap()), tree.root(), &[]).unwrap();
    let sample = &sampler.look()[0];
    assert!(!sample.is_unified);
    assert!(sample.readings.as_ref().unwrap().memory.is_value());
}

/// A looker at a posed GPU on a posed machine.
fn looker(script: &'static str) -> (Tree, Looker) {
    let tree = Tree::of("nvidia-dgx-spark");
    let looker = Looker::with(
        tree.root(),
        Box::new(move || (Ok(sampler(script)), KnownGpus::default())),
    );
    (tree, looker)
}

fn temperature(look: &Look) -> Option<u32> {
    let sample = look.gpus.samples.as_ref().ok()?.first()?;
    let readings = sample.readings.as_ref().ok()?;
    readings.temperature_c.as_value().copied()
}

#[test]
fn a_look_has_the_machine_and_its_gpus() {
    let (_tree, mut looker) = looker(WORKING);
    let look = looker.look(Duration::from_secs(10));
    assert_eq!(temperature(&look), Some(50));
    assert_eq!(look.gpus.unanswered, None);
    assert!(look.host.memory.meminfo.total_bytes.is_value());
    assert!(look.to_csv().contains(",50,10000,"), "{}", look.to_csv());
    let look = looker.look(Duration::from_secs(10));
    assert_eq!(temperature(&look), Some(60));
}

#[test]
fn a_gpu_that_hangs_holds_up_no_look_longer_than_there_is_patience() {
    let (_tree, mut looker) = looker("device\ntemperature = 50 | hang\n");
    assert_eq!(temperature(&looker.look(Duration::from_secs(10))), Some(50));
    for n_before in 0..3 {
        let begin = Instant::now();
        let look = looker.look(Duration::from_millis(20));
        assert!(
            begin.elapsed() < Duration::from_millis(500),
            "{:?}",
            begin.elapsed()
        );
        let waited = look.gpus.unanswered.expect("no answer");
        // Since it was asked first, not in each look anew.
        assert!(
            waited >= Duration::from_millis(20 * (n_before + 1)),
            "{waited:?}"
        );
        let why = look.gpus.samples.unwrap_err();
        assert!(why.contains("no answer for"), "{why}");
        assert!(look.host.memory.meminfo.total_bytes.is_value());
    }
}

#[test]
fn a_machine_without_gpus_says_why_in_every_look() {
    let failure = Failure::NoSource {
        reason: "no NVML".to_owned(),
    };
    let tree = Tree::of("plain-pc");
    let mut looker = Looker::with(
        tree.root(),
        Box::new(move || (Err(failure), KnownGpus::default())),
    );
    for _ in 0..3 {
        let look = looker.look(Duration::from_secs(10));
        assert!(look.gpus.samples.unwrap_err().contains("no NVML"));
        assert_eq!(look.gpus.unanswered, None);
    }
}

/// A library whose first answer takes so long.
struct Late(std::sync::atomic::AtomicBool, Duration);

impl NvmlApi for Late {
    fn driver_version(&self) -> Reading<spark_hal::stack::Version> {
        Reading::NotSupported
    }
    fn cuda_version(&self) -> Reading<spark_hal::stack::Version> {
        Reading::NotSupported
    }
    fn device_count(&self) -> Result<u32, Failure> {
        if !self.0.swap(true, std::sync::atomic::Ordering::Relaxed) {
            std::thread::sleep(self.1);
        }
        Ok(3)
    }
    fn describe(&self, _: u32) -> Result<NvmlDevice, Failure> {
        unreachable!("nobody asks")
    }
    fn sample(&self, _: u32) -> Result<GpuSample, Failure> {
        unreachable!("nobody asks")
    }
    fn processes(&self, _: u32) -> Reading<Vec<GpuProcess>> {
        Reading::NotSupported
    }
}

#[test]
fn a_library_that_was_late_is_asked_again_when_it_is_done() {
    let late = Late(false.into(), Duration::from_millis(300));
    let nvml = Bounded::start(Duration::from_millis(50), || Ok(Box::new(late))).unwrap();
    assert!(matches!(nvml.device_count(), Err(Failure::TimedOut { .. })));
    let begin = Instant::now();
    assert!(nvml.device_count().is_err(), "it still thinks");
    assert!(
        begin.elapsed() < Duration::from_millis(40),
        "and is not asked"
    );
    while nvml.device_count() != Ok(3) {
        assert!(begin.elapsed() < Duration::from_secs(10));
        std::thread::sleep(Duration::from_millis(10));
    }
}
