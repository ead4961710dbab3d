//! Networks of integers that a calibration writes: they act, they keep to their file, and what does not fit is refused.

use std::collections::BTreeSet;

use spark_onnx::calibration::{
    IntegerNetwork, IntegerOptions, WeightRounding, products_behind_values, quantise,
};
use spark_onnx::graph::{
    BatchNormalization, Binary, Cast, Clip, Conv, DequantizeLinear, Dim, Gemm, Graph, MatMul,
    NonZero, Op, Padding, Reshape, Transpose, Unary, ValueId,
};
use spark_onnx::{DType, Model, ModelError, Precision, RunOptions, Tensor, file};
use spark_quant::calibration::ScaleMethod;
use spark_testing::numbers;

const CHANNELS: usize = 8;
const SIDE: usize = 12;

pub(crate) fn drawn(seed: u64, shape: &[usize]) -> Tensor {
    let n = shape.iter().product();
    Tensor::from_f32(shape, numbers(n, seed)).expect("fits")
}

pub(crate) fn options() -> RunOptions {
    RunOptions::new()
        .with_precision(Precision::Fp32)
        .with_threads(1)
}

/// A convolution of every kind, one around another, and two products of matrices, of which the last is the output.
pub(crate) fn network() -> Graph {
    let mut graph = Graph::default();
    let dims = [None, Some(3), Some(SIDE), Some(SIDE)];
    let dims = dims.map(|dim| dim.map_or(Dim::Symbol("batch".to_owned()), Dim::Known));
    let x = graph.add_input("x", DType::F32, dims.to_vec());
    let conv = |graph: &mut Graph, name: &str, x: ValueId, shape: [usize; 4], stride: usize| {
        let groups = if shape[1] == 1 { shape[0] } else { 1 };
        let seed = shape.iter().sum::<usize>() as u64;
        let w = graph.add_constant(format!("{name}.w"), drawn(seed, &shape));
        let b = graph.add_constant(format!("{name}.b"), drawn(seed + 1, &shape[..1]));
        let conv = Conv {
            strides: vec![stride; 2],
            dilations: vec![],
            padding: Padding::Explicit(vec![shape[2] / 2; 4]),
            groups,
        };
        graph.add_node(name, Op::Conv(conv), &[Some(x), Some(w), Some(b)])
    };
    let stem = conv(&mut graph, "stem", x, [CHANNELS, 3, 3, 3], 2);
    let stem = graph.add_node("stem.relu", Op::Unary(Unary::Relu), &[Some(stem)]);
    let deep = conv(&mut graph, "depthwise", stem, [CHANNELS, 1, 3, 3], 1);
    let low = graph.add_constant("low", Tensor::from_f32([], vec![0.0]).expect("fits"));
    let high = graph.add_constant("high", Tensor::from_f32([], vec![2.0]).expect("fits"));
    let clipped = [Some(deep), Some(low), Some(high)];
    let deep = graph.add_node("depthwise.clip", Op::Clip(Clip), &clipped);
    let point = conv(&mut graph, "pointwise", deep, [CHANNELS, CHANNELS, 1, 1], 1);
    let sum = [Some(point), Some(stem)];
    let sum = graph.add_node("sum", Op::Binary(Binary::Add), &sum);
    let rows = Tensor::from_i64([2], vec![0, -1]).expect("fits");
    let rows = graph.add_constant("rows", rows);
    let reshape = Op::Reshape(Reshape { allow_zero: false });
    let flat = graph.add_node("flat", reshape, &[Some(sum), Some(rows)]);
    let depth = CHANNELS * SIDE * SIDE / 4;
    let w = graph.add_constant("head.w", drawn(70, &[16, depth]));
    let b = graph.add_constant("head.b", drawn(71, &[16]));
    let gemm = Op::Gemm(Gemm {
        alpha: 1.0,
        beta: 1.0,
        trans_a: false,
        trans_b: true,
    });
    let head = graph.add_node("head", gemm, &[Some(flat), Some(w), Some(b)]);
    let w = graph.add_constant("last.w", drawn(72, &[16, 5]));
    let last = graph.add_node("last", Op::MatMul(MatMul), &[Some(head), Some(w)]);
    graph.outputs.push(last);
    graph
}

