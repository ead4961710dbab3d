//! From the format a step is to compute in to the kernel that does it here.
//!
//! ```text
//! fp32                        f32 columns
//!        few rows             f16 columns if that loses nothing, as where the file holds halves
//! fp16   products of it pay   f16 columns, both sides rounded to it
//!        else, few rows       f16 columns, widened in the kernel
//!        many rows            f32 columns of the same values: widening would cost more than it saves
//! bf16   dot products pay     bf16 columns, dot products
//!        else                 as fp16; activations are rounded as well if asked for
//! fp8, fp4                    packed by spark-quant (`quantised`)
//! ```
//!
//! Where activations enter products as bf16, a tensor is rounded by whatever writes it: products
//! do it while they store, other steps are followed by a pass (`rounding`).

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use half::{bf16, f16};
use spark_parallel::Pool;

use super::columns::{Columns, dot_columns, dot_pays, f16_products_pay, has_f16_products};
use super::gemm::MAX_ROWS;
use super::memory::AlignedF32;
use super::simd::Isa;
use super::winograd_shape as winograd;
use crate::Precision;
use crate::plan::{BufferId, ConstantData, Place, Plan, Step, Weights};
use crate::precision::{
    Arithmetic, Bf16Products, Fp16Products, MANY_ROWS, NO_WEIGHTS, StepPrecision,
};

/// Rows up to which 16-bit columns are widened in the kernel. A weight saves two bytes of
/// memory traffic once and costs part of an instruction per tile of rows.
const FEW_ROWS: usize = 128;

/// Rows up to which f32 weights that are halves are held so: a tile or two, as more would not gain
/// what widening them again costs.
const FEW_TILES: usize = MAX_ROWS;

/// How the weights of a product are held, and what becomes of its result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ProductFormat {
    /// Format of the operands.
    pub(crate) precision: Precision,
    /// Layout of packed weights and kernel.
    pub(crate) columns: Columns,
    /// Whether the left operand is rounded as well, by what writes it.
    pub(crate) rounded_left: bool,
    /// Whether results are rounded to bf16.
    pub(crate) rounds_result: bool,
}

impl ProductFormat {
    /// f32 throughout.
    pub(crate) const F32: Self = Self {
        precision: Precision::Fp32,
        columns: Columns::F32,
        rounded_left: false,
        rounds_result: false,
    };

    /// Takes every weight to the nearest value of the format, for columns that hold f32.
    pub(crate) fn round_weights(self, values: &mut [f32]) {
        match self.precision {
            Precision::Bf16 => values
                .iter_mut()
                .for_each(|v| *v = bf16::from_f32(*v).to_f32()),
            Precision::Fp16 => values
                .iter_mut()
                .for_each(|v| *v = f16::from_f32(*v).to_f32()),
            _ => {}
        }
    }

    /// Packs columns `range` of every group of `weights`, as [`Columns::pack`] does.
    pub(crate) fn pack(
        self,
        isa: Isa,
        weights: &Weights,
        range: Range<usize>,
        pool: &Pool,
    ) -> AlignedF32 {
        let rounded = |values: &mut [f32]| self.round_weights(values);
        self.columns.pack(isa, weights, range, rounded, pool)
    }

    /// What computes the products, in words.
    pub(crate) fn kernel(self) -> &'static str {
        match (self.precision, self.columns) {
            (Precision::Bf16, Columns::Bf16Dot) => "bf16 dot products, f32 sums",
            (Precision::Bf16, Columns::Bf16Blocks) => "bf16 dot products in 2x2 blocks, f32 sums",
            (Precision::Bf16, Columns::Bf16) if self.rounded_left => {
                "f32 arithmetic on bf16 operands, weights held as bf16"
            }
            (Precision::Bf16, Columns::Bf16) => "f32 arithmetic on bf16 weights, held as bf16",
            (Precision::Bf16, _) if self.rounded_left => {
                "f32 arithmetic on bf16 operands, weights held as f32"
            }
            (Precision::Bf16, _) => "f32 arithmetic on bf16 weights, held as f32",
            (Precision::Fp16, Columns::F16Long) => "fp16 products, f32 sums",
            (Precision::Fp16, Columns::F16) => "f32 arithmetic on fp16 weights, held as fp16",
            (Precision::Fp16, _) => "f32 arithmetic on fp16 weights, held as f32",
            (_, Columns::F16) => "f32 arithmetic, weights held as fp16 without loss",
            _ => "f32",
        }
    }
}

/// How products of 16 bits are computed on this processor: nothing is left to choose.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Products {
    isa: Isa,
    /// Never [`Bf16Products::Fastest`].
    pub(crate) bf16: Bf16Products,
    /// Never [`Fp16Products::Fastest`].
    fp16: Fp16Products,
}

