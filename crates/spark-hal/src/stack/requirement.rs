//! Which versions serve a GB10 (compute capability 12.1), and FP8 and FP4 anywhere.
//!
//! | software | from | source |
//! |---|---|---|
//! | driver | 580 | branch of DGX OS; CUDA 13.0 release notes |
//! | toolkit, runtime, NVRTC | 12.9 | NVIDIA blog on family-specific features in CUDA 12.9: `sm_121` begins there |
//! | cuBLAS, cuBLASLt | 12.9 | inferred from the toolkit that carries them |
//! | cuSPARSELt | 0.8.0 | its release notes: adds SM 12.1 |
//! | NCCL | 2.28.9 | the version NVIDIA's playbooks build for `sm_121` |
//! | TensorRT | 10.13.2 | its release notes: adds CUDA 13.0 |
//! | cuDNN | not stated | its support matrix names 12.0 |
//! | cuFile | any | runs through the page cache on a GB10: GPUDirect Storage is not there |

use super::{LibraryName, Stack, Version};
use crate::Precision;
use crate::gpu::ComputeCapability;
use crate::reading::Reading;

/// Whether a version is enough for compute capability 12.1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum Verdict {
    /// It is.
    Enough,
    /// It is older than the first that serves it.
    TooOld,
    /// No source says, or the file name tells too little of the version.
    Unknown,
}

/// What keeps a precision from running.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MissingSoftware {
    /// The driver is too old, or did not tell what it offers.
    #[error("needs a driver with CUDA {wanted}, this one says {got}")]
    Driver {
        /// CUDA version wanted from the driver.
        wanted: Version,
        /// What it offers.
        got: String,
    },
    /// Neither a run-time compiler nor cuBLASLt that is new enough.
    #[error("needs NVRTC or cuBLASLt {wanted} or newer, found {got}")]
    Compiler {
        /// The version wanted of either.
        wanted: Version,
        /// What was found.
        got: String,
    },
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
        LibraryName::Cudnn => None,
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

/// CUDA version that first builds code for this capability's FP8 or FP4 instructions.
///
/// FP8 on 8.9 and 9.0: CUDA 11.8 release notes. 10.0 and 12.0: CUDA 12.8 release notes.
/// 10.3 and 12.1: CUDA 12.9 (unsloth's `_BLACKWELL_SM_MIN_TOOLKIT` agrees).
fn toolkit_for(compute: ComputeCapability) -> &'static [u32] {
    match compute.sm() {
        0..100 => &[11, 8],
        100 | 101 | 120 => &[12, 8],
        102..120 | 121 => &[12, 9],
        _ => &[13, 0],
    }
}

pub(super) fn can_run(
    stack: &Stack,
    precision: Precision,
    compute: ComputeCapability,
) -> Result<(), MissingSoftware> {
    if !matches!(precision, Precision::Fp8 | Precision::Fp4) {
        return Ok(());
    }
    let wanted = toolkit_for(compute);
    // A driver runs code of its own CUDA version and older; of a newer minor version
    // only within one major version, which is not relied on here.
    match &stack.driver_cuda {
        Reading::Value(offered) if offered.is_at_least(wanted) => {}
        other => {
            let (wanted, got) = (Version::new(wanted), other.to_string());
            return Err(MissingSoftware::Driver { wanted, got });
        }
    }
    let either = [LibraryName::Nvrtc, LibraryName::CublasLt];
    let newest = either.iter().filter_map(|name| stack.newest(*name));
    let is_enough = newest
        .clone()
        .any(|library| library.version.is_at_least(wanted));
    if is_enough {
        return Ok(());
    }
    let found: Vec<String> = newest
        .map(|library| format!("{} {}", library.name, library.version))
        .collect();
    let got = if found.is_empty() {
        "neither".to_owned()
    } else {
        found.join(", ")
    };
    Err(MissingSoftware::Compiler {
        wanted: Version::new(wanted),
        got,
    })
}
