//! ONNX driving models: read, check, lower to one plan, run, measure.

pub mod graph;
pub mod onnx;
pub mod tensor;

mod error;

pub use error::ModelError;
pub use spark_hal::Precision;
pub use tensor::{DType, Tensor, TensorData};
