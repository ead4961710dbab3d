//! What has to happen in a process of its own: drivers that lack functions, memory that
//! the host may not touch, `fork`, switches in the environment.
//!
//! ```text
//! test ── starts this binary again with one test's name and `SPARK_MEM_CHILD=1` ──> child
//! ```
//!
//! A test whose name begins with `child_` does nothing unless it was started that way.

use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, Output};

use spark_mem::{Advice, BufferKind, Device, DeviceKind, Hint, LaunchShape, MemError, Pool, Side};
use spark_testing::driver::{Build, Flavor, Persona, Posed, StandInDriver};

use crate::kernels::SCALE;
use crate::stand_in::{build, driver, options};

pub(crate) fn is_child() -> bool {
    std::env::var_os("SPARK_MEM_CHILD").is_some()
}

/// Poses as the persona that the parent names.
fn pose_named() -> Posed<'static> {
    let name = std::env::var("PERSONA").unwrap();
    let mut personas = Persona::ALL.into_iter();
    driver().pose(personas.find(|it| it.name() == name).unwrap())
}

/// Runs one test alone, with these variables.
fn child(test: &str, variables: &[(&str, &str)]) -> Output {
    let binary = std::env::current_exe().unwrap();
    let mut command = Command::new(binary);
    command.args(["--exact", test, "--nocapture"]);
    command.env("SPARK_MEM_CHILD", "1");
    command.envs(variables.iter().copied());
    command.output().unwrap()
}

/// Runs one test alone and returns what it printed; it must pass.
#[track_caller]
pub(crate) fn check_child_of(test: &str, variables: &[(&str, &str)]) -> String {
    let output = child(test, variables);
    let words = String::from_utf8_lossy(&output.stderr);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "{test}: {}\n{said}\n{words}",
        output.status
    );
    assert!(said.contains("1 passed"), "{test} ran: {said}");
    said
}

#[track_caller]
fn check_child(test: &str, variables: &[(&str, &str)]) {
    check_child_of(&format!("children::{test}"), variables);
}

fn load(flavor: Flavor) -> StandInDriver {
    let build = Build { flavor, ..build() };
    StandInDriver::load(&build).unwrap()
}

#[test]
fn a_driver_that_lacks_a_needed_function_is_refused_by_name() {
    check_child("child_meets_a_broken_driver", &[]);
}

#[test]
fn child_meets_a_broken_driver() {
    if !is_child() {
        return;
    }
    let driver = load(Flavor::Broken);
    let posed = driver.pose(Persona::Spark);
    let error = Device::cuda(0, options()).unwrap_err();
    assert!(error.to_string().contains("`cuGraphLaunch`"), "{error}");
    posed.assert_clean();
}

#[test]
fn a_driver_without_newer_functions_refuses_what_needs_them() {
    check_child("child_meets_an_old_driver", &[]);
}

#[test]
fn child_meets_an_old_driver() {
    if !is_child() {
        return;
    }
    let driver = load(Flavor::Old);
    let posed = driver.pose(Persona::Spark);
    let device = Device::cuda(0, options()).unwrap();
    let stream = device.new_stream().unwrap();
    let managed = device.buffer::<f32>(BufferKind::Unified, 10).unwrap();
    let hints: [Result<Hint, MemError>; 2] = [
        stream.prefetch(managed.view(), Side::Device),
        managed.advise(Advice::MostlyRead),
    ];
    for hint in hints {
        assert!(
            matches!(hint, Err(MemError::Unsupported { .. })),
            "{hint:?}"
        );
    }
    let marks = [0, 1].map(|_| stream.record_timed().unwrap());
    stream.synchronize().unwrap();
    let [first, second] = marks;
    assert!(second.since(&first).unwrap().as_secs() < 60);
    assert_eq!(posed.count("cuEventElapsedTime_v2"), 0);
    assert_eq!(posed.count("cuEventElapsedTime"), 1, "the older function");
    drop((first, second, managed, stream, device));
    posed.assert_clean();
}

#[test]
fn device_memory_that_the_host_touches_faults() {
    for persona in Persona::ALL {
        let output = child(
            "children::child_touches_device_memory",
            &[("PERSONA", persona.name())],
        );
        assert_eq!(output.status.signal(), Some(libc::SIGSEGV), "{persona:?}");
    }
}

#[test]
fn child_touches_device_memory() {
    if !is_child() {
        return;
    }
    let posed = pose_named();
    let device = Device::cuda(0, options()).unwrap();
    let buffer = device.buffer::<u32>(BufferKind::Device, 10).unwrap();
    let address = buffer.device_address().unwrap() as *const u32;
    // SAFETY: none; this must end the process.
    let value = unsafe { address.read_volatile() };
    posed.forget();
    println!("read {value}");
}

