//! Inputs and outputs: the caller's tensors in and out of a plan's memory.

mod run;
mod transfer;

pub use run::PortTraffic;
