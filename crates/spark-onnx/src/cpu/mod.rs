//! The CPU executor: a plan, prepared for one instruction set, run on a pool of threads.
//!
//! ```text
//! Plan --PreparedPlan::new--> arena laid out, weights packed, loops collapsed      shared by sessions
//!      --Executor::on-------> arena and workspace taken                            one per session and plan
//!      --Executor::run------> one kernel per step; nothing is allocated, operators of an embedder's own aside
//! ```
//!
//! What computes a step is a `PreparedStep`, chosen in `select`; the executor knows no
//! kernel by name.
//!
//! Deliberately absent: knowledge of operators and graphs.

#![allow(
    unsafe_code,
    reason = "kernels move raw pointers through views checked at load, and use SIMD intrinsics"
)]

mod attention;
mod bf16_runs;
mod bf16_storage;
mod control;
mod conv;
mod custom;
mod data_movement;
mod elementwise;
mod executor;
mod formats;
mod int8;
mod math;
mod matmul;
mod memory;
mod normalization;
mod ports;
mod prepared;
mod prepared_plan;
mod processor;
mod recurrent;
mod reduction;
mod rounding;
mod select;
mod simd;
mod weight_store;
mod workspace;

#[cfg(test)]
pub(crate) use bf16_storage::in_words;
pub(crate) use executor::Executor;
pub(crate) use matmul::inputs::ProductInputs;
pub use ports::PortTraffic;
pub(crate) use prepared_plan::{PreparedPlan, Target};

pub use crate::error::ViewOutside;
pub use simd::Isa;
pub use spark_gemm::Roofline as Peaks;
pub use spark_simd::IsaUnavailable;

/// GEMM of small blocks, which are `spark-gemm`'s.
pub mod product {
    pub use spark_gemm::block::{
        BlockMatmul as BlockProduct, matmul as multiply, max_columns as widest, row_len as width,
    };
}
pub(crate) use spark_parallel::Pool;
