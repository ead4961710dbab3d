//! A bound graph with less to compute and, up to rounding, the same outputs.
//!
//! ```text
//! StaticGraph --patterns--> spelled-out operators as one --subsample--> pixels nobody reads left out
//! ```
//!
//! An engine lowers the result, which keeps the names of inputs, outputs and remaining nodes.
//!
//! [`join_quantised`] edits a graph before it is bound.
//!
//! Deliberately absent: folding of constants, which binding does, and what depends on kernels.

mod patterns;
mod quantised;
mod subsample;

use std::sync::Arc;

use crate::graph::StaticGraph;

pub use quantised::join_quantised;

/// `graph` with operators that are spelled out in several nodes put together, and without pixels that
/// nothing reads. Its outputs stay, up to the rounding of values in between.
///
/// # Examples
///
/// ```
/// use spark_onnx_graph::graph::{Binary, Dim, Graph, Op, Unary, bind};
/// use spark_onnx_graph::{DType, simplify};
///
/// let mut graph = Graph::default();
/// let x = graph.add_input("x", DType::F32, vec![Dim::Known(4)]);
/// let gate = graph.add_node("gate", Op::Unary(Unary::Sigmoid), &[Some(x)]);
/// let y = graph.add_node("y", Op::Binary(Binary::Mul), &[Some(x), Some(gate)]);
/// graph.outputs.push(y);
///
/// let simple = simplify(bind(&graph, &[])?);
/// assert_eq!(simple.nodes().len(), 1);
/// assert_eq!(simple.nodes()[0].op, Op::Unary(Unary::Swish { alpha: 1.0 }));
/// # Ok::<(), spark_onnx_graph::ModelError>(())
/// ```
pub fn simplify(mut graph: StaticGraph) -> StaticGraph {
    patterns::join(&mut graph);
    subsample::subsample(&mut graph);
    for body in &mut graph.bodies {
        *body = Arc::new(simplify(StaticGraph::clone(body)));
    }
    graph
}
