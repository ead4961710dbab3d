//! Constants that a file holds in 16 bits and casts to f32, as constants in f32.
//!
//! Deliberately absent: other functions of constants, which binding folds.

use std::sync::Arc;

use crate::graph::{Cast, Graph, Node, Op, Unary};
use crate::{DType, ModelError, Tensor};

/// Puts constants in the place of their casts.
pub(super) fn read(graph: &mut Graph) -> Result<(), ModelError> {
    let mut kept = Vec::with_capacity(graph.nodes.len());
    for node in std::mem::take(&mut graph.nodes) {
        let Some(made) = constant(graph, &node)? else {
            kept.push(node);
            continue;
        };
        for id in node.outputs.into_iter().flatten() {
            graph.values[id.0].dtype = Some(made.dtype());
            graph.values[id.0].constant = Some(Arc::clone(&made));
        }
    }
    graph.nodes = kept;
    Ok(())
}

/// What `node` makes of a constant, if it does no more than to hand it on or to widen it.
fn constant(graph: &Graph, node: &Node) -> Result<Option<Arc<Tensor>>, ModelError> {
    let ([Some(x)], [Some(y)]) = (&node.inputs[..], &node.outputs[..]) else {
        return Ok(None);
    };
    let Some(tensor) = &graph.value(*x).constant else {
        return Ok(None);
    };
    if graph.outputs.contains(y) {
        return Ok(None);
    }
    let is_short = matches!(tensor.dtype(), DType::F16 | DType::BF16);
    match &node.op {
        Op::Unary(Unary::Identity) => Ok(Some(Arc::clone(tensor))),
        Op::Cast(Cast { to: DType::F32 }) if is_short => {
            let wide = Tensor::from_f32(tensor.shape(), tensor.to_f32())?;
            Ok(Some(Arc::new(wide)))
        }
        _ => Ok(None),
    }
}
