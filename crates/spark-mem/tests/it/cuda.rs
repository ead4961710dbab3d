//! What only a CUDA device does: the recorded calls prove it.
//!
//! ```text
//! sharing   zero copies on a GB10, counted copies elsewhere or when switched off
//! kernels   compiled once, kept on disk, kept safely
//! faults    after an error that a context does not survive everything is refused
//! ```

use spark_hal::Config;
use spark_mem::{
    Advice, BufferKind, Device, DeviceKind, DeviceOptions, Hint, KernelSource, LaunchOptions,
    LaunchShape, MemError, Read, Side, Write,
};
use spark_testing::driver::{Persona, Posed};

use crate::cache::CacheDir;
use crate::conformance::{filled, values};
use crate::kernels::{ELEMENTWISE, SCALE, WEIGHTED};
use crate::logged;
use crate::stand_in::{check, device, driver, options};

/// The round trip of the specification: CPU writes, GPU computes, CPU reads.
fn round_trips(device: &Device, n: usize) {
    let stream = device.new_stream().unwrap();
    let mut input = device.shared::<f32>(1000).unwrap();
    let mut out = device.shared::<f32>(1000).unwrap();
    let kernel = device.kernel(&SCALE).unwrap();
    let shape = LaunchShape::for_elements(1000, 128).unwrap();
    for round in 0..n {
        input.overwrite(&stream).unwrap().fill(round as f32);
        // SAFETY: both have the 1000 elements that the kernel touches.
        unsafe { kernel.launch(&stream, shape, (out.view_mut(), input.view(), 2.0, 1000)) }
            .unwrap();
        assert_eq!(*out.read(&stream).unwrap(), [2.0 * round as f32; 1000]);
    }
}

#[test]
fn on_unified_memory_round_trips_call_no_copy() {
    check(Persona::Spark, |driver, device| {
        assert_eq!(device.info().name, "NVIDIA GB10");
        assert_eq!(device.shared_kind(), BufferKind::System);
        round_trips(device, 5);
        assert_eq!(driver.count("cuMemcpy"), 0, "{:?}", driver.calls());
        assert_eq!(driver.count("cuMemAlloc"), 0, "plain memory is enough");
        assert_eq!(driver.count("cuLaunchKernel"), 5);
        assert_eq!(device.stats().copies(), 0);
    });
}

#[test]
fn on_unified_memory_both_sides_use_one_address() {
    check(Persona::Spark, |_, device| {
        let stream = device.new_stream().unwrap();
        for kind in [BufferKind::System, BufferKind::Unified, BufferKind::Pinned] {
            let mut buffer = device.buffer::<f32>(kind, 10).unwrap();
            let host = buffer.write(&stream).unwrap().as_ptr() as u64;
            assert_eq!(buffer.device_address(), Some(host), "{kind:?}");
        }
    });
}

/// Copies as the driver saw them, and what was logged.
fn copies_and_log(driver: &Posed<'_>, options: DeviceOptions) -> (usize, usize, Vec<String>) {
    let log = logged::during(|| {
        let device = Device::cuda(0, options).unwrap();
        assert_eq!(device.shared_kind(), BufferKind::Device);
        round_trips(&device, 5);
        let stats = device.stats();
        assert_eq!(
            (stats.host_to_device.count, stats.device_to_host.count),
            (5, 5)
        );
        assert_eq!(stats.host_to_device.bytes, 5 * 4000);
    });
    driver.assert_clean();
    let up = driver.count("cuMemcpyHtoDAsync_v2 4000");
    (up, driver.count("cuMemcpyDtoHAsync_v2 4000"), log)
}

#[test]
fn on_a_card_copies_are_explicit_counted_and_warned_of() {
    let driver = driver().pose(Persona::Card);
    let (up, down, log) = copies_and_log(&driver, options());
    assert_eq!((up, down), (5, 5));
    let warnings: Vec<_> = log.iter().filter(|line| line.starts_with("WARN")).collect();
    assert_eq!(warnings.len(), 1, "one for all buffers: {log:?}");
    assert!(warnings[0].contains("performance"), "{log:?}");
}

