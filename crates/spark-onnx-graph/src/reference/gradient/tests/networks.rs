//! Whole networks against central differences: of a picture, with attention, recurrent.

use super::super::{GradientOptions, gradients};
use super::{
    TOLERANCE, f64s, ints, largest, loss_terms, moved, positive, random, scaled, slope_at_zero,
};
use crate::graph::{
    AspectRatio, BatchNormalization, Binary, Cell, Concat, Conv, CoordinateTransform,
    DequantizeLinear, Dim, Direction, Flatten, Gather, Gemm, GlobalPool, Graph, Interpolation,
    LayerNormalization, MatMul, NearestRounding, Node, Op, Padding, Pool, PoolKind, QuantizeLinear,
    Recurrent, Reduce, ReduceKind, Reshape, Resize, Slice, Softmax, Split, Squeeze, Transpose,
    Unary, Value, ValueId, bind,
};
use crate::reference::run_wide;
use crate::tensor::{DType, Tensor};
use std::sync::Arc;

/// A network with values for its inputs, put together node by node.
#[derive(Default)]
pub(crate) struct Net {
    pub(crate) graph: Graph,
    pub(crate) inputs: Vec<(String, Tensor)>,
}

impl Net {
    fn input(&mut self, name: &str, tensor: Tensor) -> ValueId {
        let shape = tensor.shape().iter().map(|&d| Dim::Known(d)).collect();
        let id = self.graph.add_input(name, tensor.dtype(), shape);
        self.inputs.push((name.to_owned(), tensor));
        id
    }

    fn constant(&mut self, name: &str, tensor: Tensor) -> ValueId {
        self.graph.add_constant(name, tensor)
    }

    fn node(&mut self, name: &str, op: impl Into<Op>, inputs: &[ValueId]) -> ValueId {
        let inputs: Vec<Option<ValueId>> = inputs.iter().copied().map(Some).collect();
        self.graph.add_node(name, op.into(), &inputs)
    }

    /// A node with several results.
    fn nodes(
        &mut self,
        name: &str,
        op: impl Into<Op>,
        inputs: &[Option<ValueId>],
        n: usize,
    ) -> Vec<ValueId> {
        let results: Vec<ValueId> = (0..n)
            .map(|i| {
                self.graph.add_value(Value {
                    name: format!("{name}.{i}"),
                    dtype: None,
                    shape: None,
                    constant: None,
                })
            })
            .collect();
        self.graph.nodes.push(Node {
            name: name.to_owned(),
            op: op.into(),
            inputs: inputs.to_vec(),
            outputs: results.iter().copied().map(Some).collect(),
        });
        results
    }

    pub(crate) fn given(&self) -> Vec<(&str, &Tensor)> {
        let inputs = self.inputs.iter();
        inputs
            .map(|(name, tensor)| (name.as_str(), tensor))
            .collect()
    }

    /// The terms of the loss, where an element of an input or constant is moved.
    fn loss(&self, name: &str, at: usize, distance: f64, gradients: &[Option<Tensor>]) -> Vec<f64> {
        let mut graph = self.graph.clone();
        let mut inputs = self.inputs.clone();
        if let Some((_, input)) = inputs.iter_mut().find(|(input, _)| input == name) {
            *input = moved(input, at, distance);
        } else {
            let mut values = graph.values.iter_mut();
            let value = values.find(|value| value.name == name).expect("there");
            let constant = value.constant.as_mut().expect("a constant");
            *constant = Arc::new(moved(constant, at, distance));
        }
        let bound = bind(&graph, &[]).expect("binds");
        let given: Vec<(&str, &Tensor)> = inputs.iter().map(|(n, t)| (n.as_str(), t)).collect();
        let outputs = run_wide(&bound, &given).expect("runs");
        let outputs: Vec<Tensor> = outputs.into_iter().map(|(_, tensor)| tensor).collect();
        loss_terms(&outputs, gradients)
    }

