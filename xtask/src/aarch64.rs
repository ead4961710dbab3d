//! `cargo xtask aarch64`: the vector code of Arm processors, tested on another machine.
//!
//! ```text
//! cargo test --target aarch64-unknown-linux-musl    linked by rust-lld, which comes with rustc
//!    └─> qemu-aarch64 -cpu max <test program>       one instruction after the other
//!        qemu-aarch64 -cpu cortex-a72               of the kernels alone, once more
//! ```
//!
//! The first processor has every extension, the second none: what is chosen at run time is tested
//! both ways.
//!
//! It needs the target's standard library and the emulator, no C compiler and no Arm system.
//! Answers are tested, speed is not. Dependencies are compiled without optimisation, which takes
//! a third of the time, and every crate once, with the features of the whole workspace. Of `spark-onnx` only the kernels run and every operator once; what opens
//! libraries at run time finds none here, as the programs have no shared libraries.

use std::fs;
use std::process::Command;

use crate::build_and_test::{OWN_GENERICS, unoptimised};
use crate::command::{self, cargo};
use crate::error::{Error, LeftOut};
use crate::workspace::Workspace;

const TARGET: &str = "aarch64-unknown-linux-musl";

/// Programs that run Arm programs, by the names that distributions give them.
const EMULATORS: [&str; 2] = ["qemu-aarch64-static", "qemu-aarch64"];

/// The processor with every extension that the emulator knows.
const WITH_EVERYTHING: &str = "max";

/// One without products of 16 bits: the first 64-bit Arm architecture.
const WITHOUT_EXTENSIONS: &str = "cortex-a72";

/// Unit tests of spark-gemm. The roofline is left out: it would be the emulator's.
pub(crate) const GEMM_KERNELS: &[&str] = &["--skip", "roofline"];

/// Tests of spark-quant. Folders of checkpoints are left out: what reads them is the same on every processor.
const CONVERSIONS: &[&str] = &["--skip", "checkpoint"];

/// Unit tests of spark-onnx: its kernels, and every operator once.
pub(crate) const MODEL_KERNELS: &[&str] = &[
    "cpu::",
    "every_operator_agrees",
    "convolutions",
    "matrices_of_bytes",
    "quantised_network_has_the_bits",
    "expanding_products",
    "attention_of_any_shape",
    "weights_that_are_halves",
    "short_rows",
    "sixteen_bits",
];

/// Of those, products of 16 bits, which each processor computes with the instructions it has.
const MODEL_PRODUCTS: &[&str] = &["sixteen_bits"];

/// What is tested: a processor, arguments of `cargo test`, and those of the test programs.
const TESTS: [(&str, &[&str], &[&str]); 8] = [
    (WITH_EVERYTHING, &["-p", "spark-parallel", "--tests"], &[]),
    (WITH_EVERYTHING, &["-p", "spark-simd", "--tests"], &[]),
    (WITHOUT_EXTENSIONS, &["-p", "spark-simd", "--tests"], &[]),
    (
        WITH_EVERYTHING,
        &["-p", "spark-gemm", "--lib"],
        GEMM_KERNELS,
    ),
    (
        WITHOUT_EXTENSIONS,
        &["-p", "spark-gemm", "--lib"],
        GEMM_KERNELS,
    ),
    (
        WITH_EVERYTHING,
        &["-p", "spark-quant", "--lib", "--test", "it"],
        CONVERSIONS,
    ),
    (
        WITH_EVERYTHING,
        &["-p", "spark-onnx", "--lib"],
        MODEL_KERNELS,
    ),
    (
        WITHOUT_EXTENSIONS,
        &["-p", "spark-onnx", "--lib"],
        MODEL_PRODUCTS,
    ),
];

/// What no test here waits for: optimising it takes longer.
const AWAITED_BY_NONE: &[&str] = &[
    "spark-hal",
    "spark-mem",
    "spark-onnx-proto",
    "spark-ptx",
    "spark-testing",
];

/// Random cases of each property test: an emulator takes a hundred times as long.
const CASES: &str = "4";

/// An archive without members: the C library of this target has `dlopen` itself, and the linker
/// asks for a library of that name all the same.
const EMPTY_ARCHIVE: &[u8] = b"!<arch>\n";

/// Runs the tests, or tells what this machine lacks for them.
///
/// # Errors
///
/// As [`run`], but for what is missing.
pub(crate) fn run_if_possible(workspace: &Workspace) -> Result<LeftOut, Error> {
    match missing() {
        Some(what) => Ok(vec![what]),
        None => run(workspace).map(|()| LeftOut::new()),
    }
}

/// What this machine lacks, as the command that brings it; nothing if the tests can run.
fn missing() -> Option<String> {
    if emulator().is_none() {
        return Some("no qemu-aarch64: apt-get install qemu-user-static".to_owned());
    }
    let libraries = Command::new("rustc")
        .args(["--print", "target-libdir", "--target", TARGET])
        .output();
    let is_there = libraries.is_ok_and(|output| {
        let path = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        output.status.success() && std::path::Path::new(&path).is_dir()
    });
    (!is_there).then(|| format!("no standard library: rustup target add {TARGET}"))
}

fn emulator() -> Option<&'static str> {
    EMULATORS.into_iter().find(|name| {
        let version = Command::new(name).arg("--version").output();
        version.is_ok_and(|output| output.status.success())
    })
}

/// Runs the tests.
///
/// # Errors
///
/// [`Error::Usage`] if something is missing; a test that fails; a filter that runs no test.
pub(crate) fn run(workspace: &Workspace) -> Result<(), Error> {
    if let Some(what) = missing() {
        return Err(Error::Usage(what));
    }
    let libraries = workspace.target.join("aarch64");
    let stub = libraries.join("libdl.a");
    fs::create_dir_all(&libraries)
        .and_then(|()| fs::write(&stub, EMPTY_ARCHIVE))
        .map_err(Error::io("write", &stub))?;
    let emulator = emulator().unwrap_or(EMULATORS[0]);
    for (processor, arguments, tests) in TESTS {
        let runner = format!("{emulator} -cpu {processor}");
        let mut test = cargo(&["test", "--target", TARGET, "-Zfeature-unification"]);
        test.args(["--config", "resolver.feature-unification=\"workspace\""]);
        test.env("RUSTC_BOOTSTRAP", "1");
        // A folder of its own: build scripts are run anew where that variable changes, and all that stands on them is built anew.
        test.env("CARGO_TARGET_DIR", &libraries);
        test.args(["--config", "profile.dev.package.\"*\".opt-level=0"]);
        test.args(["--config", "profile.test.debug=0"]);
        unoptimised(&mut test, AWAITED_BY_NONE);
        test.args(arguments).arg("--").args(tests);
        test.env("PROPTEST_CASES", CASES);
        test.env("SPARK_EMULATED_CPU", processor);
        test.env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_LINKER", "rust-lld");
        test.env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_RUNNER", runner);
        test.env(
            "CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_RUSTFLAGS",
            format!("-L native={} {OWN_GENERICS}", libraries.display()),
        );
        let counts = command::run_tests(test.current_dir(&workspace.root))?;
        println!("{} on {TARGET}, {processor}: {counts}", arguments[1]);
    }
    Ok(())
}
