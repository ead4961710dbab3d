//! What the drivers add: through nvml-wrapper and the dlopen probe, posed by scripts.

use spark_hal::cuda::{CudaApi as _, CudaDriver, CudaReport, CudaUnavailable, probe_library};
use spark_hal::gpu::{CudaAttribute, GpuMemory};
use spark_hal::nvml::{NvmlApi as _, NvmlReport, ThrottleReason};
use spark_hal::{ComputeCapability, Failure, Precision, Reading};
use spark_testing::{Age, StandIn};

use crate::posed::{LIMIT, machine, pose, read_with};
use crate::recorded::Tree;

#[test]
fn a_spark_with_drivers_is_unified_and_told_what_is_published_of_fp4() {
    let machine = machine("nvidia-dgx-spark");
    let gpu = machine.best_gpu().expect("it has one");
    assert_eq!(gpu.name, Reading::Value("NVIDIA GB10".to_owned()));
    assert_eq!(
        gpu.compute_capability,
        Reading::Value(ComputeCapability::GB10)
    );
    let wanted = GpuMemory::Unified {
        total_bytes: 125_513_944 * 1024,
        available_bytes: 118_000_000 * 1024,
        shares_page_tables: Some(true),
    };
    assert_eq!(gpu.memory, Reading::Value(wanted));
    assert_eq!(gpu.sm_count, Reading::Value(48));
    assert_eq!(gpu.max_sm_clock_mhz, Reading::Value(3003));
    assert_eq!(
        gpu.attribute(CudaAttribute::L2CacheSize),
        Reading::Value(25_165_824)
    );
    assert_eq!(
        gpu.attribute(CudaAttribute::HostNativeAtomicSupported),
        Reading::NotSupported
    );
    assert_eq!((gpu.nvml_index, gpu.cuda_ordinal), (Some(0), Some(0)));
    assert_eq!(machine.gpus.len(), 1, "three sources, one GPU");
    assert_eq!(gpu.fastest, Precision::Fp4);
    // Its libraries run FP4; whether that is faster is another question.
    let recommended = &gpu.recommended;
    assert_eq!(
        recommended.precision,
        Precision::Fp8,
        "{}",
        recommended.reason
    );
    let source = "NVIDIA/cutlass #3227, 2026-05-19";
    assert!(
        recommended.reason.contains(source),
        "{}",
        recommended.reason
    );
}

#[track_caller]
fn check_recommended(name: &str, precision: Precision, reason: &str) {
    let machine = machine(name);
    let recommended = &machine.best_gpu().expect("it has one").recommended;
    assert_eq!(recommended.precision, precision, "{}", recommended.reason);
    assert!(
        recommended.reason.contains(reason),
        "{}",
        recommended.reason
    );
}

#[test]
fn recommendations_follow_the_installed_software() {
    check_recommended(
        "rtx-pro-6000-blackwell",
        Precision::Fp8,
        "not fp4: no published figure says that it is faster on 12.0",
    );
    // Hardware for FP4, but libraries of CUDA 12.4.
    check_recommended(
        "rtx-5090-pc",
        Precision::Bf16,
        "not fp4: needs NVRTC or cuBLASLt 12.8",
    );
    check_recommended("rtx-4090-pc", Precision::Fp8, "installed stack run fp8");
    check_recommended("h100-server", Precision::Fp8, "installed stack run fp8");
    check_recommended("h200-dgx-server", Precision::Bf16, "found neither");
}

#[test]
fn a_spark_without_libraries_is_not_told_to_use_fp4() {
    let tree = Tree::of("nvidia-dgx-spark");
    tree.remove("/usr/local/cuda/targets");
    let read = |file: &str| {
        std::fs::read_to_string(crate::recorded::machine_file("nvidia-dgx-spark", file)).unwrap()
    };
    let machine = read_with(&tree, Some(&read("nvml.txt")), Some(&read("cuda.txt")));
    let recommended = &machine.best_gpu().unwrap().recommended;
    assert_eq!(
        recommended.precision,
        Precision::Bf16,
        "{}",
        recommended.reason
    );
    let old_driver = read("cuda.txt").replace("version = 13000", "version = 12080");
    let machine = read_with(&Tree::of("nvidia-dgx-spark"), None, Some(&old_driver));
    let recommended = &machine.best_gpu().unwrap().recommended;
    assert_eq!(
        recommended.precision,
        Precision::Bf16,
        "{}",
        recommended.reason
    );
    assert!(recommended.reason.contains("needs a driver with CUDA 12.9"));
}

