//! Networks as graphs of typed operators: `spark-onnx-graph`'s.

#[doc(inline)]
pub use spark_onnx_graph::graph::*;