/// As on a real Jetson, whatever the kernel works on; spark-mem hands out no such memory there.
#[test]
fn managed_memory_that_the_host_touches_beside_a_kernel_faults_on_a_jetson() {
    let touched = |persona: Persona, waits: &str| {
        let variables = [("PERSONA", persona.name()), ("WAITS", waits)];
        child("children::child_touches_managed_memory", &variables).status
    };
    assert_eq!(touched(Persona::Jetson, "0").signal(), Some(libc::SIGSEGV));
    assert!(touched(Persona::Jetson, "1").success());
    assert!(touched(Persona::Ampere, "0").success());
}

/// A function of the driver by its name.
///
/// # Safety
///
/// `F` is the type that cuda.h gives it.
unsafe fn function<F: Copy>(name: &std::ffi::CStr) -> F {
    // SAFETY: a text with its NUL; the driver is open for everybody.
    let address = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    assert!(!address.is_null() && size_of::<F>() == size_of_val(&address));
    // SAFETY: the caller's promise, and an address is as long.
    unsafe { std::mem::transmute_copy(&address) }
}

#[test]
fn child_touches_managed_memory() {
    if !is_child() {
        return;
    }
    let posed = pose_named();
    let device = Device::cuda(0, options()).unwrap();
    let stream = device.new_stream().unwrap();
    let kernel = device.kernel(&SCALE).unwrap();
    let input = device.buffer::<f32>(BufferKind::Device, 64).unwrap();
    let mut out = device.buffer::<f32>(BufferKind::Device, 64).unwrap();
    type Allocate = unsafe extern "C" fn(*mut *mut u32, usize, u32) -> i32;
    // SAFETY: the type is that of cuda.h.
    let allocate: Allocate = unsafe { function(c"cuMemAllocManaged") };
    let mut managed = std::ptr::null_mut();
    // SAFETY: the context is current on this thread since memory was allocated; 1 is "global".
    assert_eq!(unsafe { allocate(&raw mut managed, 4, 1) }, 0);
    // SAFETY: memory of four bytes, and no kernel was launched yet.
    unsafe { managed.write_volatile(7) };
    let shape = LaunchShape::for_elements(64, 64).unwrap();
    // SAFETY: both have the 64 elements that the kernel touches.
    unsafe { kernel.launch(&stream, shape, (out.view_mut(), input.view(), 2.0, 64)) }.unwrap();
    if std::env::var("WAITS").unwrap() == "1" {
        stream.synchronize().unwrap();
    }
    // SAFETY: none on a Jetson that has not waited; this must end the process.
    assert_eq!(unsafe { managed.read_volatile() }, 7);
    type Free = unsafe extern "C" fn(*mut u32) -> i32;
    // SAFETY: the type is that of cuda.h.
    let free: Free = unsafe { function(c"cuMemFree_v2") };
    // SAFETY: allocated above, given back once.
    assert_eq!(unsafe { free(managed) }, 0);
    drop((input, out, kernel, stream, device));
    posed.assert_clean();
}

#[test]
fn emulated_device_memory_that_the_host_touches_faults() {
    let output = child("children::child_touches_emulated_memory", &[]);
    assert_eq!(output.status.signal(), Some(libc::SIGSEGV));
}

#[test]
fn child_touches_emulated_memory() {
    if !is_child() {
        return;
    }
    let device = Device::emulated(1 << 20);
    let buffer = device.buffer::<u32>(BufferKind::Device, 10).unwrap();
    let address = buffer.device_address().unwrap() as *const u32;
    // SAFETY: none; this must end the process.
    println!("read {}", unsafe { address.read_volatile() });
}

#[test]
fn a_forked_child_is_refused_and_leaves_the_parent_alone() {
    check_child("child_forks", &[]);
}

#[test]
fn child_forks() {
    if !is_child() {
        return;
    }
    let posed = driver().pose(Persona::Spark);
    let device = Device::cuda(0, options()).unwrap();
    let stream = device.new_stream().unwrap();
    let mut buffer = device.shared::<f32>(10).unwrap();
    buffer.write(&stream).unwrap().fill(1.0);
    let pool = Pool::new(&device, BufferKind::Pinned).unwrap();
    drop(pool.take::<u8>(5000).unwrap());
    let before = posed.n_calls();
    // SAFETY: the child calls nothing that another thread may have locked: it looks at its
    // process number, drops values without asking the driver, and ends.
    let forked = unsafe { libc::fork() };
    if forked == 0 {
        let refused = [
            device.new_stream().map(drop),
            stream.synchronize(),
            buffer.read(&stream).map(drop),
            device.shared::<f32>(1).map(drop),
        ];
        pool.trim(0);
        let is_refused = refused
            .iter()
            .all(|result| matches!(result, Err(MemError::Forked)));
        drop((refused, buffer, pool, stream, device));
        let is_quiet = posed.n_calls() == before;
        // SAFETY: ends the child without running what the parent registered.
        unsafe { libc::_exit(i32::from(!(is_refused && is_quiet))) };
    }
    let mut status = 0;
    // SAFETY: the process was just started; `status` is writable.
    unsafe { libc::waitpid(forked, &raw mut status, 0) };
    assert_eq!(
        status, 0,
        "the child was refused everything and called nothing"
    );
    assert_eq!(*buffer.read(&stream).unwrap(), [1.0; 10]);
    drop((buffer, pool, stream, device));
    posed.assert_clean();
}

