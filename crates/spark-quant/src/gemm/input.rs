//! What a product takes on the left, and what becomes of it first.

use half::bf16;

/// Inputs of a product, `[n_inputs, depth]` row-major.
#[derive(Debug, Clone, Copy)]
pub enum Input<'a> {
    /// f32 values.
    F32(&'a [f32]),
    /// bf16 values, widened exactly.
    Bf16(&'a [bf16]),
}

/// What happens to inputs before they are multiplied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum InputMode {
    /// Nothing: products and sums in f32.
    #[default]
    Exact,
    /// Signed bytes with one f32 scale per block of the weights' format (per input for INT8 weights).
    /// For NVFP4, MXFP4, and INT8 weights with one scale per row or tensor.
    Int8,
    /// The format of the weights, as a tensor core takes both sides.
    WeightFormat,
}
