//! What is installed: driver, toolkit, libraries.

use std::fmt;

use crate::reading::{Failure, Reading};
use crate::root::Root;
use crate::version::Version;

use super::libraries::{self, Library};
use super::name::LibraryName;

/// NVIDIA's software on this machine, and LLVM: versions and files.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Stack {
    /// The driver that is loaded in the kernel.
    pub driver: Reading<Version>,
    /// The newest CUDA version the driver offers (NVML or CUDA told).
    pub driver_cuda: Reading<Version>,
    /// The CUDA toolkit behind `/usr/local/cuda`.
    pub toolkit: Reading<Version>,
    /// The libraries found, one entry per name and version, newest first per name.
    pub libraries: Vec<Library>,
}

impl Stack {
    /// Looks through the machine; `driver_cuda` comes from NVML or CUDA.
    #[must_use]
    pub fn read(root: &Root, driver_cuda: Reading<Version>) -> Self {
        Self {
            driver: loaded_driver(root),
            driver_cuda,
            toolkit: toolkit(root),
            libraries: libraries::find(root),
        }
    }

    /// The newest library of this name.
    #[must_use]
    pub fn newest(&self, name: LibraryName) -> Option<&Library> {
        self.libraries.iter().find(|library| library.name == name)
    }
}

impl fmt::Display for Stack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = |reading: &Reading<Version>| match reading {
            Reading::NotSupported => "none".to_owned(),
            other => other.to_string(),
        };
        write!(
            f,
            "driver {}, CUDA toolkit {}",
            word(&self.driver),
            word(&self.toolkit)
        )
    }
}

/// `NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  580.95.05  Release Build ...`
fn loaded_driver(root: &Root) -> Reading<Version> {
    const PATH: &str = "/proc/driver/nvidia/version";
    let by_proc = root.text(PATH).and_then(|text| {
        let line = text
            .lines()
            .find(|line| line.starts_with("NVRM version:"))
            .unwrap_or("");
        // The first dotted number; "for x86_64" has none.
        let number = line
            .split_whitespace()
            .find(|word| word.contains('.') && word.parse::<Version>().is_ok());
        match number.and_then(|word| word.parse().ok()) {
            Some(version) => Reading::Value(version),
            None => Reading::Failed(Failure::malformed(PATH, &text, "NVRM version: ... number")),
        }
    });
    match by_proc {
        Reading::NotSupported => root
            .line("/sys/module/nvidia/version")
            .and_then(|text| text.parse().into()),
        other => other,
    }
}

/// `{"cuda": {"name": "CUDA SDK", "version": "13.0.2"}, ...}`
fn toolkit(root: &Root) -> Reading<Version> {
    const PATH: &str = "/usr/local/cuda/version.json";
    root.text(PATH).and_then(|text| {
        let version = text
            .split_once("\"cuda\"")
            .and_then(|(_, rest)| rest.split_once("\"version\""))
            .and_then(|(_, rest)| rest.split('"').nth(1));
        match version.and_then(|version| version.parse().ok()) {
            Some(version) => Reading::Value(version),
            None => Reading::Failed(Failure::malformed(
                PATH,
                &text,
                "\"cuda\": {\"version\": ...}",
            )),
        }
    })
}
