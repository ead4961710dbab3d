//! Which buffers hold values of 16 bits: the tensors that GEMM and convolutions read in bf16 or fp16
//! on both sides.
//!
//! ```text
//! step in bf16:  linear, convolution   its activations are read in bf16
//!                matmul, attention     all operands are
//! buffer:        in the set as soon as one step reads it so; then every reader sees rounded values
//! ```
//!
//! A tensor is rounded once, by what writes it, and not by each of its readers. What an executor
//! must do with it, if it rounds both sides: make the set once ([`SixteenBitBuffers::of`]); round the
//! constants in it before weights are packed ([`SixteenBitBuffers::round_constants`]); round an input of
//! the plan in it whenever it is set; and round every view in it that a step writes, while the kernel
//! stores or in a pass behind it. Buffers in the set hold f32 whose value has 16 bits, or those 16 bits.
//!
//! Deliberately absent: weights, which a kernel packs in the format of its step.

use std::collections::BTreeSet;
use std::sync::Arc;

use half::{bf16, f16};

use super::StepPrecision;
use crate::Precision;
use crate::plan::{BufferId, ConstantData, Place, Plan, Step, View};

/// The buffers whose elements are values of one 16-bit format.
#[derive(Debug)]
pub(crate) struct SixteenBitBuffers {
    format: Precision,
    buffers: BTreeSet<BufferId>,
}

impl SixteenBitBuffers {
    /// The empty set, for an executor whose GEMM rounds weights alone.
    pub(crate) fn none(format: Precision) -> Self {
        Self {
            format,
            buffers: BTreeSet::new(),
        }
    }

    /// The operands of every step of `plan` whose GEMM, convolution or attention is to compute in
    /// `format`, bf16 or fp16; `precisions` has one entry per step.
    pub(crate) fn of(plan: &Plan, precisions: &[StepPrecision], format: Precision) -> Self {
        let mut buffers = BTreeSet::new();
        for (planned, wanted) in plan.steps.iter().zip(precisions) {
            if wanted.precision != format {
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
        Self { format, buffers }
    }

    /// Whether the elements of `buffer` are values of the format.
    pub(crate) fn has(&self, buffer: BufferId) -> bool {
        self.buffers.contains(&buffer)
    }

    /// Whether the elements of `view` are values of the format.
    pub(crate) fn contains(&self, view: &View) -> bool {
        self.has(view.buffer)
    }

    /// Rounds the constants of `plan` that are in the set.
    pub(crate) fn round_constants(&self, plan: &mut Plan) {
        for &BufferId(index) in &self.buffers {
            if let Place::Constant(ConstantData::F32(values)) = &mut plan.buffers[index].place {
                let mut rounded = Vec::clone(values);
                round_values(self.format, &mut rounded);
                *values = Arc::new(rounded);
            }
        }
    }
}

/// Rounds every value to the nearest one of bf16 or fp16, ties to even; leaves values as they are
/// for any other format. NaN stays NaN, and what is beyond the format becomes infinite.
pub(crate) fn round_values(format: Precision, values: &mut [f32]) {
    match format {
        Precision::Bf16 => values
            .iter_mut()
            .for_each(|v| *v = bf16::from_f32(*v).to_f32()),
        Precision::Fp16 => values
            .iter_mut()
            .for_each(|v| *v = f16::from_f32(*v).to_f32()),
        _ => {}
    }
}
