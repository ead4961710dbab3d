//! The libraries that are looked for, and what their files are called.

use std::fmt;

/// A library this inventory knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum LibraryName {
    /// CUDA driver API (`libcuda`), which the display driver brings.
    Cuda,
    /// NVIDIA Management Library (`libnvidia-ml`), which the display driver brings.
    Nvml,
    /// CUDA runtime (`libcudart`), which most programs for CUDA open.
    CudaRuntime,
    /// Run-time compiler of CUDA C (`libnvrtc`).
    Nvrtc,
    /// Linear algebra, matrix multiplication above all (cuBLAS).
    Cublas,
    /// Matrix multiplication with FP8 and FP4.
    CublasLt,
    /// Neural network primitives (cuDNN): convolutions and attention.
    Cudnn,
    /// Files straight to the GPU.
    Cufile,
    /// Matrix multiplication with 2:4 structured sparsity (cuSPARSELt).
    CusparseLt,
    /// Collectives between GPUs and machines (NCCL).
    Nccl,
    /// NVIDIA's inference engine (TensorRT).
    TensorRt,
    /// The compiler library that tinygrad's CPU code, Numba and Mesa are made with (LLVM). Triton has one of its own inside.
    Llvm,
}

impl LibraryName {
    /// Every library that is looked for.
    pub const ALL: [Self; 12] = [
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
        Self::Llvm,
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
            Self::Llvm => "libLLVM",
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
            Self::Llvm => "LLVM",
        })
    }
}