#[test]
fn a_child_that_leaves_a_capture_is_refused_its_graph() {
    check_child("child_forks_while_it_captures", &[]);
}

#[test]
fn child_forks_while_it_captures() {
    if !is_child() {
        return;
    }
    let posed = driver().pose(Persona::Card);
    let device = Device::cuda(0, options()).unwrap();
    let stream = device.new_stream().unwrap();
    let mut buffer = device.buffer::<u8>(BufferKind::Device, 100).unwrap();
    stream.synchronize().unwrap();
    let (mut forked, mut before) = (1, 0);
    let captured = stream.capture(|stream| {
        stream.fill_bytes(buffer.view_mut(), 7)?;
        before = posed.n_calls();
        // SAFETY: as above.
        forked = unsafe { libc::fork() };
        Ok(())
    });
    if forked == 0 {
        let is_refused = matches!(captured, Err(MemError::Forked));
        drop((captured, buffer, stream, device));
        let is_quiet = posed.n_calls() == before;
        // SAFETY: as above.
        unsafe { libc::_exit(i32::from(!(is_refused && is_quiet))) };
    }
    let mut status = 0;
    // SAFETY: as above.
    unsafe { libc::waitpid(forked, &raw mut status, 0) };
    assert_eq!(status, 0, "the child had no graph and called nothing");
    captured.unwrap().launch(&stream).unwrap();
    drop((buffer, stream, device));
    posed.assert_clean();
}

#[test]
fn switches_in_the_environment_count() {
    let libraries = driver().directory().to_str().unwrap();
    let path = ("LD_LIBRARY_PATH", libraries);
    let words = [
        ("system", "System"),
        ("unified", "Unified"),
        ("pinned", "Pinned"),
    ];
    for (word, kind) in words {
        let kind_of_memory = ("SPARK_MEMORY_KIND", word);
        check_child(
            "child_reads_its_environment",
            &[path, kind_of_memory, ("EXPECT", kind)],
        );
    }
    let off = ("OPENPILOT_DGX_ENABLED", "0");
    check_child(
        "child_reads_its_environment",
        &[path, off, ("EXPECT", "Device")],
    );
    let off = ("OPENPILOT_DISABLE_DGX", "1");
    check_child(
        "child_reads_its_environment",
        &[path, off, ("EXPECT", "Device")],
    );
    let none = [("CUDA", "0"), ("SPARK_DEVICE", "cpu")];
    for never in none {
        check_child(
            "child_reads_its_environment",
            &[path, never, ("EXPECT", "Host")],
        );
    }
    for (persona, kind) in [
        ("card", "Device"),
        ("jetson", "Pinned"),
        ("ampere", "Device"),
    ] {
        let persona = ("SPARK_STAND_IN_PERSONA", persona);
        check_child(
            "child_reads_its_environment",
            &[path, persona, ("EXPECT", kind)],
        );
    }
    let asked = [
        ("CUDA", "0"),
        ("SPARK_DEVICE", "cuda"),
        path,
        ("EXPECT", "error"),
    ];
    check_child("child_reads_its_environment", &asked);
}

/// What a program does that knows nothing of the stand-in: libraries come by their names.
#[test]
fn child_reads_its_environment() {
    if !is_child() {
        return;
    }
    let wanted = std::env::var("EXPECT").unwrap();
    let device = match Device::open() {
        Ok(device) => device,
        Err(error) => {
            assert_eq!(wanted, "error", "{error}");
            return;
        }
    };
    assert_eq!(format!("{:?}", device.shared_kind()), wanted);
    let stream = device.new_stream().unwrap();
    let mut out = device.shared::<f32>(100).unwrap();
    let mut input = device.shared::<f32>(100).unwrap();
    input.overwrite(&stream).unwrap().fill(3.0);
    let kernel = device.kernel(&SCALE).unwrap();
    let shape = LaunchShape::for_elements(100, 32).unwrap();
    // SAFETY: both have the 100 elements that the kernel touches.
    unsafe { kernel.launch(&stream, shape, (out.view_mut(), input.view(), 2.0, 100)) }.unwrap();
    assert_eq!(*out.read(&stream).unwrap(), [6.0; 100]);
    let is_apart = device.shared_kind() == BufferKind::Device;
    assert_eq!(device.stats().copies_across(), if is_apart { 2 } else { 0 });
}

#[test]
fn without_a_driver_a_gpu_is_an_error_and_auto_is_the_cpu() {
    check_child(
        "child_has_no_driver",
        &[("SPARK_CACHE_DIR", "/nonexistent")],
    );
}

#[test]
fn child_has_no_driver() {
    if !is_child() || Path::new("/dev/nvidiactl").exists() {
        return;
    }
    let asked = Device::cuda(0, options());
    assert!(matches!(asked, Err(MemError::NoCuda(_))), "{asked:?}");
    let device = Device::open().unwrap();
    assert_eq!(device.info().kind, DeviceKind::Host);
}
