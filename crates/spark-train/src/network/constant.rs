//! Other values for the weight or the bias of a layer, and for nobody else.

use std::sync::Arc;

use spark_onnx_graph::graph::{Graph, Op, ValueId};
use spark_onnx_graph::{DType, Tensor};

use super::layers::Layer;
use crate::error::Result;

/// Which operand of a layer's nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operand {
    Weight,
    Bias,
}

impl Operand {
    /// Positions of the nodes that read it, and as which of their operands.
    fn places(self, layer: &Layer) -> Vec<(usize, usize)> {
        match (self, &layer.bias) {
            (Self::Weight, _) => layer.nodes.iter().map(|&node| (node, 1)).collect(),
            (Self::Bias, Some(bias)) => bias.places.clone(),
            (Self::Bias, None) => Vec::new(),
        }
    }
}

/// Gives a layer other values, rounded to the type of the constant: in its place if the layer alone reads that, as a constant of
/// the layer's own otherwise.
pub(super) fn replace(
    graph: &mut Graph,
    layer: &Layer,
    operand: Operand,
    (shape, values): (Vec<usize>, &[f32]),
) -> Result<()> {
    let stored = match (operand, &layer.bias) {
        (Operand::Weight, _) => layer.stored,
        (Operand::Bias, Some(bias)) => bias.constant,
        (Operand::Bias, None) => return Ok(()),
    };
    let constant = graph.value(stored).constant.as_ref();
    let dtype = constant.map_or(DType::F32, |tensor| tensor.dtype());
    let values = values.iter().map(|&v| f64::from(v)).collect();
    let tensor = Tensor::from_f64(dtype, shape, values)?;
    if is_alone(graph, &operand.places(layer), stored) {
        graph.values[stored.0].constant = Some(Arc::new(tensor));
        return Ok(());
    }
    // Nodes behind a Cast read f32.
    let tensor = match dtype {
        DType::F32 => tensor,
        _ => Tensor::from_f32(tensor.shape().to_vec(), tensor.to_f32())?,
    };
    give(graph, layer, operand, tensor);
    Ok(())
}

/// Gives a layer's nodes a constant of their own.
pub(super) fn give(graph: &mut Graph, layer: &Layer, operand: Operand, tensor: Tensor) {
    let wish = format!("{}.own", graph.value(layer.stored).name);
    let mut name = wish.clone();
    let mut count = 1;
    while graph.values.iter().any(|value| value.name == name) {
        count += 1;
        name = format!("{wish}.{count}");
    }
    let own = graph.add_constant(name, tensor);
    for (node, slot) in operand.places(layer) {
        graph.nodes[node].inputs[slot] = Some(own);
    }
}

/// Whether nothing but these operands hangs on a constant.
fn is_alone(graph: &Graph, places: &[(usize, usize)], stored: ValueId) -> bool {
    // Bodies of control flow read values by name.
    if !graph.bodies.is_empty() || graph.outputs.contains(&stored) {
        return false;
    }
    graph.nodes.iter().enumerate().all(|(position, node)| {
        let mut reads = node.inputs.iter().enumerate();
        reads.all(|(slot, read)| {
            let own = places.contains(&(position, slot));
            own || *read != Some(stored) || is_cast_for(graph, places, position)
        })
    })
}

/// Whether a node is a Cast that serves these operands alone.
fn is_cast_for(graph: &Graph, places: &[(usize, usize)], position: usize) -> bool {
    let node = &graph.nodes[position];
    let (Op::Cast(_), Some(&Some(result))) = (&node.op, node.outputs.first()) else {
        return false;
    };
    let mut nodes = graph.nodes.iter().enumerate();
    !graph.outputs.contains(&result)
        && nodes.all(|(reader, node)| {
            let mut reads = node.inputs.iter().enumerate();
            reads.all(|(slot, read)| *read != Some(result) || places.contains(&(reader, slot)))
        })
}
