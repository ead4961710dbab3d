//! Groups of nodes that spell out one operator, put back together.
//!
//! ```text
//! x * sigmoid(x)                                         Swish
//! x * hard_sigmoid(x), x * clip(x + 3, 0, 6) / 6         HardSwish
//! x / 2 * (1 + erf(x / sqrt 2)), in any order            Gelu
//! (x - mean(x)) / sqrt(mean((x - mean(x))^2) + e) ...    LayerNormalization
//! max(x) == -infinity ? 0 : softmax(x)                   MaskedSoftmax
//! ```
//!
//! Exporters of older operator sets write these out. One operator folds into the
//! epilogue of the GEMM before it, where the spelled-out form needs a pass of its own.
//! A pattern is taken only if nothing else reads its inner values.

use std::collections::HashMap;
use std::sync::Arc;

use crate::Tensor;
use crate::graph::{
    Binary, Clip, LayerNormalization, MaskedSoftmax, Node, Op, ReduceKind, StaticGraph, Unary,
    ValueId, Where,
};

/// Rewrites every pattern found; values and results of the graph keep their names.
pub(super) fn join(graph: &mut StaticGraph) {
    let mut from = 0;
    while let Some((at, found)) = first_found(graph, from) {
        let result = graph.nodes[at].outputs.clone();
        graph.nodes[at].op = found.op;
        graph.nodes[at].inputs = found.inputs;
        drop_unread(graph);
        from = graph
            .nodes
            .iter()
            .position(|n| n.outputs == result)
            .map_or(graph.nodes.len(), |i| i + 1);
    }
}

fn first_found(graph: &StaticGraph, from: usize) -> Option<(usize, Found)> {
    let view = Neighbours::of(graph);
    (from..graph.nodes.len()).find_map(|at| {
        let found = swish(&view, at)
            .or_else(|| hard_swish(&view, at))
            .or_else(|| gelu(&view, at))
            .or_else(|| layer_norm(&view, at))
            .or_else(|| masked_softmax(&view, at))?;
        Some((at, found))
    })
}

/// Drops nodes nothing reads, last first, so that what only they read goes too.
fn drop_unread(graph: &mut StaticGraph) {
    let mut readers = count_readers(graph);
    for i in (0..graph.nodes.len()).rev() {
        let node = &graph.nodes[i];
        if node.outputs.iter().flatten().all(|id| readers[id.0] == 0) {
            for id in node.inputs.iter().flatten() {
                readers[id.0] -= 1;
            }
            graph.nodes.remove(i);
        }
    }
}

/// What the node at the end of a pattern becomes.
struct Found {
    op: Op,
    inputs: Vec<Option<ValueId>>,
}

fn count_readers(graph: &StaticGraph) -> Vec<usize> {
    let mut readers = vec![0; graph.values.len()];
    let read = graph.nodes.iter().flat_map(|n| n.inputs.iter().flatten());
    for id in read.chain(&graph.outputs) {
        readers[id.0] += 1;
    }
    readers
}

/// The graph with its edges both ways.
struct Neighbours<'g> {
    graph: &'g StaticGraph,
    made_by: HashMap<ValueId, usize>,
    readers: Vec<usize>,
}

impl<'g> Neighbours<'g> {
    fn of(graph: &'g StaticGraph) -> Self {
        let mut made_by = HashMap::new();
        for (i, node) in graph.nodes.iter().enumerate() {
            for id in node.outputs.iter().flatten() {
                made_by.insert(*id, i);
            }
        }
        Self {
            graph,
            made_by,
            readers: count_readers(graph),
        }
    }

    /// The node that makes `id`, if `n` operands read it.
    fn maker(&self, id: ValueId, n: usize) -> Option<&'g Node> {
        if self.readers[id.0] != n {
            return None;
        }
        self.made_by.get(&id).map(|&i| &self.graph.nodes[i])
    }

    /// The one value of a constant.
    fn scalar(&self, id: ValueId) -> Option<f64> {
        let tensor = self.graph.value(id).constant.as_ref()?;
        match tensor.to_f64()[..] {
            [value] => Some(value),
            _ => None,
        }
    }

    /// `id` as `constant op x`, in either order for sums and products.
    fn with_scalar(&self, node: &Node, op: Binary) -> Option<(ValueId, f64)> {
        if node.op != Op::Binary(op) {
            return None;
        }
        let (a, b) = operands(node)?;
        match (self.scalar(a), self.scalar(b)) {
            (None, Some(c)) => Some((a, c)),
            (Some(c), None) if matches!(op, Binary::Add | Binary::Mul) => Some((b, c)),
            _ => None,
        }
    }

    /// `node` as `x * c`, also when written as a division.
    fn scaled(&self, node: &Node) -> Option<(ValueId, f64)> {
        self.with_scalar(node, Binary::Mul).or_else(|| {
            let (x, c) = self.with_scalar(node, Binary::Div)?;
            Some((x, 1.0 / c))
        })
    }
}

