//! What machine is this: platform, GPUs, CPU, memory, configuration.

mod precision;

pub use precision::Precision;
