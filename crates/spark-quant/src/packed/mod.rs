//! Packed tensors: codes, scales, and what they stand for.
//!
//! ```text
//! row of codes   whole blocks, padding codes are zero      row = one run along the axis
//! FP4            byte i = value[2i] in bits 0..4, value[2i+1] in bits 4..8
//! FP6            value i in bits 6i..6i+6 of the row, least significant bits first
//! FP8, INT8      one byte per value
//! scales         row-major, one row of scales per row (or band of rows) of codes
//! ```
//!
//! The nibble order is that of NVIDIA's types, ModelOpt, compressed-tensors and ONNX; GGUF differs
//! and is converted when read.

pub(crate) mod bits;
mod format;
pub mod swizzle;
mod tensor;

pub(crate) use format::{MX_BLOCK, NVFP4_BLOCK};
pub use format::{PackedFormat, Scales};
pub use tensor::PackedTensor;
