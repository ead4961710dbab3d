//! `cargo xtask sanitize`: memory, kernels and threads, with every access watched.
//!
//! ```text
//! address  -Zsanitizer=address: spark-mem on the stand-in driver as it is; the unit tests of
//!          spark-quant; spark-parallel; spark-gemm; spark-onnx's kernels and plans for GPUs, and every operator once
//! driver   the stand-in driver with -fsanitize=address,undefined, its library preloaded,
//!          spark-mem as it is: kernels run there too
//! threads  -Zsanitizer=thread: spark-mem on the host and on the emulated card, and its files;
//!          spark-parallel's pool of threads, and on it networks of spark-onnx: convolution, function, pooling, attention
//! ```
//!
//! Kernels run with every set of instructions that the processor has: their tests go through
//! all of them. Random tests get few cases; the ordinary run has the many.
//!
//! The flag is one of nightly compilers; `RUSTC_BOOTSTRAP=1` lets the pinned stable one take it,
//! whose sanitiser libraries come with it. For addresses the crate under test and
//! spark-parallel, -simd, -gemm, -hal and -mem are compiled with the flag; everything else is without, and mostly not optimised. For threads all of it is, with
//! a standard library built anew, since its locks must be watched too; its source is a component
//! of rustup. What a machine lacks is left out, which is said.
//!
//! Tests left out by name: those that end a process by a fault on purpose, and, for threads, those
//! on the stand-in driver, whose fibers the thread sanitiser does not follow.
//!
//! Not seen: stores past the caches, which are assembly (spark-quant's results with AVX-512);
//! accesses that miss their part of a model's arena and hit another, as the arena is one piece of
//! memory; instruction sets that the processor lacks; Arm's kernels, which run under qemu without
//! a sanitiser. Threads that share memory in safe code alone (`spark-quant`, `spark-sim`,
//! `spark-dora`, `spark-data`, `spark-hal`, `spark-program`) are left to the compiler.

use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

use crate::aarch64::{GEMM_KERNELS, MODEL_KERNELS};
use crate::build_and_test::{OWN_GENERICS, unoptimised};
use crate::command::{self, cargo};
use crate::error::{Error, LeftOut};
use crate::workspace::Workspace;

/// Kernels that the host compiler builds, so that a sanitiser sees them; elsewhere they run as PTX.
const HOST_KERNELS: (&str, &str) = ("SPARK_STAND_IN_KERNELS", "host");

/// Calls instead of checks in line, which are quicker to compile.
const ADDRESS: [&str; 3] = [
    "-Zsanitizer=address",
    "-Cunsafe-allow-abi-mismatch=sanitizer",
    "-Cllvm-args=-asan-instrumentation-with-call-threshold=0",
];

const THREAD: [&str; 3] = [
    "-Zsanitizer=thread",
    "-Cunsafe-allow-abi-mismatch=sanitizer",
    OWN_GENERICS,
];

/// Tests under a sanitiser wait for none of these, and to optimise them takes long. spark-hal is none of them: what is known to leak is told
/// by names of its functions, as they stand when some are one.
const AWAITED_BY_NONE: &[&str] = &["spark-onnx-graph", "spark-onnx-proto", "spark-ptx"];

/// Nor, where another crate is tested, for the kernels of this one.
const KERNELS_OF_QUANT: &str = "spark-quant";

/// The few operators under the thread sanitiser are quicker to run as they are than to optimise.
const OPERATORS: &[&str] = &["spark-gemm", "spark-onnx", "spark-simd"];

/// Random cases of each property test.
const CASES: &str = "4";

/// Processes that fault or fork on purpose.
const ON_PURPOSE: [&str; 5] = [
    "--skip=touches_device_memory",
    "--skip=that_the_host_touches",
    "--skip=a_forked_child",
    "--skip=child_forks",
    "--skip=switches_in_the_environment",
];

/// `spark-gemm` from where its kernels are tested.
const GEMM: [&str; 3] = ["spark-gemm", "--lib", "--"];

/// `spark-onnx` from where its kernels are tested.
const MODEL: [&str; 3] = ["spark-onnx", "--lib", "--"];