    /// Holds the gradients of all that is wanted against differences, at up to 9 elements each.
    #[track_caller]
    fn check(&self, wanted: &[&str]) {
        let bound = bind(&self.graph, &[]).expect("binds");
        let mut output_gradients = Vec::new();
        for (i, &id) in bound.outputs().iter().enumerate() {
            let value = bound.value(id);
            output_gradients.push((value.name.as_str(), random(&value.ty.shape, 900 + i as u64)));
        }
        let given: Vec<(&str, &Tensor)> = output_gradients.iter().map(|(n, t)| (*n, t)).collect();
        let options = GradientOptions::default();
        let found =
            gradients(&bound, &self.given(), &given, wanted, options).expect("has gradients");
        let seeds: Vec<Option<Tensor>> = output_gradients
            .iter()
            .map(|(_, t)| Some(t.clone()))
            .collect();
        for ((name, gradient), wanted) in found.iter().zip(wanted) {
            assert_eq!(name, wanted);
            let got = gradient.to_f64();
            let scale = largest(&got);
            assert!(scale > 1e-4, "{name} has no gradient: {scale}");
            for at in (0..got.len()).step_by(got.len().div_ceil(9)) {
                let want = slope_at_zero(|distance| self.loss(name, at, distance, &seeds));
                let error = (got[at] - want).abs() / scale;
                assert!(
                    error <= TOLERANCE,
                    "{name}[{at}]: {}, wanted {want}",
                    got[at]
                );
                // The comparison can fail.
                let wrong = (got[at] * 1.001 - want).abs() / scale;
                assert!(
                    wrong > TOLERANCE || got[at].abs() < 1e-4 * scale,
                    "{name}[{at}]"
                );
            }
        }
    }
}

fn conv(strides: usize, groups: usize) -> Conv {
    Conv {
        strides: vec![strides; 2],
        dilations: vec![],
        padding: Padding::Explicit(vec![1; 4]),
        groups,
    }
}

fn pointwise() -> Conv {
    Conv {
        padding: Padding::Explicit(vec![]),
        ..conv(1, 1)
    }
}

/// Wanted of [`squeeze_and_excitation`].
pub(crate) const OF_PICTURE: [&str; 11] = [
    "x", "w0", "b0", "scale", "shift", "mean", "variance", "w1", "w2", "w3", "b3",
];

/// A convolutional network of a picture.
pub(crate) fn squeeze_and_excitation() -> Net {
    let mut net = Net::default();
    let x = net.input("x", random(&[1, 3, 8, 8], 1));
    let w0 = net.constant("w0", random(&[6, 3, 3, 3], 2));
    let b0 = net.constant("b0", random(&[6], 3));
    let stem = net.node("stem", conv(2, 1), &[x, w0, b0]);
    let statistics = [
        net.constant("scale", positive(&[6], 4)),
        net.constant("shift", random(&[6], 5)),
        net.constant("mean", random(&[6], 6)),
        net.constant("variance", positive(&[6], 7)),
    ];
    let operands = [&[stem], &statistics[..]].concat();
    let normal = net.node("normal", BatchNormalization { epsilon: 1e-3 }, &operands);
    let relu = net.node("relu", Unary::Relu, &[normal]);
    let w1 = net.constant("w1", random(&[6, 1, 3, 3], 8));
    let depthwise = net.node("depthwise", conv(1, 6), &[relu, w1]);
    let swish = net.node("swish", Unary::Swish { alpha: 1.0 }, &[depthwise]);
    let kind = PoolKind::Average;
    let pooled = net.node("pooled", GlobalPool { kind }, &[swish]);
    let w2 = net.constant("w2", random(&[6, 6, 1, 1], 9));
    let gate = net.node("gate", pointwise(), &[pooled, w2]);
    let gate = net.node("sigmoid", Unary::Sigmoid, &[gate]);
    let excited = net.node("excited", Binary::Mul, &[swish, gate]);
    let added = net.node("added", Binary::Add, &[excited, relu]);
    let pool = Pool {
        kind: PoolKind::Max,
        kernel: vec![2, 2],
        strides: vec![2, 2],
        dilations: vec![],
        padding: Padding::Explicit(vec![]),
        count_include_pad: false,
        ceil_mode: false,
    };
    let small = net.node("small", pool, &[added]);
    let sizes = net.constant(
        "scales",
        Tensor::from_f32([4], vec![1.0, 1.0, 2.0, 2.0]).expect("four"),
    );
    let resize = Resize {
        mode: Interpolation::Linear,
        transform: CoordinateTransform::HalfPixel,
        rounding: NearestRounding::RoundPreferFloor,
        cubic_coeff: -0.75,
        exclude_outside: false,
        extrapolation: 0.0,
        antialias: false,
        axes: None,
        aspect: AspectRatio::Stretch,
    };
    let large = net
        .graph
        .add_node("large", resize.into(), &[Some(small), None, Some(sizes)]);
    let joined = net.node("joined", Concat { axis: 1 }, &[large, relu]);
    let flat = net.node("flat", Flatten { axis: 1 }, &[joined]);
    let w3 = net.constant("w3", scaled(&random(&[5, 192], 10), 0.2));
    let b3 = net.constant("b3", random(&[5], 11));
    let gemm = Gemm {
        alpha: 1.0,
        beta: 1.0,
        trans_a: false,
        trans_b: true,
    };
    let y = net.node("y", gemm, &[flat, w3, b3]);
    net.graph.outputs = vec![y, pooled];
    net
}

