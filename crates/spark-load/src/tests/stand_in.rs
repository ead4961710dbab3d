//! The same on the stand-in driver, as a GB10 whose kernels run as PTX: results are checked, rates mean nothing and are not judged.

use std::path::Path;
use std::sync::OnceLock;

use spark_hal::Root;
use spark_hal::doctor::load::Results;
use spark_hal::doctor::{Facts, Verdict, examine_facts};
use spark_hal::monitor::Sampler;
use spark_hal::nvml::LiveNvml;
use spark_hal::{Machine, Sources};
use spark_mem::{Device, DeviceOptions};
use spark_testing::driver::{Build, Persona, StandInDriver, kernels_in};
use spark_testing::{Age, StandIn};

use crate::run::{Watched, run_on};
use crate::verify::{Outcome, verify};

/// The driver of this process.
fn driver() -> &'static StandInDriver {
    static DRIVER: OnceLock<StandInDriver> = OnceLock::new();
    DRIVER.get_or_init(|| {
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let folder = |name: &str| crates.join(name).join("kernels");
        let folders = ["spark-load", "spark-quant", "spark-onnx"].map(folder);
        let kernels: Vec<_> = folders
            .iter()
            .flat_map(|folder| kernels_in(folder).expect("the kernels are there"))
            .collect();
        let kernels: Vec<&Path> = kernels.iter().map(|path| path.as_path()).collect();
        let includes = ["spark-mem", "spark-quant", "spark-onnx"].map(folder);
        let build = Build {
            kernels: &kernels,
            includes: &includes.each_ref().map(|path| path.as_path()),
            ..Build::default()
        };
        StandInDriver::load(&build).expect("the stand-in driver builds")
    })
}

/// What NVML says of it: a GB10 at work.
const NVML: &str = "device\nname = NVIDIA GB10\ncompute = 12.1\nutilization = 0,0 | 96,0\ntemperature = 71\n\
    power_mw = 61000\nmemory = not_supported\nsm_clock = 2411\nthrottle = 0x0\n";

#[test]
fn a_gb10_that_is_interpreted_computes_right_and_gets_no_verdict_of_speed() {
    let posed = driver().pose(Persona::Spark);
    let device = Device::cuda(0, DeviceOptions::new()).expect("the stand-in driver has a device");
    let files = StandIn::new().expect("a folder");
    let files = files.with_nvml(Age::Current, NVML).expect("a script");
    let open = || LiveNvml::open_library(files.nvml().as_os_str()).expect("the stand-in opens");
    let root = Root::at("a-folder-without-files");
    let asked = open();
    let sources = Sources {
        nvml: Ok(&asked),
        ..Sources::files(root.clone())
    };
    let machine = Machine::read(&sources);
    assert!(machine.is_dgx_spark(), "its bands are asked for");
    let sampler = Sampler::with(Box::new(open()), root.clone(), &[0]).expect("one GPU");
    let watched = Watched {
        device,
        before: None,
        sampler: Some(sampler),
    };
    let load = run_on(Ok(watched), &super::small(2000), &mut |_| true);
    let gpu = load.gpu.as_ref().expect("a device");
    assert_eq!((gpu.failure.as_deref(), gpu.phases.len()), (None, 7));
    assert_eq!(gpu.n_multiprocessors, 48);
    for phase in &gpu.phases {
        let is_right = matches!(phase.results, Results::Right { .. });
        assert!(is_right, "{}: {:?}", phase.work, phase.results);
    }
    let n_looks: usize = gpu.phases.iter().map(|phase| phase.samples.len()).sum();
    assert!(n_looks > 0, "the monitor looked while work was done");
    let mut facts = Facts::of(root, machine);
    facts.load = Some(load);
    let report = examine_facts(facts);
    for id in ["load.arithmetic", "load.bandwidth", "load.precision"] {
        let Some(Verdict::NotExamined(why)) = report.verdict(id) else {
            panic!("{id}: {:?}", report.verdict(id));
        };
        assert!(why.contains("emulated"), "{id}: {why}");
    }
    // What it computed is right all the same.
    assert_eq!(report.verdict("load.gemm"), Some(&Verdict::Passed));
    posed.assert_clean();
}

#[test]
fn gpus_are_verified_by_kernel_copy_and_network() {
    for persona in [Persona::Spark, Persona::Card] {
        let posed = driver().pose(persona);
        let device =
            Device::cuda(0, DeviceOptions::new()).expect("the stand-in driver has a device");
        let verification = verify(&device);
        for line in &verification.lines {
            assert_eq!(line.outcome, Outcome::Ok, "{persona:?}: {verification:?}");
        }
        drop(device);
        posed.assert_clean();
    }
}

#[test]
fn a_kernel_that_fails_is_said_and_ends_the_load() {
    let posed = driver().pose(Persona::Spark);
    let device = Device::cuda(0, DeviceOptions::new()).expect("the stand-in driver has a device");
    // CUDA_ERROR_ILLEGAL_ADDRESS.
    posed.fail_kernel(2, 700);
    let watched = Watched {
        device,
        before: None,
        sampler: None,
    };
    let load = run_on(Ok(watched), &super::small(500), &mut |_| true);
    let gpu = load.gpu.expect("a device");
    assert!(gpu.failure.is_some(), "{gpu:?}");
    let device = Device::cuda(0, DeviceOptions::new());
    posed.forget();
    drop(device);
}
