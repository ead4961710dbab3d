//! `cargo xtask gpu`: tests and benchmarks for a GPU machine that has no cargo.
//!
//! ```text
//! target/gpu/<triple>/   *-gpu-tests   of each crate with device code, on a real GPU
//!                        mem-bench     bandwidth per kind of memory, copies, files
//!                        lib/          NVRTC, where it was fetched for this kind of machine
//!                        run           all of it, with SPARK_REQUIRE_GPU=1
//! target/gpu/<triple>.tar.gz
//! ```
//!
//! The CUDA driver is the machine's own. For another kind of machine than this one NVRTC has to
//! be installed there; `run` says so when it is missing.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::command::{self, cargo};
use crate::error::Error;
use crate::kernels::Toolchain;
use crate::workspace::Workspace;

/// What runs on the GPU machine.
const RUN: &str = r#"#!/bin/sh
# Runs the tests and benchmarks of this folder on the GPU of this machine.
#
#   ./run            tests, then the benchmark into mem.csv
#   ./run tests      tests alone
cd "$(dirname "$0")" || exit 1
export LD_LIBRARY_PATH="$PWD/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
export SPARK_REQUIRE_GPU=1
export SPARK_CACHE_DIR="$PWD/cache"
if ! [ -e lib/libnvrtc.so.13 ] && ! ldconfig -p 2>/dev/null | grep -q libnvrtc; then
  echo "libnvrtc is not in this bundle and not installed: kernels cannot be compiled" >&2
fi
nvidia-smi --query-gpu=name,driver_version,clocks.max.sm --format=csv,noheader || true
for tests in *-gpu-tests; do
  ./"$tests" --test-threads=4 --show-output || exit 1
done
[ "$1" = tests ] && exit 0
CUDA=1 ./mem-bench --bench | tee mem.csv
"#;

/// Packages with tests for a GPU.
const TESTED: [&str; 3] = ["spark-mem", "spark-quant", "spark-sim"];

/// Makes a bundle for each of these kinds of machine; for this one if there are none.
///
/// # Errors
///
/// Builds that fail, files that cannot be written.
pub(crate) fn run(workspace: &Workspace, targets: &[String]) -> Result<(), Error> {
    let host = command::host_triple()?;
    let own = [host.clone()];
    for target in if targets.is_empty() {
        &own[..]
    } else {
        targets
    } {
        let folder = workspace.target.join("gpu").join(target);
        fs::create_dir_all(&folder).map_err(Error::io("make", &folder))?;
        for package in TESTED {
            let common = ["-p", package, "--features", "cuda", "--target", target];
            let tests = build(workspace, &["test", "--release", "--test", "gpu"], &common)?;
            copy(&tests, &folder.join(format!("{package}-gpu-tests")))?;
        }
        let common = ["-p", "spark-mem", "--features", "cuda", "--target", target];
        let bench = build(workspace, &["bench", "--bench", "mem"], &common)?;
        copy(&bench, &folder.join("mem-bench"))?;
        if *target == host {
            nvrtc(workspace, &folder.join("lib"))?;
        }
        let script = folder.join("run");
        fs::write(&script, RUN).map_err(Error::io("write", &script))?;
        make_executable(&script)?;
        pack(&folder)?;
    }
    Ok(())
}

/// Builds one target and finds the program in cargo's messages.
fn build(workspace: &Workspace, what: &[&str], common: &[&str]) -> Result<PathBuf, Error> {
    let mut cargo = cargo(what);
    cargo.args(common);
    cargo.args(["--no-run", "--message-format=json-render-diagnostics"]);
    if common.iter().any(|word| word.starts_with("aarch64-")) {
        cargo.env(
            "CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER",
            "aarch64-linux-gnu-gcc",
        );
    }
    let messages = command::output_of(cargo.current_dir(&workspace.root))?;
    executable(&messages).ok_or_else(|| Error::Shape {
        what: "the messages of cargo".to_owned(),
        field: "executable".to_owned(),
    })
}

/// The program that cargo built last.
fn executable(messages: &str) -> Option<PathBuf> {
    messages.lines().rev().find_map(|line| {
        let value = serde_json::from_str::<Value>(line).ok()?;
        value["executable"].as_str().map(PathBuf::from)
    })
}

fn copy(from: &Path, to: &Path) -> Result<(), Error> {
    fs::copy(from, to)
        .map(|_| ())
        .map_err(Error::io("copy", from))
}

fn nvrtc(workspace: &Workspace, to: &Path) -> Result<(), Error> {
    let from = Toolchain::get(&workspace.target.join("kernels"))?.libraries();
    fs::create_dir_all(to).map_err(Error::io("make", to))?;
    for entry in fs::read_dir(&from).map_err(Error::io("list", &from))? {
        let path = entry.map_err(Error::io("list", &from))?.path();
        let name = path.file_name().unwrap_or_default();
        if name.to_string_lossy().starts_with("libnvrtc") {
            copy(&path, &to.join(name))?;
        }
    }
    Ok(())
}

fn make_executable(path: &Path) -> Result<(), Error> {
    command::run(Command::new("chmod").arg("+x").arg(path))
}

fn pack(folder: &Path) -> Result<(), Error> {
    let (parent, name) = match (folder.parent(), folder.file_name()) {
        (Some(parent), Some(name)) => (parent, name),
        _ => (folder, folder.as_os_str()),
    };
    let archive = parent.join(format!("{}.tar.gz", name.to_string_lossy()));
    let mut tar = Command::new("tar");
    tar.arg("-czf")
        .arg(&archive)
        .arg("-C")
        .arg(parent)
        .arg(name);
    command::run(&mut tar)?;
    let bytes = fs::metadata(&archive)
        .map_err(Error::io("examine", &archive))?
        .len();
    println!("{} ({:.1} MB)", archive.display(), bytes as f64 / 1e6);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_program_of_cargos_messages_is_found() {
        let messages = "{\"reason\":\"compiler-artifact\",\"executable\":null}\n\
                        {\"reason\":\"compiler-artifact\",\"executable\":\"/t/gpu-1\"}\n\
                        {\"reason\":\"build-finished\",\"success\":true}\n";
        assert_eq!(executable(messages), Some(PathBuf::from("/t/gpu-1")));
        assert_eq!(executable("no json"), None);
    }
}
