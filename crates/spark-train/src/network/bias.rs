//! The bias of a layer: which constant it is, and where it is added.
//!
//! ```text
//! Conv, Gemm   their third operand
//! MatMul       what an Add adds to its result, if nothing else reads that: as exporters write linear layers of three axes
//! ```
//!
//! One number in f32 for each output. Any other addition, as one by channels behind a convolution, is no bias and stays as it is.

use std::collections::BTreeMap;

use spark_onnx_graph::DType;
use spark_onnx_graph::graph::{Binary, Graph, Op, ValueId};

/// A layer's bias.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Bias {
    pub(crate) constant: ValueId,
    /// Positions of the nodes that add it, and which of their operands it is.
    pub(crate) places: Vec<(usize, usize)>,
}

impl Bias {
    /// That of two nodes of one layer: none, unless both have the same.
    pub(super) fn shared(one: Option<Self>, other: Option<Self>) -> Option<Self> {
        let (mut one, other) = (one?, other?);
        if one.constant != other.constant {
            return None;
        }
        one.places.extend(other.places);
        Some(one)
    }
}

/// By what a node gives, the only reader of that, if it is an addition: its position, and the operand beside.
pub(super) struct Additions(BTreeMap<ValueId, (usize, usize)>);

impl Additions {
    pub(super) fn of(graph: &Graph) -> Self {
        // Bodies of control flow read values by name.
        if !graph.bodies.is_empty() {
            return Self(BTreeMap::new());
        }
        let mut readers: BTreeMap<ValueId, Vec<(usize, usize)>> = BTreeMap::new();
        for (position, node) in graph.nodes.iter().enumerate() {
            for (slot, id) in node.inputs.iter().enumerate() {
                if let Some(id) = id {
                    readers.entry(*id).or_default().push((position, slot));
                }
            }
        }
        readers.retain(|id, _| !graph.outputs.contains(id));
        let only = readers.into_iter().filter_map(|(id, of)| match of[..] {
            [(position, slot)] if graph.nodes[position].op == Op::Binary(Binary::Add) => {
                Some((id, (position, usize::from(slot == 0))))
            }
            _ => None,
        });
        Self(only.collect())
    }

    /// The bias of the node at `position`, if it is a number for each of `n` outputs.
    pub(super) fn bias(&self, graph: &Graph, position: usize, n: usize) -> Option<Bias> {
        let node = &graph.nodes[position];
        let (position, slot) = match node.op {
            Op::MatMul(_) => *self.0.get(&node.outputs.first().copied().flatten()?)?,
            _ => (position, 2),
        };
        let constant = graph.nodes[position].inputs.get(slot).copied().flatten()?;
        let tensor = graph.value(constant).constant.as_ref()?;
        let is_bias = tensor.shape() == [n] && tensor.dtype() == DType::F32;
        is_bias.then(|| Bias {
            constant,
            places: vec![(position, slot)],
        })
    }
}