fn operands(node: &Node) -> Option<(ValueId, ValueId)> {
    match node.inputs[..] {
        [Some(a), Some(b)] => Some((a, b)),
        _ => None,
    }
}

fn first_operand(node: &Node) -> Option<ValueId> {
    node.inputs.first().copied().flatten()
}

/// Equal but for the rounding of a constant to half precision.
fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-3 * b.abs()
}

fn unary(op: Unary, x: ValueId) -> Found {
    Found {
        op: Op::Unary(op),
        inputs: vec![Some(x)],
    }
}

fn is_float(view: &Neighbours<'_>, x: ValueId) -> bool {
    view.graph.value(x).ty.dtype.is_float()
}

fn swish(view: &Neighbours<'_>, at: usize) -> Option<Found> {
    let node = &view.graph.nodes[at];
    (node.op == Op::Binary(Binary::Mul)).then_some(())?;
    let (a, b) = operands(node)?;
    [(a, b), (b, a)].into_iter().find_map(|(x, gate)| {
        let gate = view.maker(gate, 1)?;
        (first_operand(gate)? == x).then_some(())?;
        match gate.op {
            Op::Unary(Unary::Sigmoid) => Some(unary(Unary::Swish { alpha: 1.0 }, x)),
            Op::Unary(Unary::HardSigmoid { alpha, beta })
                if close(f64::from(alpha), 1.0 / 6.0) && beta == 0.5 =>
            {
                Some(unary(Unary::HardSwish, x))
            }
            _ => None,
        }
    })
}

fn hard_swish(view: &Neighbours<'_>, at: usize) -> Option<Found> {
    let (product, sixth) = view.scaled(&view.graph.nodes[at])?;
    close(sixth, 1.0 / 6.0).then_some(())?;
    let product = view.maker(product, 1)?;
    (product.op == Op::Binary(Binary::Mul)).then_some(())?;
    let (a, b) = operands(product)?;
    [(a, b), (b, a)].into_iter().find_map(|(x, clip)| {
        let clip = view.maker(clip, 1)?;
        (clip.op == Op::Clip(Clip)).then_some(())?;
        let bound = |i: usize| {
            clip.inputs
                .get(i)
                .copied()
                .flatten()
                .and_then(|id| view.scalar(id))
        };
        (bound(1)? == 0.0 && bound(2)? == 6.0).then_some(())?;
        let sum = view.maker(first_operand(clip)?, 1)?;
        let (inner, three) = view.with_scalar(sum, Binary::Add)?;
        (inner == x && three == 3.0).then(|| unary(Unary::HardSwish, x))
    })
}

fn gelu(view: &Neighbours<'_>, at: usize) -> Option<Found> {
    let node = &view.graph.nodes[at];
    // Either the halving comes last, or one factor was halved before.
    let half_last = view.scaled(node).filter(|(_, c)| close(*c, 0.5));
    if let Some((product, _)) = half_last {
        let product = view.maker(product, 1)?;
        let x = gelu_product(view, product, false)?;
        return Some(unary(Unary::Gelu { tanh: false }, x));
    }
    let x = gelu_product(view, node, true)?;
    Some(unary(Unary::Gelu { tanh: false }, x))
}

/// `x` of `x * (1 + erf(x / sqrt 2))`, one factor perhaps halved.
fn gelu_product(view: &Neighbours<'_>, node: &Node, halved: bool) -> Option<ValueId> {
    (node.op == Op::Binary(Binary::Mul)).then_some(())?;
    let (a, b) = operands(node)?;
    [(a, b), (b, a)].into_iter().find_map(|(factor, gate)| {
        let mut sum = view.maker(gate, 1)?;
        let mut x = factor;
        if halved {
            match view.maker(factor, 1).and_then(|n| view.scaled(n)) {
                Some((inner, c)) if close(c, 0.5) => x = inner,
                _ => {
                    let (inner, c) = view.scaled(sum)?;
                    close(c, 0.5).then_some(())?;
                    sum = view.maker(inner, 1)?;
                }
            }
        }
        let (erf, one) = view.with_scalar(sum, Binary::Add)?;
        (one == 1.0).then_some(())?;
        let erf = view.maker(erf, 1)?;
        (erf.op == Op::Unary(Unary::Erf)).then_some(())?;
        let (inner, c) = view.scaled(view.maker(first_operand(erf)?, 1)?)?;
        (inner == x && close(c, std::f64::consts::FRAC_1_SQRT_2) && is_float(view, x)).then_some(x)
    })
}

