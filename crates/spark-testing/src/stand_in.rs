//! A directory with stand-in libraries and their scripts.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// Which functions the libraries have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Age {
    /// All that are asked for.
    Current,
    /// NVML without memory v2, processes v3, CUDA version and energy; CUDA without
    /// `cuDeviceGetPCIBusId`.
    Old,
}

/// Copies of the stand-ins with their scripts. The directory goes away with the value;
/// a library that is open stays usable.
#[derive(Debug)]
pub struct StandIn {
    directory: PathBuf,
}

const NVML: &str = "libnvidia-ml.so.1";
const CUDA: &str = "libcuda.so.1";

impl StandIn {
    /// Makes a directory under the system's temporary one.
    ///
    /// # Errors
    ///
    /// The file system's.
    pub fn new() -> io::Result<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("spark-stand-in-{}-{number}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        fs::create_dir_all(&directory)?;
        Ok(Self { directory })
    }

    /// Adds NVML with this script.
    ///
    /// # Errors
    ///
    /// The file system's.
    pub fn with_nvml(self, age: Age, script: &str) -> io::Result<Self> {
        self.add(NVML, age, "nvml.txt", script)
    }

    /// Adds the CUDA driver with this script.
    ///
    /// # Errors
    ///
    /// The file system's.
    pub fn with_cuda(self, age: Age, script: &str) -> io::Result<Self> {
        self.add(CUDA, age, "cuda.txt", script)
    }

    fn add(self, library: &str, age: Age, file: &str, script: &str) -> io::Result<Self> {
        let age = match age {
            Age::Current => "current",
            Age::Old => "old",
        };
        let compiled = Path::new(env!("OUT_DIR")).join(age).join(library);
        fs::copy(compiled, self.directory.join(library))?;
        fs::write(self.directory.join(file), script)?;
        Ok(self)
    }

    /// The directory, for `LD_LIBRARY_PATH`.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Where the stand-in for `libnvidia-ml.so.1` is, whether or not it was made.
    #[must_use]
    pub fn nvml(&self) -> PathBuf {
        self.directory.join(NVML)
    }

    /// The CUDA driver's file.
    #[must_use]
    pub fn cuda(&self) -> PathBuf {
        self.directory.join(CUDA)
    }
}

impl Drop for StandIn {
    fn drop(&mut self) {
        // What stays behind is a small directory under the temporary one.
        let _ = fs::remove_dir_all(&self.directory);
    }
}