#[test]
fn a_convolutional_network_with_squeeze_and_excitation() {
    squeeze_and_excitation().check(&OF_PICTURE);
}

/// Wanted of [`transformer_block`]; scale and shift are read twice.
pub(crate) const OF_BLOCK: [&str; 8] =
    ["x", "scale", "shift", "qkv", "factor", "out", "up", "down"];

/// Attention and a perceptron, each behind a normalisation.
pub(crate) fn transformer_block() -> Net {
    let mut net = Net::default();
    let x = net.input("x", random(&[2, 4, 6], 1));
    let normal = LayerNormalization {
        axis: -1,
        epsilon: 1e-5,
    };
    let (scale, shift) = (
        net.constant("scale", positive(&[6], 2)),
        net.constant("shift", random(&[6], 3)),
    );
    let first = net.node("first", normal, &[x, scale, shift]);
    let w = net.constant("qkv", random(&[6, 18], 4));
    let qkv = net.node("qkv_of", MatMul, &[first, w]);
    let parts = net.nodes("parts", Split { axis: -1 }, &[Some(qkv)], 3);
    let heads = net.constant("heads", ints(&[2, 4, 2, 3]));
    let turn = |net: &mut Net, name: &str, part, perm: Vec<usize>| {
        let reshape = Reshape { allow_zero: false };
        let split = net.node(&format!("{name}.heads"), reshape, &[part, heads]);
        net.node(name, Transpose { perm: Some(perm) }, &[split])
    };
    let q = turn(&mut net, "q", parts[0], vec![0, 2, 1, 3]);
    let k = turn(&mut net, "k", parts[1], vec![0, 2, 3, 1]);
    let v = turn(&mut net, "v", parts[2], vec![0, 2, 1, 3]);
    let scores = net.node("scores", MatMul, &[q, k]);
    let factor = net.constant("factor", f64s(&[], vec![0.577]));
    let scores = net.node("scaled", Binary::Mul, &[scores, factor]);
    let softmax = Softmax {
        axis: -1,
        log: false,
        flatten: false,
    };
    let weights = net.node("weights", softmax, &[scores]);
    let mixed = net.node("mixed", MatMul, &[weights, v]);
    let mixed = net.node(
        "turned",
        Transpose {
            perm: Some(vec![0, 2, 1, 3]),
        },
        &[mixed],
    );
    let whole = net.constant("whole", ints(&[2, 4, 6]));
    let mixed = net.node("joined", Reshape { allow_zero: false }, &[mixed, whole]);
    let w = net.constant("out", random(&[6, 6], 5));
    let out = net.node("out_of", MatMul, &[mixed, w]);
    let middle = net.node("middle", Binary::Add, &[x, out]);
    let second = net.node("second", normal, &[middle, scale, shift]);
    let w = net.constant("up", random(&[6, 12], 6));
    let up = net.node("up_of", MatMul, &[second, w]);
    let gelu = net.node("gelu", Unary::Gelu { tanh: false }, &[up]);
    let w = net.constant("down", random(&[12, 6], 7));
    let down = net.node("down_of", MatMul, &[gelu, w]);
    let y = net.node("y", Binary::Add, &[middle, down]);
    net.graph.outputs = vec![y];
    net
}

#[test]
fn a_transformer_block() {
    transformer_block().check(&OF_BLOCK);
}