#[test]
fn drivers_alone_prove_a_spark_where_files_are_hidden() {
    let machine = machine("spark-container-without-sysfs");
    assert!(machine.is_dgx_spark(), "{:?}", machine.platform.evidence);
    assert_eq!(
        machine.platform.kind.to_string(),
        "DGX Spark (unknown vendor)"
    );
    // No CUDA there: NVML's "not supported" says unified.
    assert!(machine.gpus[0].is_unified());
    assert!(!machine.gpus[0].is_usable());
}

#[test]
fn wrong_totals_of_unified_gpus_are_not_believed() {
    let machine = machine("n1x-look-alike");
    assert!(!machine.is_dgx_spark(), "{:?}", machine.platform.evidence);
    let memory = machine.gpus[0].memory.clone().value().expect("known");
    assert_eq!(memory.total_bytes(), Some(125_513_944 * 1024));
}

#[test]
fn coherent_cards_keep_their_own_memory() {
    for name in ["gh200-look-alike", "dgx-station-gb300"] {
        let machine = machine(name);
        assert!(!machine.is_dgx_spark());
        match machine.gpus[0].memory {
            Reading::Value(GpuMemory::Dedicated {
                is_coherent: Some(true),
                ..
            }) => {}
            ref other => panic!("{name}: {other:?}"),
        }
    }
}

#[test]
fn a_failed_memory_query_on_a_card_is_not_unified() {
    for answer in ["unknown", "lost", "no_permission", "0,0,0", "not_ready"] {
        let script = format!("device\nname = NVIDIA RTX 5090\ncompute = 12.0\nmemory = {answer}\n");
        let machine = read_with(&Tree::of("rtx-5090-pc"), Some(&script), None);
        let gpu = &machine.gpus[0];
        assert!(!gpu.is_unified(), "{answer}");
        assert!(
            matches!(gpu.memory, Reading::Failed(_)),
            "{answer}: {:?}",
            gpu.memory
        );
    }
}

#[test]
fn two_cards_are_two_and_the_first_is_best() {
    let machine = machine("h100-server");
    assert_eq!(machine.gpus.len(), 2);
    assert_eq!(machine.best_gpu().unwrap().cuda_ordinal, Some(0));
}

#[test]
fn a_sample_tells_what_a_gb10_tells() {
    let script = std::fs::read_to_string(crate::recorded::machine_file(
        "nvidia-dgx-spark",
        "nvml.txt",
    ));
    let posed = pose(Age::Current, &script.unwrap());
    let nvml = posed.nvml.as_ref().unwrap();
    let sample = nvml.sample(0).unwrap();
    assert_eq!(sample.temperature_c, Reading::Value(41));
    assert_eq!(sample.power_mw, Reading::Value(4500));
    assert_eq!(sample.power_limit_mw, Reading::NotSupported);
    assert_eq!(sample.memory, Reading::NotSupported);
    assert_eq!(sample.throttle, Reading::Value(vec![ThrottleReason::Idle]));
    assert_eq!(sample.performance_state, Reading::Value(8));
    let processes = nvml.processes(0).value().unwrap();
    assert_eq!(processes.len(), 2);
    assert_eq!(processes[0].memory_bytes, Reading::Value(1 << 30));
    assert_eq!(processes[1].memory_bytes, Reading::NotSupported);
}

