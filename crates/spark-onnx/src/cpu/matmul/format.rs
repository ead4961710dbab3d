//! The packed weight layout of one GEMM, and what becomes of its operands.

use std::ops::Range;

use spark_gemm::{AlignedF32, PackedLayout, WeightMemory, WeightShape, max_panel};

use crate::Precision;
use crate::cpu::processor::Cpu;
use crate::cpu::simd::Isa;
use crate::plan::Weights;
use crate::precision::sixteen_bits::round_values;

/// Channels that the widest block of a format holds.
const BLOCK: usize = 64;

/// Bytes that packing a bias of `len` values takes at most.
pub(crate) fn bias_packing_bytes(isa: Isa, len: usize) -> usize {
    len.next_multiple_of(isa.lanes()).saturating_mul(8)
}

/// The packed weight layout of a GEMM, and what becomes of its operands and result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MatmulFormat {
    /// The number format that the step computes in.
    pub(crate) precision: Precision,
    /// Layout of packed weights and kernel.
    pub(crate) layout: PackedLayout,
    /// Whether the left operand is rounded as well, by what writes it.
    pub(crate) rounded_left: bool,
    /// Whether results are rounded to bf16.
    pub(crate) rounds_result: bool,
}

impl MatmulFormat {
    /// f32 weights, operands and results.
    pub(crate) const F32: Self = Self {
        precision: Precision::Fp32,
        layout: PackedLayout::F32,
        rounded_left: false,
        rounds_result: false,
    };

    /// Packs columns `range` of every group of `weights` into `memory`, as [`PackedLayout::pack`] does.
    pub(crate) fn pack(
        self,
        Cpu { isa, pool }: Cpu<'_>,
        weights: &Weights,
        range: Range<usize>,
        memory: &WeightMemory,
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
                round_values(self.precision, to);
            }
        };
        self.layout.pack(isa, shape, range, write, memory, pool)
    }

    /// Bytes that packing `weights` with a bias per column takes at most, the packed ones included:
    /// panels with columns padded to whole vectors, and copies made on the way.
    pub(crate) fn packing_bytes(self, cpu: Cpu<'_>, weights: &Weights) -> usize {
        let biases = bias_packing_bytes(cpu.isa, weights.out_per_group);
        self.weights_packing_bytes(cpu, weights)
            .saturating_add(biases.saturating_mul(weights.groups))
    }

    /// Bytes that packing `weights` takes at most if there is no bias.
    pub(crate) fn weights_packing_bytes(self, cpu: Cpu<'_>, weights: &Weights) -> usize {
        let columns = weights.out_per_group.next_multiple_of(cpu.isa.lanes());
        let depth = weights.in_per_group.next_multiple_of(BLOCK);
        let rows = weights.taps.saturating_mul(depth);
        let dense = rows
            .saturating_mul(columns)
            .saturating_mul(weights.groups)
            .saturating_mul(size_of::<f32>());
        // Winograd's transform makes 16 matrices of 9; few bits are reached by way of two copies.
        let copies = if self.precision.bits() <= 8 { 4 } else { 2 };
        let panel = max_panel(cpu.isa) * cpu.isa.lanes();
        let buffers = rows.saturating_mul(panel).saturating_mul(8);
        dense
            .saturating_mul(copies)
            .saturating_add(buffers.saturating_mul(cpu.pool.threads()))
    }

    /// Types of the operands, for the kernel's name: `bf16` if both sides are, `f32xbf16` if the
    /// weights alone are.
    pub(crate) fn operands(self) -> &'static str {
        match (self.precision, self.layout) {
            (_, PackedLayout::Bf16Dot | PackedLayout::Bf16Mmla) => "bf16",
            (Precision::Bf16, _) if self.rounded_left => "bf16",
            (Precision::Bf16, _) => "f32xbf16",
            (_, PackedLayout::F16Fmlal) => "f16",
            (Precision::Fp16, _) | (_, PackedLayout::F16) => "f32xf16",
            _ => "f32",
        }
    }

    /// The instruction of 16 bits that multiplies, if it is one, or `wide` where weights
    /// of 16 bits are held as f32.
    pub(crate) fn variant(self) -> &'static str {
        match (self.precision, self.layout) {
            (_, PackedLayout::Bf16Dot) => "dot",
            (_, PackedLayout::Bf16Mmla) => "mmla",
            (_, PackedLayout::F16Fmlal) => "fmlal",
            (Precision::Bf16 | Precision::Fp16, PackedLayout::F32) => "wide",
            _ => "",
        }
    }
}
