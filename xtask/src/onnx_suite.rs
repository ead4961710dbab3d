//! `cargo xtask onnx-suite`: the ONNX project's own tests, and random models run by onnxruntime.
//!
//! ```text
//! pip install --target <folder>.tmp  the pinned packages   ──rename──>  <folder>
//! benches/rivals/onnx_conformance/generate.py  ──>  cases, as they are
//! cargo test -p spark-onnx, conformance       ──>  every outcome as onnx_suite.txt lists it
//! ```
//!
//! About 40 MB to download once, 200 MB on disk.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command::{self, cargo};
use crate::error::Error;
use crate::workspace::Workspace;

const GENERATOR: &str = "benches/rivals/onnx_conformance";

/// Runs it.
///
/// # Errors
///
/// Whatever ends a command: no Python, no packages, a case with another outcome than the listed one.
pub(crate) fn run(workspace: &Workspace) -> Result<(), Error> {
    run_of(workspace, &["-p", "spark-onnx"])
}

/// The same where `cargo test` has just built every crate's tests: with features as it has them, nothing is
/// compiled again.
///
/// # Errors
///
/// As [`run`].
pub(crate) fn run_after_test(workspace: &Workspace) -> Result<(), Error> {
    run_of(workspace, &[])
}

fn run_of(workspace: &Workspace, packages_tested: &[&str]) -> Result<(), Error> {
    let folder = workspace.root.join("target/onnx-suite");
    let generator = workspace.root.join(GENERATOR);
    let packages = packages(&folder, &generator.join("requirements.txt"))?;
    let cases = folder.join("cases");
    // Cases that the generator no longer writes must not stay.
    if cases.exists() {
        std::fs::remove_dir_all(&cases).map_err(Error::io("remove", &cases))?;
    }
    let mut generate = Command::new("python3");
    generate.arg(generator.join("generate.py")).arg(&cases);
    command::run(generate.env("PYTHONPATH", &packages))?;
    let mut test = cargo(&["test"]);
    test.args(packages_tested)
        .args(["--test", "it", "--", "conformance"]);
    test.env("SPARK_ONNX_CASES", &cases);
    let counts = command::run_tests(test.current_dir(&workspace.root))?;
    println!("{counts}");
    Ok(())
}

/// The folder of the Python packages, installed if it is not there. Its name says the versions, so
/// that a new pin makes a new folder.
fn packages(folder: &Path, requirements: &Path) -> Result<PathBuf, Error> {
    let pins = std::fs::read_to_string(requirements).map_err(Error::io("read", requirements))?;
    let pins: Vec<String> = pins.lines().map(|pin| pin.replace("==", "-")).collect();
    let installed = folder.join(pins.join("_"));
    if installed.is_dir() {
        return Ok(installed);
    }
    let temporary = folder.join(format!("packages.{}.tmp", std::process::id()));
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "install", "--quiet"]);
    pip.args(["--disable-pip-version-check", "--root-user-action=ignore"]);
    pip.arg("--target")
        .arg(&temporary)
        .arg("-r")
        .arg(requirements);
    command::run(&mut pip)?;
    std::fs::rename(&temporary, &installed).map_err(Error::io("rename", &temporary))?;
    Ok(installed)
}
