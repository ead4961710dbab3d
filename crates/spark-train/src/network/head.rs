//! A new head on a network's trunk, and the network cut to what is wanted of it.
//!
//! ```text
//! trunk ──> value [n, c, ..] ──mean over the picture──> [n, c] ──Gemm, weights of zeros──> new output [n, width]
//! ```
//!
//! The head says zeros until it is trained, whole, as one of `modules_to_save`; its layer is called as its output is.
//!
//! Deliberately absent: heads of several layers, which a graph's own methods make.

use std::collections::BTreeSet;

use spark_onnx_graph::graph::{
    Dim, Flatten, Gemm, GlobalPool, Graph, Node, PoolKind, ValueId, bind,
};
use spark_onnx_graph::{DType, Tensor};

use spark_openpilot::metadata::OUTPUT_SLICES_KEY;

use crate::error::{Result, TrainError};

/// The network with one more output, `name`, `[n, width]`: a linear layer on the channels of value `on`, `[n, c]` or `[n, c, ..]`,
/// of which it sees the mean over all places. Its weight, `{name}.weight` `[width, c]`, and its bias, `{name}.bias`, are zeros.
///
/// # Errors
///
/// [`TrainError::NoValue`] if there is no such value of f32 with two extents or more, or its channels hang on an open extent; [`TrainError::NameTaken`] if a value of the
/// network has a name of the head; [`TrainError::Model`] for a network that is refused, with open extents as 1.
pub fn with_head(mut graph: Graph, on: &str, name: &str, width: usize) -> Result<Graph> {
    let [weight, bias, mean, flat] =
        ["weight", "bias", "mean", "flat"].map(|of| format!("{name}.{of}"));
    for new in [name, &weight, &bias, &mean, &flat] {
        if graph.values.iter().any(|value| value.name == new) {
            return Err(TrainError::NameTaken {
                name: new.to_owned(),
            });
        }
    }
    let (trunk, shape) = trunk(&graph, on)?;
    let channels = shape[1];
    let weights = [(weight, vec![width, channels]), (bias, vec![width])];
    let mut operands = [trunk, trunk, trunk];
    if shape.len() > 2 {
        let kind = PoolKind::Average;
        let pooled = graph.add_node(mean, GlobalPool { kind }.into(), &[Some(trunk)]);
        operands[0] = graph.add_node(flat, Flatten { axis: 1 }.into(), &[Some(pooled)]);
    }
    for (operand, (name, shape)) in operands[1..].iter_mut().zip(weights) {
        *operand = graph.add_constant(name, Tensor::zeros(DType::F32, shape)?);
    }
    let gemm = Gemm {
        alpha: 1.0,
        beta: 1.0,
        trans_a: false,
        trans_b: true,
    };
    let head = graph.add_node(name, gemm.into(), &operands.map(Some));
    graph.outputs.push(head);
    Ok(graph)
}

/// A value of this name and its shape for one sample.
fn trunk(graph: &Graph, on: &str) -> Result<(ValueId, Vec<usize>)> {
    let missing = || TrainError::NoValue {
        name: on.to_owned(),
    };
    let id = graph.values.iter().position(|value| value.name == on);
    let id = ValueId(id.ok_or_else(missing)?);
    let shape = shape_of(graph, id, 1)?.ok_or_else(missing)?;
    // Channels that hang on an open extent are no width of a weight. A network that is refused for two has no such extent.
    match shape_of(graph, id, 2) {
        Ok(Some(of_two)) if of_two.get(1) != shape.get(1) => Err(missing()),
        _ => Ok((id, shape)),
    }
}

/// The shape of a value where open extents are `open`; `None` if it is not of f32 or has less than two extents.
fn shape_of(graph: &Graph, id: ValueId, open: usize) -> Result<Option<Vec<usize>>> {
    // Wanted, it is there however the network is simplified.
    let mut wanted = graph.clone();
    wanted.outputs = vec![id];
    let inputs = wanted.inputs.iter().map(|&input| {
        let value = wanted.value(input);
        let extent = |dim: &Dim| match dim {
            Dim::Known(extent) => *extent,
            _ => open,
        };
        let shape = value.shape.iter().flatten().map(extent).collect();
        (value.name.as_str(), shape)
    });
    let inputs: Vec<(&str, Vec<usize>)> = inputs.collect();
    let bound = bind(&wanted, &inputs)?;
    let ty = bound.outputs().first().map(|&id| &bound.value(id).ty);
    let fits = ty.filter(|ty| ty.dtype == DType::F32 && ty.shape.len() >= 2);
    Ok(fits.map(|ty| ty.shape.clone()))
}

/// The network cut to these outputs, in this order, without the nodes that none of them needs, and without a table of its outputs' parts. Any value of it
/// may become an output; inputs stay.
///
/// # Errors
///
/// [`TrainError::NoValue`].
pub fn with_outputs(mut graph: Graph, names: &[&str]) -> Result<Graph> {
    let id_of = |name: &&str| {
        let id = graph.values.iter().position(|value| value.name == **name);
        id.map(ValueId).ok_or_else(|| TrainError::NoValue {
            name: (*name).to_owned(),
        })
    };
    graph.outputs = names.iter().map(id_of).collect::<Result<_>>()?;
    graph.nodes = without_unneeded(graph.nodes, &graph.outputs);
    // It says where parts of the outputs lie that were.
    graph.metadata.remove(OUTPUT_SLICES_KEY);
    Ok(graph)
}

/// The nodes that these values hang on.
pub(super) fn without_unneeded(mut nodes: Vec<Node>, wanted: &[ValueId]) -> Vec<Node> {
    let mut needed: BTreeSet<ValueId> = wanted.iter().copied().collect();
    let mut kept = Vec::with_capacity(nodes.len());
    while let Some(node) = nodes.pop() {
        if node.outputs.iter().flatten().any(|id| needed.contains(id)) {
            needed.extend(node.inputs.iter().flatten());
            kept.push(node);
        }
    }
    kept.reverse();
    kept
}
