//! The vectors that kernels are written over: `spark-simd`'s.

pub use spark_simd::Isa;
pub(crate) use spark_simd::{Simd, dispatch};
