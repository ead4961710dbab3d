//! The same on the stand-in driver, as a GB10 whose kernels run as PTX: results are checked, rates mean nothing and are not judged.

#![allow(unsafe_code, reason = "launching kernels")]

use std::path::Path;
use std::sync::OnceLock;

use spark_hal::Root;
use spark_hal::doctor::load::Results;
use spark_hal::doctor::{Facts, Verdict, examine_facts};
use spark_hal::monitor::Sampler;
use spark_hal::nvml::LiveNvml;
use spark_hal::{Machine, Sources};
use spark_mem::{Device, DeviceOptions, LaunchShape};
use spark_testing::driver::{Build, Persona, StandInDriver, kernels_in};
use spark_testing::{Age, StandIn};

use crate::kernels::{self, FILL, SUM};
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

/// Of grids that go round four times at once, singly, and in part; words behind the last would show in the sum.
#[test]
fn every_word_is_read_once_and_none_behind_the_last() {
    let posed = driver().pose(Persona::Spark);
    let device = Device::cuda(0, DeviceOptions::new()).expect("the stand-in driver has a device");
    let stream = device.new_stream().unwrap();
    let (fill, sum) = (device.kernel(&FILL).unwrap(), device.kernel(&SUM).unwrap());
    let shape = LaunchShape {
        grid: [2, 1, 1],
        block: [32, 1, 1],
        shared_bytes: 0,
    };
    for n_groups in [1, 63, 64, 192, 193, 255, 256, 257, 300, 1000] {
        let n_words = 4 * n_groups;
        let mut words = device.shared::<u32>(n_words as usize + 4).unwrap();
        let mut sums = device.shared::<u32>(64).unwrap();
        words.write(&stream).unwrap().fill(0x0100_0001);
        sums.write(&stream).unwrap().fill(7);
        // SAFETY: the kernel writes the first `n_words` words, and there are four more.
        unsafe { fill.launch(&stream, shape, (words.view_mut(), n_words)) }.unwrap();
        let views = (sums.view_mut(), words.view(), n_groups);
        // SAFETY: the kernel reads the first `n_groups` groups of four words, and writes a sum for each of 64 threads.
        unsafe { sum.launch(&stream, shape, views) }.unwrap();
        let words = words.read(&stream).unwrap();
        assert_eq!(words[n_words as usize..], [0x0100_0001; 4], "{n_groups}");
        let sums = sums.read(&stream).unwrap();
        let got = sums.iter().fold(0, |sum: u32, one| sum.wrapping_add(*one));
        assert_eq!(got, kernels::sum_of_words(n_words), "{n_groups}");
    }
    drop((fill, sum, stream, device));
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
