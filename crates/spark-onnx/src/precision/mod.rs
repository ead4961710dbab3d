//! Which number format each step of a plan computes in, and why.
//!
//! ```text
//! wanted   linear, convolution      matmul, attention     depthwise, grouped, recurrent, the rest
//! fp32     fp32                     fp32                  fp32
//! fp16     fp16 weights, and        fp32                  fp32
//!          activations (1)
//! bf16     bf16 weights (2), and    bf16 (1)              fp32
//!          activations (1)
//! fp8      E4M3 both sides (3)      fp32                  fp32
//! int8     integers (4)             fp32                  fp32; depthwise and grouped: integers (4)
//! fp4      NVFP4 both sides (3)     fp32                  fp32
//!
//! (1) where the processor's instructions are faster, as measured, or by option
//! (2) as (1), or where few rows share them
//! (3) or weights alone, by option; transposed convolutions and layers of fewer than 16 input channels are fp32
//! (4) in what the calibration, or the file, has on them; else fp32
//! ```
//!
//! A weight the format cannot hold keeps its layer in fp32. Nothing is decided silently: each step
//! carries its reason, which `--explain` prints.
//!
//! Deliberately absent: the arithmetic (`crate::cpu`, `spark_quant`).

pub mod mixed;
mod output_errors;
mod parts;
pub(crate) mod recipes;
pub(crate) mod sixteen_bits;
pub(crate) mod stored;

use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;

use half::f16;

use crate::plan::{Plan, Step, Weights};

pub use output_errors::OutputErrors;
pub(crate) use output_errors::decibels;
pub use parts::OutputParts;
pub use spark_hal::Precision;

/// How activations enter a GEMM or convolution whose weights have eight or four bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Activations {
    /// Rounded to the weights' format, as tensor cores take them: E4M3 with one scale per tensor,
    /// NVFP4 with a scale per 16 channels and one per tensor.
    #[default]
    Quantised,
    /// As they are, in f32.
    Exact,
}

/// A word that names no way to compute GEMM and convolutions of 16 bits.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{got}` is not one of {expected}")]
pub struct UnknownProducts {
    /// The word as given.
    pub got: String,
    /// The words that would do, joined by commas.
    pub expected: &'static str,
}

/// How GEMM and convolutions of bf16 are computed on a CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Bf16Products {
    /// [`DotProduct`](Self::DotProduct) where a short measurement finds the instruction faster than
    /// f32, else [`WeightsOnly`](Self::WeightsOnly).
    #[default]
    Fastest,
    /// The processor's instruction for dot products of bf16, on both sides rounded to bf16:
    /// AVX512_BF16 or Arm's FEAT_BF16.
    DotProduct,
    /// f32 arithmetic on weights rounded to bf16; activations stay f32, for arithmetic that takes
    /// f32 anyway gains nothing from fewer digits. Attention, which has no weights, is
    /// that of fp32.
    WeightsOnly,
    /// f32 arithmetic on both sides rounded to bf16: the operands that a bf16 unit is given, for
    /// judging its accuracy on a processor without one.
    MultiplyAdd,
}

impl FromStr for Bf16Products {
    type Err = UnknownProducts;

    /// Accepts `fastest`, `dot`, `weights` and `both`.
    fn from_str(word: &str) -> Result<Self, Self::Err> {
        match word {
            "fastest" => Ok(Self::Fastest),
            "dot" => Ok(Self::DotProduct),
            "weights" => Ok(Self::WeightsOnly),
            "both" => Ok(Self::MultiplyAdd),
            _ => Err(UnknownProducts {
                got: word.to_owned(),
                expected: "fastest, dot, weights, both",
            }),
        }
    }
}

/// How GEMM and convolutions of fp16 are computed on a CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Fp16Products {
    /// [`BothSides`](Self::BothSides) where a short measurement finds the instruction faster than
    /// f32, else [`WeightsOnly`](Self::WeightsOnly).
    #[default]
    Fastest,
    /// The processor's instruction for products of fp16 with sums in f32 (Arm's FEAT_FHM), on both
    /// sides rounded to fp16. An activation from 65520 on becomes infinite. Convolutions that
    /// Winograd's transform makes cheaper stay in f32 arithmetic on fp16 weights.
    BothSides,
    /// f32 arithmetic on weights rounded to fp16; activations stay f32.
    WeightsOnly,
}

impl FromStr for Fp16Products {
    type Err = UnknownProducts;

    /// Accepts `fastest`, `both` and `weights`.
    fn from_str(word: &str) -> Result<Self, Self::Err> {
        match word {
            "fastest" => Ok(Self::Fastest),
            "both" => Ok(Self::BothSides),
            "weights" => Ok(Self::WeightsOnly),
            _ => Err(UnknownProducts {
                got: word.to_owned(),
                expected: "fastest, both, weights",
            }),
        }
    }
}

/// How reduced precisions are computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Arithmetic {
    /// How GEMM and convolutions of bf16 are computed.
    pub bf16_products: Bf16Products,
    /// How GEMM and convolutions of fp16 are computed.
    pub fp16_products: Fp16Products,
    /// How activations enter GEMM and convolutions of fp8 and fp4.
    pub activations: Activations,
}

/// The format of one step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StepPrecision {
    /// Format of the operands of its GEMM or convolution; of everything, where it has none.
    pub(crate) precision: Precision,
    /// Why the step has it, for reports.
    pub(crate) reason: &'static str,
}

/// What a model is asked to compute in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// For every step that is not named.
    pub(crate) precision: Precision,
    /// By name of the step, as a mixed plan has it.
    pub(crate) by_step: BTreeMap<String, Precision>,
    /// By name of the step, as a calibration has it.
    pub(crate) calibrated: BTreeMap<String, Precision>,
}