/// What the feature `cuda` adds, on the stand-in driver. Kernels that are wrong on purpose touch what they must not; every tile,
/// every allocation that may fail and long rows would take minutes here, and `test-optimised` has them.
const MODEL_ON_GPU: [&str; 7] = [
    "cuda::",
    "--skip=wrong_kernel",
    "--skip=silent_in_any_order",
    "--skip=cuda::tiles",
    "--skip=whatever_memory_is_missing",
    "--skip=rows_and_reductions_of_random_shapes",
    "--skip=rows_in_which_no_numbers_stand",
];

/// Networks on the pool of threads. The same with every operator and precision takes minutes under a sanitiser.
const MODEL_THREADS: [&str; 2] = [
    "results_do_not_depend_on_the_number_of_threads",
    "bits_of_an_attention_do_not_depend_on_the_number_of_threads",
];

/// Runs all three, and tells what this machine lacks for the last two.
///
/// # Errors
///
/// Tests that fail, among them those in which a sanitiser found something.
pub(crate) fn run(workspace: &Workspace) -> Result<LeftOut, Error> {
    addresses(workspace)?;
    let mut left_out = driver(workspace)?;
    left_out.extend(threads(workspace)?);
    Ok(left_out)
}

fn addresses(workspace: &Workspace) -> Result<(), Error> {
    let leaks = suppressions(workspace)?;
    let memory = ["spark-mem", "--test", "it", "--features", "cuda", "--"];
    for arguments in [
        [&memory, &ON_PURPOSE[..]].concat(),
        vec!["spark-parallel", "--tests", "--"],
        [&GEMM, GEMM_KERNELS].concat(),
        vec!["spark-quant", "--lib", "--"],
        [
            &MODEL[..1],
            &["--features", "cuda"],
            &MODEL[1..],
            MODEL_KERNELS,
            &MODEL_ON_GPU,
        ]
        .concat(),
    ] {
        let mut test = test(workspace, "address");
        test.arg("-Zprofile-rustflags");
        // Named twice, a package would get the flags twice, which LLVM refuses.
        let below = [
            "spark-parallel",
            "spark-simd",
            "spark-gemm",
            "spark-hal",
            "spark-mem",
        ];
        let tested = [arguments[0]]
            .into_iter()
            .filter(|name| !below.contains(name));
        for package in below.into_iter().chain(tested) {
            test.arg("--config");
            test.arg(format!(
                "profile.test.package.{package}.rustflags=[{}]",
                ADDRESS.map(|flag| format!("\"{flag}\"")).join(",")
            ));
        }
        unoptimised(&mut test, AWAITED_BY_NONE);
        if arguments[0] != KERNELS_OF_QUANT {
            unoptimised(&mut test, &[KERNELS_OF_QUANT]);
        }
        test.arg("-p").args(&arguments).arg("--test-threads=2");
        test.env("RUSTFLAGS", OWN_GENERICS);
        test.env("ASAN_OPTIONS", "detect_leaks=1:detect_odr_violation=0");
        test.env("LSAN_OPTIONS", &leaks);
        test.env(HOST_KERNELS.0, HOST_KERNELS.1);
        report("address", arguments[0], &mut test)?;
    }
    Ok(())
}

fn driver(workspace: &Workspace) -> Result<LeftOut, Error> {
    let Some(library) = address_library()? else {
        let what = "driver: the C++ compiler has no address sanitiser: apt-get install g++";
        return Ok(vec![what.to_owned()]);
    };
    let mut driver = cargo(&["test", "-p", "spark-mem", "--test", "it"]);
    driver.args([
        "--features",
        "cuda",
        "--",
        "--test-threads=2",
        "stand_in",
        "cuda",
        "faults",
        "images",
    ]);
    driver.args(ON_PURPOSE);
    driver.current_dir(&workspace.root);
    driver.env("SPARK_STAND_IN_SANITIZE", "1");
    driver.env(HOST_KERNELS.0, HOST_KERNELS.1);
    driver.env("ASAN_OPTIONS", "detect_leaks=0:handle_segv=1");
    // The compiler's address sanitiser has to come before everything else.
    driver.env(
        "CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER",
        format!("env LD_PRELOAD={}", library.display()),
    );
    report("driver", "spark-mem", &mut driver)?;
    Ok(LeftOut::new())
}

