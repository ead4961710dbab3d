//! Functions of single elements: chains of them in registers, and two tensors straight.

pub(crate) mod pair;
pub(crate) mod pointwise;
mod round_float;
