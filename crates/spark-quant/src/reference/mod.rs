//! The naive definitions every fast path answers to.
//!
//! Slow on purpose: one value at a time, no tricks, nothing shared with the fast paths beyond the
//! decode tables, which are themselves checked against outside truth.

mod block;
mod gemm;
mod scalar;

pub use block::{dequantize, quantize};
pub use gemm::gemm;
pub use scalar::encode;
