//! Only the last step of a network's answer is used: compute only what it needs.
//!
//! ```text
//! output [b, 20, 1024] --wanted: [b, 1, 1024]
//!   from the output back, every node is asked: which part of your operands does that need?
//!     x W, x + y, norm, gelu        the same step of x
//!     softmax(q k') v               the last row of q, all of k and v
//!     transpose, reshape, split     the same step, wherever that axis was
//!     anything else                 everything: a Slice is put behind it
//!   a value that anybody needs whole is computed whole
//! ```
//!
//! The last block of a transformer then handles one step instead of twenty beyond its keys and
//! values, and so does the final projection to 1024 bins. The rows that remain are computed
//! from the same numbers as before.

use super::{CONTEXT, STATE_SIZE};
use spark_onnx::graph::{
    Binary, Dim, Graph, LayerNormalization, MatMul, Node, Op, RmsNormalization, Slice, Split,
    StaticGraph, Transpose, ValueId, Where, bind, resolve_axis,
};
use spark_onnx::{ModelError, Tensor};
use std::collections::BTreeMap;

/// Batch size for which shapes are looked at; differs from every extent of the interface.
const PROBE: usize = 3;
/// Axis of the steps in the output.
const STEP_AXIS: usize = 1;

/// `graph`, whose first output is `[b, 20, n]`, with `[b, 1, n]` instead; another graph as it is.
/// `states` and `tokens` name its inputs.
///
/// # Errors
///
/// Those of inferring its shapes.
pub(super) fn keep_last_step(
    graph: &Graph,
    states: &str,
    tokens: &str,
) -> Result<Graph, ModelError> {
    let shapes = [
        (states, vec![PROBE, CONTEXT, STATE_SIZE]),
        (tokens, vec![PROBE, CONTEXT]),
    ];
    let types = bind(graph, &shapes)?;
    let of_logits = graph.outputs.first().map(|&id| &types.value(id).ty.shape);
    if !of_logits.is_some_and(|shape| matches!(shape[..], [PROBE, CONTEXT, _])) {
        return Ok(graph.clone());
    }
    let plan = Plan::new(graph, &types);
    Ok(Rewriter::new(graph, plan).run())
}

/// How much of a value somebody needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Need {
    /// The last entry along this axis.
    Last(usize),
    /// Every entry of it.
    Whole,
}

/// What every node computes: all, or the last entry along an axis.
struct Plan {
    nodes: Vec<Need>,
    /// For narrowed nodes, what they need of every operand.
    operands: Vec<Vec<Need>>,
    /// For every value, what its maker makes.
    values: Vec<Need>,
    /// Axes of every value.
    ranks: Vec<usize>,
}

impl Plan {
    fn new(graph: &Graph, types: &StaticGraph) -> Self {
        let mut needs: Vec<Option<Need>> = vec![None; graph.values.len()];
        let ask = |id: ValueId, need: Need, needs: &mut Vec<Option<Need>>| {
            let known = &mut needs[id.0];
            *known = match *known {
                Some(other) if other != need => Some(Need::Whole),
                _ => Some(need),
            };
        };
        for (i, &id) in graph.outputs.iter().enumerate() {
            let need = if i == 0 {
                Need::Last(STEP_AXIS)
            } else {
                Need::Whole
            };
            ask(id, need, &mut needs);
        }
        let mut plan = Self {
            nodes: vec![Need::Whole; graph.nodes.len()],
            operands: vec![Vec::new(); graph.nodes.len()],
            values: vec![Need::Whole; graph.values.len()],
            ranks: types.values().iter().map(|v| v.ty.shape.len()).collect(),
        };
        for (at, node) in graph.nodes.iter().enumerate().rev() {
            let mut wanted = node.outputs.iter().flatten().filter_map(|id| needs[id.0]);
            let first = wanted.next();
            let agreed = first.filter(|need| wanted.all(|other| other == *need));
            let narrowed = match agreed {
                Some(Need::Last(axis)) => operand_needs(node, axis, types).map(|o| (axis, o)),
                _ => None,
            };
            if let Some((axis, operands)) = narrowed {
                plan.nodes[at] = Need::Last(axis);
                for id in node.outputs.iter().flatten() {
                    plan.values[id.0] = Need::Last(axis);
                }
                plan.operands[at] = operands;
            }
            for (i, id) in node.inputs.iter().enumerate() {
                let need = plan.operands[at].get(i).copied().unwrap_or(Need::Whole);
                if let Some(id) = id {
                    ask(*id, need, &mut needs);
                }
            }
        }
        plan
    }
}

