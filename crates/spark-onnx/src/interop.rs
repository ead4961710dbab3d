//! Tensors of other crates: `spark-onnx-graph`'s.

#[doc(inline)]
pub use spark_onnx_graph::interop::*;
