//! `cargo xtask mpi`: the program for training in several processes, built with this machine's MPI, and its tests on real ranks.
//!
//! ```text
//! mpirun, mpicc, libclang here?      the library is Open MPI; its version is printed
//! mpi/                               format, build with clippy's lints, then 1, 2, 4 and 8 ranks: the same bits, and one end for all
//! the main workspace                 knows no MPI: neither its lock file nor, once it is built, the program `sparkpilot`
//! ```
//!
//! A workspace of its own, built with the dependencies of the main lock file: a program is linked to the MPI of the machine that builds it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::build_and_test;
use crate::command::{self, cargo};
use crate::error::{Error, LeftOut};
use crate::workspace::Workspace;

/// Crates that compute, and that tests here do not wait for: to optimise them takes longer than the tests lose.
const AWAITED_BY_NONE: [&str; 6] = [
    "spark-mem",
    "spark-onnx-graph",
    "spark-openpilot",
    "spark-ptx",
    "spark-quant",
    "spark-sim",
];

/// Everything, or what this machine lacks for it.
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

/// Builds the program and tests it.
///
/// # Errors
///
/// What the machine lacks; a build, lint or test that fails; a main program that has to do with MPI.
pub(crate) fn run(workspace: &Workspace) -> Result<(), Error> {
    if let Some(what) = missing() {
        return Err(Error::Usage(what));
    }
    let version = command::output_of(Command::new("mpirun").arg("--version"))?;
    println!("{}", version.lines().next().unwrap_or_default());
    main_program_has_none(workspace)?;
    let root = workspace.root.join("mpi");
    command::copy_lock(&workspace.root.join("Cargo.lock"), &root.join("Cargo.lock"))?;
    command::run(cargo(&["fmt", "--check"]).current_dir(&root))?;
    let target = workspace.target.join("mpi");
    let in_place = |command: &mut Command| {
        command.current_dir(&root).env("CARGO_TARGET_DIR", &target);
    };
    // Networks of tests are small: optimising takes longer than it saves, of what computes nothing at all.
    let mut test = cargo(&["test", "--release"]);
    for setting in [
        "opt-level=1",
        "debug=false",
        "lto=\"off\"",
        "package.\"*\".opt-level=0",
    ] {
        test.args(["--config", &format!("profile.release.{setting}")]);
    }
    let is_awaited = |name: &&str| !AWAITED_BY_NONE.contains(name);
    for name in build_and_test::COMPUTING.into_iter().filter(is_awaited) {
        let level = format!("profile.release.package.{name}.opt-level=1");
        test.args(["--config", &level]);
    }
    // Clippy compiles as rustc does, with its lints; as a command of its own it would read every dependency once more.
    test.env("RUSTC_WORKSPACE_WRAPPER", clippy_driver()?);
    test.env(
        "CLIPPY_ARGS",
        "-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__",
    );
    // One after the other: each test starts up to eight processes.
    test.args(["--", "--test-threads=1"]);
    in_place(&mut test);
    let counts = command::run_tests(&mut test)?;
    println!("{counts}");
    Ok(())
}

/// The compiler that lints, which lies beside rustc.
fn clippy_driver() -> Result<PathBuf, Error> {
    let sysroot = command::output_of(Command::new("rustc").args(["--print", "sysroot"]))?;
    let driver = Path::new(sysroot.trim()).join("bin/clippy-driver");
    match driver.is_file() {
        true => Ok(driver),
        false => Err(Error::Usage(
            "no clippy: rustup component add clippy".to_owned(),
        )),
    }
}

/// What this machine lacks, as the command that brings it.
fn missing() -> Option<String> {
    let is_there = |program: &str| {
        let output = Command::new(program).arg("--version").output();
        output.is_ok_and(|output| output.status.success())
    };
    if !is_there("mpirun") || !is_there("mpicc") {
        return Some("no Open MPI: apt-get install libopenmpi-dev openmpi-bin".to_owned());
    }
    let is_set = std::env::var_os("LIBCLANG_PATH").is_some();
    let has_libclang = is_set
        || ["/usr/lib", "/usr/lib64"]
            .iter()
            .any(|at| holds(at.as_ref(), 3));
    (!has_libclang)
        .then(|| "no libclang to read MPI's header: apt-get install libclang-dev".to_owned())
}

/// Whether libclang lies in a folder, or so many below it.
fn holds(folder: &Path, depth: u32) -> bool {
    let Ok(entries) = fs::read_dir(folder) else {
        return false;
    };
    entries.flatten().any(|entry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        // Beside it may lie libclang-cpp, which is another library.
        let is_library = |stem: &str| name.starts_with(stem) && name.contains(".so");
        match depth {
            _ if is_library("libclang.so")
                || is_library("libclang-1")
                || is_library("libclang-2") =>
            {
                true
            }
            0 => false,
            _ => {
                entry.file_type().is_ok_and(|kind| kind.is_dir()) && holds(&entry.path(), depth - 1)
            }
        }
    })
}

/// Nobody who builds the main program needs MPI.
///
/// # Errors
///
/// A lock file with MPI in it; a program, where one is built, that is linked to it.
pub(crate) fn main_program_has_none(workspace: &Workspace) -> Result<(), Error> {
    let path = workspace.root.join("Cargo.lock");
    let lock = fs::read_to_string(&path).map_err(Error::io("read", &path))?;
    if lock.lines().any(|line| line.starts_with("name = \"mpi")) {
        return Err(Error::Usage("the main workspace depends on MPI".to_owned()));
    }
    for profile in ["debug", "release"] {
        let program = workspace.target.join(profile).join("sparkpilot");
        if !program.exists() {
            continue; // the lock file has said it
        }
        let linked = command::output_of(Command::new("ldd").arg(&program))?;
        if linked.contains("libmpi") || linked.contains("libopen") {
            let program = program.display();
            return Err(Error::Usage(format!("`{program}` is linked to MPI")));
        }
        println!(
            "{profile}/sparkpilot is linked to {} libraries, none of MPI",
            linked.lines().count()
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_is_found_below_and_no_deeper() {
        let folder = std::env::temp_dir().join(format!("xtask-mpi-{}", std::process::id()));
        let deep = folder.join("llvm-14").join("lib");
        fs::create_dir_all(&deep).unwrap();
        fs::write(deep.join("libclang-cpp.so.14"), "").unwrap();
        assert!(!holds(&folder, 3));
        fs::write(deep.join("libclang-14.so.1"), "").unwrap();
        assert!(holds(&folder, 2));
        assert!(!holds(&folder, 1));
        fs::remove_dir_all(&folder).unwrap();
    }
}
