//! Bytes of a layer's weights as its format stores them.
//!
//! ```text
//! fp32   4 a weight
//! fp16   2 a weight
//! fp8    1 a weight, 4 an output channel
//! fp4    9 a block of up to 16 input channels of one tap and output channel, 4 a layer
//! ```
//!
//! What a processor holds can be more: one without fp16 arithmetic holds such weights in f32 where many rows share
//! them. A choice of formats counts what they save where they are native, not what they save here.

use crate::Precision;
use crate::plan::{Step, Weights};

/// Input channels that share a scale in four bits.
const BLOCK: usize = 16;

/// Bytes of weights and biases of `step` with its weights in `precision`; of a step without weights of its own format,
/// as it is in f32.
pub(crate) fn stored_bytes(step: &Step, precision: Precision) -> usize {
    let all = step.weight_bytes();
    let weights = match step {
        Step::Conv(step) => &step.weights,
        Step::Linear(step) => &step.weights,
        _ => return all,
    };
    let biases = all - size_of::<f32>() * weights.len();
    biases + of_weights(weights, precision)
}

fn of_weights(weights: &Weights, precision: Precision) -> usize {
    let channels = weights.groups * weights.out_per_group;
    match precision {
        Precision::Fp16 | Precision::Bf16 => 2 * weights.len(),
        Precision::Fp8 => weights.len() + 4 * channels,
        Precision::Fp4 => {
            let blocks = weights.in_per_group.div_ceil(BLOCK) * weights.taps * channels;
            blocks * (BLOCK / 2 + 1) + 4
        }
        _ => size_of::<f32>() * weights.len(),
    }
}
