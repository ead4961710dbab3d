//! What lies between the values that gradients are wanted of and the outputs that have one.
//!
//! ```text
//! reached   forth from the wanted values, over operands that results hang on smoothly
//! on path   back from the outputs, over nodes that are reached: these are differentiated, nothing else is
//! ```

use super::error::GradientError;
use super::kind_of::kind_of;
use super::kinds::{GradientKind, GradientOptions};
use crate::graph::{Node, Op, StaticGraph, ValueId};
use crate::tensor::DType;

/// Which nodes are differentiated, and by which values.
pub(crate) struct Path {
    reached: Vec<bool>,
    on_path: Vec<bool>,
    options: GradientOptions,
}

impl Path {
    /// From `wanted` to `outputs`, but not through `detached`.
    ///
    /// # Errors
    ///
    /// [`GradientError::NoGradient`] of the last node on the way that has none.
    pub(crate) fn new(
        graph: &StaticGraph,
        wanted: &[ValueId],
        outputs: &[ValueId],
        detached: &[ValueId],
        options: GradientOptions,
    ) -> Result<Self, GradientError> {
        let mut path = Self {
            reached: vec![false; graph.values().len()],
            on_path: vec![false; graph.nodes().len()],
            options,
        };
        wanted.iter().for_each(|id| path.reached[id.0] = true);
        for node in graph.nodes() {
            for id in path.results_reached(graph, node) {
                path.reached[id.0] |= !detached.contains(&id);
            }
        }
        let mut leads = vec![false; graph.values().len()];
        outputs.iter().for_each(|id| leads[id.0] = true);
        for (index, node) in graph.nodes().iter().enumerate().rev() {
            let leads_on = |id: &&ValueId| path.reached[id.0] && leads[id.0];
            if !node.outputs.iter().flatten().any(|id| leads_on(&id)) {
                continue;
            }
            for (operand, id) in path.operands_reached(node) {
                match path.kind(graph, node, operand) {
                    GradientKind::Zero => {}
                    GradientKind::Computed => {
                        path.on_path[index] = true;
                        leads[id.0] = true;
                    }
                    GradientKind::Refused(reason) => {
                        return Err(GradientError::NoGradient {
                            node: node.name.clone(),
                            op: node.op.name().to_owned(),
                            operand,
                            reason,
                        });
                    }
                }
            }
        }
        Ok(path)
    }

    /// Whether the node at `index` is differentiated.
    pub(crate) fn holds(&self, index: usize) -> bool {
        self.on_path[index]
    }

    /// The operands by which a node on the path is differentiated.
    pub(crate) fn operands(&self, graph: &StaticGraph, node: &Node) -> Vec<(usize, ValueId)> {
        let reached = self.operands_reached(node);
        let is_computed = |&(operand, _): &(usize, ValueId)| {
            self.kind(graph, node, operand) == GradientKind::Computed
        };
        reached.into_iter().filter(is_computed).collect()
    }

    fn operands_reached(&self, node: &Node) -> Vec<(usize, ValueId)> {
        let operands = node.inputs.iter().enumerate();
        let given = operands.filter_map(|(operand, id)| Some((operand, (*id)?)));
        given.filter(|(_, id)| self.reached[id.0]).collect()
    }

    fn kind(&self, graph: &StaticGraph, node: &Node, operand: usize) -> GradientKind {
        let named = node.outputs.iter().flatten().next();
        let result = named.map_or(DType::F32, |&id| graph.value(id).ty.dtype);
        kind_of(&node.op, operand, result, self.options)
    }

    /// The results that hang on a wanted value: floats, and integers that floats were rounded to where roundings do not
    /// count.
    fn results_reached(&self, graph: &StaticGraph, node: &Node) -> Vec<ValueId> {
        let is_float = |id: ValueId| graph.value(id).ty.dtype.is_float();
        let (mut hangs, mut is_refused, mut carries_whole) = (false, false, false);
        for (operand, id) in self.operands_reached(node) {
            match self.kind(graph, node, operand) {
                GradientKind::Zero => continue,
                GradientKind::Computed => {}
                GradientKind::Refused(_) => is_refused = true,
            }
            hangs = true;
            carries_whole |= !is_float(id) || matches!(node.op, Op::QuantizeLinear(_));
        }
        let results = node.outputs.iter().copied().flatten();
        let carries = |id: &ValueId| hangs && (is_float(*id) || is_refused || carries_whole);
        results.filter(carries).collect()
    }
}
