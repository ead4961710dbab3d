//! ONNX networks: read, check, lower to one plan, run.
//!
//! ```text
//! ModelRunner    a Model and a Session                                   inputs in, outputs out
//! Session        memory for one thread, state from frame to frame        run, run_into, carry
//! Model          load(path) ─> graph::Graph ─> bind ─> plan ─> cpu       weights packed once, shared
//! ```
//!
//! Where values that a network computes say how long its results are, as behind a NonMaxSuppression, a model is cut there: its head
//! is one plan, what stands behind runs in stages, interpreted or planned for the shapes of each run.
//!
//! With the feature `cuda`, `cuda::CudaSession` runs the plans of fixed shapes on a GPU.
//!
//! What a network is and means is `spark-onnx-graph`'s: [`graph`], [`file`](mod@file), [`reference`](mod@reference) and
//! [`tensor`] hand it on. Here is what runs it.

pub mod calibration;
pub mod cpu;
#[cfg(feature = "cuda")]
pub mod cuda;
pub mod file;
pub mod graph;
#[cfg(any(feature = "ndarray", feature = "safetensors"))]
pub mod interop;
pub mod precision;
pub mod reference;
pub mod tensor;

mod arenas;
mod budget;
mod error;
mod model;
mod options;
mod plan;
mod plan_key;
mod planned;
mod runner;
mod session;
mod stages;
mod stages_run;
mod step_info;
mod tensor_view;

pub use cpu::PortTraffic;
pub use error::ModelError;
pub use model::{Model, ModelMemory};
pub use options::{RunOptions, SharedPool};
pub use precision::Precision;
pub use runner::{ModelRunner, RunnerMemory};
pub use session::{Canceller, Session};
pub use spark_onnx_graph::Element;
pub use step_info::{Span, StepInfo};
pub use tensor::{DType, ElementsMut, Tensor, TensorData};
pub use tensor_view::{Elements, TensorView, TensorViewMut};

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