impl From<Precision> for Wanted {
    fn from(precision: Precision) -> Self {
        Self {
            precision,
            by_step: BTreeMap::new(),
            calibrated: BTreeMap::new(),
        }
    }
}

impl Wanted {
    /// The format of one step, by the precision for all.
    pub(crate) fn assign_one(&self, step: &Step) -> StepPrecision {
        assign(step, self.precision, "as calibrated")
    }

    /// The format of every step of `plan`, whose weights must still be there.
    pub(crate) fn assign(&self, plan: &Plan) -> Vec<StepPrecision> {
        let steps = plan.steps.iter().map(|planned| {
            let named = |by: &BTreeMap<String, Precision>| by.get(&planned.name).copied();
            match (named(&self.calibrated), named(&self.by_step)) {
                (Some(precision), _) => assign(&planned.step, precision, "as calibrated"),
                (_, Some(precision)) => assign(&planned.step, precision, "as the mixed plan says"),
                _ => assign(&planned.step, self.precision, "as asked for"),
            }
        });
        steps.collect()
    }
}

/// Whether a step has weights that can be held in any format.
pub(crate) fn can_be_narrow(step: &Step) -> bool {
    match step {
        Step::Conv(c) => c.weights.groups == 1 && !c.transposed,
        Step::Linear(_) => true,
        _ => false,
    }
}

/// Steps of `plan` whose format can be chosen one by one: they can be narrow, their name says which one is meant, and every
/// run gets there.
pub(crate) fn choosable(plan: &Plan) -> Vec<usize> {
    let (mut seen, mut twice) = (BTreeSet::new(), BTreeSet::new());
    for planned in &plan.steps {
        if !seen.insert(&planned.name) {
            twice.insert(&planned.name);
        }
    }
    let steps = plan.steps.iter().zip(plan.always_run()).enumerate();
    steps
        .filter(|(_, (p, always))| *always && can_be_narrow(&p.step) && !twice.contains(&p.name))
        .map(|(index, _)| index)
        .collect()
}

fn assign(step: &Step, wanted: Precision, asked: &'static str) -> StepPrecision {
    let fp32 = |reason| StepPrecision {
        precision: Precision::Fp32,
        reason,
    };
    let weights = match step {
        Step::Conv(_)
        | Step::Linear(_)
        | Step::MatMul(_)
        | Step::Attention(_)
        | Step::Recurrent(_)
            if wanted == Precision::Fp32 =>
        {
            return fp32(asked);
        }
        Step::Conv(_) | Step::Linear(_) if wanted == Precision::Int8 => return fp32(NO_INTEGERS),
        Step::Conv(c) if c.is_depthwise() => {
            return fp32("depthwise: one channel deep, so there is nothing to gain");
        }
        Step::Conv(c) if c.weights.groups > 1 => return fp32("grouped convolution"),
        Step::Conv(c) if c.transposed && wanted.bits() <= 8 => {
            return fp32("transposed convolution");
        }
        Step::Conv(c) => &c.weights,
        Step::Linear(l) => &l.weights,
        Step::MatMul(_) | Step::Attention(_) if wanted == Precision::Bf16 => {
            return StepPrecision {
                precision: wanted,
                reason: asked,
            };
        }
        Step::MatMul(_) | Step::Attention(_) => return fp32(NO_WEIGHTS),
        Step::Recurrent(_) => return fp32("recurrent: errors would be fed back"),
        Step::Int8(_) => {
            return StepPrecision {
                precision: Precision::Int8,
                reason: match wanted {
                    Precision::Int8 => asked,
                    _ => "8-bit integers, as the file has it",
                },
            };
        }
        _ => return fp32(NO_PRODUCT),
    };
    match why_not(weights, wanted) {
        Some(reason) => fp32(reason),
        None => StepPrecision {
            precision: wanted,
            reason: asked,
        },
    }
}

/// Why `weights` cannot be held in `precision`.
fn why_not(weights: &Weights, precision: Precision) -> Option<&'static str> {
    let depth = weights.taps * weights.in_per_group;
    if depth == 0 || weights.out_per_group == 0 {
        return Some("no weights");
    }
    match precision {
        Precision::Fp16 => {
            let fits = |w: &f32| w.is_nan() || w.is_infinite() || f16::from_f32(*w).is_finite();
            (!weights.all(fits)).then_some("a weight is beyond the range of fp16")
        }
        Precision::Fp8 | Precision::Fp4 => {
            if !weights.all(|w| w.is_finite()) {
                return Some("a weight is not finite");
            }
            (weights.in_per_group < SHALLOW)
                .then_some("fewer input channels than values share a scale")
        }
        _ => None,
    }
}

/// Why a matmul of two computed operands is in fp32.
pub(crate) const NO_WEIGHTS: &str = "both sides are computed: there are no weights to narrow";

/// Why a matmul of many rows is in fp32 where bf16 is for its weights alone.
pub(crate) const MANY_ROWS: &str =
    "many rows share each weight: fewer bits would save no time on f32 arithmetic";

/// Why a product with weights is in fp32 where int8 is asked for or calibrated.
const NO_INTEGERS: &str =
    "left in f32 by the calibration or the file, or integers have no product for it";

/// Why a step without a GEMM is in fp32: the [`reason`](crate::StepInfo::reason) of all of them.
pub const NO_PRODUCT: &str = "no product";

/// Why an operator is interpreted: the [`reason`](crate::StepInfo::reason) of all of them.
pub const INTERPRETED: &str = "how long its results are hangs on values";

/// Input channels below which eight and four bits are not used: blocks of scales run along them.
const SHALLOW: usize = 16;
