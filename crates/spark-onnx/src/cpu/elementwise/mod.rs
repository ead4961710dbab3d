//! Functions of single elements: chains of them in registers, two tensors straight, bytes, and dropout.

pub(crate) mod byte_table;
pub(crate) mod dropout;
pub(crate) mod pair;
pub(crate) mod pointwise;
mod program;
pub(crate) mod quantised;
mod round_float;
