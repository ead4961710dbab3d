//! Functions of single elements: chains of them in registers, two tensors straight, and bytes looked up.

pub(crate) mod byte_table;
pub(crate) mod pair;
pub(crate) mod pointwise;
mod program;
