//! Inputs and outputs: the caller's tensors in and out of a plan's memory.

pub(crate) mod run;
pub(crate) mod transfer;
