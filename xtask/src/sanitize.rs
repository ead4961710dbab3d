//! `cargo xtask sanitize`: the tests of `spark-mem` with every memory access watched.
//!
//! ```text
//! rust     -Zsanitizer=address: the crate and its tests, the stand-in driver as it is
//! driver   the stand-in driver with -fsanitize=address,undefined, its library preloaded,
//!          the crate as it is: kernels run there too
//! threads  -Zsanitizer=thread: the tests on the host and on the emulated card, and of files
//! ```
//!
//! The flag is one of nightly compilers; `RUSTC_BOOTSTRAP=1` lets the pinned stable one take
//! it, whose sanitiser libraries come with it. For threads the standard library is built anew,
//! since its locks must be watched too; its source is a component of rustup, without which
//! this part is left out and says so. Two kinds of tests are left out, by name: those that
//! end a process by a fault on purpose, and, for threads, those on the stand-in driver, whose
//! fibers the thread sanitiser does not follow.

use std::path::PathBuf;
use std::process::Command;

use crate::command::{self, cargo};
use crate::error::Error;
use crate::workspace::Workspace;

/// Processes that fault or fork on purpose.
const ON_PURPOSE: [&str; 4] = [
    "--skip=touches_device_memory",
    "--skip=that_the_host_touches_faults",
    "--skip=fork",
    "--skip=switches_in_the_environment",
];

/// Runs all three.
///
/// # Errors
///
/// Tests that fail, among them those in which a sanitiser found something.
pub(crate) fn run(workspace: &Workspace) -> Result<(), Error> {
    let host = command::host_triple()?;
    println!("-- rust, address");
    let mut rust = test(workspace, "address", &host);
    rust.args(["--features", "cuda", "--", "--test-threads=2"])
        .args(ON_PURPOSE);
    rust.env("ASAN_OPTIONS", "detect_leaks=1:detect_odr_violation=0");
    rust.env("LSAN_OPTIONS", suppressions(workspace)?);
    report(&mut rust)?;

    println!("-- driver, address and undefined behaviour");
    let mut driver = cargo(&TEST);
    driver.args([
        "--features",
        "cuda",
        "--",
        "--test-threads=2",
        "stand_in",
        "cuda",
        "faults",
    ]);
    driver.args(ON_PURPOSE);
    driver.current_dir(&workspace.root);
    driver.env("SPARK_STAND_IN_SANITIZE", "1");
    driver.env("ASAN_OPTIONS", "detect_leaks=0:handle_segv=1");
    driver.env("CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER", preload()?);
    report(&mut driver)?;

    println!("-- rust, threads");
    if !has_library_source()? {
        println!(
            "left out: the source of the standard library (component `rust-src`) is not to be had"
        );
        return Ok(());
    }
    let mut threads = test(workspace, "thread", &host);
    // The prebuilt library's locks and counts are not watched and would look like races.
    threads.arg("-Zbuild-std");
    threads.args(["--", "--test-threads=2", "software", "files", "cache"]);
    report(&mut threads)
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

const TEST: [&str; 5] = ["test", "-p", "spark-mem", "--test", "it"];

/// `cargo test` of the integration tests, watched, in a build folder of its own.
fn test(workspace: &Workspace, sanitizer: &str, host: &str) -> Command {
    let mut test = cargo(&TEST);
    // Dependencies need no speed here, and take long to optimise.
    test.args(["--config", "profile.dev.package.'*'.opt-level=0"]);
    // With a target named, build scripts and macros are built without the flags.
    test.args(["--target", host]);
    test.current_dir(&workspace.root);
    test.env("RUSTC_BOOTSTRAP", "1");
    test.env(
        "RUSTFLAGS",
        format!("-Zsanitizer={sanitizer} -Cunsafe-allow-abi-mismatch=sanitizer"),
    );
    test.env(
        "CARGO_TARGET_DIR",
        workspace.target.join("sanitize").join(sanitizer),
    );
    test
}

fn report(test: &mut Command) -> Result<(), Error> {
    let counts = command::run_tests(test)?;
    println!("{counts}");
    Ok(())
}

/// Libraries stay open for the life of the process, each with eight bytes that hold its
/// handle and that nobody looks for again. Everything else that is lost is a finding.
fn suppressions(workspace: &Workspace) -> Result<String, Error> {
    let folder = workspace.target.join("sanitize");
    std::fs::create_dir_all(&folder).map_err(Error::io("make", &folder))?;
    let path = folder.join("leaks.txt");
    let text = "leak:open_library\nleak:StandInDriver\n";
    std::fs::write(&path, text).map_err(Error::io("write", &path))?;
    Ok(format!(
        "suppressions={}:print_suppressions=0",
        path.display()
    ))
}

/// A runner that puts the C++ compiler's address sanitiser before everything else.
fn preload() -> Result<String, Error> {
    let mut compiler = Command::new("c++");
    let path = command::output_of(compiler.arg("-print-file-name=libasan.so"))?;
    let path = PathBuf::from(path.trim());
    if !path.is_absolute() {
        return Err(Error::Usage(
            "the C++ compiler has no address sanitiser".to_owned(),
        ));
    }
    Ok(format!("env LD_PRELOAD={}", path.display()))
}
