//! Products between dequantisation and quantisation, as products of integers, and bytes moved as bytes.
//!
//! ```text
//! x_q ─Dequantize─┐
//! w_q ─Dequantize─Conv ─(Relu, Clip)─ Quantize─ y_q     becomes     QLinearConv(x_q, w_q, b_q) ── y_q
//! b_q ─Dequantize─┘
//!
//! MatMul     QLinearMatMul
//! Gemm       Unsqueeze, QLinearConv of one tap, Squeeze
//! ```
//!
//! A product is taken only if all of this holds; else it stays one of floats:
//!
//! 1. Scales and zero points are constants; those of activations one value, of weights one value or one per output
//!    channel. Scales are finite and above zero, what sums are multiplied by is a normal number.
//! 2. Nothing else reads what is between the product and its quantisation.
//! 3. A function in between is one that the range of the result implies: what `Relu` makes zero has no other byte
//!    than the zero point.
//! 4. The bias, if there is one, is constant, a value per output channel, whole in the scale of the sums.
//! 5. Sums fit 32 bits whatever the bytes are: how many products they have is known, and they are at most
//!    33025; the bias leaves room for them.
//! 6. A convolution has constant weights and one or two spatial axes.
//! 7. A Gemm has constant weights, no factors, and no transposed first operand.
//!
//! So what is taken can be planned as integers. What is only moved between a dequantisation and a quantisation of the
//! same scale is moved as bytes: see `moves`.
//!
//! Results differ from those of the spelled-out form by one step at most, where the exact quotient is within f32's
//! rounding of a tie: the products of floats are rounded, those of integers are not.
//!
//! On a graph before it is bound, as binding folds dequantised weights into floats; in bodies of control flow too,
//! each by itself.
//!
//! Deliberately absent: products of a body whose scales come from outside of it, which are no constants yet.

mod moves;
mod neighbours;
mod products;

use std::collections::HashMap;
use std::sync::Arc;

use crate::graph::{Graph, MAX_BODY_DEPTH, Node, Op, ValueId, check_graph};
use moves::move_bytes;
use neighbours::{Neighbours, count_readers};
use products::{Names, Product};

/// `graph` with products of integers in place of products of floats that were made of integers and become
/// integers again, in bodies of control flow too. Names of inputs, outputs and quantised values stay; what is no
/// graph ([`check_graph`]) stays as it is.
///
/// Results stay within one step of quantisation: see the notes on numerics.
///
/// # Examples
///
/// ```
/// use spark_onnx_graph::graph::{Dim, DequantizeLinear, Graph, MatMul, Op, QuantizeLinear};
/// use spark_onnx_graph::{DType, Tensor, join_quantised};
///
/// let mut graph = Graph::default();
/// let x = graph.add_input("x", DType::U8, vec![Dim::Known(2), Dim::Known(2)]);
/// let scale = graph.add_constant("scale", Tensor::from_f32([], vec![0.5])?);
/// let w = graph.add_constant("w", Tensor::zeros(DType::I8, [2, 3])?);
/// let dequantize = || Op::from(DequantizeLinear::along(1));
/// let floats = graph.add_node("floats", dequantize(), &[Some(x), Some(scale)]);
/// let weights = graph.add_node("weights", dequantize(), &[Some(w), Some(scale)]);
/// let product = graph.add_node("product", Op::from(MatMul), &[Some(floats), Some(weights)]);
/// let quantize = Op::from(QuantizeLinear::along(1));
/// let y = graph.add_node("y", quantize, &[Some(product), Some(scale)]);
/// graph.outputs.push(y);
///
/// join_quantised(&mut graph);
/// assert_eq!(graph.nodes.len(), 1);
/// assert_eq!(graph.nodes[0].op.name(), "QLinearMatMul");
/// # Ok::<(), spark_onnx_graph::ModelError>(())
/// ```
pub fn join_quantised(graph: &mut Graph) {
    Bodies::default().join_all(graph, 0);
    join(graph);
}

/// Bodies by the address of what they were, each with what it became; several nodes may share one.
#[derive(Default)]
struct Bodies(HashMap<*const Graph, (Arc<Graph>, Arc<Graph>)>);

impl Bodies {
    /// Joins products in the bodies of `graph`, which is `depth` levels down.
    fn join_all(&mut self, graph: &mut Graph, depth: usize) {
        // Deeper ones are refused when the graph is bound.
        if depth == MAX_BODY_DEPTH {
            return;
        }
        for body in &mut graph.bodies {
            if let Some((_, joined)) = self.0.get(&Arc::as_ptr(body)) {
                *body = Arc::clone(joined);
                continue;
            }
            let mut joined = Graph::clone(body);
            self.join_all(&mut joined, depth + 1);
            join(&mut joined);
            let before = std::mem::replace(body, Arc::new(joined));
            let entry = (Arc::clone(&before), Arc::clone(body));
            self.0.insert(Arc::as_ptr(&before), entry);
        }
    }
}

/// Joins products of `graph` itself and moves its bytes, if it is one.
fn join(graph: &mut Graph) {
    if check_graph(graph).is_err() {
        return;
    }
    join_products(graph);
    move_bytes(graph);
    drop_unread(graph);
}

fn join_products(graph: &mut Graph) {
    let products: Vec<Product> = {
        let view = Neighbours::of(graph);
        let nodes = 0..graph.nodes.len();
        nodes.filter_map(|at| view.product(at)).collect()
    };
    if products.is_empty() {
        return;
    }
    let mut joined: HashMap<usize, Vec<Node>> = HashMap::new();
    let mut gone = vec![false; graph.nodes.len()];
    let mut names = Names::of(graph);
    for product in products {
        product.between.iter().for_each(|&at| gone[at] = true);
        let nodes = product.write(graph, &mut names);
        joined.insert(product.quantize, nodes);
    }
    let nodes = std::mem::take(&mut graph.nodes).into_iter().enumerate();
    for (at, node) in nodes {
        match joined.remove(&at) {
            Some(nodes) => graph.nodes.extend(nodes),
            None if gone[at] => {}
            None => graph.nodes.push(node),
        }
    }
}

/// Drops dequantisations that nothing reads any more.
fn drop_unread(graph: &mut Graph) {
    let readers = count_readers(graph);
    graph.nodes.retain(|node| {
        let is_read = |id: &ValueId| readers[id.0] > 0;
        !matches!(node.op, Op::DequantizeLinear(_)) || node.outputs.iter().flatten().any(is_read)
    });
}
