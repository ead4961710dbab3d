//! A graph whose every value has an element type and a fixed shape.
//!
//! ```text
//! Graph (symbols) + shapes of the inputs --bind--> StaticGraph --simplify--> StaticGraph
//! ```
//!
//! Constants are folded while shapes are inferred, since shapes often hang on
//! constants (`Shape -> Gather -> Concat -> Reshape` chains).

use std::sync::Arc;

use super::types::TensorType;
use super::{BodyId, Dim, Graph, Node, Value, ValueId};
use crate::tensor::Tensor;

/// A value of a [`StaticGraph`].
#[derive(Debug, Clone)]
pub struct StaticValue {
    /// Name of the value, unique in the graph and not empty.
    pub name: String,
    /// Element type and shape.
    pub ty: TensorType,
    /// The elements, if this is a constant.
    pub constant: Option<Arc<Tensor>>,
}

/// A network for one set of input shapes, checked: what lowering and the interpreter stand on.
///
/// Only [`bind`](super::bind) makes one, and nobody outside this crate changes it: edit the
/// [`Graph`](super::Graph) and bind it again. [`simplify`](crate::simplify) takes one and gives one.
///
/// # Examples
///
/// ```
/// use spark_onnx_graph::DType;
/// use spark_onnx_graph::graph::{Dim, Graph, Op, Unary, bind};
///
/// let mut graph = Graph::default();
/// let x = graph.add_input("x", DType::F32, vec![Dim::Known(4)]);
/// let y = graph.add_node("y", Op::Unary(Unary::Relu), &[Some(x)]);
/// graph.outputs.push(y);
/// let bound = bind(&graph, &[])?;
/// assert_eq!(bound.inputs().len(), 1);
/// # Ok::<(), spark_onnx_graph::ModelError>(())
/// ```
///
/// ```compile_fail,E0616
/// use spark_onnx_graph::graph::{Graph, bind};
///
/// let mut bound = bind(&Graph::default(), &[])?;
/// bound.inputs.clear();
/// # Ok::<(), spark_onnx_graph::ModelError>(())
/// ```
///
/// The invariants of [`Graph`](super::Graph) hold. Values no node reads or makes any more may
/// remain among its values.
#[derive(Debug, Clone)]
pub struct StaticGraph {
    pub(crate) values: Vec<StaticValue>,
    /// None has only constant operands, unless its result was too large to fold or an embedder computes it.
    pub(crate) nodes: Vec<Node>,
    pub(crate) inputs: Vec<ValueId>,
    pub(crate) outputs: Vec<ValueId>,
    /// Inputs that have these elements in every run.
    pub(crate) fixed_inputs: Vec<(ValueId, Arc<Tensor>)>,
    /// What nodes of control flow run.
    pub(crate) bodies: Vec<Arc<StaticGraph>>,
    /// Of each value that was bound, whether constants were computed from it: floats that they are no steps of.
    pub(crate) folded_from: Vec<bool>,
    /// Bytes that running it may take.
    pub(crate) budget_bytes: usize,
}

impl StaticGraph {
    /// The value behind `id`.
    ///
    /// # Panics
    ///
    /// If the graph has no such value.
    pub fn value(&self, id: ValueId) -> &StaticValue {
        &self.values[id.0]
    }

    /// All values; a [`ValueId`] is a position here.
    pub fn values(&self) -> &[StaticValue] {
        &self.values
    }

    /// Operators in execution order. None has only constant operands, unless its result was too
    /// large to fold or an embedder computes it.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Whether constants were computed from the value when the graph was bound, so that what hangs on it is no longer to
    /// be seen.
    pub(crate) fn is_folded_from(&self, id: ValueId) -> bool {
        self.folded_from.get(id.0).copied().unwrap_or(false)
    }

    /// What the caller provides.
    pub fn inputs(&self) -> &[ValueId] {
        &self.inputs
    }

    /// What a node of control flow runs.
    ///
    /// # Panics
    ///
    /// If the graph has no such body.
    pub fn body(&self, id: BodyId) -> &StaticGraph {
        &self.bodies[id.0]
    }

    /// Bytes that running it may take; see [`bind_within`](super::bind_within).
    pub fn budget_bytes(&self) -> usize {
        self.budget_bytes
    }

    /// What the caller gets; may be constants or inputs.
    pub fn outputs(&self) -> &[ValueId] {
        &self.outputs
    }

    /// The graph, open to editing: every value with its type, shapes fixed, constants folded. Inputs that were bound to
    /// values are inputs.
    pub(crate) fn opened(&self) -> Graph {
        let known = |ty: &TensorType| ty.shape.iter().map(|&extent| Dim::Known(extent)).collect();
        let values = self.values.iter().map(|value| Value {
            name: value.name.clone(),
            dtype: Some(value.ty.dtype),
            shape: Some(known(&value.ty)),
            constant: value.constant.clone(),
        });
        Graph {
            values: values.collect(),
            nodes: self.nodes.to_vec(),
            inputs: self.inputs.to_vec(),
            outputs: self.outputs.to_vec(),
            bodies: self
                .bodies
                .iter()
                .map(|body| Arc::new(body.opened()))
                .collect(),
            ..Graph::default()
        }
    }
}