fn threads(workspace: &Workspace) -> Result<LeftOut, Error> {
    if !has_library_source()? {
        let what = "threads: no source of the standard library: rustup component add rust-src";
        return Ok(vec![what.to_owned()]);
    }
    let host = command::host_triple()?;
    for arguments in [
        &[
            "spark-mem",
            "--test",
            "it",
            "--",
            "software",
            "files",
            "cache",
        ][..],
        &["spark-parallel", "--tests", "--"],
        &[&MODEL[..], &MODEL_THREADS].concat(),
    ] {
        let mut test = test(workspace, "thread");
        // The prebuilt library's locks and counts are not watched and would look like races.
        test.args(["-Zbuild-std", "--target", &host]);
        unoptimised(&mut test, AWAITED_BY_NONE);
        unoptimised(&mut test, &[KERNELS_OF_QUANT, "spark-hal"]);
        unoptimised(&mut test, OPERATORS);
        test.arg("-p").args(arguments).arg("--test-threads=2");
        test.env("RUSTFLAGS", THREAD.join(" "));
        report("threads", arguments[0], &mut test)?;
    }
    Ok(LeftOut::new())
}

/// Whether the standard library can be built; asks rustup for its source if it is not there.
fn has_library_source() -> Result<bool, Error> {
    let sysroot = command::output_of(Command::new("rustc").args(["--print", "sysroot"]))?;
    let library = PathBuf::from(sysroot.trim()).join("lib/rustlib/src/rust/library/Cargo.lock");
    if library.is_file() {
        return Ok(true);
    }
    let mut rustup = Command::new("rustup");
    // A machine without rustup, or without a network, has no such component.
    let added = command::run(rustup.args(["component", "add", "rust-src"]));
    Ok(added.is_ok() && library.is_file())
}

/// `cargo test` in a build folder of its own, which holds every crate once: the features of all
/// members are those of each.
fn test(workspace: &Workspace, folder: &str) -> Command {
    let mut test = cargo(&["test", "-Zfeature-unification"]);
    test.args(["--config", "resolver.feature-unification=\"workspace\""]);
    // Dependencies need no speed here, and take long to optimise.
    test.args(["--config", "profile.dev.package.'*'.opt-level=0"]);
    // A tenth of the time of compiling; functions are named without, too.
    if !command::is_set("CI") {
        test.args(["--config", "profile.test.debug=\"line-tables-only\""]);
    }
    test.current_dir(&workspace.root);
    test.env("RUSTC_BOOTSTRAP", "1");
    test.env("PROPTEST_CASES", CASES);
    test.env(
        "CARGO_TARGET_DIR",
        workspace.target.join("sanitize").join(folder),
    );
    test
}

fn report(part: &str, package: &str, test: &mut Command) -> Result<(), Error> {
    println!("-- {part}: {package}");
    let started = Instant::now();
    let counts = command::run_tests(test)?;
    let seconds = started.elapsed().as_secs_f64();
    println!("{part}: {package}: {counts}, {seconds:.1} s");
    Ok(())
}

/// Libraries stay open for the life of the process, each with eight bytes that hold its
/// handle and that nobody looks for again; and a panic in dropping a panic is forgotten by the
/// thread pool, whose test throws many. Everything else that is lost is a finding.
fn suppressions(workspace: &Workspace) -> Result<String, Error> {
    let folder = workspace.target.join("sanitize");
    std::fs::create_dir_all(&folder).map_err(Error::io("make", &folder))?;
    let path = folder.join("leaks.txt");
    let text = "leak:spark_hal::library::open\nleak:StandInDriver\nleak:pool::tests::Bomb\n";
    std::fs::write(&path, text).map_err(Error::io("write", &path))?;
    Ok(format!(
        "suppressions={}:print_suppressions=0",
        path.display()
    ))
}

/// The address sanitiser of the C++ compiler, if it has one.
fn address_library() -> Result<Option<PathBuf>, Error> {
    let mut compiler = Command::new("c++");
    let path = command::output_of(compiler.arg("-print-file-name=libasan.so"))?;
    let path = PathBuf::from(path.trim());
    Ok(path.is_absolute().then_some(path))
}
