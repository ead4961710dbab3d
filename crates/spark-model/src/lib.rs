//! ONNX driving models: read, check, lower to one plan, run, measure.

pub mod bench;
pub mod cpu;
pub mod graph;
pub mod onnx;
pub mod openpilot;
pub mod plan;
pub mod precision;
pub mod reference;
pub mod tensor;
pub mod zoo;

mod error;
mod pages;
mod regular_file;
mod runner;

pub use error::ModelError;
pub use runner::{ModelRunner, RunOptions, RunnerMemory, Span, StepInfo, parse_device};
pub use spark_hal::Precision;
pub use tensor::{DType, Tensor, TensorData};