/// The shifted and scaled form, or the bare one.
fn layer_norm(view: &Neighbours<'_>, at: usize) -> Option<Found> {
    let node = &view.graph.nodes[at];
    (node.op == Op::Binary(Binary::Add)).then_some(())?;
    let (a, b) = operands(node)?;
    [(a, b), (b, a)].into_iter().find_map(|(product, bias)| {
        let product = view.maker(product, 1)?;
        (product.op == Op::Binary(Binary::Mul)).then_some(())?;
        let (a, b) = operands(product)?;
        [(a, b), (b, a)].into_iter().find_map(|(quotient, scale)| {
            let (x, axis, epsilon) = normalised(view, view.maker(quotient, 1)?)?;
            let shape = &view.graph.value(x).ty.shape;
            for vector in [scale, bias] {
                let constant = view.graph.value(vector).constant.as_ref()?;
                (constant.shape() == &shape[axis..]).then_some(())?;
            }
            Some(Found {
                op: Op::LayerNormalization(LayerNormalization {
                    axis: axis as i64,
                    epsilon: epsilon as f32,
                }),
                inputs: vec![Some(x), Some(scale), Some(bias)],
            })
        })
    })
}

/// `x`, first axis and epsilon of `(x - mean) / sqrt(variance + epsilon)`.
fn normalised(view: &Neighbours<'_>, quotient: &Node) -> Option<(ValueId, usize, f64)> {
    (quotient.op == Op::Binary(Binary::Div)).then_some(())?;
    let (difference, deviation) = operands(quotient)?;
    let root = view.maker(deviation, 1)?;
    (root.op == Op::Unary(Unary::Sqrt)).then_some(())?;
    let sum = view.maker(first_operand(root)?, 1)?;
    let (variance, epsilon) = view.with_scalar(sum, Binary::Add)?;
    let (square, axis) = mean_of(view, variance)?;
    let square = view.maker(square, 1)?;
    // The difference is read by the quotient and by its square, once or twice.
    let reads = match square.op {
        Op::Binary(Binary::Pow) => {
            let (base, two) = operands(square)?;
            (base == difference && view.scalar(two)? == 2.0).then_some(2)?
        }
        Op::Binary(Binary::Mul) => {
            let (a, b) = operands(square)?;
            (a == difference && b == difference).then_some(3)?
        }
        _ => return None,
    };
    let minus = view.maker(difference, reads)?;
    (minus.op == Op::Binary(Binary::Sub)).then_some(())?;
    let (x, mean) = operands(minus)?;
    let (averaged, mean_axis) = mean_of(view, mean)?;
    (averaged == x && mean_axis == axis && is_float(view, x)).then_some((x, axis, epsilon))
}

/// Rows of which all is minus infinity are set to zero behind a softmax along the last axis.
fn masked_softmax(view: &Neighbours<'_>, at: usize) -> Option<Found> {
    let node = &view.graph.nodes[at];
    (node.op == Op::Where(Where)).then_some(())?;
    let [Some(hidden), Some(zero), Some(weights)] = node.inputs[..] else {
        return None;
    };
    (view.scalar(zero)? == 0.0).then_some(())?;
    let (greatest, least) = view.with_scalar(view.maker(hidden, 1)?, Binary::Equal)?;
    (least == f64::NEG_INFINITY).then_some(())?;
    let (x, axis) = reduced_last(view, greatest, ReduceKind::Max)?;
    let softmax = view.maker(weights, 1)?;
    let Op::Softmax(params) = softmax.op else {
        return None;
    };
    let last = view.graph.value(x).ty.shape.len().checked_sub(1)?;
    let along_last = [-1, last as i64].contains(&params.axis) && axis == last && !params.log;
    (along_last && first_operand(softmax)? == x).then(|| Found {
        op: Op::MaskedSoftmax(MaskedSoftmax),
        inputs: vec![Some(x)],
    })
}

/// Operand and first axis of a mean over the last axes that keeps them.
fn mean_of(view: &Neighbours<'_>, id: ValueId) -> Option<(ValueId, usize)> {
    reduced_last(view, id, ReduceKind::Mean)
}

/// Operand and first axis of a reduction over the last axes that keeps them.
fn reduced_last(view: &Neighbours<'_>, id: ValueId, kind: ReduceKind) -> Option<(ValueId, usize)> {
    let node = view.maker(id, 1)?;
    let Op::Reduce(params) = node.op else {
        return None;
    };
    (params.kind == kind && params.keep_dims).then_some(())?;
    let x = first_operand(node)?;
    let rank = view.graph.value(x).ty.shape.len();
    let axes: Option<Arc<Tensor>> = node
        .inputs
        .get(1)
        .copied()
        .flatten()
        .and_then(|id| view.graph.value(id).constant.clone());
    let mut axes: Vec<i64> = axes?.as_i64()?.to_vec();
    for axis in &mut axes {
        *axis += if *axis < 0 { rank as i64 } else { 0 };
    }
    axes.sort_unstable();
    let first = rank.checked_sub(axes.len())?;
    let last_axes = axes
        .iter()
        .enumerate()
        .all(|(i, &a)| a == (first + i) as i64);
    (!axes.is_empty() && last_axes).then_some((x, first))
}

#[cfg(test)]
mod tests;