pub(crate) fn pictures(seeds: std::ops::Range<u64>) -> Vec<Tensor> {
    let picture = |seed| drawn(1000 + seed, &[1 + seed as usize % 2, 3, SIDE, SIDE]);
    seeds.map(picture).collect()
}

pub(crate) fn batches(pictures: &[Tensor]) -> Vec<Vec<(&str, &Tensor)>> {
    pictures.iter().map(|x| vec![("x", x)]).collect()
}

pub(crate) fn made(wanted: &IntegerOptions) -> IntegerNetwork {
    let seen = pictures(0..6);
    quantise(&network(), &batches(&seen), &options(), wanted, |_, _| ()).expect("fits")
}

fn outputs(graph: &Graph, pictures: &[Tensor]) -> Vec<Vec<f32>> {
    let model = Model::from_graph(graph.clone(), &options()).expect("fits");
    let mut session = model.session();
    let run = |batch: &Vec<(&str, &Tensor)>| session.run(batch).expect("runs")[0].1.to_f32();
    batches(pictures).iter().map(run).collect()
}

/// Signal to error in decibels over all outputs.
pub(crate) fn sqnr_db(exact: &[Vec<f32>], rounded: &[Vec<f32>]) -> f64 {
    let pairs = exact.iter().flatten().zip(rounded.iter().flatten());
    let (mut signal, mut noise) = (0.0, 0.0);
    for (exact, rounded) in pairs {
        signal += f64::from(*exact).powi(2);
        noise += f64::from(exact - rounded).powi(2);
    }
    10.0 * f64::log10(signal / noise)
}

#[test]
fn products_are_of_integers_and_close_to_f32_on_inputs_not_seen() {
    let made = made(&IntegerOptions::default());
    let names: Vec<&str> = made.products().collect();
    assert_eq!(names, ["stem", "depthwise", "pointwise", "head"]);
    assert_eq!(made.kept.len(), 1);
    assert_eq!(made.kept[0].name, "last");
    assert_eq!(made.kept[0].reason, "its result is an output");

    let fresh = pictures(50..58);
    let model = Model::from_graph(made.graph.clone(), &options()).expect("fits");
    let mut session = model.session();
    session.run(&batches(&fresh)[0]).expect("runs");
    let steps = session.steps();
    let of_integers = steps.iter().filter(|step| step.kind.starts_with("int8"));
    assert_eq!(of_integers.count(), 4, "{steps:#?}");

    let exact = outputs(&network(), &fresh);
    let db = sqnr_db(&exact, &outputs(&made.graph, &fresh));
    assert!(db > 26.0 && db.is_finite(), "{db}");
}

#[test]
fn errors_are_those_of_every_product() {
    let made = made(&IntegerOptions::default());
    let fresh = pictures(50..58);
    let errors = made.errors(&batches(&fresh), &options()).expect("fits");
    let names: Vec<&str> = errors.iter().map(|error| error.name.as_str()).collect();
    assert_eq!(names, made.products().collect::<Vec<_>>());
    // A uniform value in 255 steps has 53 dB, twice the deviation in the same range 6 less.
    for error in errors {
        let (inputs, outputs) = (25.0..60.0, 25.0..50.0);
        assert!(inputs.contains(&error.input_db), "{error:?}");
        assert!(outputs.contains(&error.output_db), "{error:?}");
    }
}

