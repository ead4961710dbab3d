//! `cargo xtask aarch64`: the vector code of Arm processors, tested on another machine.
//!
//! ```text
//! cargo test --target aarch64-unknown-linux-musl    linked by rust-lld, which comes with rustc
//!    └─> qemu-aarch64 -cpu max <test program>       one instruction after the other
//! ```
//!
//! It needs the target's standard library and the emulator, no C compiler and no Arm system.
//! Answers are tested, speed is not. Dependencies are compiled without optimisation, which takes
//! a third of the time. Left out: crates that open libraries at run time, which a program without
//! shared libraries cannot (`spark-hal` and all above it).

use std::process::Command;

use crate::command::{self, cargo};
use crate::error::Error;
use crate::workspace::Workspace;

const TARGET: &str = "aarch64-unknown-linux-musl";

/// Programs that run Arm programs, by the names that distributions give them.
const EMULATORS: [&str; 2] = ["qemu-aarch64-static", "qemu-aarch64"];

/// What is tested: arguments of `cargo test`.
const TESTS: [&str; 3] = ["-p", "spark-quant", "--tests"];

/// What this machine lacks, as the command that brings it; nothing if the tests can run.
pub(crate) fn missing() -> Option<String> {
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
    let runner = format!("{} -cpu max", emulator().unwrap_or(EMULATORS[0]));
    let mut test = cargo(&["test", "--target", TARGET]);
    test.args(["--config", "profile.dev.package.\"*\".opt-level=0"]);
    test.args(["--config", "profile.test.debug=0"]);
    test.args(TESTS);
    test.env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_LINKER", "rust-lld");
    test.env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_RUNNER", &runner);
    let counts = command::run_tests(test.current_dir(&workspace.root))?;
    println!("spark-quant on {TARGET}: {counts}");
    Ok(())
}
