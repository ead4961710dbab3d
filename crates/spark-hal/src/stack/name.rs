//! The libraries that are looked for, and what their files are called.

use std::fmt;

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
