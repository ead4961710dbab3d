//! Which nodes read each value of a graph.

use std::collections::{BTreeSet, HashMap};

use crate::graph::{Graph, ValueId};

/// Readers of all values, by position in the graph.
pub(super) struct Readers {
    by_value: HashMap<ValueId, Vec<usize>>,
    outputs: BTreeSet<ValueId>,
}

impl Readers {
    pub(super) fn of(graph: &Graph) -> Self {
        let mut by_value: HashMap<ValueId, Vec<usize>> = HashMap::new();
        for (at, node) in graph.nodes.iter().enumerate() {
            for id in node.inputs.iter().flatten() {
                by_value.entry(*id).or_default().push(at);
            }
        }
        Self {
            by_value,
            outputs: graph.outputs.iter().copied().collect(),
        }
    }

    /// The node that reads `value`, if one does, once.
    pub(super) fn only(&self, value: ValueId) -> Option<usize> {
        match self.by_value.get(&value).map(Vec::as_slice) {
            Some(&[reader]) => Some(reader),
            _ => None,
        }
    }

    pub(super) fn is_output(&self, value: ValueId) -> bool {
        self.outputs.contains(&value)
    }
}