/// Whole megabytes through a ring of eight, whose slots are taken again while copies wait in
/// their queues: a slot that is overwritten too early shows as wrong data.
#[test]
fn uploads_take_no_memory_of_their_own_size() {
    const N: usize = 20 << 20;
    check(Persona::Card, |driver, device| {
        let streams = [device.new_stream().unwrap(), device.new_stream().unwrap()];
        let bytes: Vec<u8> = (0..N).map(|idx| (idx / 1000 % 251) as u8).collect();
        let buffer = |_| device.buffer::<u8>(BufferKind::Device, N).unwrap();
        let mut buffers = [0, 1].map(buffer);
        let (budget, n_pinned) = (device.budget().used_bytes(), driver.count("cuMemHostAlloc"));
        let before = device.stats();
        let log = logged::during(|| {
            for _ in 0..2 {
                for (buffer, stream) in buffers.iter_mut().zip(&streams) {
                    buffer.upload(stream, &bytes).unwrap();
                }
            }
        });
        assert_eq!(log.len(), 1, "{log:?}");
        let mut back = vec![0; N];
        for (buffer, stream) in buffers.iter().zip(&streams) {
            back.fill(0);
            buffer.download(stream, &mut back).unwrap();
            assert!(back == bytes);
        }
        let stats = device.stats().since(&before);
        assert_eq!(
            (stats.host_to_device.count, stats.host_to_device.bytes),
            (4, 4 * N as u64)
        );
        assert_eq!((stats.device_to_host.count, stats.on_host.count), (2, 0));
        assert_eq!(
            device.budget().used_bytes(),
            budget,
            "the budget is what it was"
        );
        assert_eq!(driver.count("cuMemHostAlloc") - n_pinned, 4);
        assert_eq!(driver.count("cuMemHostAlloc 2097152"), 4);
        assert_eq!(driver.count("cuStreamSynchronize"), 0);
        for buffer in buffers {
            assert!(buffer.into_vec(&streams[0]).unwrap() == bytes);
        }
    });
}

#[test]
fn files_take_no_pinned_memory_of_their_own_size() {
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("forty-megabytes");
    let bytes: Vec<u8> = (0..(40 << 20) + 5)
        .map(|idx: u32| (idx / 999 % 253) as u8)
        .collect();
    std::fs::write(&path, &bytes).unwrap();
    check(Persona::Card, |driver, device| {
        let stream = device.new_stream().unwrap();
        let mut told = Vec::new();
        let loaded =
            spark_mem::file::load(device, &stream, &path, |done, all| told.push((done, all)));
        let (buffer, report) = loaded.unwrap();
        assert_eq!(
            (report.bytes, buffer.kind()),
            (bytes.len() as u64, BufferKind::Device)
        );
        assert_eq!(told.last(), Some(&(report.bytes, report.bytes)));
        assert!(told.is_sorted());
        assert_eq!(device.budget().used_bytes(), report.bytes);
        assert_eq!(
            driver.count("cuMemHostAlloc"),
            driver.count("cuMemHostAlloc 2097152")
        );
        assert!(buffer.into_vec(&stream).unwrap() == bytes);
    });
    std::fs::remove_file(&path).unwrap();
}

/// In steady state nobody waits on the host and no stream is made: memory is taken, cleared and
/// given back in the order of the device's own queue.
#[test]
fn memory_comes_and_goes_without_waiting() {
    for persona in [Persona::Spark, Persona::Card, Persona::Ampere] {
        check(persona, |driver, device| {
            let streams = [device.new_stream().unwrap(), device.new_stream().unwrap()];
            let mut out = device.buffer::<u8>(BufferKind::Device, 4096).unwrap();
            let before = driver.n_calls();
            for round in 0..20 {
                let stream = &streams[round % 2];
                let mut scratch = device.buffer::<u8>(BufferKind::Device, 4096).unwrap();
                assert_eq!(scratch.len(), 4096);
                stream
                    .fill_bytes(scratch.range_mut(0..4000).unwrap(), 7)
                    .unwrap();
                stream.copy(scratch.view(), out.view_mut()).unwrap();
            }
            let calls = driver.calls().split_off(before);
            let count = |name: &str| calls.iter().filter(|call| call.starts_with(name)).count();
            assert_eq!(
                (count("cuMemAllocAsync"), count("cuMemFreeAsync")),
                (20, 20)
            );
            let waits = [
                "cuStreamSynchronize",
                "cuEventSynchronize",
                "cuStreamCreate",
                "cuMemAlloc_v2",
                "cuMemFree_v2",
            ];
            for name in waits {
                assert_eq!(count(name), 0, "{name}: {calls:?}");
            }
            let bytes = out.into_vec(&streams[0]).unwrap();
            assert_eq!((bytes[3999], bytes[4000]), (7, 0));
        });
    }
}

