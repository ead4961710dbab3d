//! NVIDIA's compiler from PyPI, into a folder of the build.
//!
//! ```text
//! pip install --no-deps --target <folder>.tmp  the pinned packages   ──rename──>  <folder>
//! <folder>/nvidia/cu13/{bin/nvcc, bin/nvdisasm, lib/libnvrtc.so.13}
//! ```
//!
//! About 140 MB to download once, 480 MB on disk. 13.0, so that what is compiled here loads on
//! the driver of DGX OS, which is CUDA 13.0's; the disassembler has no such tie.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command;
use crate::error::Error;

const PACKAGES: [&str; 6] = [
    "nvidia-cuda-nvcc==13.0.88",
    "nvidia-cuda-crt==13.0.88",
    "nvidia-nvvm==13.0.88",
    "nvidia-cuda-runtime==13.0.96",
    "nvidia-cuda-nvrtc==13.0.88",
    "nvidia-cuda-nvdisasm==13.5.37",
];
/// Changes with the packages, so that a new pin makes a new folder.
const NAME: &str = "cuda-13.0.88";

/// Where the programs are.
pub(crate) struct Toolchain {
    folder: PathBuf,
}

impl Toolchain {
    /// Installs it under `folder` if it is not there.
    pub(crate) fn get(folder: &Path) -> Result<Self, Error> {
        let toolchain = Self {
            folder: folder.join(NAME),
        };
        if toolchain.bin().join("nvcc").is_file() {
            return Ok(toolchain);
        }
        let temporary = folder.join(format!("{NAME}.{}.tmp", std::process::id()));
        let mut pip = Command::new("python3");
        pip.args(["-m", "pip", "install", "--quiet", "--no-deps"]);
        pip.args(["--disable-pip-version-check", "--root-user-action=ignore"]);
        pip.arg("--target").arg(&temporary).args(PACKAGES);
        command::run(&mut pip)?;
        match std::fs::rename(&temporary, &toolchain.folder) {
            // Another step was quicker.
            Err(_) if toolchain.bin().join("nvcc").is_file() => {
                std::fs::remove_dir_all(&temporary).map_err(Error::io("remove", &temporary))?;
            }
            renamed => renamed.map_err(Error::io("rename", &temporary))?,
        }
        Ok(toolchain)
    }

    fn root(&self) -> PathBuf {
        self.folder.join("nvidia/cu13")
    }

    fn bin(&self) -> PathBuf {
        self.root().join("bin")
    }

    /// The folder of NVRTC.
    pub(crate) fn libraries(&self) -> PathBuf {
        self.root().join("lib")
    }

    /// A folder for what is compiled.
    pub(super) fn scratch(&self) -> &Path {
        &self.folder
    }

    pub(super) fn program(&self, name: &str) -> Command {
        Command::new(self.bin().join(name))
    }
}
