//! What has been published about the speed of FP4 on a GPU, against other formats on the same one.
//!
//! FP4 is recommended where every figure for a GPU and its software says that it is faster, and there is one. Not where figures
//! disagree, nor where there is none: that libraries have it says nothing of its speed.
//! `sparkpilot doctor --load 10s` measures it with the kernels of this project.

use crate::capability::ComputeCapability;
use crate::stack::{Stack, Version};

/// A published figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Evidence {
    pub(super) compute: ComputeCapability,
    /// CUDA version of the driver from which it holds.
    pub(super) since_cuda: &'static [u32],
    pub(super) is_faster: bool,
    /// What was measured.
    pub(super) what: &'static str,
    /// Where, and when.
    pub(super) source: &'static str,
}

/// All that is known here.
pub(super) static PUBLISHED: &[Evidence] = &[
    Evidence {
        compute: ComputeCapability::GB10,
        since_cuda: &[13, 1],
        is_faster: true,
        what: "large dense products 356 TFLOPS, fp8 188 (CUTLASS 4.4, CUDA 13.1)",
        source: "NVIDIA forum 359960, read in November 2026",
    },
    Evidence {
        compute: ComputeCapability::GB10,
        since_cuda: &[12, 9],
        is_faster: false,
        what: "native NVFP4 generates 7 to 25 % slower than FP4 weights multiplied in wider formats",
        source: "NVIDIA/cutlass #3227, 2026-05-19",
    },
    Evidence {
        compute: ComputeCapability::GB10,
        since_cuda: &[13, 0],
        is_faster: true,
        what: "FlashInfer's NVFP4 kernels for experts beat the same rival in vLLM",
        source: "vllm-project/recipes #632, 2026-07-13",
    },
];

/// Whether to recommend FP4.
///
/// # Errors
///
/// Why not, in words.
pub(super) fn is_fp4_faster(
    published: &[Evidence],
    compute: ComputeCapability,
    stack: &Stack,
) -> Result<String, String> {
    let holds = |evidence: &&Evidence| {
        let offered: Option<&Version> = stack.driver_cuda.as_value();
        evidence.compute == compute
            && offered.is_some_and(|offered| offered.is_at_least(evidence.since_cuda))
    };
    let said: Vec<&Evidence> = published.iter().filter(holds).collect();
    let words = |wanted: bool| {
        let of = said.iter().filter(|evidence| evidence.is_faster == wanted);
        let of = of.map(|evidence| format!("{} ({})", evidence.what, evidence.source));
        of.collect::<Vec<_>>().join(", ")
    };
    let (faster, slower) = (words(true), words(false));
    match (faster.is_empty(), slower.is_empty()) {
        (true, true) => Err(format!(
            "no published figure says that it is faster on {compute} with this software"
        )),
        (true, false) => Err(format!("published figures say that it is slower: {slower}")),
        (false, true) => Ok(faster),
        (false, false) => Err(format!(
            "published figures disagree: {slower}; but {faster}"
        )),
    }
}