#[test]
fn a_file_has_the_same_bits() {
    let made = made(&IntegerOptions::default());
    let bytes = file::to_bytes(&made.graph).expect("fits");
    let read = file::parse(&bytes, None).expect("ONNX");
    let fresh = pictures(50..54);
    let (before, after) = (outputs(&made.graph, &fresh), outputs(&read, &fresh));
    let bits = |outputs: &[Vec<f32>]| -> Vec<u32> {
        outputs
            .iter()
            .flatten()
            .map(|value| value.to_bits())
            .collect()
    };
    assert_eq!(bits(&before), bits(&after));
    // A byte each instead of four; scales, zero points and biases are beside them.
    let of_floats = file::to_bytes(&network()).expect("fits").len();
    assert!(bytes.len() * 2 < of_floats, "{} {of_floats}", bytes.len());
}

#[test]
fn weights_to_the_nearest_have_a_scale_per_channel() {
    let wanted = IntegerOptions::default().with_weights(WeightRounding::Nearest);
    let made = made(&wanted);
    let named = |name: &str| {
        let value = made.graph.values.iter().find(|value| value.name == name);
        value.and_then(|value| value.constant.clone()).expect(name)
    };
    let (codes, scales) = (named("head_weights_quantized"), named("head_weights_scale"));
    let weights = drawn(70, codes.shape()).to_f32();
    let codes = codes.to_f64();
    let rows = weights.chunks(codes.len() / 16).zip(scales.to_f32());
    for (row, (weights, scale)) in rows.enumerate() {
        let largest = weights.iter().fold(0.0f32, |most, w| most.max(w.abs()));
        assert!((scale - largest / 127.0).abs() <= scale * 1e-6, "{row}");
        for (i, weight) in weights.iter().enumerate() {
            let code = codes[row * weights.len() + i];
            let error = f64::from(*weight) - code * f64::from(scale);
            assert!(error.abs() <= f64::from(scale) * 0.501, "{row} {i}");
        }
    }
}

#[test]
fn making_up_for_rounding_takes_the_mean_error_away() {
    let mut graph = Graph::default();
    let shape = vec![Dim::Known(300), Dim::Known(64)];
    let x = graph.add_input("x", DType::F32, shape);
    let w = graph.add_constant("w", drawn(5, &[12, 64]));
    let gemm = Gemm {
        alpha: 1.0,
        beta: 1.0,
        trans_a: false,
        trans_b: true,
    };
    let y = graph.add_node("product", Op::Gemm(gemm), &[Some(x), Some(w)]);
    let y = graph.add_node("y", Op::Unary(Unary::Tanh), &[Some(y)]);
    graph.outputs.push(y);
    let (seen, fresh) = (near_one(0..4, [300, 64]), near_one(9..13, [300, 64]));
    let mean_error = |weights| {
        let wanted = IntegerOptions::default().with_weights(weights);
        let made = quantise(&graph, &batches(&seen), &options(), &wanted, |_, _| ()).expect("fits");
        let errors = made.errors(&batches(&fresh), &options()).expect("fits");
        errors[0].output_db
    };
    let (nearest, compensated) = (
        mean_error(WeightRounding::Nearest),
        mean_error(WeightRounding::Compensated),
    );
    assert!(compensated > nearest + 2.0, "{nearest} {compensated}");
}

#[test]
fn ranges_and_kept_products_act() {
    let fresh = pictures(50..52);
    let default = made(&IntegerOptions::default());
    let all = IntegerOptions::default().with_scales(ScaleMethod::MaxAbs);
    assert_ne!(
        outputs(&default.graph, &fresh),
        outputs(&made(&all).graph, &fresh)
    );
    let kept = BTreeSet::from(["stem".to_owned()]);
    let kept = made(&IntegerOptions::default().with_kept(kept));
    assert_eq!(kept.products().next(), Some("depthwise"));
    let first = &kept.kept[0];
    assert_eq!(
        (first.name.as_str(), first.reason),
        ("stem", "it was asked to")
    );
}

