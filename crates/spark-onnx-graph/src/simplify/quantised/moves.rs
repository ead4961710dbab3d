//! Elements that are dequantised, moved, and quantised with the same scale again, moved as bytes.
//!
//! ```text
//! x_q ─Dequantize─Transpose─Reshape─Quantize─ y_q     becomes     x_q ─Transpose─Reshape─ y_q
//! ```
//!
//! A byte that is dequantised and quantised with one scale is itself, so nothing changes but what is moved: a quarter
//! of the memory, and no arithmetic. Quantisers write this form, as they give the result of a move the scale of its operand.
//!
//! Only where scale and zero point are constants of one value, and nothing else reads what is between.

use super::neighbours::{Neighbours, Quantised};
use crate::graph::{Graph, Node, Op, Pool, PoolKind, QuantizeLinear, Unary, ValueId};

/// A run of moves between a dequantisation and its inverse.
struct Run {
    /// The moves, last first.
    moves: Vec<usize>,
    quantize: usize,
    /// What the first move reads instead, operand by operand.
    operands: Vec<(usize, ValueId)>,
}

/// Moves bytes where floats were moved between a dequantisation and its inverse.
pub(super) fn move_bytes(graph: &mut Graph) {
    let runs: Vec<Run> = {
        let view = Neighbours::of(graph);
        let nodes = 0..graph.nodes.len();
        nodes.filter_map(|at| view.run_before(at)).collect()
    };
    let mut gone = vec![false; graph.nodes.len()];
    for run in runs {
        gone[run.quantize] = true;
        for &at in &run.moves[1..] {
            // What a file says of values in between it says of floats.
            for id in graph.nodes[at].outputs.clone().into_iter().flatten() {
                graph.values[id.0].dtype = None;
            }
        }
        let result = graph.nodes[run.quantize].outputs[0];
        graph.nodes[run.moves[0]].outputs[0] = result;
        let first = run.moves[run.moves.len() - 1];
        for (at, id) in run.operands {
            graph.nodes[first].inputs[at] = Some(id);
        }
    }
    let mut at = 0..;
    graph
        .nodes
        .retain(|_| at.next().is_some_and(|at| !gone[at]));
}

/// The operands of `node` whose elements it hands on, all or some of them, if it does nothing else.
fn moved(node: &Node) -> Option<std::ops::Range<usize>> {
    match &node.op {
        Op::Concat(_) => Some(0..node.inputs.len()),
        Op::Reshape(_)
        | Op::Flatten(_)
        | Op::Squeeze(_)
        | Op::Unsqueeze(_)
        | Op::Transpose(_)
        | Op::Expand(_)
        | Op::Tile(_)
        | Op::Slice(_)
        | Op::DepthToSpace(_)
        | Op::SpaceToDepth(_)
        | Op::Unary(Unary::Identity) => Some(0..1),
        // The greatest byte is that of the greatest float. Over three axes engines may compute with floats.
        Op::Pool(Pool {
            kind: PoolKind::Max,
            kernel,
            ..
        }) if kernel.len() <= 2 => Some(0..1),
        _ => None,
    }
}

impl Neighbours<'_> {
    /// The run of moves that the quantisation at `at` ends, if there is one.
    fn run_before(&self, at: usize) -> Option<Run> {
        let node = &self.graph.nodes[at];
        let Op::QuantizeLinear(QuantizeLinear {
            block_size: 0,
            float: None,
            ..
        }) = &node.op
        else {
            return None;
        };
        node.outputs.first().copied().flatten()?;
        let input = |at: usize| node.inputs.get(at).copied().flatten();
        let (mut value, scale, zero) = (input(0)?, input(1)?, input(2));
        let y = Quantised {
            value,
            scale,
            zero,
            dtype: self.byte_type(value, zero).or(match zero {
                Some(_) => None,
                None => Some(crate::tensor::DType::U8),
            })?,
        };
        self.is_known(&y, None, 0).then_some(())?;
        let mut moves = Vec::new();
        loop {
            (self.readers[value.0] == 1).then_some(())?;
            let maker = *self.made_by.get(&value)?;
            let node = &self.graph.nodes[maker];
            let [Some(_)] = node.outputs[..] else {
                return None;
            };
            let operands = moved(node)?;
            moves.push(maker);
            let ids = operands.map(|at| node.inputs.get(at).copied().flatten().map(|id| (at, id)));
            let ids = ids.collect::<Option<Vec<(usize, ValueId)>>>()?;
            let bytes = ids.iter().map(|&(at, id)| {
                let (x, _) = self.dequantised(id)?;
                self.is_same(&x, &y).then_some((at, x.value))
            });
            match bytes.collect::<Option<Vec<(usize, ValueId)>>>() {
                Some(operands) => {
                    return Some(Run {
                        moves,
                        quantize: at,
                        operands,
                    });
                }
                None => match ids[..] {
                    [(_, id)] => value = id,
                    _ => return None,
                },
            }
        }
    }

    /// Whether a byte that is dequantised as `x` and quantised as `y` is itself.
    fn is_same(&self, x: &Quantised, y: &Quantised) -> bool {
        let zero = |quantised: &Quantised| match quantised.zero {
            None => Some(0.0),
            Some(id) => self.constant(id)?.to_f64().first().copied(),
        };
        let scales = self.scalar(x.scale).zip(self.scalar(y.scale));
        // The quotient is exact enough for every byte, as long as no product is rounded to 0 or infinity.
        let is_scale = |s: f32| s.is_normal() && (255.0 * s).is_finite();
        self.is_known(x, None, 0)
            && x.dtype == y.dtype
            && scales.is_some_and(|(x, y)| x == y && is_scale(x))
            && zero(x).is_some_and(|x| zero(y) == Some(x))
    }
}

