//! Which versions of NVIDIA's software serve a GB10 (compute capability 12.1).
//!
//! | software | from | source |
//! |---|---|---|
//! | driver | 580 | branch of DGX OS; CUDA 13.0 release notes |
//! | toolkit, runtime, NVRTC | 12.9 | NVIDIA blog on family-specific features in CUDA 12.9: `sm_121` begins there |
//! | cuBLAS, cuBLASLt | 12.9 | inferred from the toolkit that carries them |
//! | cuSPARSELt | 0.8.0 | its release notes: adds SM 12.1 |
//! | NCCL | 2.28.9 | the version NVIDIA's playbooks build for `sm_121` |
//! | TensorRT | 10.13.2 | its release notes: adds CUDA 13.0 |
//! | LLVM | not judged | it makes code for `sm_121` from 21 on (llvm-project PR #136639, 2025-04-22), and the system's is there for Mesa |
//! | cuDNN | not stated | its support matrix names 12.0 |
//! | cuFile | any | runs through the page cache on a GB10: GPUDirect Storage is not there |

use crate::version::Version;

use super::name::LibraryName;

/// Whether a version is enough for compute capability 12.1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum Verdict {
    /// It is new enough.
    Enough,
    /// It is older than the first that serves it.
    TooOld,
    /// No source says, or the file name tells too little of the version.
    Unknown,
}

fn wanted(name: LibraryName) -> Option<&'static [u32]> {
    match name {
        LibraryName::Cuda | LibraryName::Nvml => Some(&[580]),
        LibraryName::CudaRuntime
        | LibraryName::Nvrtc
        | LibraryName::Cublas
        | LibraryName::CublasLt => Some(&[12, 9]),
        LibraryName::CusparseLt => Some(&[0, 8]),
        LibraryName::Nccl => Some(&[2, 28, 9]),
        LibraryName::TensorRt => Some(&[10, 13, 2]),
        LibraryName::Cufile => Some(&[0]),
        LibraryName::Cudnn | LibraryName::Llvm => None,
    }
}

pub(super) fn judge(name: LibraryName, version: &Version) -> Verdict {
    let Some(wanted) = wanted(name) else {
        return Verdict::Unknown;
    };
    if version.is_at_least(wanted) {
        return Verdict::Enough;
    }
    // `.so.12` may be 12.0 or 12.9; `libcuda.so.1` tells nothing of the driver.
    let is_interface_only = !version.to_string().contains('.');
    let may_be_enough =
        version.major() == wanted[0] || matches!(name, LibraryName::Cuda | LibraryName::Nvml);
    if is_interface_only && may_be_enough {
        Verdict::Unknown
    } else {
        Verdict::TooOld
    }
}
