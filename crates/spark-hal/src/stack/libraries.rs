//! Finds NVIDIA's libraries by file name: `libcublasLt.so.13.1.0.3`.

use std::fmt;

use super::requirement::{self, Verdict};
use super::version::Version;
use crate::root::Root;

/// A library this inventory knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum LibraryName {
    /// CUDA driver API.
    Cuda,
    /// NVIDIA Management Library.
    Nvml,
    /// CUDA runtime.
    CudaRuntime,
    /// Run-time compiler.
    Nvrtc,
    /// Linear algebra.
    Cublas,
    /// Matrix multiplication with FP8 and FP4.
    CublasLt,
    /// Neural network primitives.
    Cudnn,
    /// Files straight to the GPU.
    Cufile,
    /// Structured sparsity.
    CusparseLt,
    /// Collectives.
    Nccl,
    /// TensorRT.
    TensorRt,
}

impl LibraryName {
    /// Every library that is looked for.
    pub const ALL: [Self; 11] = [
        Self::Cuda,
        Self::Nvml,
        Self::CudaRuntime,
        Self::Nvrtc,
        Self::Cublas,
        Self::CublasLt,
        Self::Cudnn,
        Self::Cufile,
        Self::CusparseLt,
        Self::Nccl,
        Self::TensorRt,
    ];

    /// The file name up to `.so`.
    #[must_use]
    pub const fn stem(self) -> &'static str {
        match self {
            Self::Cuda => "libcuda",
            Self::Nvml => "libnvidia-ml",
            Self::CudaRuntime => "libcudart",
            Self::Nvrtc => "libnvrtc",
            Self::Cublas => "libcublas",
            Self::CublasLt => "libcublasLt",
            Self::Cudnn => "libcudnn",
            Self::Cufile => "libcufile",
            Self::CusparseLt => "libcusparseLt",
            Self::Nccl => "libnccl",
            Self::TensorRt => "libnvinfer",
        }
    }
}

impl fmt::Display for LibraryName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Cuda => "CUDA driver",
            Self::Nvml => "NVML",
            Self::CudaRuntime => "CUDA runtime",
            Self::Nvrtc => "NVRTC",
            Self::Cublas => "cuBLAS",
            Self::CublasLt => "cuBLASLt",
            Self::Cudnn => "cuDNN",
            Self::Cufile => "cuFile",
            Self::CusparseLt => "cuSPARSELt",
            Self::Nccl => "NCCL",
            Self::TensorRt => "TensorRT",
        })
    }
}

/// One library file.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Library {
    /// Which library.
    pub name: LibraryName,
    /// The file.
    pub path: String,
    /// From the file name. A short one (`.so.13`) tells the interface only.
    pub version: Version,
    /// Whether it serves compute capability 12.1.
    pub for_gb10: Verdict,
}

/// Directories of the dynamic linker on Debian-like, Fedora-like and WSL systems, and
/// of the CUDA toolkit for servers (`sbsa-linux`), Jetson and x86.
const DIRECTORIES: [&str; 11] = [
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu/nvidia",
    "/usr/lib64",
    "/usr/lib",
    "/usr/lib/wsl/lib",
    "/usr/local/cuda/targets/sbsa-linux/lib",
    "/usr/local/cuda/targets/aarch64-linux/lib",
    "/usr/local/cuda/targets/x86_64-linux/lib",
    "/usr/local/lib",
    "/run/opengl-driver/lib",
];

pub(super) fn find(root: &Root) -> Vec<Library> {
    let mut found: Vec<Library> = Vec::new();
    for directory in DIRECTORIES {
        // These directories hold thousands of files; only a few are of interest.
        let names = root.entries_where(directory, |file| identify(file).is_some());
        let names = names.value().unwrap_or_default();
        for file in &names {
            let Some((name, version)) = identify(file) else {
                continue;
            };
            let path = format!("{directory}/{file}");
            // `libnccl.so.2` that links to `libnccl.so.2.28.9` beside it says less.
            let target = root.link_name(&path).value();
            let is_shorter = target.is_some_and(|target| names.contains(&target));
            if is_shorter || !root.exists(&path) {
                continue;
            }
            found.push(Library {
                name,
                path,
                for_gb10: requirement::judge(name, &version),
                version,
            });
        }
    }
    found.sort_by(|a, b| (a.name, &b.version, &a.path).cmp(&(b.name, &a.version, &b.path)));
    found
}

/// `libnccl.so.2.28.9` is NCCL 2.28.9; `libnccl.so` and `libnccl_static.a` are nothing.
fn identify(file: &str) -> Option<(LibraryName, Version)> {
    let (stem, version) = file.split_once(".so.")?;
    let name = LibraryName::ALL
        .into_iter()
        .find(|name| name.stem() == stem)?;
    Some((name, version.parse().ok()?))
}