#[cfg(test)]
mod tests {
    use crate::graph::{
        Concat, DequantizeLinear, Dim, Graph, Op, QuantizeLinear, Transpose, Unary, ValueId,
    };
    use crate::{DType, Tensor, join_quantised};

    fn input(graph: &mut Graph, name: &str) -> ValueId {
        graph.add_input(name, DType::U8, vec![Dim::Known(2), Dim::Known(3)])
    }

    fn scale(graph: &mut Graph, value: f32) -> Option<ValueId> {
        let tensor = Tensor::from_f32([], vec![value]).expect("one value");
        let name = format!("scale{}", graph.values.len());
        Some(graph.add_constant(name, tensor))
    }

    fn floats(graph: &mut Graph, x: ValueId, value: f32) -> ValueId {
        let scale = scale(graph, value);
        let name = format!("floats{}", graph.values.len());
        graph.add_node(
            name,
            Op::from(DequantizeLinear::along(1)),
            &[Some(x), scale],
        )
    }

    fn bytes(graph: &mut Graph, x: ValueId, value: f32) {
        let scale = scale(graph, value);
        let quantize = Op::from(QuantizeLinear::along(1));
        let y = graph.add_node("bytes", quantize, &[Some(x), scale]);
        graph.outputs.push(y);
    }

    fn names(mut graph: Graph) -> Vec<String> {
        join_quantised(&mut graph);
        let names = graph.nodes.iter().map(|node| node.op.name().to_owned());
        names.collect()
    }

    #[test]
    fn a_run_of_moves_with_one_scale_moves_bytes() {
        let mut graph = Graph::default();
        let x = input(&mut graph, "x");
        let x = floats(&mut graph, x, 0.5);
        let transpose = || Op::from(Transpose { perm: None });
        let y = graph.add_node("moved", transpose(), &[Some(x)]);
        let y = graph.add_node("back", transpose(), &[Some(y)]);
        bytes(&mut graph, y, 0.5);
        assert_eq!(names(graph), ["Transpose", "Transpose"]);
    }

    #[test]
    fn joined_operands_must_have_the_scale_of_the_result_each() {
        for (second, expected) in [
            (0.5, vec!["Concat"]),
            (
                0.25,
                vec![
                    "DequantizeLinear",
                    "DequantizeLinear",
                    "Concat",
                    "QuantizeLinear",
                ],
            ),
        ] {
            let mut graph = Graph::default();
            let (a, b) = (input(&mut graph, "a"), input(&mut graph, "b"));
            let (a, b) = (floats(&mut graph, a, 0.5), floats(&mut graph, b, second));
            let concat = Op::from(Concat { axis: 0 });
            let y = graph.add_node("joined", concat, &[Some(a), Some(b)]);
            bytes(&mut graph, y, 0.5);
            assert_eq!(names(graph), expected);
        }
    }

    #[test]
    fn what_is_changed_or_read_elsewhere_stays() {
        let dequantised = ["DequantizeLinear", "Transpose", "QuantizeLinear"];
        let transpose = || Op::from(Transpose { perm: None });
        let mut graph = Graph::default();
        let x = input(&mut graph, "x");
        let x = floats(&mut graph, x, 0.5);
        let y = graph.add_node("moved", transpose(), &[Some(x)]);
        bytes(&mut graph, y, 0.5);
        let mut read = graph.clone();
        read.outputs.push(y);
        assert_eq!(names(read), dequantised);
        // A scale whose products with a byte are lost.
        for lost in [1e-40, 3e38] {
            let mut graph = Graph::default();
            let x = input(&mut graph, "x");
            let x = floats(&mut graph, x, lost);
            let y = graph.add_node("moved", transpose(), &[Some(x)]);
            bytes(&mut graph, y, lost);
            assert_eq!(names(graph), dequantised);
        }
        let mut graph = Graph::default();
        let x = input(&mut graph, "x");
        let x = floats(&mut graph, x, 0.5);
        let y = graph.add_node("y", Op::Unary(Unary::Neg), &[Some(x)]);
        bytes(&mut graph, y, 0.5);
        assert_eq!(names(graph), ["DequantizeLinear", "Neg", "QuantizeLinear"]);
    }
}
