//! Networks cut where their first adapted layers read.

use spark_dora::{DoraConfig, DoraConfigBuilder};
use spark_onnx::RunOptions;
use spark_onnx_graph::graph::{
    Binary, Concat, Conv, Dim, Gemm, Graph, Op, Padding, Reshape, Shape, Unary,
};
use spark_onnx_graph::{DType, Tensor};
use spark_testing::numbers;
use spark_train::{
    AdaptedNetwork, Go, OutputHeads, Sample, Samples, StepResult, TrainError, Trainer,
    TrainerSettings, TrainingStep,
};

const BATCH: usize = 3;

fn random(shape: &[usize], seed: u64) -> Tensor {
    Tensor::from_f32(shape, numbers(shape.iter().product(), seed)).expect("fits")
}

/// A convolution and a Tanh, flattened to a shape that nodes compute, a linear layer of it and one of a second input, whose sum has that shape too,
/// and an output behind neither.
fn network() -> Graph {
    let mut graph = Graph::default();
    let mut input = |name: &str, shape: &[usize]| {
        let shape = shape.iter().map(|&extent| Dim::Known(extent)).collect();
        graph.add_input(name, DType::F32, shape)
    };
    let x = input("x", &[1, 3, 4, 4]);
    let state = input("state", &[1, 2]);
    let w = graph.add_constant("first.weight", random(&[5, 3, 3, 3], 1));
    let conv = Conv {
        strides: Vec::new(),
        dilations: Vec::new(),
        padding: Padding::Valid,
        groups: 1,
    };
    let h = graph.add_node("first", conv.into(), &[Some(x), Some(w)]);
    let h = graph.add_node("trunk", Op::Unary(Unary::Tanh), &[Some(h)]);
    let batch = Shape {
        start: 0,
        end: Some(1),
    };
    let batch = graph.add_node("batch", Op::Shape(batch), &[Some(h)]);
    let others = Tensor::from_i64([1], vec![-1]).expect("fits");
    let others = graph.add_constant("others", others);
    let concat = Op::Concat(Concat { axis: 0 });
    let extents = graph.add_node("extents", concat, &[Some(batch), Some(others)]);
    let reshape = Op::Reshape(Reshape { allow_zero: false });
    let flat = graph.add_node("flat", reshape, &[Some(h), Some(extents)]);
    let gemm = || {
        Op::Gemm(Gemm {
            alpha: 1.0,
            beta: 1.0,
            trans_a: false,
            trans_b: true,
        })
    };
    let w = graph.add_constant("head.weight", random(&[4, 20], 2));
    let head = graph.add_node("head", gemm(), &[Some(flat), Some(w)]);
    let w = graph.add_constant("side.weight", random(&[4, 2], 3));
    let side = graph.add_node("side", gemm(), &[Some(state), Some(w)]);
    let sum = graph.add_node("sum", Op::Binary(Binary::Add), &[Some(head), Some(side)]);
    let shape = Op::Reshape(Reshape { allow_zero: false });
    let sum = graph.add_node("y", shape, &[Some(sum), Some(extents)]);
    let z = graph.add_node("z", Op::Unary(Unary::Abs), &[Some(h)]);
    graph.outputs.extend([sum, z]);
    graph
}

fn samples(n: usize) -> Vec<Sample> {
    let sample = |seed: u64| Sample {
        inputs: vec![
            ("x".to_owned(), random(&[1, 3, 4, 4], 10 + seed)),
            ("state".to_owned(), random(&[1, 2], 100 + seed)),
        ],
        targets: vec![("y".to_owned(), random(&[1, 4], 200 + seed))],
    };
    (0..n as u64).map(sample).collect()
}

fn adapted(targets: &[&str]) -> AdaptedNetwork {
    dropping(targets, 0.0)
}

fn dropping(targets: &[&str], dropout: f64) -> AdaptedNetwork {
    dropping_with(config(targets, dropout))
}

fn config(targets: &[&str], dropout: f64) -> DoraConfigBuilder {
    let config = DoraConfig::builder(2).seed(3).dropout(dropout);
    config.targets(targets.iter().copied())
}