#[test]
fn many_small_uploads_keep_their_data() {
    check(Persona::Card, |driver, device| {
        let stream = device.new_stream().unwrap();
        let mut buffers: Vec<_> = (0..1000)
            .map(|_| device.buffer::<u32>(BufferKind::Device, 3).unwrap())
            .collect();
        for (idx, buffer) in buffers.iter_mut().enumerate() {
            buffer.upload(&stream, &[idx as u32; 3]).unwrap();
        }
        for (idx, buffer) in buffers.into_iter().enumerate() {
            assert_eq!(buffer.into_vec(&stream).unwrap(), [idx as u32; 3]);
        }
        assert!(driver.count("cuEventCreate untimed") <= 4 * 64 + 2);
    });
}

#[test]
fn a_spark_that_is_disabled_copies_and_says_so() {
    let set = |name: &str| (name == "OPENPILOT_DGX_ENABLED").then(|| "0".into());
    let (config, _) = Config::read(set);
    let mut disabled = DeviceOptions::from_config(&config);
    disabled.cache_dir = None;
    let driver = driver().pose(Persona::Spark);
    let (up, down, log) = copies_and_log(&driver, disabled);
    assert_eq!((up, down), (5, 5));
    assert!(log[0].contains("switched off"), "{log:?}");
    assert!(
        log.iter().any(|line| line.contains("performance")),
        "{log:?}"
    );
}

#[test]
fn managed_memory_takes_hints() {
    check(Persona::Spark, |driver, device| {
        let stream = device.new_stream().unwrap();
        let buffer = device.buffer::<f32>(BufferKind::Unified, 1000).unwrap();
        assert_eq!(
            stream.prefetch(buffer.view(), Side::Device).unwrap(),
            Hint::Given
        );
        assert_eq!(
            buffer.advise(Advice::PreferredSide(Side::Host)).unwrap(),
            Hint::Given
        );
        assert_eq!(driver.count("cuMemPrefetchAsync_v2 4000"), 1);
        let plain = device.shared::<f32>(10).unwrap();
        assert_eq!(
            plain.advise(Advice::MostlyRead).unwrap(),
            Hint::NotApplicable
        );
        assert_eq!(driver.count("cuMemAdvise_v2"), 1);
    });
}

#[test]
fn a_graph_is_one_launch() {
    check(Persona::Spark, |driver, device| {
        let stream = device.new_stream().unwrap();
        let input = device.shared::<f32>(1000).unwrap();
        let mut out = device.shared::<f32>(1000).unwrap();
        let kernel = device.kernel(&SCALE).unwrap();
        let shape = LaunchShape::for_elements(1000, 128).unwrap();
        let graph = stream.capture(|stream| {
            for _ in 0..10 {
                let arguments = (out.view_mut(), input.view(), 2.0, 1000);
                // SAFETY: both have the 1000 elements that the kernel touches.
                unsafe { kernel.launch(stream, shape, arguments) }?;
            }
            Ok(())
        });
        let graph = graph.unwrap();
        let before = driver.n_calls();
        graph.launch(&stream).unwrap();
        let calls = driver.calls().split_off(before);
        let calls: Vec<_> = calls
            .iter()
            .filter(|call| *call != "cuCtxGetCurrent")
            .collect();
        assert_eq!(calls, ["cuGraphLaunch"]);
        stream.synchronize().unwrap();
    });
}

