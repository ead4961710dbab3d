//! The left operand of a GEMM, and what is done to it first.

use half::bf16;

/// Left operand of a GEMM, `[n_inputs, depth]` row-major.
#[derive(Debug, Clone, Copy)]
pub enum Input<'a> {
    /// f32 values, taken as they are.
    F32(&'a [f32]),
    /// bf16 values, converted to f32 exactly.
    Bf16(&'a [bf16]),
}

/// What happens to inputs before they are multiplied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum InputMode {
    /// Nothing: multiplied and accumulated in f32.
    #[default]
    Exact,
    /// Signed bytes with one f32 scale per block of the weights' format (per input for INT8 weights).
    /// For NVFP4, MXFP4, and INT8 weights with one scale per row or tensor.
    Int8,
    /// The format of the weights, as a tensor core takes both sides.
    WeightFormat,
}
