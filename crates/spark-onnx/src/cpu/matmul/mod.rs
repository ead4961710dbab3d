//! GEMM: how weights are packed, those of 32 and 16 bits, and those of eight and four.

pub(crate) mod activations;
pub(crate) mod deep;
pub(crate) mod few_bits;
pub(crate) mod format;
pub(crate) mod gemm;
mod geometry;
pub(crate) mod inputs;
pub(crate) mod quantised;
mod rounded_operand;
