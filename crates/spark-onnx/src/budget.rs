//! How many bytes a model may take: `spark-onnx-graph`'s count, which plans and executors go on with.

pub(crate) use spark_onnx_graph::budget::{Asker, ModelBudget, can_get, default_bytes, zeros};
