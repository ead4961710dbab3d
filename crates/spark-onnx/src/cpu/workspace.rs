//! Memory that running takes beyond the arena: how much, and taking it.
//!
//! ```text
//! packing    weights in panels, columns padded to whole vectors, and copies made on the way
//! scratch    per thread, as much as the step that needs most
//! ```
//!
//! What packing takes is a bound: it is held against the budget, and asked of the system, before
//! any of it is taken.

use spark_gemm::max_panel;

use super::matmul::format::MatmulFormat;
use super::memory::AlignedF32;
use super::simd::Isa;
use crate::ModelError;
use crate::budget::{Asker, Budget};
use crate::plan::{PlannedStep, Step, Weights};

/// Channels that the widest block of a format holds.
const BLOCK: usize = 64;

/// `planned` as what asks for memory.
pub(crate) fn asker<'a>(planned: &'a PlannedStep, what: &'static str) -> Asker<'a> {
    Asker {
        node: &planned.name,
        op: planned.step.kind(),
        what,
    }
}

/// `len` zeros, taken from `budget`.
pub(crate) fn take(
    budget: &mut Budget,
    asker: Asker<'_>,
    len: usize,
) -> Result<AlignedF32, ModelError> {
    let bytes = len.saturating_mul(size_of::<f32>());
    budget.take(asker, bytes)?;
    AlignedF32::try_zeros(len).ok_or_else(|| asker.refused(bytes))
}

/// Memory that a step runs in, beside its views.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct WorkspaceSize {
    /// f32 elements on every thread.
    pub(crate) scratch: usize,
    /// f32 elements that all threads share: quantised activations.
    pub(crate) activations: usize,
}

impl WorkspaceSize {
    /// So many elements on every thread, and nothing shared.
    pub(crate) fn scratch(len: usize) -> Self {
        Self {
            scratch: len,
            activations: 0,
        }
    }
}

/// Scratch of all threads, side by side.
pub(crate) struct Scratch {
    pub(crate) base: *mut f32,
    pub(crate) stride: usize,
}

// SAFETY: every task uses its own part.
unsafe impl Sync for Scratch {}

impl Scratch {
    /// The part of task `task`.
    pub(crate) fn part(&self, task: usize) -> *mut f32 {
        self.base.wrapping_add(task * self.stride)
    }
}

/// Bytes that packing the weights of `step` takes at most, the packed ones included.
pub(crate) fn packing_bytes(isa: Isa, step: &Step, format: MatmulFormat, threads: usize) -> usize {
    let of = |weights: &Weights| weights_bytes(isa, weights, format, threads);
    let bias = |len: usize| len.next_multiple_of(isa.lanes()).saturating_mul(8);
    match step {
        Step::Conv(s) if s.is_depthwise() => {
            let padded = s.weights.groups.next_multiple_of(isa.lanes());
            padded.saturating_mul(8 * s.weights.taps + 8)
        }
        Step::Conv(s) => {
            let biases = bias(s.weights.out_per_group).saturating_mul(s.weights.groups);
            of(&s.weights).saturating_add(biases)
        }
        Step::Linear(s) => of(&s.weights).saturating_add(bias(s.weights.out_per_group)),
        Step::Recurrent(s) => of(&s.w)
            .saturating_add(of(&s.r))
            .saturating_add(bias(s.w_bias.len() + s.r_bias.len())),
        _ => 0,
    }
}

fn weights_bytes(isa: Isa, w: &Weights, format: MatmulFormat, threads: usize) -> usize {
    let columns = w.out_per_group.next_multiple_of(isa.lanes());
    let rows = w
        .taps
        .saturating_mul(w.in_per_group.next_multiple_of(BLOCK));
    let dense = rows
        .saturating_mul(columns)
        .saturating_mul(w.groups)
        .saturating_mul(size_of::<f32>());
    // Winograd's transform makes 16 matrices of 9; few bits are reached by way of two copies.
    let copies = if format.precision.bits() <= 8 { 4 } else { 2 };
    let panel = max_panel(isa) * isa.lanes();
    let buffers = rows.saturating_mul(panel).saturating_mul(8);
    dense
        .saturating_mul(copies)
        .saturating_add(buffers.saturating_mul(threads))
}
