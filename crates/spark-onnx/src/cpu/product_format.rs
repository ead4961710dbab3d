//! How the weights of one matrix product are held, and what becomes of its operands.

use std::ops::Range;

use half::{bf16, f16};
use spark_gemm::{AlignedF32, PackedLayout, WeightShape};
use spark_parallel::Pool;

use super::simd::Isa;
use crate::Precision;
use crate::plan::Weights;

/// How the weights of a product are held, and what becomes of its result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ProductFormat {
    /// Format of the operands.
    pub(crate) precision: Precision,
    /// Layout of packed weights and kernel.
    pub(crate) layout: PackedLayout,
    /// Whether the left operand is rounded as well, by what writes it.
    pub(crate) rounded_left: bool,
    /// Whether results are rounded to bf16.
    pub(crate) rounds_result: bool,
}

impl ProductFormat {
    /// f32 throughout.
    pub(crate) const F32: Self = Self {
        precision: Precision::Fp32,
        layout: PackedLayout::F32,
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

    /// Packs columns `range` of every group of `weights`, as [`PackedLayout::pack`] does.
    pub(crate) fn pack(
        self,
        isa: Isa,
        weights: &Weights,
        range: Range<usize>,
        pool: &Pool,
    ) -> AlignedF32 {
        let shape = WeightShape {
            groups: weights.groups,
            taps: weights.taps,
            depth: weights.in_per_group,
        };
        // Where the layout has 16 bits, packing rounds.
        let rounds = self.layout == PackedLayout::F32;
        let write = |group, columns, to: &mut [f32], width| {
            weights.write(group, columns, to, width);
            if rounds {
                self.round_weights(to);
            }
        };
        self.layout.pack(isa, shape, range, write, pool)
    }

    /// What computes the products, in words.
    pub(crate) fn kernel(self) -> &'static str {
        match (self.precision, self.layout) {
            (Precision::Bf16, PackedLayout::Bf16Dot) => "bf16 dot products, f32 sums",
            (Precision::Bf16, PackedLayout::Bf16Mmla) => {
                "bf16 dot products in 2x2 blocks, f32 sums"
            }
            (Precision::Bf16, PackedLayout::Bf16) if self.rounded_left => {
                "f32 arithmetic on bf16 operands, weights held as bf16"
            }
            (Precision::Bf16, PackedLayout::Bf16) => "f32 arithmetic on bf16 weights, held as bf16",
            (Precision::Bf16, _) if self.rounded_left => {
                "f32 arithmetic on bf16 operands, weights held as f32"
            }
            (Precision::Bf16, _) => "f32 arithmetic on bf16 weights, held as f32",
            (Precision::Fp16, PackedLayout::F16Fmlal) => "fp16 products, f32 sums",
            (Precision::Fp16, PackedLayout::F16) => "f32 arithmetic on fp16 weights, held as fp16",
            (Precision::Fp16, _) => "f32 arithmetic on fp16 weights, held as f32",
            (_, PackedLayout::F16) => "f32 arithmetic, weights held as fp16 without loss",
            _ => "f32",
        }
    }
}
