//! From the format a step is to compute in to the kernel that does it here.
//!
//! ```text
//! fp32                              f32 layout
//!        up to `FEW_TILES` rows     f16 layout if linear and nothing is lost, as where the file holds halves
//! fp16   profitable in fp16         f16 layout, both sides rounded to it, but of Winograd's convolutions
//!        else, up to `FEW_ROWS`     f16 layout, converted to f32 in the kernel
//!        else                       f32 layout of the same values: converting would cost more than it saves
//! bf16   profitable as dot          bf16 layout, dot products
//!        else, up to `FEW_ROWS`     bf16 layout, converted to f32 in the kernel
//!        else                       fp32, or, if both sides are to be rounded, f32 layout of the same values
//! fp8, fp4                          packed by spark-quant (`quantised`)
//! ```
//!
//! Where activations enter a GEMM as bf16, a tensor is rounded by whatever writes it: GEMM and
//! convolutions do it while they store, other steps are followed by a pass (`rounding`).

use spark_gemm::{MAX_ROWS, PackedLayout};

use super::conv::winograd_shape as winograd;
use super::matmul::format::MatmulFormat;
use super::simd::Isa;
use crate::Precision;
use crate::plan::{Plan, Step};
use crate::precision::sixteen_bits::SixteenBitBuffers;
use crate::precision::{
    Arithmetic, Bf16Products, Fp16Products, MANY_ROWS, NO_WEIGHTS, StepPrecision,
};

/// Rows up to which weights packed in 16 bits are converted to f32 in the kernel. A weight saves two
/// bytes of memory traffic once and costs part of an instruction per tile of rows.
const FEW_ROWS: usize = 128;

/// Rows up to which f32 weights that are halves are packed in f16: a tile or two, as more would not
/// save what converting them again costs.
const FEW_TILES: usize = MAX_ROWS;

/// How GEMM of 16 bits are computed on this processor: nothing is left to choose.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SixteenBitMatmuls {
    isa: Isa,
    /// How those of bf16 are computed; never [`Bf16Products::Fastest`].
    pub(crate) bf16: Bf16Products,
    /// How those of fp16 are computed; never [`Fp16Products::Fastest`].
    fp16: Fp16Products,
}

impl SixteenBitMatmuls {
    /// What `arithmetic` comes to for the formats of `wanted`; others are not looked at.
    ///
    /// # Errors
    ///
    /// The format whose instruction is asked for, if there is none.
    pub(crate) fn resolve(
        isa: Isa,
        arithmetic: Arithmetic,
        wanted: &[StepPrecision],
    ) -> Result<Self, Precision> {
        let wants = |precision| wanted.iter().any(|step| step.precision == precision);
        let bf16 = match arithmetic.bf16_products {
            _ if !wants(Precision::Bf16) => Bf16Products::WeightsOnly,
            Bf16Products::Fastest if dot_is_profitable(isa) => Bf16Products::DotProduct,
            Bf16Products::Fastest => Bf16Products::WeightsOnly,
            Bf16Products::DotProduct if PackedLayout::bf16_dot(isa).is_none() => {
                return Err(Precision::Bf16);
            }
            products => products,
        };
        let fp16 = match arithmetic.fp16_products {
            _ if !wants(Precision::Fp16) => Fp16Products::WeightsOnly,
            Fp16Products::Fastest if PackedLayout::F16Fmlal.is_profitable(isa) => {
                Fp16Products::BothSides
            }
            Fp16Products::Fastest => Fp16Products::WeightsOnly,
            Fp16Products::BothSides if !PackedLayout::F16Fmlal.can_implement(isa) => {
                return Err(Precision::Fp16);
            }
            products => products,
        };
        Ok(Self { isa, bf16, fp16 })
    }
}

/// Whether dot products of bf16 are profitable on this processor, if it has any for `isa`.
fn dot_is_profitable(isa: Isa) -> bool {
    PackedLayout::bf16_dot(isa).is_some_and(|layout| layout.is_profitable(isa))
}

