//! Makes the bundle.
//!
//! ```text
//! target/gpu/<triple>/   *-gpu-tests   of spark-mem, -quant, -sim and -openpilot, on a real GPU
//!                        mem-bench     bandwidth per kind of memory, copies, files
//!                        detect doctor what the machine is, and what is wrong with it
//!                        xtask         runs the suites there
//!                        lib/          NVRTC, where it was fetched for this kind of machine
//!                        cache/        compiled kernels of the tests for 8.0, 9.0, 12.0 and 12.1
//!                        run           starts it
//! target/gpu/<triple>.tar.xz           at most 60 MB
//! ```
//!
//! Programs carry no symbols of debuggers. For another kind of machine than this one NVRTC has to
//! be installed there.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::command::{self, cargo};
use crate::error::Error;
use crate::kernels::Toolchain;
use crate::workspace::Workspace;

/// Starts the suites from wherever it is called.
const RUN: &str = include_str!("run.sh");

/// Packages with tests for a GPU.
const TESTED: [&str; 4] = ["spark-mem", "spark-quant", "spark-sim", "spark-openpilot"];

/// The test of each that compiles its kernels here for the bundle.
const KEEPS: &str = "kernels_are_kept_for_other_machines";

/// Examples that say what the machine is.
const PROGRAMS: [&str; 2] = ["detect", "doctor"];

/// What may be handed to a machine that is lent for minutes.
const LIMIT_BYTES: u64 = 60_000_000;

/// Makes a bundle for each of these kinds of machine; for this one if there are none.
///
/// # Errors
///
/// Builds that fail, files that cannot be written, a bundle that is too large.
pub(crate) fn run(workspace: &Workspace, targets: &[String]) -> Result<(), Error> {
    let host = command::host_triple()?;
    let own = [host.clone()];
    let targets = if targets.is_empty() {
        &own[..]
    } else {
        targets
    };
    let kernels = kernels(workspace, &host)?;
    for target in targets {
        let folder = workspace.target.join("gpu").join(target);
        // What an older bundle left there would be packed too.
        if folder.exists() {
            fs::remove_dir_all(&folder).map_err(Error::io("empty", &folder))?;
        }
        fs::create_dir_all(&folder).map_err(Error::io("make", &folder))?;
        programs(workspace, target, &folder)?;
        if *target == host {
            nvrtc(workspace, &folder.join("lib"))?;
        }
        copy_files(&kernels, &folder.join("cache/kernels"))?;
        let script = folder.join("run");
        fs::write(&script, RUN).map_err(Error::io("write", &script))?;
        command::run(Command::new("chmod").arg("+x").arg(&script))?;
        pack(&folder)?;
    }
    Ok(())
}

/// Builds everything that runs there and copies it into the bundle.
fn programs(workspace: &Workspace, target: &str, folder: &Path) -> Result<(), Error> {
    for package in TESTED {
        let words = ["test", "--release", "--test", "gpu", "-p", package];
        let tests = build(workspace, &words, &["--features", "cuda"], target)?;
        copy(&tests, &folder.join(format!("{package}-gpu-tests")))?;
    }
    let words = ["bench", "--bench", "mem", "-p", "spark-mem"];
    let bench = build(workspace, &words, &["--features", "cuda"], target)?;
    copy(&bench, &folder.join("mem-bench"))?;
    for example in PROGRAMS {
        let words = [
            "build",
            "--release",
            "--example",
            example,
            "-p",
            "sparkpilot",
        ];
        let program = build(workspace, &words, &["--features", "cuda"], target)?;
        copy(&program, &folder.join(example))?;
    }
    let words = ["build", "--release", "-p", "xtask"];
    let xtask = build(workspace, &words, &[], target)?;
    copy(&xtask, &folder.join("xtask"))
}

