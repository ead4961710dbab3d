//! Gradients in operators against those of the reference.

mod networks;
mod refusals;
mod samples;

use crate::graph::{Dim, Graph, Node, Op, Value, ValueId};
use crate::tensor::Tensor;

/// Largest difference, for a largest element of 1.
fn largest_difference(got: &[f64], want: &[f64]) -> f64 {
    let scale = want.iter().fold(1e-3_f64, |m, v| m.max(v.abs()));
    let pairs = got.iter().zip(want);
    // NaN is no small difference.
    pairs.fold(0.0, |m, (g, w)| match ((g - w) / scale).abs() {
        d if d <= m => m,
        d => d,
    })
}

/// A network of one node, whose operands `by` are inputs and all others constants.
fn one_node(op: &Op, operands: &[Option<Tensor>], by: &[usize], n_results: usize) -> Graph {
    let mut graph = Graph::default();
    let mut inputs = Vec::new();
    for (i, tensor) in operands.iter().enumerate() {
        inputs.push(tensor.as_ref().map(|tensor| {
            let dims = tensor.shape().iter().map(|&d| Dim::Known(d)).collect();
            match by.contains(&i) {
                true => graph.add_input(format!("x{i}"), tensor.dtype(), dims),
                false => graph.add_constant(format!("x{i}"), tensor.clone()),
            }
        }));
    }
    let outputs: Vec<ValueId> = (0..n_results)
        .map(|i| {
            graph.add_value(Value {
                name: format!("y{i}"),
                dtype: None,
                shape: None,
                constant: None,
            })
        })
        .collect();
    graph.nodes.push(Node {
        name: "node".to_owned(),
        op: op.clone(),
        inputs,
        outputs: outputs.iter().map(|&id| Some(id)).collect(),
    });
    graph.outputs = outputs;
    graph
}