/// Two branches on parts of one arena stay beside each other: four pieces of work, of which the two
/// after the fork do not come after each other.
#[test]
fn branches_of_a_graph_are_apart() {
    check(Persona::Spark, |driver, device| {
        crate::conformance::fork_and_join(device, 2);
        // a and b from the fork, the sum's two pieces: a -> s1, b -> s1, s1 -> s2.
        assert_eq!(
            driver.count("cuGraphInstantiateWithFlags 4 nodes 3 edges"),
            1,
            "{:?}",
            driver.calls()
        );
        assert_eq!(driver.count("cuGraphLaunch"), 2);
        assert_eq!(driver.violations(), Vec::<String>::new());
    });
}

#[test]
fn events_are_used_again_and_have_times_only_where_asked() {
    check(Persona::Card, |driver, device| {
        let (first, second) = (device.new_stream().unwrap(), device.new_stream().unwrap());
        let kind = device.private_kind();
        let mut a = device.buffer::<u8>(kind, 100).unwrap();
        let mut b = device.buffer::<u8>(kind, 100).unwrap();
        for _ in 0..20 {
            first.copy(b.view(), a.view_mut()).unwrap();
            second.copy(a.view(), b.view_mut()).unwrap();
            first.wait(&second.record().unwrap()).unwrap();
        }
        assert!(driver.count("cuEventRecord") >= 40, "each mark is recorded");
        assert_eq!(
            driver.count("cuEventCreate untimed"),
            1,
            "{:?}",
            driver.calls()
        );
        assert_eq!(driver.count("cuEventCreate timed"), 0);
        let (from, to) = (first.record_timed().unwrap(), first.record_timed().unwrap());
        first.synchronize().unwrap();
        to.since(&from).unwrap();
        assert_eq!(driver.count("cuEventCreate timed"), 2);
        assert_eq!(driver.count("cuEventDestroy"), 0);
    });
}

#[test]
fn a_write_past_the_end_is_noticed() {
    let driver = driver().pose(Persona::Card);
    let device = device();
    let stream = device.new_stream().unwrap();
    let input = device.buffer::<f32>(BufferKind::Device, 70).unwrap();
    let mut out = device.buffer::<f32>(BufferKind::Device, 64).unwrap();
    let kernel = device.kernel(&SCALE).unwrap();
    let shape = LaunchShape::for_elements(70, 32).unwrap();
    // SAFETY: not sound on purpose, and the stand-in leaves a margin behind allocations.
    unsafe { kernel.launch(&stream, shape, (out.view_mut(), input.view(), 2.0, 70)) }.unwrap();
    // Memory is given back when its stream comes to that.
    drop((out, input, kernel, stream, device));
    let violations = driver.violations();
    let said = ["past the end", "behind the end of the 256 bytes"];
    let is_told = |violation: &String| said.iter().any(|text| violation.contains(text));
    assert!(violations.iter().any(is_told), "{violations:?}");
}

// --- what kernels have besides arguments ----------------------------------------------------

#[test]
fn shared_memory_is_opted_into_once() {
    for persona in Persona::ALL {
        check(persona, |driver, device| {
            crate::conformance::static_and_dynamic_shared_memory_are_counted_together(device);
            // For the sizes above 48 KiB: what fits, asked once, and what no GPU has.
            assert_eq!(driver.count("cuFuncSetAttribute"), 2);
        });
    }
}

#[test]
fn a_kernel_may_begin_before_the_one_in_front_has_ended() {
    for persona in Persona::ALL {
        check(persona, |driver, device| {
            let stream = device.new_stream().unwrap();
            let kernel = device.kernel(&SCALE).unwrap();
            let mut input = device.shared::<f32>(64).unwrap();
            let mut out = device.shared::<f32>(64).unwrap();
            input.overwrite(&stream).unwrap().fill(3.0);
            let shape = LaunchShape::for_elements(64, 64).unwrap();
            let early = LaunchOptions::new().with_programmatic_dependency(true);
            let arguments = (out.view_mut(), input.view(), 2.0, 64);
            // SAFETY: both have 64 elements, and there is no kernel in front of it.
            unsafe { kernel.launch_with(&stream, shape, early, arguments) }.unwrap();
            // From 9.0 on; older GPUs are asked for an ordinary launch.
            let may = matches!(persona, Persona::Spark | Persona::Card);
            let (early, plain) = (usize::from(may), usize::from(!may));
            assert_eq!(driver.count("cuLaunchKernelEx scale_f32"), early);
            assert_eq!(driver.count("cuLaunchKernel scale_f32"), plain);
            assert_eq!(*out.read(&stream).unwrap(), [6.0; 64]);
        });
    }
}