#[test]
fn a_recurrent_network_over_looked_up_words() {
    let mut net = Net::default();
    let words = Tensor::from_i64([3, 2], vec![1, 4, 0, 1, 1, 2]).expect("six");
    let words = net.input("words", words);
    let table = net.constant("table", random(&[5, 4], 1));
    let looked_up = net.node("looked_up", Gather { axis: 0 }, &[table, words]);
    let gru = Recurrent {
        cell: Cell::Gru {
            linear_before_reset: true,
        },
        direction: Direction::Bidirectional,
        hidden: 3,
        activations: vec![],
        batch_first: false,
    };
    let w = net.constant("w", random(&[2, 9, 4], 2));
    let r = net.constant("r", random(&[2, 9, 3], 3));
    let b = net.constant("b", random(&[2, 18], 4));
    let h0 = net.input("h0", random(&[2, 2, 3], 5));
    let operands = [Some(looked_up), Some(w), Some(r), Some(b), None, Some(h0)];
    let states = net.nodes("gru", gru, &operands, 2);
    let [from, to, axis] = [1, 2, 0].map(|v| ints(&[v]));
    let part = [net.constant("from", from), net.constant("to", to)];
    let axis = net.constant("axis", axis);
    let second = net.node("second", Slice, &[states[0], part[0], part[1], axis]);
    let second = net.node("flat", Squeeze, &[second, axis]);
    let square = net.node("square", Binary::Mul, &[second, second]);
    let mean = Reduce {
        kind: ReduceKind::Mean,
        keep_dims: false,
        noop_with_empty_axes: false,
    };
    let mean = net.node("mean", mean, &[square]);
    let log = Softmax {
        axis: -1,
        log: true,
        flatten: false,
    };
    let log = net.node("log", log, &[states[1]]);
    // A value that is read on is an output as well.
    net.graph.outputs = vec![mean, log, states[1]];
    net.check(&["table", "w", "r", "b", "h0"]);
}

#[test]
fn gradients_of_values_in_between() {
    let mut net = Net::default();
    let x = net.input("x", f64s(&[2], vec![1.0, 2.0]));
    let double = net.node("double", Binary::Add, &[x, x]);
    let y = net.node("y", Binary::Mul, &[double, x]);
    net.graph.outputs = vec![y];
    let bound = bind(&net.graph, &[]).expect("binds");
    let dy = f64s(&[2], vec![1.0, 10.0]);
    let wanted = ["double", "x", "y", "x"];
    let found = gradients(
        &bound,
        &net.given(),
        &[("y", &dy)],
        &wanted,
        GradientOptions::default(),
    );
    let found = found.expect("has gradients");
    let of = |i: usize| found[i].1.to_f64();
    // y = 2 x^2
    assert_eq!((of(0), of(1)), (vec![1.0, 20.0], vec![4.0, 80.0]));
    assert_eq!((of(2), of(3)), (vec![1.0, 10.0], of(1)));
}

/// `x` quantised, reshaped and dequantised.
pub(crate) fn fake_quantisation() -> Net {
    let mut net = Net::default();
    let x = net.input("x", f64s(&[4], vec![0.3, -0.2, 9.0, 0.01]));
    let scale = net.constant("scale", f64s(&[], vec![0.05]));
    let zero = net.constant(
        "zero",
        Tensor::from_f64(DType::I8, [], vec![-5.0]).expect("one"),
    );
    let q = net.node("q", QuantizeLinear::along(0), &[x, scale, zero]);
    let shape = net.constant("shape", ints(&[2, 2]));
    let q = net.node("reshaped", Reshape { allow_zero: false }, &[q, shape]);
    let y = net.node("y", DequantizeLinear::along(0), &[q, scale, zero]);
    net.graph.outputs = vec![y];
    net
}

#[test]
fn fake_quantisation_hands_on_where_roundings_do_not_count() {
    let net = fake_quantisation();
    let bound = bind(&net.graph, &[]).expect("binds");
    let dy = f64s(&[2, 2], vec![1.0, 2.0, 4.0, 8.0]);
    let found = |straight_through| {
        let options = GradientOptions { straight_through };
        let found = gradients(
            &bound,
            &net.given(),
            &[("y", &dy)],
            &["x", "scale"],
            options,
        );
        let found = found.expect("has gradients");
        [found[0].1.to_f64(), found[1].1.to_f64()]
    };
    // q - zero is [6, -4, 132, 0].
    let [by_x, by_scale] = found(false);
    assert_eq!(
        (by_x, by_scale),
        (vec![0.0; 4], vec![6.0 - 8.0 + 4.0 * 132.0])
    );
    let [by_x, by_scale] = found(true);
    let close = by_x
        .iter()
        .zip([1.0, 2.0, 0.0, 8.0])
        .all(|(g, w)| (g - w).abs() < 1e-12);
    assert!(close, "{by_x:?}");
    // Less x / scale, [6, -4, beyond, 0.2].
    let want = 4.0 * 132.0 - 8.0 * 0.2;
    assert!(
        (by_scale[0] - want).abs() < 1e-9,
        "{by_scale:?}, wanted {want}"
    );
}