impl Products {
    /// What `arithmetic` comes to for the formats of `wanted`; others are not looked at.
    ///
    /// # Errors
    ///
    /// The format whose instruction is asked for, if there is none.
    pub(crate) fn settle(
        isa: Isa,
        arithmetic: Arithmetic,
        wanted: &[StepPrecision],
    ) -> Result<Self, Precision> {
        let wants = |precision| wanted.iter().any(|step| step.precision == precision);
        let bf16 = match arithmetic.bf16_products {
            _ if !wants(Precision::Bf16) => Bf16Products::WeightsOnly,
            Bf16Products::Fastest if dot_pays(isa) => Bf16Products::DotProduct,
            Bf16Products::Fastest => Bf16Products::WeightsOnly,
            Bf16Products::DotProduct if dot_columns(isa).is_none() => return Err(Precision::Bf16),
            products => products,
        };
        let fp16 = match arithmetic.fp16_products {
            _ if !wants(Precision::Fp16) => Fp16Products::WeightsOnly,
            Fp16Products::Fastest if f16_products_pay(isa) => Fp16Products::BothSides,
            Fp16Products::Fastest => Fp16Products::WeightsOnly,
            Fp16Products::BothSides if !has_f16_products(isa) => return Err(Precision::Fp16),
            products => products,
        };
        Ok(Self { isa, bf16, fp16 })
    }
}

/// The same formats without bf16 where only weights are rounded and doing so saves nothing:
/// attention products have none, and many rows want theirs as f32.
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
            _ if !is_held_narrow(&planned.step) => fp32(MANY_ROWS),
            _ => wanted,
        })
        .collect()
}

/// Rows that every weight of a product serves.
fn rows(step: &Step) -> usize {
    match step {
        Step::Conv(s) => s.y.len() / s.y.axes[1].extent.max(1),
        Step::Linear(s) => s.y.axes[0].extent,
        _ => usize::MAX,
    }
}

/// Whether 16-bit columns of the step are widened in the kernel. Where Winograd's transform saves
/// multiplications, as it does only where rows are not few, its weights are f32.
fn is_held_narrow(step: &Step) -> bool {
    rows(step) <= FEW_ROWS && !is_winograd(step)
}

fn is_winograd(step: &Step) -> bool {
    matches!(step, Step::Conv(s) if winograd::has_shape(s))
}

/// The format of every product of `plan`; other steps only say whether their result is rounded.
pub(crate) fn choose(
    plan: &Plan,
    precisions: &[StepPrecision],
    products: Products,
) -> Vec<ProductFormat> {
    let rounded = rounded_buffers(plan, precisions, products.bf16);
    let steps = plan.steps.iter().zip(precisions);
    steps
        .map(|(planned, wanted)| {
            let written = planned.step.views_written();
            ProductFormat {
                rounds_result: written.iter().any(|view| rounded.contains(&view.buffer)),
                ..of_step(&planned.step, wanted.precision, products)
            }
        })
        .collect()
}

/// Layout and kernel of one step's weights; its result is not rounded.
pub(crate) fn of_step(step: &Step, precision: Precision, products: Products) -> ProductFormat {
    let has_weights = rows(step) != usize::MAX;
    let dot = match products.bf16 {
        Bf16Products::DotProduct if has_weights => dot_columns(products.isa),
        _ => None,
    };
    let both_f16 = products.fp16 == Fp16Products::BothSides && has_weights;
    let columns = match (precision, dot) {
        (Precision::Bf16, Some(columns)) => columns,
        (Precision::Bf16, None) if is_held_narrow(step) => Columns::Bf16,
        (Precision::Fp16, _) if both_f16 && !is_winograd(step) => Columns::F16Long,
        (Precision::Fp16, _) if is_held_narrow(step) => Columns::F16,
        (Precision::Fp32, _) if are_halves(products.isa, step) => Columns::F16,
        _ => Columns::F32,
    };
    ProductFormat {
        precision,
        columns,
        rounded_left: precision == Precision::Bf16 && products.bf16 != Bf16Products::WeightsOnly,
        rounds_result: false,
    }
}

/// Whether the weights of a matrix product with few rows lose nothing as f16, and widening them is
/// one instruction.
fn are_halves(isa: Isa, step: &Step) -> bool {
    let few = rows(step) <= FEW_TILES && isa != Isa::portable();
    matches!(step, Step::Linear(s) if few && s.weights.are_halves())
}

/// Buffers that a product of bf16 reads as bf16.
fn rounded_buffers(
    plan: &Plan,
    precisions: &[StepPrecision],
    products: Bf16Products,
) -> BTreeSet<BufferId> {
    let mut buffers = BTreeSet::new();
    if products == Bf16Products::WeightsOnly {
        return buffers;
    }
    for (planned, wanted) in plan.steps.iter().zip(precisions) {
        if wanted.precision != Precision::Bf16 {
            continue;
        }
        match &planned.step {
            Step::Conv(s) => _ = buffers.insert(s.x.buffer),
            Step::Linear(s) => _ = buffers.insert(s.x.buffer),
            Step::MatMul(s) => buffers.extend([s.a.buffer, s.b.buffer]),
            Step::Attention(s) => buffers.extend([s.q.buffer, s.k.buffer, s.v.buffer]),
            _ => {}
        }
    }
    buffers
}

/// Rounds the constants that products of bf16 read as bf16, and says which inputs of the plan they
/// read so.
pub(crate) fn round_constants(
    plan: &mut Plan,
    precisions: &[StepPrecision],
    products: Bf16Products,
) -> Vec<bool> {
    let rounded = rounded_buffers(plan, precisions, products);
    for &BufferId(index) in &rounded {
        if let Place::Constant(ConstantData::F32(values)) = &mut plan.buffers[index].place {
            let narrow = values.iter().map(|&v| bf16::from_f32(v).to_f32());
            *values = Arc::new(narrow.collect());
        }
    }
    let inputs = plan.inputs.iter();
    inputs
        .map(|port| rounded.contains(&port.view.buffer))
        .collect()
}