// --- the cache of compiled kernels ----------------------------------------------------------

impl CacheDir {
    /// Compiled kernels alone are kept here: measuring memory loads one too.
    pub(crate) fn options(&self) -> DeviceOptions {
        let options = options().with_cache_dir(self.0.clone());
        options.with_measured_memory(false)
    }

    /// Opens a device, makes a kernel ready and tells how often something was compiled.
    fn compiled(&self, driver: &Posed<'_>) -> usize {
        let before = driver.count("nvrtcCompileProgram");
        round_trips(&Device::cuda(0, self.options()).unwrap(), 1);
        driver.count("nvrtcCompileProgram") - before
    }
}

#[test]
fn kernels_are_compiled_once_and_kept() {
    let driver = driver().pose(Persona::Spark);
    let cache = CacheDir::new();
    assert_eq!(cache.compiled(&driver), 1);
    assert_eq!(cache.compiled(&driver), 0, "a second process finds them");
    assert_eq!(cache.entries().len(), 1);
    drop(driver);
    let card = self::driver().pose(Persona::Card);
    assert_eq!(cache.compiled(&card), 1, "another architecture");
    assert_eq!(cache.entries().len(), 2);
    card.assert_clean();
}

#[test]
fn kept_kernels_that_are_damaged_are_compiled_again() {
    let driver = driver().pose(Persona::Spark);
    let cache = CacheDir::new();
    cache.compiled(&driver);
    let path = cache.entries().remove(0);
    let whole = std::fs::read(&path).unwrap();
    let mut flipped = whole.clone();
    *flipped.last_mut().unwrap() ^= 1;
    for damage in [
        &whole[..whole.len() - 1],
        &whole[..20],
        &[],
        &flipped,
        b"something else",
    ] {
        std::fs::write(&path, damage).unwrap();
        let log = logged::during(|| assert_eq!(cache.compiled(&driver), 1));
        assert!(
            log.iter().any(|line| line.contains("compiling again")),
            "{log:?}"
        );
        assert_eq!(std::fs::read(&path).unwrap(), whole, "and kept whole again");
    }
}

/// Opening a pipe would wait for somebody who writes into it.
#[test]
fn a_pipe_in_place_of_a_kept_kernel_is_replaced() {
    let driver = driver().pose(Persona::Spark);
    let cache = CacheDir::new();
    cache.compiled(&driver);
    let path = cache.entries().remove(0);
    std::fs::remove_file(&path).unwrap();
    let made = std::process::Command::new("mkfifo").arg(&path).status();
    assert!(made.unwrap().success());
    assert_eq!(cache.compiled(&driver), 1);
    assert_eq!(cache.compiled(&driver), 0, "a file is there again");
}

#[test]
fn a_kept_kernel_that_does_not_load_is_compiled_again() {
    let driver = driver().pose(Persona::Spark);
    let cache = CacheDir::new();
    cache.compiled(&driver);
    driver.fail_named("cuModuleLoadData", 0, 209);
    assert_eq!(cache.compiled(&driver), 1);
    assert_eq!(cache.compiled(&driver), 0);
}

#[test]
fn a_cache_that_cannot_be_written_costs_a_warning() {
    let driver = driver().pose(Persona::Spark);
    let file = CacheDir::new();
    // A file where the directory would be fails for root too, as permissions would not.
    std::fs::write(&file.0, "no directory").unwrap();
    let log = logged::during(|| assert_eq!(file.compiled(&driver), 1));
    let warnings: Vec<_> = log.iter().filter(|line| line.starts_with("WARN")).collect();
    assert!(
        warnings.iter().any(|line| line.contains("cannot be kept")),
        "{log:?}"
    );
    std::fs::remove_file(&file.0).unwrap();
}

// --- sources that differ --------------------------------------------------------------------

