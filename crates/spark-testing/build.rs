//! Compiles the stand-in libraries: std only, straight with rustc.
//!
//! ```text
//! stand_in/nvml.rs --> $OUT_DIR/{current,old}/libnvidia-ml.so.1
//! stand_in/cuda.rs --> $OUT_DIR/{current,old}/libcuda.so.1      old: without newer functions
//! ```
//!
//! Cargo names its own shared libraries `lib<crate>.so` and offers no path to them; the
//! tests need these file names in directories of their own.

#![allow(
    clippy::print_stdout,
    reason = "build scripts talk to cargo through stdout"
)]

use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    let out = PathBuf::from(variable("OUT_DIR"));
    println!("cargo::rerun-if-changed=stand_in");
    // The computing driver is compiled when a test first asks for it, by `src/driver`.
    for (name, from) in [("STAND_IN_TARGET", "TARGET"), ("STAND_IN_HOST", "HOST")] {
        println!("cargo::rustc-env={name}={}", variable(from));
    }
    for (directory, flags) in [("current", &[][..]), ("old", &["old_driver"])] {
        let directory = out.join(directory);
        std::fs::create_dir_all(&directory).expect("OUT_DIR is writable");
        compile(
            "stand_in/nvml.rs",
            &directory.join("libnvidia-ml.so.1"),
            flags,
        );
        compile("stand_in/cuda.rs", &directory.join("libcuda.so.1"), flags);
    }
}

fn compile(source: &str, library: &Path, flags: &[&str]) {
    let mut rustc = Command::new(variable("RUSTC"));
    rustc
        .args([
            "--edition=2024",
            "--crate-type=cdylib",
            "--crate-name=stand_in",
        ])
        .args([
            "-Copt-level=1",
            "-Cstrip=symbols",
            "--check-cfg=cfg(old_driver)",
        ])
        .args(["--target", &variable("TARGET")])
        .arg("-o")
        .arg(library)
        .arg(source);
    for flag in flags {
        rustc.args(["--cfg", flag]);
    }
    // Cargo tells build scripts the linker of the target, if one is configured.
    if let Ok(linker) = std::env::var("RUSTC_LINKER") {
        rustc.arg(format!("-Clinker={linker}"));
    }
    let status = rustc.status().expect("rustc starts");
    assert!(status.success(), "{source}: {status}");
}

fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("cargo sets {name}"))
}