/// What `node` needs of its operands to make the last entry of its results along `axis`.
fn operand_needs(node: &Node, axis: usize, types: &StaticGraph) -> Option<Vec<Need>> {
    let shape = |i: usize| Some(types.value((*node.inputs.get(i)?)?).ty.shape.as_slice());
    let result = types.value((*node.outputs.first()?)?).ty.shape.as_slice();
    let along = |i: usize| {
        let of = shape(i)?;
        // Operands are aligned at their last axis; what is missing or 1 is repeated.
        let own = (axis + of.len()).checked_sub(result.len());
        Some(match own {
            Some(own) if of[own] != 1 => Need::Last(own),
            _ => Need::Whole,
        })
    };
    let first = |need: Need| {
        let mut needs = vec![Need::Whole; node.inputs.len()];
        needs[0] = need;
        needs
    };
    match &node.op {
        Op::Unary(_) | Op::Cast(_) => Some(first(Need::Last(axis))),
        Op::Binary(_) | Op::Variadic(_) | Op::Where(Where) => {
            (0..node.inputs.len()).map(along).collect()
        }
        Op::MatMul(MatMul) => {
            let (a, b) = (shape(0)?, shape(1)?);
            let is_row = a.len() >= 2 && b.len() >= 2 && axis + 2 == result.len();
            is_row.then(|| first(Need::Last(a.len() - 2)))
        }
        Op::LayerNormalization(LayerNormalization { axis: from, .. })
        | Op::RmsNormalization(RmsNormalization { axis: from, .. }) => {
            let from = resolve_axis(*from, result.len()).ok()?;
            (axis < from).then(|| first(Need::Last(axis)))
        }
        Op::Softmax(softmax) if !softmax.flatten => {
            let over = resolve_axis(softmax.axis, result.len()).ok()?;
            (over != axis).then(|| first(Need::Last(axis)))
        }
        Op::Split(Split { axis: cut }) => {
            let cut = resolve_axis(*cut, result.len()).ok()?;
            (cut != axis).then(|| first(Need::Last(axis)))
        }
        Op::Transpose(Transpose { perm }) => Some(first(Need::Last(match perm {
            Some(perm) => *perm.get(axis)?,
            None => result.len() - 1 - axis,
        }))),
        Op::Reshape(_) => {
            let from = shape(0)?;
            let same = from.get(..=axis)? == result.get(..=axis)?;
            same.then(|| first(Need::Last(axis)))
        }
        _ => None,
    }
}

struct Rewriter<'g> {
    old: &'g Graph,
    new: Graph,
    plan: Plan,
    slices: BTreeMap<(ValueId, usize), ValueId>,
}

impl<'g> Rewriter<'g> {
    fn new(old: &'g Graph, plan: Plan) -> Self {
        let mut new = old.clone();
        new.nodes.clear();
        Self {
            old,
            new,
            plan,
            slices: BTreeMap::new(),
        }
    }

    fn run(mut self) -> Graph {
        for at in 0..self.old.nodes.len() {
            let mut node = self.old.nodes[at].clone();
            if let Need::Last(axis) = self.plan.nodes[at] {
                for i in 0..node.inputs.len() {
                    if let (Some(id), Need::Last(own)) = (node.inputs[i], self.plan.operands[at][i])
                    {
                        node.inputs[i] = Some(self.last_of(id, own));
                    }
                }
                if let (Op::Reshape(_), Some(target)) =
                    (&node.op, node.inputs.get(1).copied().flatten())
                {
                    let made = node.outputs[0].map_or(0, |id| self.plan.ranks[id.0]);
                    node.inputs[1] = Some(self.one_at(&node.name, target, axis, made));
                }
                for id in node.outputs.iter().flatten() {
                    self.new.values[id.0].shape = None;
                }
            }
            self.new.nodes.push(node);
        }
        let logits = self.old.outputs[0];
        let last = self.last_of(logits, STEP_AXIS);
        let declared = self.old.value(logits).clone();
        let value = &mut self.new.values[last.0];
        value.dtype = declared.dtype;
        value.shape = declared.shape.map(|mut dims| {
            dims[STEP_AXIS] = Dim::Known(1);
            dims
        });
        self.new.outputs[0] = last;
        self.new
    }

