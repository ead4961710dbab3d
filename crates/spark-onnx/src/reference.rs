//! The reference interpreter, every operator computed the obvious way: `spark-onnx-graph`'s.

#[doc(inline)]
pub use spark_onnx_graph::reference::{evaluate, run, run_wide};
