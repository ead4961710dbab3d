//! Which buffers hold bf16 in 16 bits instead of in f32 words.
//!
//! ```text
//! writer      product, depthwise convolution, program, copy, pool, input     rounds while it stores
//! buffer      values of bf16 (`precision::sixteen_bits`)
//!               every step that touches it takes 16 bits, no output   -> bf16, half of the memory traffic
//!               else                                                  -> f32 words, rounded
//! reader      product      two neighbours are one load of a pair
//!             any other    widened while it loads
//! ```
//!
//! Only where dot products take pairs ([`PackedLayout::Bf16Dot`]); every other kernel computes on f32 words. Values are
//! the same either way, so plans with and without such buffers give the same bits. What a kernel takes it says itself
//! ([`Kernel::never_bf16`](super::prepared::Kernel::never_bf16)); it is asked again when it is prepared, so that none meets
//! a storage that it does not expect.
//!
//! Deliberately absent: operands of attention and of products of two computed matrices, which are packed as f32;
//! results of depthwise convolutions that no product reads, which are not rounded.

use spark_gemm::PackedLayout;

use super::matmul::format::MatmulFormat;
use super::prepared::{Cpu, Packing, Problem};
use super::select;
use super::weight_store::WeightStore;
use crate::plan::{BufferId, Place, Plan, Storage};
use crate::precision::Arithmetic;
use crate::precision::sixteen_bits::SixteenBitBuffers;

/// Holds the buffers of `rounded` as bf16 that can be, if dot products of `formats`, one per step, take pairs of it.
pub(super) fn assign(
    plan: &mut Plan,
    rounded: &SixteenBitBuffers,
    formats: &[MatmulFormat],
    (cpu, weights): (Cpu<'_>, &WeightStore),
    arithmetic: Arithmetic,
) {
    #[cfg(test)]
    if IN_WORDS.get() {
        return;
    }
    let mut layouts = formats.iter().map(|format| format.layout);
    if !layouts.any(|layout| layout == PackedLayout::Bf16Dot) {
        return;
    }
    let is_output = |id: usize| plan.outputs.iter().any(|port| port.view.buffer.0 == id);
    let buffers = plan.buffers.iter().enumerate();
    let mut can_be: Vec<bool> = buffers
        .map(|(id, buffer)| {
            buffer.storage == Storage::F32
                && matches!(buffer.place, Place::Arena)
                && rounded.has(BufferId(id))
                && !is_output(id)
        })
        .collect();
    for (planned, &format) in plan.steps.iter().zip(formats) {
        let packing = Packing::into(weights);
        let problem = Problem {
            cpu,
            plan,
            step: &planned.step,
            whole: &planned.step,
            format,
            arithmetic,
            packing: &packing,
        };
        for view in select::select(&problem).never_bf16 {
            can_be[view.buffer.0] = false;
        }
    }
    for (buffer, can_be) in plan.buffers.iter_mut().zip(can_be) {
        if can_be {
            buffer.storage = Storage::Bf16;
        }
    }
}

#[cfg(test)]
thread_local! {
    /// Whether plans made ready on this thread hold everything in f32 words, for tests that compare both.
    static IN_WORDS: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// What `make` gives where no buffer is held as bf16.
#[cfg(test)]
pub(crate) fn in_words<T>(make: impl FnOnce() -> T) -> T {
    IN_WORDS.set(true);
    let made = make();
    IN_WORDS.set(false);
    made
}