    /// The value itself if it was made narrow, else a slice of it.
    fn last_of(&mut self, id: ValueId, axis: usize) -> ValueId {
        if self.plan.values[id.0] == Need::Last(axis) {
            return id;
        }
        if let Some(&slice) = self.slices.get(&(id, axis)) {
            return slice;
        }
        let name = format!("{}.last_of_axis_{axis}", self.old.value(id).name);
        let bounds = [("start", -1), ("end", i64::MAX), ("axis", axis as i64)];
        let mut inputs = vec![Some(id)];
        for (what, value) in bounds {
            inputs.push(Some(self.numbers(&format!("{name}.{what}"), vec![value])));
        }
        let slice = self.new.add_node(name, Op::Slice(Slice), &inputs);
        self.slices.insert((id, axis), slice);
        slice
    }

    /// A reshape's target, given or computed, with extent 1 at `axis`: `target * (1 - e) + e`.
    fn one_at(&mut self, name: &str, target: ValueId, axis: usize, rank: usize) -> ValueId {
        let unit: Vec<i64> = (0..rank).map(|i| i64::from(i == axis)).collect();
        let rest = unit.iter().map(|e| 1 - e).collect();
        let rest = self.numbers(&format!("{name}.kept_extents"), rest);
        let unit = self.numbers(&format!("{name}.one_extent"), unit);
        let kept = [Some(target), Some(rest)];
        let kept = self
            .new
            .add_node(format!("{name}.kept"), Op::Binary(Binary::Mul), &kept);
        let sum = [Some(kept), Some(unit)];
        self.new
            .add_node(format!("{name}.target"), Op::Binary(Binary::Add), &sum)
    }

    fn numbers(&mut self, name: &str, values: Vec<i64>) -> ValueId {
        let tensor = Tensor::from_i64([values.len()], values).expect("one axis");
        self.new.add_constant(name, tensor)
    }
}

#[cfg(test)]
mod tests {
    use super::super::random_dynamics;
    use super::*;
    use spark_onnx::graph::{CumSum, Reshape, Shape};
    use spark_onnx::{ModelRunner, Precision, RunOptions};

    fn last_rows(graph: Graph, steps: usize) -> (Vec<f32>, u64) {
        let n = 5;
        let numbers = |n: usize| (0..n).map(|i| (i as f32 * 0.37).sin()).collect();
        let states = Tensor::from_f32([n, 20, 4], numbers(n * 80)).unwrap();
        let tokens = (0..n as i64 * 20).map(|i| (i * 389) % 1024).collect();
        let tokens = Tensor::from_i64([n, 20], tokens).unwrap();
        let exact = RunOptions::new()
            .with_threads(1)
            .with_precision(Precision::Fp32);
        let mut runner = ModelRunner::from_graph(graph, &exact).unwrap();
        let inputs = [("states", &states), ("tokens", &tokens)];
        let outputs = runner.run(&inputs).unwrap();
        assert_eq!(outputs[0].1.shape(), [n, steps, 1024]);
        let rows = outputs[0].1.as_f32().unwrap().chunks(steps * 1024);
        let macs = runner.steps().iter().map(|step| step.macs).sum();
        let last = rows.flat_map(|row| row[(steps - 1) * 1024..].to_vec());
        (last.collect(), macs)
    }

    #[test]
    fn the_last_step_stays_and_a_third_of_the_work_goes() {
        let whole = random_dynamics(3);
        let narrow = keep_last_step(&whole, "states", "tokens").unwrap();
        let (want, all_macs) = last_rows(whole, 20);
        let (got, macs) = last_rows(narrow, 1);
        for (i, (w, g)) in want.iter().zip(&got).enumerate() {
            assert!((w - g).abs() <= 1e-5, "{i}: {g} != {w}");
        }
        assert!(macs * 10 < all_macs * 7, "{macs} of {all_macs}");
    }

    /// Exporters compute the shapes of reshapes from the batch; any node may be what stops us.
    #[test]
    fn computed_shapes_and_unknown_nodes_are_kept_right() {
        let mut whole = random_dynamics(4);
        let logits = whole.outputs[0];
        let shape = Op::Shape(Shape {
            start: 0,
            end: None,
        });
        let shape = whole.add_node("computed_shape", shape, &[Some(logits)]);
        let reshape = Op::Reshape(Reshape { allow_zero: false });
        let again = whole.add_node("again", reshape, &[Some(logits), Some(shape)]);
        let axis = Tensor::from_i64([], vec![2]).unwrap();
        let axis = whole.add_constant("axis", axis);
        let sums = Op::CumSum(CumSum {
            exclusive: false,
            reverse: false,
        });
        let sums = whole.add_node("sums", sums, &[Some(again), Some(axis)]);
        whole.outputs[0] = sums;
        let narrow = keep_last_step(&whole, "states", "tokens").unwrap();
        let (want, _) = last_rows(whole, 20);
        let (got, _) = last_rows(narrow, 1);
        assert_eq!(want, got);
    }
}