/// Builds one target and finds the program in cargo's messages.
fn build(
    workspace: &Workspace,
    words: &[&str],
    features: &[&str],
    target: &str,
) -> Result<PathBuf, Error> {
    let mut cargo = cargo(words);
    cargo.args(features).args(["--target", target]);
    if words[0] != "build" {
        cargo.arg("--no-run");
    }
    cargo.arg("--message-format=json-render-diagnostics");
    for profile in ["RELEASE", "BENCH"] {
        cargo.env(format!("CARGO_PROFILE_{profile}_STRIP"), "symbols");
    }
    if target.starts_with("aarch64-") {
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

/// Compiles kernels with this machine's builds of the tests; the folder of what came out, which
/// serves every kind of machine: code of a GPU does not know the processor beside it.
fn kernels(workspace: &Workspace, host: &str) -> Result<PathBuf, Error> {
    let libraries = Toolchain::get(&workspace.target.join("kernels"))?.libraries();
    let cache = workspace.target.join("gpu/cache");
    // What older sources left there would be packed too.
    if cache.exists() {
        fs::remove_dir_all(&cache).map_err(Error::io("empty", &cache))?;
    }
    for package in TESTED {
        let words = ["test", "--release", "--test", "gpu", "-p", package];
        let tests = build(workspace, &words, &["--features", "cuda"], host)?;
        keep(&tests, &libraries, &cache)?;
    }
    Ok(cache.join("kernels"))
}

/// Lets one program of tests compile its kernels into a cache.
fn keep(tests: &Path, libraries: &Path, cache: &Path) -> Result<(), Error> {
    let n_files = |folder: &Path| fs::read_dir(folder).map_or(0, Iterator::count);
    let before = n_files(&cache.join("kernels"));
    let mut program = Command::new(tests);
    program.args(["--exact", KEEPS]);
    program.env("SPARK_KEEP_KERNELS", cache);
    program.env("LD_LIBRARY_PATH", libraries);
    command::run(&mut program)?;
    let n_kept = n_files(&cache.join("kernels")) - before;
    if n_kept == 0 {
        return Err(Error::Usage(format!(
            "`{}` kept no kernels",
            tests.display()
        )));
    }
    println!("{}: {n_kept} images of kernels", tests.display());
    Ok(())
}

fn copy_files(from: &Path, to: &Path) -> Result<(), Error> {
    fs::create_dir_all(to).map_err(Error::io("make", to))?;
    for entry in fs::read_dir(from).map_err(Error::io("list", from))? {
        let path = entry.map_err(Error::io("list", from))?.path();
        copy(&path, &to.join(path.file_name().unwrap_or_default()))?;
    }
    Ok(())
}

/// The compiler and what it opens. The packages hold a second build of both, `*.alt.*`, which
/// nothing here asks for.
fn nvrtc(workspace: &Workspace, to: &Path) -> Result<(), Error> {
    let from = Toolchain::get(&workspace.target.join("kernels"))?.libraries();
    fs::create_dir_all(to).map_err(Error::io("make", to))?;
    for entry in fs::read_dir(&from).map_err(Error::io("list", &from))? {
        let path = entry.map_err(Error::io("list", &from))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with("libnvrtc") && !name.contains(".alt.") {
            copy(&path, &to.join(&*name))?;
        }
    }
    Ok(())
}

fn pack(folder: &Path) -> Result<(), Error> {
    let (parent, name) = match (folder.parent(), folder.file_name()) {
        (Some(parent), Some(name)) => (parent, name),
        _ => (folder, folder.as_os_str()),
    };
    let archive = parent.join(format!("{}.tar.xz", name.to_string_lossy()));
    let mut tar = Command::new("tar");
    // On all processors: NVRTC alone has 114 MB.
    tar.env("XZ_DEFAULTS", "--threads=0");
    tar.arg("-cJf")
        .arg(&archive)
        .arg("-C")
        .arg(parent)
        .arg(name);
    command::run(&mut tar)?;
    let n_bytes = fs::metadata(&archive)
        .map_err(Error::io("examine", &archive))?
        .len();
    println!("{} ({:.1} MB)", archive.display(), n_bytes as f64 / 1e6);
    if n_bytes > LIMIT_BYTES {
        return Err(Error::BundleTooLarge {
            path: archive,
            n_bytes,
            limit_bytes: LIMIT_BYTES,
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program of tests that keeps what `text` says, in a folder of its own.
    fn program(name: &str, text: &str) -> (PathBuf, PathBuf) {
        let name = format!("spark-xtask-bundle-{name}-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("tests");
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        let mut chmod = Command::new("chmod");
        assert!(chmod.arg("+x").arg(&path).status().unwrap().success());
        (folder, path)
    }

    #[test]
    fn kernels_are_kept_by_the_tests_and_copied_into_the_bundle() {
        let text = "mkdir -p $SPARK_KEEP_KERNELS/kernels && echo \"$* $LD_LIBRARY_PATH\" > $SPARK_KEEP_KERNELS/kernels/a.cubin";
        let (folder, tests) = program("keeps", text);
        let cache = folder.join("cache");
        keep(&tests, Path::new("/nvrtc"), &cache).unwrap();
        copy_files(&cache.join("kernels"), &folder.join("bundle/cache/kernels")).unwrap();
        let kept = fs::read_to_string(folder.join("bundle/cache/kernels/a.cubin")).unwrap();
        assert_eq!(kept, format!("--exact {KEEPS} /nvrtc\n"));
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn tests_that_keep_nothing_or_fail_make_no_bundle() {
        for text in ["true", "false"] {
            let (folder, tests) = program(text, text);
            assert!(keep(&tests, Path::new("/nvrtc"), &folder.join("cache")).is_err());
            fs::remove_dir_all(&folder).unwrap();
        }
    }

    #[test]
    fn the_last_program_of_cargos_messages_is_found() {
        let messages = "{\"reason\":\"compiler-artifact\",\"executable\":null}\n\
                        {\"reason\":\"compiler-artifact\",\"executable\":\"/t/gpu-1\"}\n\
                        {\"reason\":\"build-finished\",\"success\":true}\n";
        assert_eq!(executable(messages), Some(PathBuf::from("/t/gpu-1")));
        assert_eq!(executable("no json"), None);
    }
}
