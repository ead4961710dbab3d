//! Weights that others read too: trained, merged and rounded for their layer alone.

use spark_dora::loss::{Head, HeadKind};
use spark_dora::{DoraConfig, Init};
use spark_onnx::precision::Activations;
use spark_onnx::{Model, Precision, RunOptions};
use spark_onnx_graph::graph::{
    Binary, Cast, Dim, Gather, Gemm, Graph, MatMul, Op, Transpose, Unary,
};
use spark_onnx_graph::{DType, Tensor};
use spark_testing::numbers;
use spark_train::{
    AdaptedNetwork, Deployment, Errors, OutputHeads, Sample, Samples, TrainError, compare,
};

fn random(shape: &[usize], seed: u64) -> Tensor {
    let n = shape.iter().product();
    Tensor::from_f32(shape, numbers(n, seed)).expect("fits")
}

fn gemm() -> Op {
    Op::Gemm(Gemm {
        alpha: 1.0,
        beta: 1.0,
        trans_a: false,
        trans_b: true,
    })
}

/// `y = x W1^T`, `z = W1 looked up`, and `y W2^T + z`: a tied embedding.
fn tied() -> Graph {
    let mut graph = Graph::default();
    let shape = vec![Dim::Known(1), Dim::Known(32)];
    let x = graph.add_input("x", DType::F32, shape);
    let first = graph.add_constant("first.weight", random(&[32, 32], 1));
    let second = graph.add_constant("second.weight", random(&[32, 32], 2));
    let row = graph.add_constant("row", Tensor::from_i64([1], vec![3]).expect("fits"));
    let y = graph.add_node("first", gemm(), &[Some(x), Some(first)]);
    let y = graph.add_node("tanh", Op::Unary(Unary::Tanh), &[Some(y)]);
    let y = graph.add_node("second", gemm(), &[Some(y), Some(second)]);
    let z = graph.add_node(
        "z",
        Op::Gather(Gather { axis: 0 }),
        &[Some(first), Some(row)],
    );
    let y = graph.add_node("y", Op::Binary(Binary::Add), &[Some(y), Some(z)]);
    graph.outputs.push(y);
    graph
}

fn run(graph: &Graph, inputs: &[(&str, &Tensor)], options: &RunOptions) -> Vec<f32> {
    let model = Model::from_graph(graph.clone(), options).expect("plans");
    let results = model.session().run(inputs).expect("runs");
    results[0].1.to_f32()
}

fn trained(network: &AdaptedNetwork, x: &Tensor) -> Vec<f32> {
    let factors = network.factors().expect("has factors");
    let mut given = vec![("x", x)];
    given.extend(factors.iter().map(|(name, tensor)| (name.as_str(), tensor)));
    run(network.graph(), &given, &RunOptions::new())
}

fn off(got: &[f32], want: &[f32]) -> f32 {
    let scale = want.iter().fold(1e-6f32, |m, v| m.max(v.abs()));
    let pairs = got.iter().zip(want);
    pairs.fold(0.0, |m: f32, (g, w)| m.max((g - w).abs())) / scale
}

#[test]
fn a_merged_weight_that_others_read_stays_for_them() {
    let x = random(&[1, 32], 5);
    let adapted = DoraConfig::builder(2).init(Init::Random).targets(["first"]);
    let saved = DoraConfig::builder(2)
        .targets([""; 0])
        .modules_to_save(["first"]);
    for config in [adapted, saved] {
        let config = config.build().expect("settings");
        let network = AdaptedNetwork::new(tied(), config).expect("is adapted");
        for variable in network.adapter().variables().all() {
            let moved = (variable.as_tensor() * 1.25).and_then(|t| t + 0.01);
            variable.set(&moved.expect("moves")).expect("takes it");
        }
        let merged = network.merged().expect("merges").graph;
        assert_eq!(merged.nodes.len(), network.base().nodes.len());
        let got = run(&merged, &[("x", &x)], &RunOptions::new());
        let off = off(&got, &trained(&network, &x));
        assert!(off < 1e-5, "{off:e}");
    }
}

/// Layers that are rounded: adapted, trained whole, not trained, stored as f16 or bf16, read by others.
#[test]
fn what_was_trained_is_what_is_deployed_for_weights_of_every_kind() {
    let x = random(&[1, 32], 5);
    let mut halves = Graph::default();
    let input = halves.add_input("x", DType::F32, vec![Dim::Known(1), Dim::Known(32)]);
    let mut value = input;
    for (name, dtype) in [("first", DType::F16), ("second", DType::BF16)] {
        let weight = random(&[32, 32], 9).to_f64();
        let weight = Tensor::from_f64(dtype, [32, 32].to_vec(), weight).expect("fits");
        let w = halves.add_constant(format!("{name}.weight"), weight);
        let w = halves.add_node(
            format!("{name}.cast"),
            Op::Cast(Cast { to: DType::F32 }),
            &[Some(w)],
        );
        value = halves.add_node(name, gemm(), &[Some(value), Some(w)]);
    }
    halves.outputs.push(value);
    let options = |precision| {
        let options = RunOptions::new().with_precision(precision);
        options.with_activations(Activations::Exact)
    };
    for graph in [tied(), halves] {
        for precision in [Precision::Fp4, Precision::Fp8] {
            let deployment = Deployment::new(&graph, precision, &[], &RunOptions::new());
            let deployment = deployment.expect("has layers");
            let one = |layer: &str| {
                DoraConfig::builder(2)
                    .init(Init::Random)
                    .targets([layer.to_owned()])
            };
            let whole = DoraConfig::builder(2)
                .targets([""; 0])
                .modules_to_save(["second"]);
            for config in [one("first"), one("second"), whole] {
                let config = config.build().expect("settings");
                let network = AdaptedNetwork::deployed(graph.clone(), config, &deployment);
                let network = network.expect("is adapted");
                let merged = network.merged().expect("merges").graph;
                let got = run(&merged, &[("x", &x)], &options(precision));
                let off = off(&got, &trained(&network, &x));
                // Trained whole, a weight of sixteen bits is rounded to them when it is merged.
                let is_whole = network.adapter().saved_modules().next().is_some();
                let bound = match graph.nodes.len() == 4 && is_whole {
                    true => 0.2,
                    false => 1e-5,
                };
                assert!(off < bound, "{precision}: {off:e}");
            }
        }
    }
}