#[test]
fn garbage_text_fails_alone() {
    let script =
        "device\nname = garbage\nuuid = garbage\npci = garbage\ncompute = 9.0\nmemory = 5,4,1\n";
    let posed = pose(Age::Current, script);
    let device = posed.nvml.as_ref().unwrap().describe(0).unwrap();
    assert!(matches!(device.name, Reading::Failed(_)));
    assert!(matches!(device.uuid, Reading::Failed(_)));
    assert!(matches!(device.address, Reading::Failed(_)));
    assert_eq!(device.compute.to_string(), "9.0");
    assert_eq!(device.memory.value().unwrap().total_bytes, 5);
}

#[test]
fn absurd_answers_are_refused() {
    let posed = pose(
        Age::Current,
        "count = 4294967295\ncuda = -5\ndriver = x.y\n",
    );
    let nvml = posed.nvml.as_ref().unwrap();
    let refused = NvmlReport::read(nvml).unwrap_err();
    assert!(matches!(refused, Failure::Malformed { .. }), "{refused}");
    assert!(matches!(nvml.cuda_version(), Reading::Failed(_)));
    assert!(matches!(nvml.driver_version(), Reading::Failed(_)));
    let odd = pose(
        Age::Current,
        "device\ncompute = -1,-1\npstate = 77\nthrottle = 0xffffffffffffffff\n",
    );
    let nvml = odd.nvml.as_ref().unwrap();
    assert!(matches!(
        nvml.describe(0).unwrap().compute,
        Reading::Failed(_)
    ));
    let sample = nvml.sample(0).unwrap();
    assert!(
        matches!(sample.performance_state, Reading::Failed(_)),
        "{sample:?}"
    );
    assert!(sample.throttle.is_value());
}

#[test]
fn a_lost_device_leaves_the_others() {
    let script = "device\nhandle = lost\ndevice\nname = NVIDIA H200\ncompute = 9.0\n";
    let posed = pose(Age::Current, script);
    let report = NvmlReport::read(posed.nvml.as_ref().unwrap()).unwrap();
    assert!(
        report.devices[0]
            .as_ref()
            .unwrap_err()
            .to_string()
            .contains("bus")
    );
    assert_eq!(
        report.devices[1].as_ref().unwrap().name.to_string(),
        "NVIDIA H200"
    );
}

#[test]
fn a_device_that_disappears_between_calls_fails_then() {
    let posed = pose(
        Age::Current,
        "device\nhandle = ok | lost\ntemperature = 50\n",
    );
    let nvml = posed.nvml.as_ref().unwrap();
    assert_eq!(nvml.sample(0).unwrap().temperature_c, Reading::Value(50));
    assert!(nvml.sample(0).is_err());
}

#[test]
fn an_old_driver_lacks_functions_and_still_answers() {
    let script = "driver = 418.40.04\ncuda = 10010\ndevice\nname = Tesla V100\ncompute = 7.0\n\
                  memory = 5,4,1\ntemperature = 50\nenergy_mj = 7\n";
    let posed = pose(Age::Old, script);
    let nvml = posed.nvml.as_ref().unwrap();
    let report = NvmlReport::read(nvml).unwrap();
    assert_eq!(report.driver_version.to_string(), "418.40.04");
    assert!(matches!(report.cuda_version, Reading::Failed(_)));
    let device = report.devices[0].as_ref().unwrap();
    assert!(
        matches!(device.memory, Reading::Failed(_)),
        "not taken for unified"
    );
    let sample = nvml.sample(0).unwrap();
    assert_eq!(sample.temperature_c, Reading::Value(50));
    assert!(matches!(sample.energy_mj, Reading::Failed(_)));
    assert!(matches!(nvml.processes(0), Reading::Failed(_)));
}

#[test]
fn a_call_that_hangs_costs_its_limit_once() {
    let begin = std::time::Instant::now();
    let posed = pose(Age::Current, "device\nname = hang\n");
    let nvml = posed.nvml.as_ref().unwrap();
    assert!(matches!(nvml.describe(0), Err(Failure::TimedOut { .. })));
    for _ in 0..100 {
        assert!(matches!(nvml.sample(0), Err(Failure::TimedOut { .. })));
    }
    assert!(begin.elapsed() < 2 * LIMIT);
}

