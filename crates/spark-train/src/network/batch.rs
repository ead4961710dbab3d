//! Networks that were exported for one sample, run on batches.

use spark_onnx_graph::graph::{Dim, Graph};

/// Name of the extent that takes the place of 1.
const BATCH: &str = "batch";

/// The same network for any number of samples, where all its inputs have a first extent of 1: that is then a named one. Other
/// networks are as they were.
///
/// A network may count on its one sample inside: by a Reshape to `[1, n]`, and planning it for more samples is then an error that
/// names the node; or by a reduction over all axes, and its samples then see each other, which nothing notices.
#[must_use]
pub fn with_free_batch(mut graph: Graph) -> Graph {
    let extent = |shape: &Option<Vec<Dim>>| shape.as_ref()?.first().cloned();
    let is_one = |graph: &Graph| {
        let mut inputs = graph.inputs.iter();
        inputs.all(|id| extent(&graph.value(*id).shape) == Some(Dim::Known(1)))
    };
    if graph.inputs.is_empty() || !is_one(&graph) {
        return graph;
    }
    for (position, value) in graph.values.iter_mut().enumerate() {
        let is_input = graph.inputs.iter().any(|id| id.0 == position);
        match &mut value.shape {
            Some(shape) if is_input => shape[0] = Dim::Symbol(BATCH.to_owned()),
            // What the file says of results follows from the inputs again.
            shape if value.constant.is_none() => *shape = None,
            _ => {}
        }
    }
    graph
}
