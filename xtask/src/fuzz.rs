//! `cargo xtask fuzz`: inputs that parsers meet for the first time, guided by coverage.
//!
//! ```text
//! crates/*/fuzz/fuzz_targets/<name>.rs ──cargo──> target/fuzz/…/<name>     instrumented
//!    └─> libFuzzer, some seconds each:  corpus/<name>      what is worth keeping, not in git
//!                                       artifacts/<name>   what broke something
//! ```
//!
//! The targets are a workspace of their own, `fuzz`, built with the dependencies of the main lock
//! file. LLVM's coverage passes are options of the stable compiler, so that no nightly one is
//! needed; libFuzzer comes with `libfuzzer-sys` and is built by the C++ compiler. Targets of files
//! of users write their first inputs themselves. An input that breaks something ends the run with its place;
//! put it into a test.

use std::fs;
use std::path::{Path, PathBuf};

use crate::command::{self, cargo};
use crate::error::{Error, LeftOut};
use crate::workspace::Workspace;

/// Seconds for each target in `cargo xtask ci`: that they build and run.
const CI_SECONDS: u32 = 1;

/// Seconds for each target otherwise.
pub(crate) const SECONDS: u32 = 60;

/// Coverage of edges with counters and compared values, and one code unit per crate, as the
/// passes need. Overflows and debug assertions are findings too.
const FLAGS: &str = "-Cpasses=sancov-module \
    -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares \
    -Ccodegen-units=1 -Cdebug-assertions -Coverflow-checks";

/// One fuzz target: a binary of a crate's `fuzz` folder.
#[derive(Debug, PartialEq, Eq)]
struct Target {
    /// The folder of its package, such as `crates/spark-onnx-graph/fuzz`.
    folder: String,
    name: String,
}

/// Every target for a second, or what this machine lacks for them.
///
/// # Errors
///
/// As [`run`], but for what is missing.
pub(crate) fn run_if_possible(workspace: &Workspace) -> Result<LeftOut, Error> {
    match missing() {
        Some(what) => Ok(vec![what]),
        None => run_optimised(workspace, CI_SECONDS, None, "0").map(|()| LeftOut::new()),
    }
}

/// What this machine lacks, as the command that brings it; nothing if the targets can be built.
fn missing() -> Option<String> {
    let compiler = std::process::Command::new("c++").arg("--version").output();
    let is_there = compiler.is_ok_and(|output| output.status.success());
    (!is_there).then(|| "no C++ compiler for libFuzzer: apt-get install g++".to_owned())
}

/// Builds all targets and runs them, or the one called `only`, for this many seconds each.
///
/// # Errors
///
/// A target that does not build; one that found something; a name that no target has; no C++
/// compiler.
pub(crate) fn run(workspace: &Workspace, seconds: u32, only: Option<&str>) -> Result<(), Error> {
    run_optimised(workspace, seconds, only, "3")
}

/// The same at a level of optimisation: for a second each, compiling takes longer than all runs.
fn run_optimised(
    workspace: &Workspace,
    seconds: u32,
    only: Option<&str>,
    opt_level: &str,
) -> Result<(), Error> {
    if let Some(what) = missing() {
        return Err(Error::Usage(what));
    }
    let all = targets(&workspace.files()?);
    let chosen: Vec<&Target> = all
        .iter()
        .filter(|target| only.is_none_or(|only| only == target.name))
        .collect();
    if chosen.is_empty() {
        let names: Vec<&str> = all.iter().map(|target| target.name.as_str()).collect();
        return Err(Error::Usage(format!(
            "no fuzz target `{}`; there are {}",
            only.unwrap_or_default(),
            names.join(", ")
        )));
    }
    let host = command::host_triple()?;
    let out = workspace.target.join("fuzz");
    build(workspace, &out, &host, only, opt_level)?;
    for target in chosen {
        let folder = workspace.root.join(&target.folder);
        let program = out.join(&host).join("release").join(&target.name);
        run_one(&folder, &program, &target.name, seconds)?;
    }
    Ok(())
}

/// The targets among the files of the workspace, in the order of their names.
fn targets(files: &[String]) -> Vec<Target> {
    let mut found: Vec<Target> = files
        .iter()
        .filter_map(|path| {
            let (folder, file) = path.split_once("/fuzz_targets/")?;
            Some(Target {
                folder: folder.to_owned(),
                name: file.strip_suffix(".rs")?.to_owned(),
            })
        })
        .collect();
    found.sort_by(|a, b| (&a.folder, &a.name).cmp(&(&b.folder, &b.name)));
    found
}

/// Builds all targets, or one, in the workspace they share.
fn build(
    workspace: &Workspace,
    out: &Path,
    host: &str,
    only: Option<&str>,
    opt_level: &str,
) -> Result<(), Error> {
    let root = workspace.root.join("fuzz");
    command::copy_lock(&workspace.root.join("Cargo.lock"), &root.join("Cargo.lock"))?;
    // With a target named, build scripts and macros are built without the flags.
    let mut build = cargo(&["build", "--release", "--workspace", "--target", host]);
    match only {
        Some(name) => build.args(["--bin", name]),
        None => build.arg("--bins"),
    };
    build.current_dir(root);
    build.env("RUSTFLAGS", FLAGS).env("CARGO_TARGET_DIR", out);
    build.env("CARGO_PROFILE_RELEASE_OPT_LEVEL", opt_level);
    command::run(&mut build)
}

fn run_one(folder: &Path, program: &Path, name: &str, seconds: u32) -> Result<(), Error> {
    let made = |kind: &str| -> Result<PathBuf, Error> {
        let place = folder.join(kind).join(name);
        fs::create_dir_all(&place).map_err(Error::io("make", &place))?;
        Ok(place)
    };
    let (corpus, artifacts) = (made("corpus")?, made("artifacts")?);
    let mut fuzzer = std::process::Command::new(program);
    fuzzer.arg(&corpus);
    fuzzer.arg(format!("-artifact_prefix={}/", artifacts.display()));
    fuzzer.arg(format!("-max_total_time={seconds}"));
    // A whole input may take ten seconds, all of them together two gigabytes.
    fuzzer.args(["-timeout=10", "-rss_limit_mb=2048", "-print_final_stats=1"]);
    fuzzer.args(["-verbosity=0", "-print_funcs=0", "-close_fd_mask=1"]);
    println!("-- {name}, {seconds} s");
    command::run(&mut fuzzer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_found_by_their_files() {
        let files = [
            "crates/b/fuzz/fuzz_targets/y.rs",
            "crates/a/fuzz/fuzz_targets/z.rs",
            "crates/a/fuzz/Cargo.toml",
            "crates/a/src/lib.rs",
        ];
        let found = targets(&files.map(str::to_owned));
        let found: Vec<_> = found
            .iter()
            .map(|t| (t.folder.as_str(), t.name.as_str()))
            .collect();
        assert_eq!(found, [("crates/a/fuzz", "z"), ("crates/b/fuzz", "y")]);
    }
}