#[test]
fn the_same_batches_give_the_same_file_on_any_number_of_threads() {
    let seen = pictures(0..4);
    let file = |threads| {
        let options = options().with_threads(threads);
        let wanted = IntegerOptions::default();
        let made = quantise(&network(), &batches(&seen), &options, &wanted, |_, _| ());
        file::to_bytes(&made.expect("fits").graph).expect("fits")
    };
    assert_eq!(file(1), file(3));
}

/// Inputs near one: the rounding of weights adds up to an offset of every output, which a bias would take away.
fn near_one(seeds: std::ops::Range<u64>, shape: [usize; 2]) -> Vec<Tensor> {
    let input = |seed| {
        let values = numbers(shape[0] * shape[1], seed).into_iter();
        let values = values.map(|v| 1.0 + 0.05 * v).collect();
        Tensor::from_f32(shape, values).expect("fits")
    };
    seeds.map(input).collect()
}

#[test]
fn a_matrix_without_bias_gets_none() {
    let mut graph = Graph::default();
    let shape = vec![Dim::Known(300), Dim::Known(64)];
    let x = graph.add_input("x", DType::F32, shape);
    let w = graph.add_constant("w", drawn(5, &[64, 12]));
    let y = graph.add_node("product", Op::MatMul(MatMul), &[Some(x), Some(w)]);
    let y = graph.add_node("y", Op::Unary(Unary::Tanh), &[Some(y)]);
    graph.outputs.push(y);
    let seen = near_one(0..4, [300, 64]);
    let wanted = IntegerOptions::default();
    let made = quantise(&graph, &batches(&seen), &options(), &wanted, |_, _| ()).expect("fits");
    let bytes = file::to_bytes(&made.graph).expect("fits");
    let read = file::parse(&bytes, None).expect("what is written can be read");
    assert_eq!(outputs(&read, &seen), outputs(&made.graph, &seen));
}

#[test]
fn a_dead_channel_with_a_bias_stays_an_integer() {
    // As folded normalisation leaves it: weights of 1e-9 of the others', a bias like theirs.
    let mut graph = Graph::default();
    let x = graph.add_input("x", DType::F32, vec![Dim::Known(64), Dim::Known(16)]);
    let mut weights = numbers(8 * 16, 3);
    weights[3 * 16..4 * 16].iter_mut().for_each(|w| *w *= 1e-9);
    let w = Tensor::from_f32([8, 16], weights).expect("fits");
    let w = graph.add_constant("w", w);
    let b = graph.add_constant("b", Tensor::from_f32([8], vec![0.4; 8]).expect("fits"));
    let gemm = Gemm {
        alpha: 1.0,
        beta: 1.0,
        trans_a: false,
        trans_b: true,
    };
    let y = graph.add_node("product", Op::Gemm(gemm), &[Some(x), Some(w), Some(b)]);
    let y = graph.add_node("y", Op::Unary(Unary::Tanh), &[Some(y)]);
    graph.outputs.push(y);
    let seen: Vec<Tensor> = (0..4).map(|seed| drawn(seed, &[64, 16])).collect();
    for weights in [WeightRounding::Nearest, WeightRounding::Compensated] {
        let wanted = IntegerOptions::default().with_weights(weights);
        let made = quantise(&graph, &batches(&seen), &options(), &wanted, |_, _| ()).expect("fits");
        let model = Model::from_graph(made.graph.clone(), &options()).expect("fits");
        let mut session = model.session();
        let got = session.run(&batches(&seen)[0]).expect("runs")[0].1.to_f32();
        let steps = session.steps();
        assert!(
            steps.iter().any(|step| step.kind.starts_with("int8")),
            "{steps:#?}"
        );
        for row in got.chunks(8) {
            assert!((row[3] - 0.4f32.tanh()).abs() < 0.02, "{row:?}");
        }
    }
}

