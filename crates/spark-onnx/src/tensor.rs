//! Host tensors, a shape and a typed vector: `spark-onnx-graph`'s.

#[doc(inline)]
pub use spark_onnx_graph::tensor::*;
