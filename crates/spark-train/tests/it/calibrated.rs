//! Networks whose weights a calibration rounded.

use spark_onnx::calibration::{CalibrationOptions, calibrate};
use spark_onnx::precision::Activations;
use spark_onnx::{Model, Precision, RunOptions};
use spark_onnx_graph::graph::{Conv, Dim, Flatten, Graph, MatMul, Op, Padding, Unary};
use spark_onnx_graph::{DType, Tensor};
use spark_testing::numbers;
use spark_train::{Sample, TrainError, with_calibrated_weights};

const IN: [usize; 4] = [1, 20, 6, 5];

/// A 3 x 3 convolution of 20 channels, which four bits pad to 32, and a product whose weight is transposed; what both give is an output too, so that
/// steps of the engine have the names of their nodes.
fn network() -> Graph {
    let mut graph = Graph::default();
    let x = graph.add_input("x", DType::F32, IN.map(Dim::Known).to_vec());
    let w = Tensor::from_f32([24, 20, 3, 3], numbers(24 * 20 * 9, 1)).expect("fits");
    let w = graph.add_constant("first.weight", w);
    let conv = Conv {
        strides: Vec::new(),
        dilations: Vec::new(),
        padding: Padding::Valid,
        groups: 1,
    };
    let first = graph.add_node("first", Op::Conv(conv), &[Some(x), Some(w)]);
    let y = graph.add_node("tanh", Op::Unary(Unary::Tanh), &[Some(first)]);
    let y = graph.add_node("flat", Op::Flatten(Flatten { axis: 1 }), &[Some(y)]);
    let w = Tensor::from_f32([24 * 12, 7], numbers(24 * 12 * 7, 2)).expect("fits");
    let w = graph.add_constant("second.weight", w);
    let y = graph.add_node("second", Op::MatMul(MatMul), &[Some(y), Some(w)]);
    graph.outputs.extend([y, first]);
    graph
}

fn sample(seed: u64) -> Sample {
    // Channels that move together, so that one makes up for another's rounding.
    let (all, own) = (numbers(30, seed), numbers(IN.iter().product(), 1000 + seed));
    let x = own
        .iter()
        .enumerate()
        .map(|(i, own)| 0.1 * (all[i % 30] + 0.3 * own));
    let x = Tensor::from_f32(IN, x.collect()).expect("fits");
    Sample {
        inputs: vec![("x".to_owned(), x)],
        targets: Vec::new(),
    }
}

fn output(graph: &Graph, sample: &Sample, options: &RunOptions) -> Vec<f32> {
    let model = Model::from_graph(graph.clone(), options).expect("plans");
    let results = model
        .session()
        .run(&[("x", &sample.inputs[0].1)])
        .expect("runs");
    results[0].1.to_f32()
}

fn square(got: &[f32], want: &[f32]) -> f32 {
    got.iter().zip(want).map(|(g, w)| (g - w).powi(2)).sum()
}

#[test]
fn the_weights_are_those_that_the_engine_runs_with_the_calibration() {
    let samples: Vec<Sample> = (0..40).map(sample).collect();
    let graph = network();
    let f32s = RunOptions::new().with_precision(Precision::Fp32);
    for precision in [Precision::Fp4, Precision::Fp8] {
        let options = RunOptions::new()
            .with_precision(precision)
            .with_activations(Activations::Exact);
        let mut told = Vec::new();
        let n = samples.len();
        let tell = |done, of| told.push((done, of));
        let own = with_calibrated_weights(graph.clone(), &samples, n, precision, &options, tell);
        let own = own.expect("is calibrated");
        assert_eq!(told, [(1, 2), (2, 2)]);
        let batches: Vec<_> = samples
            .iter()
            .map(|s| vec![("x", &s.inputs[0].1)])
            .collect();
        let wanted = CalibrationOptions::new(precision);
        let chosen = calibrate(&graph, &batches, &options, &wanted, |_, _| ()).expect("chooses");
        let calibrated = options.clone().with_calibration(chosen);
        let (mut nearest, mut rounded_again, mut compensated) = (0.0, 0.0, 0.0);
        for seed in 50..60 {
            let fresh = sample(seed);
            let want = output(&graph, &fresh, &f32s);
            let engine = output(&graph, &fresh, &calibrated);
            let got = output(&own, &fresh, &f32s);
            let largest = engine.iter().fold(0.0f32, |m, v| m.max(v.abs()));
            assert!(square(&got, &engine).sqrt() < 1e-5 * largest, "{precision}");
            nearest += square(&output(&graph, &fresh, &options), &want);
            compensated += square(&got, &want);
            rounded_again += square(&output(&own, &fresh, &options), &want);
        }
        assert!(
            compensated < 0.7 * nearest,
            "{precision}: {compensated} {nearest}"
        );
        assert!(
            rounded_again < 0.7 * nearest,
            "{precision}: {rounded_again} {nearest}"
        );
    }
}

#[test]
fn what_cannot_be_calibrated_is_an_error() {
    let calibrated = |samples: &Vec<Sample>, precision| {
        let options = RunOptions::new();
        with_calibrated_weights(network(), samples, 4, precision, &options, |_, _| ())
    };
    let some: Vec<Sample> = (0..2).map(sample).collect();
    let error = calibrated(&some, Precision::Int8).expect_err("has no grid");
    assert!(matches!(error, TrainError::NoRounding { .. }), "{error}");
    let error = calibrated(&Vec::new(), Precision::Fp4).expect_err("has no samples");
    assert!(matches!(error, TrainError::TooFewSamples { .. }), "{error}");
}

#[test]
fn weights_that_no_layer_has_are_named() {
    let mut graph = network();
    let half = |values: Vec<f32>| {
        let values = values.into_iter().map(f64::from).collect();
        Tensor::from_f64(DType::F16, vec![24 * 12, 7], values).expect("fits")
    };
    // A product of f16 behind a cast of its operand, whose weight nothing casts.
    let w = graph.add_constant("half.weight", half(numbers(24 * 12 * 7, 3)));
    let flat = graph
        .nodes
        .iter()
        .find(|node| node.name == "flat")
        .expect("is there");
    let flat = flat.outputs[0];
    let to = |dtype| Op::Cast(spark_onnx_graph::graph::Cast { to: dtype });
    let h = graph.add_node("narrow", to(DType::F16), &[flat]);
    let h = graph.add_node("half", Op::MatMul(MatMul), &[Some(h), Some(w)]);
    let y = graph.add_node("wide", to(DType::F32), &[Some(h)]);
    graph.outputs.push(y);
    let some: Vec<Sample> = (0..4).map(sample).collect();
    let options = RunOptions::new();
    let made = with_calibrated_weights(graph, &some, 4, Precision::Fp4, &options, |_, _| ());
    let error = made.map(|_| ()).expect_err("cannot stand in the file");
    assert!(
        matches!(&error, TrainError::NotReplaced { names } if names[..] == ["half"]),
        "{error}"
    );
}
