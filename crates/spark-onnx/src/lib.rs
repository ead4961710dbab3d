//! ONNX networks: read, check, lower to one plan, run.

pub mod cpu;
pub mod file;
pub mod precision;

mod plan;
mod runner;
mod tensor_view;

pub use precision::Precision;
pub use runner::{ModelRunner, RunOptions, RunnerMemory, Span, StepInfo, parse_device};
pub use spark_onnx_graph::{DType, ModelError, Tensor, TensorData};
pub use spark_onnx_graph::{graph, reference, tensor};
pub use tensor_view::{Elements, TensorView};

use spark_onnx_graph::budget;

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
