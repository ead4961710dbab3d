//! From the format a step is to compute in to the kernel that does it here.
//!
//! ```text
//! fp32                        f32 columns
//! fp16   few rows             f16 columns, widened in the kernel
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

use super::columns::{Columns, dot_pays, has_dot};
use super::memory::AlignedF32;
use super::simd::Isa;
use super::threads::Pool;
use crate::Precision;
use crate::plan::{BufferId, ConstantData, Place, Plan, Step, Weights};
use crate::precision::{Bf16Products, MANY_ROWS, NO_WEIGHTS, StepPrecision};

/// Rows up to which 16-bit columns are widened in the kernel. A weight saves two bytes of
/// memory traffic once and costs part of an instruction per tile of rows.
const FEW_ROWS: usize = 128;

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
            (Precision::Bf16, Columns::Bf16) if self.rounded_left => {
                "f32 arithmetic on bf16 operands, weights held as bf16"
            }
            (Precision::Bf16, Columns::Bf16) => "f32 arithmetic on bf16 weights, held as bf16",
            (Precision::Bf16, _) if self.rounded_left => {
                "f32 arithmetic on bf16 operands, weights held as f32"
            }
            (Precision::Bf16, _) => "f32 arithmetic on bf16 weights, held as f32",
            (Precision::Fp16, Columns::F16) => "f32 arithmetic on fp16 weights, held as fp16",
            (Precision::Fp16, _) => "f32 arithmetic on fp16 weights, held as f32",
            _ => "f32",
        }
    }
}

/// How this processor computes products of bf16: never [`Bf16Products::Fastest`]. `None` if the
/// instruction is asked for and there is none.
pub(crate) fn settle(isa: Isa, products: Bf16Products) -> Option<Bf16Products> {
    match products {
        Bf16Products::Fastest if dot_pays(isa) => Some(Bf16Products::DotProduct),
        Bf16Products::Fastest => Some(Bf16Products::WeightsOnly),
        Bf16Products::DotProduct => has_dot(isa).then_some(products),
        Bf16Products::WeightsOnly | Bf16Products::MultiplyAdd => Some(products),
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
            Step::MatMul(_) => fp32(NO_WEIGHTS),
            _ if rows(&planned.step) > FEW_ROWS => fp32(MANY_ROWS),
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

/// The format of every product of `plan`; other steps only say whether their result is rounded.
pub(crate) fn choose(
    plan: &Plan,
    precisions: &[StepPrecision],
    products: Bf16Products,
) -> Vec<ProductFormat> {
    let rounded = rounded_buffers(plan, precisions, products);
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
pub(crate) fn of_step(step: &Step, precision: Precision, products: Bf16Products) -> ProductFormat {
    let dot = products == Bf16Products::DotProduct;
    let rows = rows(step);
    let columns = match precision {
        Precision::Bf16 if dot && rows != usize::MAX => Columns::Bf16Dot,
        Precision::Bf16 if rows <= FEW_ROWS => Columns::Bf16,
        Precision::Fp16 if rows <= FEW_ROWS => Columns::F16,
        _ => Columns::F32,
    };
    ProductFormat {
        precision,
        columns,
        rounded_left: precision == Precision::Bf16 && products != Bf16Products::WeightsOnly,
        rounds_result: false,
    }
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
