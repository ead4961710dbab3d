//! Which precision to use on a GPU with the software that is installed.
//!
//! ```text
//! no CUDA on this GPU                    fp32   (the work runs on the CPU)
//! fp4 hardware and a stack that runs it  fp4
//! fp8 hardware and a stack that runs it  fp8
//! otherwise                              bf16, fp16 or fp32 by generation
//! ```
//!
//! int8 is never recommended: it takes scales that are chosen for a model, so it is asked for by name.
//!
//! Hardware alone does not decide: on a GB10 the FP4 instructions exist only for code
//! built for `sm_120f`, `sm_121a` or `sm_121f`, which needs CUDA 12.9 or newer to build
//! and a driver that loads it. A recommendation is about speed; how exact a model stays
//! must be measured for each model.

use crate::capability::ComputeCapability;
use crate::precision::Precision;
use crate::stack::Stack;

/// A precision and the reason for it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Recommendation {
    /// The precision to run models in.
    pub precision: Precision,
    /// Why this one, and why not a faster one.
    pub reason: String,
}

/// Recommends for a GPU of this capability.
#[must_use]
pub fn recommend(
    compute: Option<ComputeCapability>,
    is_usable: bool,
    stack: &Stack,
) -> Recommendation {
    let fp32 = |reason: &str| Recommendation {
        precision: Precision::Fp32,
        reason: reason.to_owned(),
    };
    let Some(compute) = compute else {
        return fp32("the compute capability is unknown without a driver");
    };
    if !is_usable {
        return fp32("this process cannot use the GPU through CUDA");
    }
    let mut why_not = String::new();
    for precision in [Precision::Fp4, Precision::Fp8] {
        if !compute.supports(precision) {
            continue;
        }
        match stack.can_run(precision, compute) {
            Ok(()) => {
                return Recommendation {
                    precision,
                    reason: format!(
                        "{why_not}hardware {compute} and the installed stack run {precision}"
                    ),
                };
            }
            Err(missing) => why_not.push_str(&format!("not {precision}: {missing}; ")),
        }
    }
    let precision = match compute.sm() {
        80.. => Precision::Bf16,
        70.. => Precision::Fp16,
        _ => Precision::Fp32,
    };
    Recommendation {
        precision,
        reason: format!("{why_not}hardware {compute} runs {precision}"),
    }
}