/// The same formats without bf16 where only weights are rounded and doing so saves nothing:
/// attention has none, and many rows want theirs as f32.
pub(crate) fn without_idle_bf16(
    plan: &Plan,
    precisions: &[StepPrecision],
    products: Bf16Products,
) -> Vec<StepPrecision> {
    let fp32 = |reason| StepPrecision {
        precision: Precision::Fp32,
        reason,
    };
    let steps = plan.steps.iter().zip(precisions);
    steps
        .map(|(planned, &wanted)| match planned.step {
            _ if products != Bf16Products::WeightsOnly => wanted,
            _ if wanted.precision != Precision::Bf16 => wanted,
            Step::MatMul(_) | Step::Attention(_) => fp32(NO_WEIGHTS),
            _ if !is_packed_narrow(&planned.step) => fp32(MANY_ROWS),
            _ => wanted,
        })
        .collect()
}

/// Rows of the GEMM, each of which reads every weight.
fn rows(step: &Step) -> usize {
    match step {
        Step::Conv(s) => s.y.len() / s.y.axes[1].extent.max(1),
        Step::Linear(s) => s.y.axes[0].extent,
        _ => usize::MAX,
    }
}

/// Whether the weights of the step are packed in 16 bits and converted to f32 in the kernel. Where
/// Winograd's transform saves multiplications, as it does only where rows are not few, its weights
/// are f32.
fn is_packed_narrow(step: &Step) -> bool {
    rows(step) <= FEW_ROWS && !is_winograd(step)
}

fn is_winograd(step: &Step) -> bool {
    matches!(step, Step::Conv(s) if winograd::has_shape(s))
}

/// The format of every GEMM of `plan`, where the buffers `rounded` hold bf16; other steps only say
/// whether their result is rounded.
pub(crate) fn choose(
    plan: &Plan,
    precisions: &[StepPrecision],
    products: SixteenBitMatmuls,
    rounded: &SixteenBitBuffers,
) -> Vec<MatmulFormat> {
    let steps = plan.steps.iter().zip(precisions);
    steps
        .map(|(planned, wanted)| {
            let written = planned.step.views_written();
            MatmulFormat {
                rounds_result: written.iter().any(|view| rounded.contains(view)),
                ..of_step(&planned.step, wanted.precision, products)
            }
        })
        .collect()
}

/// Layout and kernel of one step's weights, or of keys and values; its result is not rounded.
pub(crate) fn of_step(
    step: &Step,
    precision: Precision,
    products: SixteenBitMatmuls,
) -> MatmulFormat {
    let has_weights = rows(step) != usize::MAX;
    let dot = match products.bf16 {
        Bf16Products::DotProduct => PackedLayout::bf16_dot(products.isa),
        _ => None,
    };
    // What is computed is packed in every run: attention has no packing in blocks of four, products that are scaled none at all.
    let dot = dot.filter(|&layout| match step {
        Step::Attention(_) => layout == PackedLayout::Bf16Dot,
        _ => has_weights,
    });
    let both_f16 = products.fp16 == Fp16Products::BothSides && has_weights;
    let layout = match (precision, dot) {
        (Precision::Bf16, Some(layout)) => layout,
        (Precision::Bf16, None) if is_packed_narrow(step) => PackedLayout::Bf16,
        (Precision::Fp16, _) if both_f16 && !is_winograd(step) => PackedLayout::F16Fmlal,
        (Precision::Fp16, _) if is_packed_narrow(step) => PackedLayout::F16,
        (Precision::Fp32, _) if are_halves(products.isa, step) => PackedLayout::F16,
        _ => PackedLayout::F32,
    };
    MatmulFormat {
        precision,
        layout,
        rounded_left: precision == Precision::Bf16 && products.bf16 != Bf16Products::WeightsOnly,
        rounds_result: false,
    }
}

/// Whether the weights of a GEMM with few rows lose nothing as f16, and converting them to f32 is
/// one instruction.
fn are_halves(isa: Isa, step: &Step) -> bool {
    let few = rows(step) <= FEW_TILES && isa != Isa::portable();
    matches!(step, Step::Linear(s) if few && s.weights.are_halves())
}

/// The buffers that hold values of bf16: none where weights alone are rounded.
pub(crate) fn bf16_buffers(
    plan: &Plan,
    precisions: &[StepPrecision],
    products: SixteenBitMatmuls,
) -> SixteenBitBuffers {
    match products.bf16 {
        Bf16Products::WeightsOnly => SixteenBitBuffers::none(Precision::Bf16),
        _ => SixteenBitBuffers::of(plan, precisions, Precision::Bf16),
    }
}