/// A product that the engine rounds and no layer stands for.
#[test]
fn rounding_that_training_would_not_see_is_refused() {
    let mut graph = Graph::default();
    let x = graph.add_input("x", DType::F32, vec![Dim::Known(1), Dim::Known(32)]);
    let w = graph.add_constant("first.weight", random(&[32, 32], 1));
    let turned = Op::Transpose(Transpose { perm: None });
    let turned = graph.add_node("turned", turned, &[Some(w)]);
    let y = graph.add_node("first", Op::MatMul(MatMul), &[Some(x), Some(turned)]);
    let w = graph.add_constant("second.weight", random(&[32, 32], 2));
    let y = graph.add_node("y", gemm(), &[Some(y), Some(w)]);
    graph.outputs.push(y);
    let refused = Deployment::new(&graph, Precision::Fp4, &[], &RunOptions::new());
    assert!(
        matches!(refused, Err(TrainError::OtherRounding { .. })),
        "{refused:?}"
    );
}

#[test]
fn samples_and_heads_that_do_not_fit_are_no_comparison() {
    let config = DoraConfig::builder(2)
        .targets(["first"])
        .build()
        .expect("settings");
    let network = AdaptedNetwork::new(tied(), config).expect("is adapted");
    let heads = |end: usize| {
        vec![OutputHeads {
            output: "y".to_owned(),
            heads: vec![Head {
                name: "all".to_owned(),
                range: 0..end,
                kind: HeadKind::Squares,
                weight: 1.0,
            }],
        }]
    };
    let sample = |n: usize| Sample {
        inputs: vec![("x".to_owned(), random(&[1, 32], 5))],
        targets: vec![("y".to_owned(), random(&[1, n], 6))],
    };
    let judge = |heads: &[OutputHeads], training: Sample| {
        let (training, held_back) = (vec![training], vec![sample(32)]);
        let samples: [&dyn Samples; 2] = [&training, &held_back];
        compare(&network, network.base(), heads, samples, &RunOptions::new())
    };
    let result = judge(&heads(32), sample(32)).expect("is judged");
    assert!((result.all.trained - result.all.untouched).abs() < 1e-5);
    let two = OutputHeads {
        output: "y".to_owned(),
        heads: [("left", 0..8), ("right", 8..32)]
            .into_iter()
            .map(|(name, range)| Head {
                name: name.to_owned(),
                range,
                kind: HeadKind::Squares,
                weight: 1.0,
            })
            .collect(),
    };
    let apart = judge(&[two], sample(32)).expect("is judged");
    assert_eq!(apart.all, result.all);
    let squares = |errors: &Errors, n: f64| n * errors.untouched * errors.untouched;
    let [left, right] = &apart.heads[..] else {
        panic!("{:?}", apart.heads);
    };
    assert_eq!((left.name.as_str(), right.name.as_str()), ("left", "right"));
    let (a, b) = (&left.all, &right.all);
    // Squares: the loss is the square of the root.
    for head in &apart.heads {
        for (loss, root) in [
            (head.loss.untouched, head.all.untouched),
            (head.loss.bias, head.all.bias),
            (head.loss.constant, head.all.constant),
            (head.loss.trained, head.all.trained),
        ] {
            assert!(
                (loss - root * root).abs() < 1e-5 * loss.max(0.1),
                "{loss} {root}"
            );
        }
    }
    let weighed = left.loss.trained + right.loss.trained;
    assert!(
        (apart.loss.trained - weighed).abs() < 1e-5 * weighed,
        "{:?}",
        apart.loss
    );
    let (sum, all) = (
        squares(a, 8.0) + squares(b, 24.0),
        squares(&apart.all, 32.0),
    );
    assert!((sum - all).abs() < 1e-9 * all, "{sum} of {all}");
    assert!((a.untouched - b.untouched).abs() > 1e-3, "{a:?} {b:?}");
    assert!(matches!(
        judge(&heads(33), sample(32)),
        Err(TrainError::Head { .. })
    ));
    assert!(matches!(
        judge(&heads(32), sample(31)),
        Err(TrainError::Head { .. })
    ));
    let none: Vec<Sample> = Vec::new();
    let refused = compare(
        &network,
        network.base(),
        &heads(32),
        [&none, &none],
        &RunOptions::new(),
    );
    assert!(matches!(refused, Err(TrainError::TooFewSamples { .. })));
}

#[test]
fn targets_that_no_layer_has_are_named() {
    let config = DoraConfig::builder(2).targets(["first", "third"]).build();
    let refused = AdaptedNetwork::new(tied(), config.expect("settings"));
    let error = refused.expect_err("there is none").to_string();
    assert_eq!(error, "no layer is called third; there are first, second");
}