#[test]
fn a_library_that_hangs_while_starting_is_given_up() {
    let posed = pose(Age::Current, "init = hang\n");
    assert!(matches!(posed.nvml, Err(Failure::TimedOut { .. })));
    let machine = read_with(&Tree::of("nvidia-dgx-spark"), Some("init = hang\n"), None);
    assert!(machine.is_dgx_spark(), "detection goes on");
    assert!(machine.nvml_failure.is_some());
}

#[test]
fn no_driver_loaded_is_a_failure_with_its_words() {
    let posed = pose(Age::Current, "init = no_driver\n");
    let why = posed.nvml.unwrap_err();
    assert!(why.to_string().contains("driver is not loaded"), "{why}");
}

#[test]
fn a_missing_library_is_no_panic() {
    let missing = std::path::Path::new("/nowhere/libcuda.so.1");
    assert!(matches!(
        CudaDriver::open_library(missing),
        Err(CudaUnavailable::LibraryMissing { .. })
    ));
    assert!(matches!(
        probe_library(&["/nowhere/libnvrtc.so"], &["nvrtcVersion"]),
        Err(CudaUnavailable::LibraryMissing { .. })
    ));
    assert!(matches!(
        probe_library(&[], &[]),
        Err(CudaUnavailable::LibraryMissing { .. })
    ));
}

fn open_cuda(age: Age, script: &str) -> Result<CudaDriver, CudaUnavailable> {
    let files = StandIn::new().unwrap().with_cuda(age, script).unwrap();
    CudaDriver::open_library(&files.cuda())
}

#[test]
fn cuda_that_cannot_start_says_why() {
    let no_device = open_cuda(Age::Current, "init = no_device\n");
    assert_eq!(no_device.unwrap_err(), CudaUnavailable::NoDevice);
    let stub = open_cuda(Age::Current, "init = no_driver\n").unwrap_err();
    assert_eq!(
        stub,
        CudaUnavailable::InitFailed {
            code: 34,
            name: "CUDA_ERROR_STUB_LIBRARY"
        }
    );
    let old = open_cuda(Age::Old, "").unwrap_err();
    assert_eq!(
        old,
        CudaUnavailable::SymbolMissing {
            symbol: "cuDeviceGetPCIBusId"
        }
    );
}

#[test]
fn cuda_without_devices_is_no_cuda() {
    let driver = open_cuda(Age::Current, "version = 13000\n").unwrap();
    assert_eq!(CudaReport::read(&driver), Err(CudaUnavailable::NoDevice));
    let many = open_cuda(Age::Current, "count = 1000000\n").unwrap();
    assert!(matches!(
        CudaReport::read(&many),
        Err(CudaUnavailable::Failed(_))
    ));
    let negative = open_cuda(Age::Current, "count = -1\n").unwrap();
    assert!(negative.device_count().is_err());
}

#[test]
fn cuda_answers_that_are_garbage_fail_alone() {
    let script = "version = 7\ndevice\nname = garbage\nuuid = nonsense\npci = nonsense\nmemory = lost\n16 = -3\n75 = 12\n";
    let driver = open_cuda(Age::Current, script).unwrap();
    assert!(matches!(driver.version(), Reading::Failed(_)));
    let device = driver.describe(0).unwrap();
    assert!(matches!(device.name, Reading::Failed(_)));
    assert!(matches!(device.uuid, Reading::Failed(_)));
    assert!(matches!(device.address, Reading::Failed(_)));
    assert!(matches!(device.total_memory_bytes, Reading::Failed(_)));
    assert_eq!(
        device.compute,
        Reading::NotSupported,
        "the minor number is missing"
    );
    let sm_count = device.attributes.count(CudaAttribute::MultiprocessorCount);
    assert!(matches!(sm_count, Reading::Failed(_)));
    assert!(driver.describe(1).is_err());
    assert!(driver.has_symbol("cuInit") && !driver.has_symbol("cuMemPrefetchAsync_v2"));
}
