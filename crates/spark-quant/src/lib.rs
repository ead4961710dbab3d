//! FP8, FP6, FP4, NVFP4, MX and INT8 on the CPU: conversions, and what is built on them.
//!
//! ```text
//! scalar      one number        f32 <-> f16, bf16, E4M3, E5M2, E2M3, E3M2, E2M1, E8M0
//! block       many numbers      NVFP4, MXFP8/6/4, INT8, FP8: scales, rounding, rotation
//! packed      the result        codes, scales, tensor-core layout
//! gemm        GEMM             straight from packed weights
//! checkpoint  files            safetensors in the layouts of several programs, GGUF
//! analysis    what it costs    SQNR, sensitivity, precision plans
//! calibration activations      statistics, static scales, weights scaled or rounded for their inputs
//! device      on GPUs           NVFP4, MXFP4, MXFP8, scale layout, GEMM (features `device`, `cuda`)
//! simd        sixteen lanes     AVX-512, AVX2, NEON, plain
//! reference   naive definitions of conversions, blocks and GEMM
//! ```
//!
//! Everything that rounds says how. Every fast path gives the bits of its naive definition, on every
//! instruction set and thread count.

pub mod analysis;
pub mod block;
pub mod calibration;
pub mod checkpoint;
#[cfg(feature = "device")]
pub mod device;
pub mod error;
pub mod gemm;
pub mod packed;
pub mod reference;
pub mod scalar;
pub mod simd;
mod threads;

pub use block::{Quantizer, Recipe};
pub use error::QuantError;
pub use packed::{PackedFormat, PackedTensor};
pub use simd::{ExecutionPolicy, Level};

/// The README's example, so that it is compiled and run with the others.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