type Scale = (Write<f32>, Read<f32>, f32, u32);
const fn scale_of(file: &'static str) -> KernelSource<Scale> {
    KernelSource::new(file, ELEMENTWISE, "scale_f32")
}
const HEADERS: &[(&str, &str)] = &[("-DTILE=1", "-DTILE=2")];
const OTHER_PARAMETERS: KernelSource<(Write<f32>, Write<f32>, f32, u32)> =
    KernelSource::new("elementwise.cu", ELEMENTWISE, "scale_f32");

/// Each variant is code of its own, in memory and on disk. On a GPU a host version is no part of it.
#[test]
fn sources_of_one_text_and_entry_are_compiled_each() {
    let driver = driver().pose(Persona::Spark);
    let cache = CacheDir::new();
    let variants = [
        scale_of("elementwise.cu"),
        scale_of("other.cu"),
        scale_of("elementwise.cu").with_options(&["-DTILE=1"]),
        scale_of("elementwise.cu").with_options(&["-DTILE=1", "-DTILE=2"]),
        scale_of("elementwise.cu").with_headers(HEADERS),
    ];
    let device = Device::cuda(0, cache.options()).unwrap();
    for (n_before, variant) in variants.iter().enumerate() {
        for _ in 0..2 {
            device.kernel(variant).unwrap();
            assert_eq!(
                driver.count("nvrtcCompileProgram"),
                n_before + 1,
                "{variant:?}"
            );
            assert_eq!(
                driver.count("cuModuleLoadData"),
                n_before + 1,
                "{variant:?}"
            );
        }
    }
    assert_eq!(cache.entries().len(), variants.len());

    // The same image for parameters of other types, or with a host version: loaded once.
    let n_loaded = driver.count("cuModuleLoadData");
    device.kernel(&OTHER_PARAMETERS).unwrap();
    let with_host = scale_of("elementwise.cu").with_host(|_: LaunchShape, _| ());
    device.kernel(&with_host).unwrap();
    assert_eq!(driver.count("nvrtcCompileProgram"), variants.len());
    assert_eq!(driver.count("cuModuleLoadData"), n_loaded);
    drop(device);
    driver.assert_clean();
}

// --- sources that do not compile ------------------------------------------------------------

const WRONG: KernelSource<(Write<f32>,)> = KernelSource::new(
    "wrong.cu",
    "// first line\n#error not today\nextern \"C\" __global__ void wrong(float* x) {}\n",
    "wrong",
);

const MISSING: KernelSource<(Write<f32>, Read<f32>, f32, u32)> =
    KernelSource::new("elementwise.cu", ELEMENTWISE, "no_such_entry");

#[test]
fn sources_that_do_not_compile_say_why() {
    check(Persona::Spark, |_, device| {
        match device.kernel(&WRONG) {
            Err(MemError::Compile { file, arch, log }) => {
                assert_eq!((file.as_str(), arch.as_str()), ("wrong.cu", "sm_121a"));
                assert!(log.starts_with("wrong.cu(2): "), "{log}");
                assert!(log.contains("#error not today"), "{log}");
            }
            other => panic!("{other:?}"),
        }
        match device.kernel(&MISSING) {
            Err(MemError::NotInCode { file, what, name }) => {
                let told = (file.as_str(), what, name.as_str());
                assert_eq!(told, ("elementwise.cu", "kernel", "no_such_entry"));
            }
            other => panic!("{other:?}"),
        }
        round_trips(device, 1);
    });
}

// --- losing the device ----------------------------------------------------------------------