fn dropping_with(config: DoraConfigBuilder) -> AdaptedNetwork {
    AdaptedNetwork::new(network(), config.build().expect("settings")).expect("is adapted")
}

fn of_one() -> [(&'static str, Vec<usize>); 2] {
    [("x", vec![1, 3, 4, 4]), ("state", vec![1, 2])]
}

fn heads() -> Vec<OutputHeads> {
    vec![OutputHeads::squares("y", &random(&[1, 4], 0))]
}

/// One step on a batch of these samples.
fn step(network: &AdaptedNetwork, samples: &dyn Samples) -> StepResult {
    let all: Vec<Sample> = (0..BATCH)
        .map(|i| samples.sample(i).expect("reads"))
        .collect();
    let joined = |of: fn(&Sample) -> &[(String, Tensor)]| {
        let of_first = of(&all[0]).iter().enumerate();
        let joined = of_first.map(|(at, (name, first))| {
            let values: Vec<f32> = all.iter().flat_map(|s| of(s)[at].1.to_f32()).collect();
            let mut shape = first.shape().to_vec();
            shape[0] = BATCH;
            (name.clone(), Tensor::from_f32(shape, values).expect("fits"))
        });
        joined.collect::<Vec<_>>()
    };
    let (inputs, targets) = (joined(|s| &s.inputs), joined(|s| &s.targets));
    let inputs: Vec<_> = inputs.iter().map(|(name, t)| (name.as_str(), t)).collect();
    let targets: Vec<_> = targets.iter().map(|(name, t)| (name.as_str(), t)).collect();
    let shapes: Vec<_> = inputs
        .iter()
        .map(|(name, t)| (*name, t.shape().to_vec()))
        .collect();
    let step = TrainingStep::new(network, &heads(), &shapes, &RunOptions::new());
    step.expect("plans")
        .run_pass(network, 0, &inputs, &targets)
        .expect("runs")
}

#[test]
fn what_is_left_of_a_cut_network_makes_the_steps_of_the_whole() {
    makes_the_steps_of_the_whole(0.0);
}

/// What is dropped of them is the same too.
#[test]
fn what_is_left_of_a_cut_network_with_dropout_makes_the_steps_of_the_whole() {
    makes_the_steps_of_the_whole(0.3);
}

/// Such a layer's product with the frozen weight hangs on nothing that is trained, and what it reads is dropped of all the same.
#[test]
fn a_cut_network_with_dropout_may_train_a_magnitude_alone() {
    let made = || dropping_with(config(&["head", "side"], 0.3).magnitude_only(["head"]));
    makes_the_steps_of(made(), made());
}

fn makes_the_steps_of_the_whole(dropout: f64) {
    let made = || dropping(&["head", "side"], dropout);
    makes_the_steps_of(made(), made());
}

fn makes_the_steps_of(whole: AdaptedNetwork, to_cut: AdaptedNetwork) {
    let samples = samples(BATCH);
    let (trunk, rest) = to_cut.cut(&of_one()).expect("has a trunk");
    let names = |graph: &Graph| -> Vec<String> {
        graph.nodes.iter().map(|node| node.name.clone()).collect()
    };
    assert_eq!(names(trunk.graph()), ["first", "trunk"]);
    // Shapes of any number of samples; and what costs less than to keep it.
    let of_rest = names(rest.graph());
    let made = |name: &&str| of_rest.iter().any(|node| node == name);
    let all = ["batch", "extents", "flat", "head.frozen", "y", "z"];
    assert_eq!(
        all.iter().filter(|name| made(name)).count(),
        all.len(),
        "{of_rest:?}"
    );
    let mut told = Vec::new();
    let folder = std::env::temp_dir();
    let cached = trunk.cached(&samples, &folder, &RunOptions::new(), |n| told.push(n));
    let cached = cached.expect("is run");
    assert_eq!(told, [1, 2, 3]);
    let first = cached.sample(0).expect("reads");
    let inputs: Vec<_> = first
        .inputs
        .iter()
        .map(|(name, t)| (name.as_str(), t.shape()))
        .collect();
    assert_eq!(inputs, [("trunk", &[1, 5, 2, 2][..]), ("state", &[1, 2])]);
    assert_eq!(first.targets, samples[0].targets);

    let (want, got) = (step(&whole, &samples), step(&rest, &cached));
    assert!(
        (want.loss - got.loss).abs() < 1e-6 * want.loss,
        "{} {}",
        want.loss,
        got.loss
    );
    for ((name, want), (of_rest, got)) in want.outputs.iter().zip(&got.outputs) {
        assert_eq!(name, of_rest);
        let (want, got) = (want.to_f32(), got.to_f32());
        let off = want.iter().zip(&got).map(|(w, g)| (w - g).abs());
        assert!(off.fold(0.0, f32::max) < 1e-5, "{name}");
    }
    let gradients = |network: &AdaptedNetwork, step: &StepResult| -> Vec<f32> {
        let variables = network.adapter().variables();
        let flat = variables.all().map(|variable| {
            let gradient = step.gradients.get(variable).expect("has one");
            gradient
                .flatten_all()
                .and_then(|g| g.to_vec1::<f32>())
                .expect("is f32")
        });
        flat.flatten().collect()
    };
    let (want, got) = (gradients(&whole, &want), gradients(&rest, &got));
    let largest = want.iter().fold(0.0f32, |m, v| m.max(v.abs()));
    assert!(largest > 0.0);
    let off = want
        .iter()
        .zip(&got)
        .fold(0.0f32, |m, (w, g)| m.max((w - g).abs()));
    assert!(off < 1e-5 * largest, "{off} {largest}");
}

#[test]
fn training_behind_a_trunk_is_merged_into_the_whole_network() {
    let samples = samples(24);
    let settings = TrainerSettings {
        epochs: 5,
        batch: 4,
        ..TrainerSettings::default()
    };
    let trained = |network, samples: &dyn Samples| {
        let options = RunOptions::new();
        let trainer = Trainer::new(network, heads(), samples, None, settings.clone(), options);
        let mut trainer = trainer.expect("is a run");
        let outcome = trainer
            .run(&mut |_: &spark_train::Event| Go::On)
            .expect("runs");
        let merged = trainer.network().merged().expect("merges").graph;
        (outcome.best.expect("has an epoch").0, merged)
    };
    let (trunk, rest) = adapted(&["head", "side"])
        .cut(&of_one())
        .expect("has a trunk");
    let cached = trunk.cached(&samples, &std::env::temp_dir(), &RunOptions::new(), |_| ());
    let cached = cached.expect("is run");
    let (want, whole) = trained(adapted(&["head", "side"]), &samples);
    let (got, of_rest) = trained(rest, &cached);
    assert!((want - got).abs() < 1e-5 * want, "{want} {got}");
    assert_eq!(whole.nodes.len(), of_rest.nodes.len());
    let weight = |graph: &Graph| {
        let mut values = graph.values.iter();
        let value = values
            .find(|value| value.name == "head.weight")
            .expect("is there");
        value.constant.as_ref().expect("is a constant").to_f32()
    };
    let before = weight(&network());
    let moved = before
        .iter()
        .zip(weight(&whole))
        .fold(0.0f32, |m, (b, w)| m.max((b - w).abs()));
    let pairs = weight(&whole).into_iter().zip(weight(&of_rest));
    let off = pairs.fold(0.0f32, |m, (w, r)| m.max((w - r).abs()));
    assert!(moved > 1e-3 && off < 1e-3 * moved, "{moved} {off}");
}

#[test]
fn what_cannot_be_cut_is_an_error() {
    let error = adapted(&["first", "side"])
        .cut(&of_one())
        .expect_err("reads the inputs");
    assert!(matches!(error, TrainError::NoTrunk), "{error}");
    let (trunk, _) = adapted(&["head", "side"])
        .cut(&of_one())
        .expect("has a trunk");
    let mut bad = samples(2);
    bad[1].inputs.remove(0);
    let cached = trunk.cached(&bad, &std::env::temp_dir(), &RunOptions::new(), |_| ());
    assert!(matches!(cached, Err(TrainError::Model(_))), "{cached:?}");

    // A trunk whose result has no extent for the samples.
    let mut graph = network();
    let sum = graph
        .nodes
        .iter()
        .position(|node| node.name == "trunk")
        .expect("is there");
    graph.nodes[sum].op = Op::Transpose(spark_onnx_graph::graph::Transpose {
        perm: Some(vec![1, 0, 2, 3]),
    });
    let config = DoraConfig::builder(2)
        .targets(["head"])
        .build()
        .expect("settings");
    graph.outputs.truncate(1);
    let network = AdaptedNetwork::new(graph, config).expect("is adapted");
    let error = network.cut(&of_one()).expect_err("is no sample's");
    assert!(
        matches!(&error, TrainError::NotBySample { name, shape, n: 2 } if name == "trunk" && shape[..2] == [5, 2]),
        "{error}"
    );
}

/// Of a value whose first extent is a time, samples are not stacked along it.
#[test]
fn a_first_extent_of_one_that_is_no_samples_is_refused() {
    let mut graph = Graph::default();
    let shape = [1, 2, 4].map(Dim::Known).to_vec();
    let x = graph.add_input("x", DType::F32, shape);
    let perm = Some(vec![1, 0, 2]);
    let turned = Op::Transpose(spark_onnx_graph::graph::Transpose { perm });
    let h = graph.add_node("tanh", Op::Unary(Unary::Tanh), &[Some(x)]);
    let cut = spark_onnx_graph::graph::ReduceKind::Mean;
    let mean = spark_onnx_graph::graph::Reduce {
        kind: cut,
        keep_dims: true,
        noop_with_empty_axes: false,
    };
    let h = graph.add_node("turned", turned, &[Some(h)]);
    let axes = Tensor::from_i64([1], vec![0]).expect("fits");
    let axes = graph.add_constant("axes", axes);
    // [2, n, 4] -> [1, n, 4]
    let h = graph.add_node("mean", Op::Reduce(mean), &[Some(h), Some(axes)]);
    let w = graph.add_constant("head.weight", random(&[4, 3], 2));
    let y = graph.add_node(
        "y",
        Op::MatMul(spark_onnx_graph::graph::MatMul),
        &[Some(h), Some(w)],
    );
    graph.outputs.push(y);
    let config = DoraConfig::builder(2)
        .targets(["head"])
        .build()
        .expect("settings");
    let network = AdaptedNetwork::new(graph, config).expect("is adapted");
    let error = network.cut(&[("x", vec![1, 2, 4])]).expect_err("is a time");
    let is_right = matches!(&error, TrainError::NotBySample { name, shape, n: 2 }
        if name == "mean" && shape[..] == [1, 2, 4]);
    assert!(is_right, "{error}");
}

#[test]
fn what_the_whole_network_refuses_is_refused_before_a_trunk() {
    let error = adapted(&["head", "side"]).cut(&[("nothing", vec![1, 2])]);
    let error = error.map(|_| ()).expect_err("has no such input");
    assert!(error.to_string().contains("nothing"), "{error}");
    let (trunk, _) = adapted(&["head", "side"])
        .cut(&of_one())
        .expect("has a trunk");
    for (name, change) in [
        (
            "state",
            (|sample: &mut Sample| drop(sample.inputs.pop())) as fn(&mut Sample),
        ),
        ("more", |sample| {
            sample.inputs.push(("more".to_owned(), random(&[1, 2], 1)))
        }),
    ] {
        let mut bad = samples(2);
        change(&mut bad[1]);
        let cached = trunk.cached(&bad, &std::env::temp_dir(), &RunOptions::new(), |_| ());
        let error = cached.expect_err("is another sample").to_string();
        assert!(error.contains(&format!("`{name}`")), "{error}");
    }
}
