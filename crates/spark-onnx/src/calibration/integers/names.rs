//! Names that are new in a graph.

use std::collections::HashSet;

use crate::Tensor;
use crate::graph::{Graph, ValueId};

/// Names of all values and nodes.
pub(super) struct Names(HashSet<String>);

impl Names {
    pub(super) fn of(graph: &Graph) -> Self {
        let values = graph.values.iter().map(|value| &value.name);
        let nodes = graph.nodes.iter().map(|node| &node.name);
        Self(values.chain(nodes).cloned().collect())
    }

    /// A name like `base` that nothing has.
    pub(super) fn unused(&mut self, base: &str) -> String {
        let mut name = base.to_owned();
        while !self.0.insert(name.clone()) {
            name.push('_');
        }
        name
    }

    /// Adds a constant with a name like `base`.
    pub(super) fn constant(&mut self, graph: &mut Graph, base: &str, tensor: Tensor) -> ValueId {
        let name = self.unused(base);
        graph.add_constant(name, tensor)
    }
}
