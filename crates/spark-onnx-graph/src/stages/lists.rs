//! Short lists, which a stage hands over with its elements: shapes and what is made of them, axes, counts.
//!
//! ```text
//! Shape(x) -> Gather -> Unsqueeze -> Concat      lists: one axis or none, few elements
//! ConstantOfShape(Shape(x)), Range(0, Size(x))   none: as long as x says
//! ```
//!
//! Deliberately absent: exact lengths. What joins lists is taken for one.

use super::{Elements, Graph, Node, ValueId};
use crate::graph::{MAX_DECIDING_ELEMENTS, Op};

/// Which values are short lists.
pub(super) struct Lists {
    /// By value, how many axes a list has at most, 0 or 1; nothing for others.
    axes: Vec<Option<usize>>,
    /// By value, whether it is the shape of a list, of one element at most.
    is_shape_of_list: Vec<bool>,
}

impl Lists {
    /// Constants, and inputs whose elements are known.
    pub(super) fn of_inputs(graph: &Graph, elements: &Elements) -> Self {
        let constants = graph.values.iter().map(|value| {
            let shape = value.constant.as_deref()?.shape();
            let is_short = shape.iter().all(|&extent| extent <= MAX_DECIDING_ELEMENTS);
            (shape.len() <= 1 && is_short).then_some(shape.len())
        });
        let mut axes: Vec<Option<usize>> = constants.collect();
        for &id in &graph.inputs {
            if !elements.is_computed(id) {
                axes[id.0] = Some(1);
            }
        }
        Self {
            is_shape_of_list: vec![false; axes.len()],
            axes,
        }
    }

    /// Whether this value is one.
    pub(super) fn has(&self, id: ValueId) -> bool {
        self.axes[id.0].is_some()
    }

    /// Notes what `node` makes.
    pub(super) fn note(&mut self, graph: &Graph, node: &Node) {
        let first = node.inputs.first().copied().flatten();
        let axes = self.axes_of_results(graph, node, first);
        let is_shape = matches!(node.op, Op::Shape(_)) && first.is_some_and(|id| self.has(id));
        for id in node.outputs.iter().flatten() {
            self.axes[id.0] = axes;
            self.is_shape_of_list[id.0] = is_shape;
        }
    }

    fn axes_of_results(&self, graph: &Graph, node: &Node, first: Option<ValueId>) -> Option<usize> {
        match &node.op {
            Op::Shape(_) => return Some(1),
            Op::Size(_) => return Some(0),
            Op::ConstantOfShape(_) if self.is_shape_of_list[first?.0] => return Some(1),
            _ => {}
        }
        let operands = node.inputs.iter().flatten();
        let operands: Option<Vec<usize>> = operands.map(|id| self.axes[id.0]).collect();
        let operands = operands?;
        match &node.op {
            Op::Unary(_)
            | Op::Binary(_)
            | Op::Variadic(_)
            | Op::Where(_)
            | Op::Clip(_)
            | Op::Cast(_)
            | Op::CastLike(_)
            | Op::RoundFloat(_)
            | Op::Concat(_)
            | Op::CumSum(_)
            | Op::CumProd(_) => operands.iter().copied().max(),
            Op::Slice(_)
            | Op::Split(_)
            | Op::Squeeze(_)
            | Op::Reduce(_)
            | Op::ScatterElements(_)
            | Op::ScatterNd(_) => operands.first().copied(),
            Op::Gather(_) => {
                let axes: usize = operands.iter().sum();
                (1..=2).contains(&axes).then(|| axes - 1)
            }
            Op::Unsqueeze(_) => (operands.first() == Some(&0)).then_some(1),
            Op::Reshape(_) => {
                let shape = graph.value((*node.inputs.get(1)?)?).constant.as_deref()?;
                (shape.len() <= 1).then_some(shape.len())
            }
            _ => None,
        }
    }
}