/// A product of weights `w`, bias 0.05 and a tangent.
fn with_small_bias(op: Op, x: &[usize], w: Tensor, n_out: usize) -> Graph {
    let mut graph = Graph::default();
    let dims = x.iter().map(|&extent| Dim::Known(extent)).collect();
    let x = graph.add_input("x", DType::F32, dims);
    let w = graph.add_constant("w", w);
    let b = Tensor::from_f32([n_out], vec![0.05; n_out]).expect("fits");
    let b = graph.add_constant("b", b);
    let y = graph.add_node("product", op, &[Some(x), Some(w), Some(b)]);
    let y = graph.add_node("y", Op::Unary(Unary::Tanh), &[Some(y)]);
    graph.outputs.push(y);
    graph
}

#[test]
fn channels_of_zeros_keep_their_bias_under_large_inputs() {
    let conv = |groups| {
        Op::Conv(Conv {
            strides: vec![],
            dilations: vec![],
            padding: Padding::Explicit(vec![]),
            groups,
        })
    };
    let gemm = Op::Gemm(Gemm {
        alpha: 1.0,
        beta: 1.0,
        trans_a: false,
        trans_b: false,
    });
    // The first of eight channels is of zeros, or all are; others are small, so that outputs are of bytes near the bias.
    let first_zero = |shape: [usize; 4]| {
        let mut weights = drawn(5, &shape).to_f32();
        let own = weights.len() / 8;
        weights.iter_mut().for_each(|w| *w *= 1e-3);
        weights[..own].fill(0.0);
        Tensor::from_f32(shape, weights).expect("fits")
    };
    let zeros = Tensor::from_f32([8, 4], vec![0.0; 32]).expect("fits");
    let picture = [2, 8, 4, 4];
    let cases = [
        (conv(1), &picture[..], first_zero([8, 8, 1, 1]), 8),
        (conv(8), &picture[..], first_zero([8, 1, 3, 3]), 8),
        (gemm, &[32, 8][..], zeros, 4),
    ];
    for (op, shape, w, n_out) in cases {
        let graph = with_small_bias(op, shape, w, n_out);
        let x = drawn(9, shape).to_f32().iter().map(|v| v * 100.0).collect();
        let seen = [Tensor::from_f32(shape, x).expect("fits")];
        for weights in [WeightRounding::Nearest, WeightRounding::Compensated] {
            let wanted = IntegerOptions::default().with_weights(weights);
            let made = quantise(&graph, &batches(&seen), &options(), &wanted, |_, _| ());
            let made = made.expect("fits");
            let named = |name: &str| {
                let value = made.graph.values.iter().find(|value| value.name == name);
                value.and_then(|value| value.constant.clone()).expect(name)
            };
            let scales = named("product_weights_scale").to_f32();
            assert!(scales.iter().all(|scale| scale.is_normal()), "{scales:?}");
            let calibration = made.calibration();
            let step = calibration
                .integer_layer("product")
                .expect("is")
                .output
                .scale;
            let got = &outputs(&made.graph, &seen)[0];
            // Channels are the last axis of a matrix and the second of a picture.
            let got = match shape.len() {
                2 => &got[..n_out],
                _ => &got[..1],
            };
            for y in got {
                assert!(
                    (y - 0.05f32.tanh()).abs() <= step * 0.51,
                    "{shape:?} {y} {step}"
                );
            }
        }
    }
}

