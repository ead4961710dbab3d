//! Why a model was refused or could not run: `spark-onnx-graph`'s error, which the engine raises too.

pub use spark_onnx_graph::{ModelError, ViewOutside};
