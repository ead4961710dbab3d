//! Which precision to use on a GPU with the software that is installed.
//!
//! ```text
//! no CUDA on this GPU                    fp32   (the work runs on the CPU)
//! fp4 hardware and a stack that runs it,
//! and figures that say it is faster      fp4    (`evidence`)
//! fp8 hardware and a stack that runs it  fp8
//! otherwise                              bf16, fp16 or fp32 by generation
//! ```
//!
//! int8 is never recommended: it takes scales that are chosen for a model, so it is asked for by name.
//!
//! Hardware alone does not decide: on a GB10 the FP4 instructions exist only for code
//! built for `sm_120f`, `sm_121a` or `sm_121f`, which needs CUDA 12.9 or newer to build
//! and a driver that loads it. Nor does software: where FP4 runs it may be slower than FP8. A recommendation is about
//! speed; how exact a model stays must be measured for each model.

use crate::capability::ComputeCapability;
use crate::precision::Precision;
use crate::stack::Stack;

use super::evidence::{Evidence, PUBLISHED, is_fp4_faster};

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
    recommend_by(PUBLISHED, compute, is_usable, stack)
}

fn recommend_by(
    published: &[Evidence],
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
        let faster = match (stack.can_run(precision, compute), precision) {
            (Err(missing), _) => Err(missing.to_string()),
            (Ok(()), Precision::Fp4) => is_fp4_faster(published, compute, stack)
                .map(|said| format!(", and it is faster: {said}")),
            (Ok(()), _) => Ok(String::new()),
        };
        match faster {
            Ok(said) => {
                return Recommendation {
                    precision,
                    reason: format!(
                        "{why_not}hardware {compute} and the installed stack run {precision}{said}"
                    ),
                };
            }
            Err(why) => why_not.push_str(&format!("not {precision}: {why}; ")),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reading::Reading;
    use crate::root::Root;

    /// A GB10 with libraries that run FP4, by a driver of this CUDA version.
    fn stack(cuda: &str) -> Stack {
        let mut stack = Stack::read(
            &Root::at("a-folder-without-files"),
            Reading::Value(cuda.parse().expect("a version")),
        );
        stack.libraries.push(crate::stack::Library {
            name: crate::stack::LibraryName::Nvrtc,
            path: "/usr/lib/libnvrtc.so.13.1.0".to_owned(),
            version: "13.1.0".parse().expect("a version"),
            for_gb10: crate::stack::Verdict::Enough,
        });
        stack
    }

    fn row(is_faster: bool, since_cuda: &'static [u32]) -> Evidence {
        Evidence {
            compute: ComputeCapability::GB10,
            since_cuda,
            is_faster,
            what: "twice as fast",
            source: "a test, 2026-11-30",
        }
    }

    #[track_caller]
    fn check(published: &[Evidence], cuda: &str, precision: Precision, words: &str) {
        let gb10 = Some(ComputeCapability::GB10);
        let recommended = recommend_by(published, gb10, true, &stack(cuda));
        assert_eq!(recommended.precision, precision, "{}", recommended.reason);
        assert!(recommended.reason.contains(words), "{}", recommended.reason);
    }

    #[test]
    fn fp4_takes_a_figure_for_this_gpu_and_software_and_none_against_it() {
        let (faster, slower) = (row(true, &[13, 1]), row(false, &[13, 1]));
        check(&[faster], "13.1", Precision::Fp4, "(a test, 2026-11-30)");
        check(&[], "13.1", Precision::Fp8, "not fp4: no published figure");
        check(&[slower], "13.1", Precision::Fp8, "it is slower: twice");
        check(&[faster, slower], "13.1", Precision::Fp8, "disagree");
        // Of other software, and of another GPU, it says nothing.
        check(&[faster], "13.0", Precision::Fp8, "no published figure");
        let other = Evidence {
            compute: "12.0".parse().expect("a capability"),
            ..faster
        };
        check(&[other], "13.1", Precision::Fp8, "no published figure");
    }

    #[test]
    fn what_is_published_of_a_gb10_disagrees() {
        for cuda in ["13.0", "13.1"] {
            check(PUBLISHED, cuda, Precision::Fp8, "cutlass #3227");
        }
        check(PUBLISHED, "12.9", Precision::Fp8, "it is slower");
    }
}
