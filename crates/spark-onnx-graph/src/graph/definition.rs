//! What a graph is: values, nodes, and how one is put together.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::op::Op;
use crate::tensor::{DType, Tensor};

/// Position of a value in [`Graph::values`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ValueId(pub usize);

/// One axis of a declared shape.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Dim {
    /// A fixed extent; may be 0.
    Known(usize),
    /// A named extent, bound when inputs are given; equal names mean equal extents.
    Symbol(String),
    /// An extent of which nothing is known until inputs are given.
    Unknown,
}

/// An edge of the graph: an input, a constant, or the result of a node.
#[derive(Debug, Clone)]
pub struct Value {
    /// Name of the value, unique in the graph and not empty.
    pub name: String,
    /// Element type, where declared.
    pub dtype: Option<DType>,
    /// Shape as the file declares it; `None` where it does not.
    pub shape: Option<Vec<Dim>>,
    /// The elements, if this is a constant.
    pub constant: Option<Arc<Tensor>>,
}

/// One operator with its operands.
#[derive(Debug, Clone)]
pub struct Node {
    /// Name in the file, or one made from the operator and position.
    pub name: String,
    /// What the node computes, with its parameters.
    pub op: Op,
    /// Operands; `None` where an optional one is left out. Trailing ones may be missing.
    pub inputs: Vec<Option<ValueId>>,
    /// Results; `None` where an optional one is not wanted.
    pub outputs: Vec<Option<ValueId>>,
}

/// A network, open to editing. Invariants, held by every constructor in this crate and checked by
/// [`bind`](super::bind): nodes are in topological order; ids are in range; names of inputs are unique; each
/// value is produced at most once, and never if it is an input or a constant; outputs exist.
///
/// # Examples
///
/// ```
/// use spark_onnx_graph::graph::{Dim, Graph, Op, Unary};
/// use spark_onnx_graph::{DType, file};
///
/// let mut graph = Graph::default();
/// let batch = Dim::Symbol("batch".to_owned());
/// let x = graph.add_input("x", DType::F32, vec![batch, Dim::Known(3)]);
/// let y = graph.add_node("y", Op::Unary(Unary::Relu), &[Some(x)]);
/// graph.outputs.push(y);
///
/// let read = file::parse(&file::to_bytes(&graph)?, None)?; // as an ONNX file and back
/// assert_eq!(read.nodes[0].op, Op::Unary(Unary::Relu));
/// assert_eq!(read.value(read.inputs[0]).name, "x");
/// # Ok::<(), spark_onnx_graph::ModelError>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Graph {
    /// Name in the file.
    pub name: String,
    /// All values: inputs, constants and results; a [`ValueId`] is a position here.
    pub values: Vec<Value>,
    /// Operators in execution order.
    pub nodes: Vec<Node>,
    /// What the caller provides.
    pub inputs: Vec<ValueId>,
    /// What the caller gets.
    pub outputs: Vec<ValueId>,
    /// Graphs that nodes of control flow run; a [`BodyId`](super::BodyId) is a position here. Their inputs and
    /// outputs are the nodes'; only the first level is here, each body holds its own.
    pub bodies: Vec<Arc<Graph>>,
    /// Key-value pairs of the file (`metadata_props`).
    pub metadata: BTreeMap<String, String>,
    /// Bytes of the file it was read from, constants beside it included; the default budget of
    /// memory follows from them. `None` for a graph made otherwise, whose constants count instead.
    pub file_bytes: Option<usize>,
}

impl Graph {
    /// The value behind `id`.
    ///
    /// # Panics
    ///
    /// If the graph has no such value.
    pub fn value(&self, id: ValueId) -> &Value {
        &self.values[id.0]
    }

    /// Bytes of the file it was read from, or of its constants where it was made otherwise: what the
    /// default budget of memory follows from.
    pub fn source_bytes(&self) -> usize {
        self.file_bytes.unwrap_or_else(|| {
            let constants = self.values.iter().filter_map(|v| v.constant.as_ref());
            let bytes = constants.map(|tensor| tensor.size_bytes());
            bytes.fold(0, usize::saturating_add)
        })
    }

    /// Adds a value and returns its id. The name must be new.
    pub fn add_value(&mut self, value: Value) -> ValueId {
        self.values.push(value);
        ValueId(self.values.len() - 1)
    }

    /// Adds a constant and returns its id. The name must be new.
    pub fn add_constant(&mut self, name: impl Into<String>, tensor: Tensor) -> ValueId {
        self.add_value(Value {
            name: name.into(),
            dtype: Some(tensor.dtype()),
            shape: Some(tensor.shape().iter().map(|&d| Dim::Known(d)).collect()),
            constant: Some(Arc::new(tensor)),
        })
    }

    /// Adds an input with a declared type and returns its id. The name must be new.
    pub fn add_input(&mut self, name: impl Into<String>, dtype: DType, shape: Vec<Dim>) -> ValueId {
        let id = self.add_value(Value {
            name: name.into(),
            dtype: Some(dtype),
            shape: Some(shape),
            constant: None,
        });
        self.inputs.push(id);
        id
    }

    /// Appends a one-result node after those its operands come from; returns the result,
    /// which carries the node's name. The name must be new among nodes and values.
    pub fn add_node(
        &mut self,
        name: impl Into<String>,
        op: Op,
        inputs: &[Option<ValueId>],
    ) -> ValueId {
        let name = name.into();
        let out = self.add_value(Value {
            name: name.clone(),
            dtype: None,
            shape: None,
            constant: None,
        });
        self.nodes.push(Node {
            name,
            op,
            inputs: inputs.to_vec(),
            outputs: vec![Some(out)],
        });
        out
    }
}