#[test]
fn a_kernel_that_fails_ends_the_device_and_nothing_else() {
    for persona in Persona::ALL {
        let driver = driver().pose(persona);
        let device = device();
        let stream = device.new_stream().unwrap();
        let input = device.shared::<f32>(64).unwrap();
        let mut out = device.shared::<f32>(64).unwrap();
        let kernel = device.kernel(&SCALE).unwrap();
        let shape = LaunchShape::for_elements(64, 64).unwrap();
        driver.fail_kernel(0, 719);
        // SAFETY: both have the 64 elements that the kernel touches.
        unsafe { kernel.launch(&stream, shape, (out.view_mut(), input.view(), 2.0, 64)) }.unwrap();
        let lost = |result: Result<(), MemError>| match result {
            Err(MemError::DeviceLost(error)) => assert_eq!(error.code, 719, "{error}"),
            other => panic!("{persona:?}: {other:?}"),
        };
        lost(stream.synchronize());
        lost(out.read(&stream).map(drop));
        lost(device.shared::<f32>(1).map(drop));
        lost(device.new_stream().map(drop));
        lost(stream.copy(input.view(), out.view_mut()));
        lost(stream.capture(|_| Ok(())).map(drop));
        lost(device.kernel(&SCALE).map(drop));
        let before = driver.n_calls();
        lost(stream.record().map(drop));
        assert_eq!(driver.n_calls(), before, "the driver is not asked any more");
        drop((input, out, stream, kernel, device));
        driver.assert_clean();
        round_trips(&self::device(), 1);
        driver.assert_clean();
    }
}

#[test]
fn numbers_that_no_device_has_are_refused() {
    let _driver = driver().pose(Persona::Spark);
    for ordinal in [1, 7, u32::MAX] {
        let opened = Device::cuda(ordinal, options());
        assert!(matches!(opened, Err(MemError::NoCuda(_))), "{opened:?}");
    }
}

#[test]
fn the_environment_chooses_the_gpu_that_is_there() {
    let driver = driver().pose(Persona::Spark);
    let device = Device::open_with(options()).unwrap(); // nothing is kept in the user's folders
    assert_eq!(device.info().kind, DeviceKind::Cuda(0));
    drop(device);
    driver.assert_clean();
}

#[test]
fn a_budget_is_held_on_a_card() {
    let driver = driver().pose(Persona::Card);
    let limited = options().with_budget_bytes(10_000);
    let device = Device::cuda(0, limited).unwrap();
    let before = driver.n_calls();
    let refused = device.buffer::<u8>(BufferKind::Device, 10_001);
    assert!(
        matches!(refused, Err(MemError::OverBudget { .. })),
        "{refused:?}"
    );
    assert_eq!(driver.n_calls(), before, "the driver was not asked");
}

/// The stand-in, as the driver does, copies from pinned memory when the stream comes to it.
#[test]
fn a_constant_has_the_values_that_were_given() {
    for persona in [Persona::Card, Persona::Spark] {
        let driver = driver().pose(persona);
        let device = device();
        let stream = device.new_stream().unwrap();
        let kernel = device.kernel(&WEIGHTED).unwrap();
        let mut weights = device.buffer::<f32>(BufferKind::Pinned, 4).unwrap();
        weights.write(&stream).unwrap().fill(2.0);
        let input = filled(&device, &stream, device.shared_kind(), &[3.0; 8]);
        let mut out = device.shared::<f32>(8).unwrap();
        let given = weights.read(&stream).unwrap();
        // SAFETY: four floats, which nothing relies on.
        unsafe { kernel.write_constant(&stream, "weights", &given) }.unwrap();
        drop(given);
        weights.write(&stream).unwrap().fill(-1.0);
        let shape = LaunchShape::for_elements(8, 32).unwrap();
        // SAFETY: both buffers have eight elements.
        unsafe { kernel.launch(&stream, shape, (out.view_mut(), input.view(), 8)) }.unwrap();
        assert_eq!(values(&out, &stream), [6.0; 8], "{persona:?}");
        drop((weights, input, out, kernel, stream, device));
        driver.assert_clean();
    }
}

#[test]
fn names_that_the_code_does_not_have_are_told() {
    let driver = driver().pose(Persona::Card);
    let device = device();
    let stream = device.new_stream().unwrap();
    let kernel = device.kernel(&WEIGHTED).unwrap();
    for name in ["no_such", "weights\0", ""] {
        // SAFETY: nothing is written.
        let unknown = unsafe { kernel.write_constant(&stream, name, &[1.0_f32; 4]) };
        let told = unknown.unwrap_err();
        assert!(
            matches!(&told, MemError::NotInCode { what: "variable", name: told, .. } if told == name),
            "{told}"
        );
    }
    for entry in ["no_such", "scale_f32\0"] {
        let source = KernelSource::<(Write<f32>,)>::from_text("w.cu", ELEMENTWISE, entry);
        let told = device.kernel(&source).map(drop).unwrap_err();
        assert!(
            matches!(&told, MemError::NotInCode { what: "kernel", file, name } if file == "w.cu" && name == entry),
            "{told}"
        );
    }
    drop((kernel, stream, device));
    driver.assert_clean();
}