#[test]
fn normalisation_on_constants_is_folded() {
    let mut graph = Graph::default();
    let dims = [4, 6, 8, 8].map(Dim::Known);
    let x = graph.add_input("x", DType::F32, dims.to_vec());
    let w = graph.add_constant("w", drawn(1, &[5, 6, 1, 1]));
    let conv = Conv {
        strides: vec![],
        dilations: vec![],
        padding: Padding::Explicit(vec![]),
        groups: 1,
    };
    let y = graph.add_node("conv", Op::Conv(conv), &[Some(x), Some(w)]);
    let positive = |seed| {
        let values = numbers(5, seed).into_iter().map(|v| 0.5 + v.abs());
        Tensor::from_f32([5], values.collect()).expect("fits")
    };
    let of = |graph: &mut Graph, name: &str, tensor| Some(graph.add_constant(name, tensor));
    let operands = [
        Some(y),
        of(&mut graph, "scale", positive(2)),
        of(&mut graph, "shift", drawn(3, &[5])),
        of(&mut graph, "mean", drawn(4, &[5])),
        of(&mut graph, "variance", positive(5)),
    ];
    let normalise = Op::BatchNormalization(BatchNormalization { epsilon: 1e-3 });
    let y = graph.add_node("normal", normalise, &operands);
    let y = graph.add_node("y", Op::Unary(Unary::Tanh), &[Some(y)]);
    graph.outputs.push(y);
    let seen: Vec<Tensor> = (0..4).map(|seed| drawn(seed, &[4, 6, 8, 8])).collect();
    let wanted = IntegerOptions::default();
    let made = quantise(&graph, &batches(&seen), &options(), &wanted, |_, _| ()).expect("fits");
    let is_left = |node: &spark_onnx::graph::Node| matches!(node.op, Op::BatchNormalization(_));
    assert!(!made.graph.nodes.iter().any(is_left));
    let db = sqnr_db(&outputs(&graph, &seen), &outputs(&made.graph, &seen));
    assert!(db > 35.0, "{db}");
    graph.nodes[1].outputs.clear();
    let made = quantise(&graph, &batches(&seen), &options(), &wanted, |_, _| ());
    assert!(made.is_err(), "nothing makes the result any more");
}

#[test]
fn products_that_the_file_has_quantised_are_named_as_such() {
    let mut graph = Graph::default();
    let x = graph.add_input("x", DType::F32, vec![Dim::Known(4), Dim::Known(8)]);
    let codes = (0..24).map(|i| f64::from(i - 12)).collect();
    let codes = Tensor::from_f64(DType::I8, [8, 3], codes).expect("fits");
    let codes = graph.add_constant("codes", codes);
    let scales = Tensor::from_f32([3], vec![0.1, 0.2, 0.3]).expect("fits");
    let scales = graph.add_constant("scales", scales);
    let dequantize = Op::DequantizeLinear(DequantizeLinear::along(1));
    let w = graph.add_node("w", dequantize, &[Some(codes), Some(scales)]);
    let y = graph.add_node("product", Op::MatMul(MatMul), &[Some(x), Some(w)]);
    let y = graph.add_node("y", Op::Unary(Unary::Tanh), &[Some(y)]);
    graph.outputs.push(y);
    let seen = [drawn(1, &[4, 8])];
    let wanted = IntegerOptions::default();
    let refused = quantise(&graph, &batches(&seen), &options(), &wanted, |_, _| ());
    let text = refused.expect_err("refused").to_string();
    assert!(
        text.contains("`product`: already quantised in the file"),
        "{text}"
    );
    let int8 = options().with_precision(Precision::Int8);
    let refused = Model::from_graph(graph, &int8).map(|_| ());
    let text = refused.expect_err("no product of integers").to_string();
    assert!(
        text.contains("what the file quantises is no product of integers"),
        "{text}"
    );
    // One product is left as the first calibration had it.
    let file = made(&IntegerOptions::default().with_kept(BTreeSet::from(["stem".to_owned()])));
    let seen = pictures(0..2);
    let again = quantise(&file.graph, &batches(&seen), &options(), &wanted, |_, _| ());
    let again = again.expect("the first product is left");
    let reason = |name: &str| {
        let kept = again.kept.iter().find(|kept| kept.name == name);
        kept.map(|kept| kept.reason)
    };
    assert_eq!(reason("depthwise"), Some("already quantised in the file"));
}

