//! ONNX networks: read, check, lower to one plan, run.
//!
//! ```text
//! ModelRunner    load(path) ─> graph::Graph ─> bind ─> plan ─> cpu      inputs in, outputs out
//! ```
//!
//! What a network is and means is `spark-onnx-graph`'s: [`graph`], [`file`](mod@file), [`reference`](mod@reference) and
//! [`tensor`] hand it on. Here is what runs it.

pub mod cpu;
pub mod file;
pub mod graph;
pub mod precision;
pub mod reference;
pub mod tensor;

mod budget;
mod error;
mod plan;
mod runner;
mod tensor_view;

pub use error::ModelError;
pub use precision::Precision;
pub use runner::{ModelRunner, RunOptions, RunnerMemory, Span, StepInfo};
pub use tensor::{DType, Tensor, TensorData};
pub use tensor_view::{Elements, TensorView};

#[cfg(doctest)]
mod sealed;

/// The README's example, so that it is compiled and run with the others.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

// Tests that were written from outside keep their paths.
#[cfg(test)]
extern crate self as spark_onnx;

#[cfg(test)]
mod tests;

/// What tests of memory watch.
#[cfg(test)]
#[global_allocator]
static ALLOCATOR: spark_testing::Measuring = spark_testing::Measuring;