/// Every request of a server reads the weights by a stream of its own.
#[test]
fn streams_that_were_dropped_go_while_what_they_read_lives() {
    let driver = driver().pose(Persona::Card);
    let device = device();
    let own = device.new_stream().unwrap();
    let weights = filled(&device, &own, BufferKind::Device, &[1.0; 64]);
    let before = driver.live();
    let mut most = 0;
    for _ in 0..200 {
        let stream = device.new_stream().unwrap();
        let mut out = device.buffer::<f32>(BufferKind::Device, 64).unwrap();
        stream.copy(weights.view(), out.view_mut()).unwrap();
        assert_eq!(*out.read(&stream).unwrap(), [1.0; 64]);
        drop((out, stream));
        most = most.max(driver.live().streams - before.streams);
    }
    assert!(most < 20, "{most} streams of requests that are over");
    drop((weights, own, device));
    driver.assert_clean();
}

/// Two threads launch a kernel with two sizes of shared memory that must be asked for: the driver
/// keeps the size that was set last.
#[test]
fn shared_memory_that_was_asked_for_stays_allowed() {
    let posed = driver().pose(Persona::Card);
    let device = device();
    let kernel = device.kernel(&SCALE).unwrap();
    let launch = |shared_bytes: u32| {
        let stream = device.new_stream()?;
        let input = device.buffer::<f32>(BufferKind::Device, 8)?;
        let mut out = device.buffer::<f32>(BufferKind::Device, 8)?;
        let shape = LaunchShape {
            shared_bytes,
            ..LaunchShape::for_elements(8, 32)?
        };
        // SAFETY: both buffers have eight elements; the kernel uses no dynamic shared memory.
        unsafe { kernel.launch(&stream, shape, (out.view_mut(), input.view(), 1.0, 8)) }?;
        stream.synchronize()
    };
    std::thread::scope(|scope| {
        posed.hold("cuFuncSetAttribute");
        let small = scope.spawn(|| launch(60 << 10));
        posed.await_held();
        let large = scope.spawn(|| launch(90 << 10));
        std::thread::sleep(std::time::Duration::from_millis(100));
        posed.let_go();
        small.join().unwrap().unwrap();
        large.join().unwrap().unwrap();
    });
    launch(90 << 10).unwrap();
    drop((kernel, device));
    posed.assert_clean();
}

/// An entry that is loaded with two lists of types is one function of the driver's.
#[test]
fn shared_memory_stays_allowed_whoever_else_asks_for_the_entry() {
    check(Persona::Card, |_, device| {
        let stream = device.new_stream().unwrap();
        let floats = device.kernel(&SCALE).unwrap();
        let others = KernelSource::<(Write<i32>, Read<f32>, f32, u32)>::new(
            "elementwise.cu",
            ELEMENTWISE,
            "scale_f32",
        );
        let others = device.kernel(&others).unwrap();
        let input = device.buffer::<f32>(BufferKind::Device, 8).unwrap();
        let mut out = device.buffer::<f32>(BufferKind::Device, 8).unwrap();
        let mut codes = device.buffer::<i32>(BufferKind::Device, 8).unwrap();
        for shared_bytes in [100 << 10, 60 << 10, 100 << 10] {
            let shape = LaunchShape {
                shared_bytes,
                ..LaunchShape::for_elements(8, 32).unwrap()
            };
            // SAFETY: all buffers have eight elements of four bytes; the kernel uses no dynamic
            // shared memory, and nothing relies on what it writes.
            unsafe {
                match shared_bytes >> 10 {
                    60 => others.launch(&stream, shape, (codes.view_mut(), input.view(), 1.0, 8)),
                    _ => floats.launch(&stream, shape, (out.view_mut(), input.view(), 1.0, 8)),
                }
            }
            .unwrap();
        }
        stream.synchronize().unwrap();
    });
}