#[test]
fn products_behind_lengths_that_values_say_are_named() {
    let mut graph = Graph::default();
    let x = graph.add_input("x", DType::F32, vec![Dim::Known(4), Dim::Known(8)]);
    let w = graph.add_constant("w", drawn(2, &[8, 8]));
    let y = graph.add_node("before", Op::MatMul(MatMul), &[Some(x), Some(w)]);
    let at = graph.add_node("at", Op::NonZero(NonZero), &[Some(y)]);
    let at = graph.add_node("cast", Op::Cast(Cast { to: DType::F32 }), &[Some(at)]);
    let transpose = Op::Transpose(Transpose { perm: None });
    let rows = graph.add_node("rows", transpose, &[Some(at)]);
    let w = graph.add_constant("w2", drawn(3, &[2, 5]));
    let y = graph.add_node("behind", Op::MatMul(MatMul), &[Some(rows), Some(w)]);
    graph.outputs.push(y);
    let behind = products_behind_values(&graph).expect("a sound graph");
    assert_eq!(behind.len(), 1, "{behind:?}");
    assert_eq!(behind[0].name, "behind");
    assert_eq!(behind[0].reason, "how many rows it gets hangs on values");
    assert_eq!(products_behind_values(&network()).expect("sound"), []);
}

#[test]
fn what_does_not_fit_is_refused() {
    let wanted = IntegerOptions::default();
    let refused = |graph: &Graph, batches: &[Vec<(&str, &Tensor)>], wanted: &IntegerOptions| {
        let refused = quantise(graph, batches, &options(), wanted, |_, _| ());
        refused.expect_err("refused").to_string()
    };
    let seen = pictures(0..2);
    let good = batches(&seen);
    assert!(refused(&network(), &[], &wanted).contains("no inputs"));
    let unknown = wanted.clone().with_kept(BTreeSet::from(["stm".to_owned()]));
    assert!(refused(&network(), &good, &unknown).contains("`stm`"));
    let all: BTreeSet<String> = ["stem", "depthwise", "pointwise", "head"]
        .map(str::to_owned)
        .into();
    let none = wanted.clone().with_kept(all);
    let error = refused(&network(), &good, &none);
    assert!(
        error.contains("no product") && error.contains("it was asked to"),
        "{error}"
    );
    let mut circle = network();
    let last = circle.nodes.len() - 1;
    circle.nodes[last - 1].outputs = circle.nodes[last - 1].inputs[..1].to_vec();
    assert!(refused(&circle, &good, &wanted).contains("contradicts"));

    let mut deep = Graph::default();
    let x = deep.add_input("x", DType::F32, vec![Dim::Known(1), Dim::Known(33_026)]);
    let w = deep.add_constant("w", drawn(1, &[33_026, 1]));
    let y = deep.add_node("deep", Op::MatMul(MatMul), &[Some(x), Some(w)]);
    let y = deep.add_node("y", Op::Unary(Unary::Tanh), &[Some(y)]);
    deep.outputs.push(y);
    let row = drawn(2, &[1, 33_026]);
    let error = refused(&deep, &[vec![("x", &row)]], &wanted);
    assert!(
        error.contains("`deep`: its sums may pass 32 bits"),
        "{error}"
    );

    let mut values = numbers(3 * SIDE * SIDE, 1);
    values[7] = f32::NAN;
    let bad = Tensor::from_f32([1, 3, SIDE, SIDE], values).expect("fits");
    let error = refused(&network(), &[vec![("x", &bad)]], &wanted);
    assert!(error.contains("not finite"), "{error}");
    let missing = quantise(&network(), &[vec![]], &options(), &wanted, |_, _| ());
    assert!(matches!(missing, Err(ModelError::InputMissing { .. })));
    let stranger = [vec![("x", &seen[0]), ("y", &seen[1])]];
    let stranger = quantise(&network(), &stranger, &options(), &wanted, |_, _| ());
    assert!(matches!(stranger, Err(ModelError::InputUnknown { .. })));
}
