//! Dropout of what adapters read: gradients with the masks given, which masks there are, and where there are none.

use std::collections::BTreeSet;

use candle_core::{DType, Device};
use candle_nn::{Conv2d, Conv2dConfig, Linear};
use spark_dora::optim::{AdamW, LoraPlus};
use spark_dora::{Adapter, DoraConfig, DoraConfigBuilder, Dropout, Init};
use spark_onnx::{Model, Precision, RunOptions};
use spark_onnx_graph::backward::with_gradients;
use spark_onnx_graph::graph::{
    BatchNormalization, Binary, Conv, Dim, Gemm, Graph, MatMul, Op, Padding, ReduceKind,
    StaticGraph, Unary, ValueId, bind,
};
use spark_onnx_graph::reference::gradient::{GradientOptions, gradients};
use spark_onnx_graph::reference::run_wide;
use spark_onnx_graph::{DType as Type, Tensor};
use spark_testing::numbers;
use spark_train::{AdaptedNetwork, Deployment, Evaluation, OutputHeads, TrainError, TrainingStep};

const P: f64 = 0.35;
const PASS: i64 = (1 << 40) + 3;

fn random(shape: &[usize], seed: u64) -> Tensor {
    let n = shape.iter().product();
    Tensor::from_f32(shape, numbers(n, seed)).expect("fits")
}

/// A 3x3 convolution, a 1x1 with a normalisation, one in groups, and a product that is used twice.
fn network() -> Graph {
    let mut graph = Graph::default();
    let known = [2, 3, 6, 5].map(Dim::Known).to_vec();
    let x = graph.add_input("x", Type::F32, known);
    let conv = |window: usize, groups| {
        Op::Conv(Conv {
            strides: Vec::new(),
            dilations: Vec::new(),
            padding: match window {
                1 => Padding::Valid,
                _ => Padding::Explicit(vec![1; 4]),
            },
            groups,
        })
    };
    let constant = |graph: &mut Graph, name: &str, tensor: Tensor| -> Option<ValueId> {
        Some(graph.add_constant(name, tensor))
    };
    let w = constant(&mut graph, "first.weight", random(&[8, 3, 3, 3], 1));
    let b = constant(&mut graph, "first.bias", random(&[8], 2));
    let y = graph.add_node("first", conv(3, 1), &[Some(x), w, b]);
    let y = graph.add_node("tanh", Op::Unary(Unary::Tanh), &[Some(y)]);
    let w = constant(&mut graph, "point.weight", random(&[6, 8, 1, 1], 3));
    let y = graph.add_node("point", conv(1, 1), &[Some(y), w]);
    let mut norm = vec![Some(y)];
    for (at, name) in ["scale", "shift", "mean"].into_iter().enumerate() {
        let tensor = random(&[6], 10 + at as u64);
        norm.push(constant(&mut graph, &format!("norm.{name}"), tensor));
    }
    let variance = Tensor::from_f32([6], vec![0.5, 1.0, 2.0, 0.7, 1.5, 0.9]).expect("fits");
    norm.push(constant(&mut graph, "norm.variance", variance));
    let op = Op::BatchNormalization(BatchNormalization { epsilon: 1e-5 });
    let y = graph.add_node("norm", op, &norm);
    let y = graph.add_node("tanh2", Op::Unary(Unary::Tanh), &[Some(y)]);
    let w = constant(&mut graph, "grouped.weight", random(&[6, 2, 3, 3], 4));
    let y = graph.add_node("grouped", conv(3, 3), &[Some(y), w]);
    let axes = Tensor::from_i64([2], vec![2, 3]).expect("fits");
    let axes = constant(&mut graph, "axes", axes);
    let mean = spark_onnx_graph::graph::Reduce {
        kind: ReduceKind::Mean,
        keep_dims: false,
        noop_with_empty_axes: false,
    };
    let y = graph.add_node("mean_of", Op::Reduce(mean), &[Some(y), axes]);
    let w = constant(&mut graph, "twice.weight", random(&[6, 6], 5));
    let y = graph.add_node("twice", MatMul.into(), &[Some(y), w]);
    let y = graph.add_node("tanh3", Op::Unary(Unary::Tanh), &[Some(y)]);
    let y = graph.add_node("y", MatMul.into(), &[Some(y), w]);
    graph.outputs.push(y);
    graph
}

fn config() -> DoraConfigBuilder {
    DoraConfig::builder(2)
        .alpha(3.0)
        .init(Init::Random)
        .seed(9)
        .dropout(P)
}

/// The network under an adapter away from where a scale is 1.
fn adapted(config: DoraConfigBuilder) -> AdaptedNetwork {
    let config = config.build().expect("settings");
    let network = AdaptedNetwork::new(network(), config).expect("is adapted");
    for magnitude in &network.adapter().variables().magnitude {
        let other = (magnitude.as_tensor() * 1.5).expect("multiplies");
        magnitude.set(&other).expect("takes it");
    }
    network
}

fn is_dropout(op: &Op) -> bool {
    matches!(op, Op::CountedDropout(_))
}

/// What spark-dora's own layers of these names drop.
fn of_candle(config: DoraConfigBuilder) -> Vec<(&'static str, Dropout)> {
    let config = config.build().expect("settings");
    let mut adapter = Adapter::new(config, DType::F32, &Device::Cpu).expect("settings");
    let mut convolution = |name: &str, shape: &[usize], groups| {
        let config = Conv2dConfig {
            groups,
            ..Conv2dConfig::default()
        };
        let weight = candle_core::Tensor::ones(shape, DType::F32, &Device::Cpu).expect("is made");
        let layer = adapter.conv2d(name, &Conv2d::new(weight, None, config));
        let layer = layer.expect("fits");
        layer.adapted().expect("is adapted").dropout()
    };
    let first = convolution("first", &[8, 3, 3, 3], 1);
    let point = convolution("point", &[6, 8, 1, 1], 1);
    let grouped = convolution("grouped", &[6, 2, 3, 3], 3);
    let weight = candle_core::Tensor::ones((6, 6), DType::F32, &Device::Cpu).expect("is made");
    let twice = adapter.linear("twice", &Linear::new(weight, None));
    let twice = twice
        .expect("fits")
        .adapted()
        .expect("is adapted")
        .dropout();
    vec![
        ("first", first),
        ("point", point),
        ("grouped", grouped),
        ("twice", twice),
    ]
}

/// The graph of training with the masks as constants, which are those of candle's layers.
fn with_masks_given(network: &AdaptedNetwork, config: DoraConfigBuilder) -> Graph {
    let mut graph = network.training_graph().clone();
    let bound = bind(&graph, &[]).expect("binds");
    let shape_of = |name: &str| {
        let mut values = bound.values().iter();
        let value = values.find(|value| value.name == name).expect("is there");
        value.ty.shape.clone()
    };
    let known = of_candle(config);
    let mut n_given = 0;
    for position in 0..graph.nodes.len() {
        let node = graph.nodes[position].clone();
        if !is_dropout(&node.op) {
            continue;
        }
        let x = node.inputs[0].expect("reads one");
        let shape = shape_of(&graph.value(x).name);
        let of_node = node.name.trim_end_matches(".dropped");
        // The second node of the layer `twice` is called as the network's output is.
        let (layer, nth) = match of_node {
            "y" => ("twice", 1),
            layer => (layer, 0),
        };
        let mut layers = known.iter();
        let (_, dropout) = layers.find(|(name, _)| *name == layer).expect("is known");
        let len = shape.iter().product();
        let Op::CountedDropout(op) = &node.op else {
            unreachable!("was looked for");
        };
        assert_eq!((op.probability, op.key), (P, dropout.key(nth)), "{of_node}");
        let values = match nth {
            0 => dropout.mask(len, PASS as u64),
            // Nobody else knows the second use.
            _ => masked(op, len),
        };
        let mask = Tensor::from_f32(shape, values).expect("fits");
        let mask = graph.add_constant(format!("{of_node}.mask"), mask);
        graph.nodes[position].op = Op::Binary(Binary::Mul);
        graph.nodes[position].inputs[1] = Some(mask);
        n_given += 1;
    }
    assert_eq!(n_given, 5);
    let name = |id: &ValueId| graph.value(*id).name == "dropout.pass";
    let pass = graph.inputs.iter().copied().find(name);
    graph.inputs.retain(|id| Some(*id) != pass);
    graph
}

fn masked(op: &spark_onnx_graph::graph::CountedDropout, len: usize) -> Vec<f32> {
    let ones = Tensor::from_f32([len], vec![1.0; len]).expect("fits");
    let pass = Tensor::from_i64([], vec![PASS]).expect("fits");
    let op = Op::CountedDropout(*op);
    let y = spark_onnx_graph::reference::evaluate(&op, &[Some(&ones), Some(&pass)], 1);
    y.expect("runs")[0].to_f32()
}

fn off(got: &[f64], want: &[f64]) -> f64 {
    assert_eq!(got.len(), want.len());
    let scale = want.iter().fold(1e-3f64, |m, v| m.max(v.abs()));
    let pairs = got.iter().zip(want);
    pairs.fold(0.0, |m: f64, (g, w)| m.max((g - w).abs())) / scale
}

/// The lowered backward against the naive gradient in f64 with the masks given, and that against central differences.
#[test]
fn gradients_are_those_of_the_network_with_the_masks_given() {
    for (what, settings) in [
        ("DoRA", config()),
        ("LoRA", config().lora()),
        (
            "magnitudes",
            config().magnitude_only(["first", "point", "grouped", "twice"]),
        ),
    ] {
        let network = adapted(settings.clone());
        let given = bind(&with_masks_given(&network, settings), &[]).expect("binds");
        let x = random(&[2, 3, 6, 5], 20);
        let dy = random(&[2, 6], 21);
        let pass = Tensor::from_i64([], vec![PASS]).expect("fits");
        let factors = network.factors().expect("factors");
        let wanted: Vec<&str> = factors.iter().map(|(name, _)| name.as_str()).collect();
        let mut inputs = vec![("x", &x)];
        inputs.extend(factors.iter().map(|(name, t)| (name.as_str(), t)));
        let options = GradientOptions::default();
        let want = gradients(&given, &inputs, &[("y", &dy)], &wanted, options).expect("has some");

        let graph = bind(network.training_graph(), &[]).expect("binds");
        let whole = with_gradients(&graph, &wanted, &["y"], &[], options).expect("is written");
        for arranged in [whole.clone(), whole.recomputed()] {
            let n_dropped = arranged
                .graph
                .nodes
                .iter()
                .filter(|n| is_dropout(&n.op))
                .count();
            // Each layer's, and on the way back those of all but the first, whose input has no gradient.
            assert!(n_dropped >= 9, "{n_dropped}");
            let mut runs = Vec::new();
            for threads in [1, 2, 3] {
                let run = RunOptions::new().with_threads(threads);
                let model = Model::from_graph(arranged.graph.clone(), &run).expect("plans");
                let mut given = inputs.clone();
                given.push(("dropout.pass", &pass));
                given.push((&arranged.output_gradients[0], &dy));
                runs.push(model.session().run(&given).expect("runs"));
            }
            assert!(
                runs.iter().all(|run| *run == runs[0]),
                "threads change no bit"
            );
            for ((name, want), (_, got)) in want.iter().zip(&runs[0][1..]) {
                let off = off(&got.to_f64(), &want.to_f64());
                assert!(off < 2e-5, "{what}: {name} is off by {off:e}");
            }
        }
        check_slopes(what, &given, (&x, &factors), &dy, &want);
    }
}

/// Central differences of the sum of `y * dy`, computed in f64, by some elements of every factor, which stay numbers of f32.
fn check_slopes(
    what: &str,
    given: &StaticGraph,
    (x, factors): (&Tensor, &[(String, Tensor)]),
    dy: &Tensor,
    want: &[(String, Tensor)],
) {
    let dy = dy.to_f64();
    let loss = |factors: &[(String, Tensor)]| -> f64 {
        let mut inputs = vec![("x", x)];
        inputs.extend(factors.iter().map(|(name, t)| (name.as_str(), t)));
        let y = run_wide(given, &inputs).expect("runs").remove(0).1;
        y.to_f64().iter().zip(&dy).map(|(y, dy)| y * dy).sum()
    };
    for (number, (name, want)) in want.iter().enumerate() {
        let want = want.to_f64();
        let scale = want.iter().fold(1e-3f64, |m, v| m.max(v.abs()));
        for at in (0..want.len()).step_by(want.len().div_ceil(6)) {
            let moved = |by: f32| {
                let mut moved = factors.to_vec();
                let mut values = moved[number].1.to_f32();
                values[at] += by;
                let value = f64::from(values[at]);
                let shape = moved[number].1.shape().to_vec();
                moved[number].1 = Tensor::from_f32(shape, values).expect("fits");
                (value, loss(&moved))
            };
            let (up, down) = (moved(2e-4), moved(-2e-4));
            let slope = (up.1 - down.1) / (up.0 - down.0);
            assert!(
                (slope - want[at]).abs() < 1e-5 * scale,
                "{what}: {name} {at}: {slope} for {}",
                want[at]
            );
        }
    }
}

#[test]
fn evaluation_and_networks_without_dropout_have_no_step_of_it() {
    let nodes = |graph: &Graph| -> Vec<String> {
        let nodes = graph.nodes.iter();
        nodes
            .map(|n| format!("{} {:?} {:?} {:?}", n.name, n.op, n.inputs, n.outputs))
            .collect()
    };
    let (with, without) = (adapted(config()), adapted(config().dropout(0.0)));
    assert_eq!(nodes(with.graph()), nodes(without.graph()));
    assert!(std::ptr::eq(without.training_graph(), without.graph()));
    assert!(!without.graph().nodes.iter().any(|n| is_dropout(&n.op)));
    let keys = with
        .training_graph()
        .nodes
        .iter()
        .filter_map(|node| match &node.op {
            Op::CountedDropout(op) => Some(op.key),
            _ => None,
        });
    let keys: Vec<u64> = keys.collect();
    let apart: BTreeSet<&u64> = keys.iter().collect();
    assert_eq!(
        (keys.len(), apart.len()),
        (5, 5),
        "each use has masks of its own"
    );
}

#[test]
fn passes_have_masks_of_their_own_and_evaluation_none() {
    let network = adapted(config());
    let (x, target) = (random(&[2, 3, 6, 5], 20), random(&[2, 6], 21));
    let heads = [OutputHeads::squares("y", &target)];
    let (inputs, targets) = ([("x", &x)], [("y", &target)]);
    let step = TrainingStep::new(&network, &heads, &[], &RunOptions::new());
    let mut step = step.expect("plans");
    let run = |step: &mut TrainingStep, pass| {
        let result = step.run_pass(&network, pass, &inputs, &targets);
        result.expect("runs").outputs[0].1.to_f32()
    };
    let all = [0, 1, 2, 1 << 32, u64::MAX].map(|pass| run(&mut step, pass));
    let unnumbered = step.run(&network, &inputs, &targets);
    assert!(matches!(unnumbered, Err(TrainError::Dropout)));
    for (number, outputs) in all.iter().enumerate() {
        assert!(!all[..number].contains(outputs), "pass {number}");
    }
    assert_eq!(run(&mut step, 1 << 32), all[3], "the same again");
    let evaluation = Evaluation::new(&network, &heads, &[], &RunOptions::new());
    let evaluated = evaluation.expect("plans").run(&network, &inputs, &targets);
    let evaluated = evaluated.expect("runs").outputs[0].1.to_f64();
    let merged = network.merged().expect("merges").graph;
    let model = Model::from_graph(merged, &RunOptions::new()).expect("plans");
    let run = model.session().run(&inputs).expect("runs").swap_remove(0).1;
    assert!(off(&run.to_f64(), &evaluated) < 1e-5);
}

/// A layer without a bias, whose weight no format of four bits holds.
fn one_layer(kind: &str) -> Graph {
    let (shape, weight): (&[usize], &[usize]) = match kind {
        "linear" => (&[5, 32], &[32, 16]),
        "turned" => (&[5, 32], &[16, 32]),
        "point" => (&[2, 32, 4, 3], &[16, 32, 1, 1]),
        _ => (&[2, 32, 4, 3], &[16, 32, 3, 3]),
    };
    let op = match kind {
        "linear" => MatMul.into(),
        "turned" => Op::Gemm(Gemm {
            alpha: 1.0,
            beta: 1.0,
            trans_a: false,
            trans_b: true,
        }),
        _ => Op::Conv(Conv {
            strides: Vec::new(),
            dilations: Vec::new(),
            padding: Padding::Explicit(vec![weight[2] / 2; 4]),
            groups: 1,
        }),
    };
    let mut graph = Graph::default();
    let known = shape.iter().map(|&extent| Dim::Known(extent)).collect();
    let x = graph.add_input("x", Type::F32, known);
    let w = graph.add_constant("layer.weight", random(weight, 31));
    let y = graph.add_node("layer", op, &[Some(x), Some(w)]);
    graph.outputs.push(y);
    graph
}

/// A layer is linear: what a step gives is known from evaluations, which have no dropout, of all that it reads and of what is left of that.
#[test]
fn of_rounded_weights_what_the_adapter_changes_sees_what_is_left() {
    let options = RunOptions::new();
    for kind in ["linear", "turned", "point", "3x3"] {
        let graph = one_layer(kind);
        let deployment = Deployment::new(&graph, Precision::Fp4, &[], &options);
        let deployment = deployment.expect("is run in fp4");
        let made = |config: DoraConfigBuilder| {
            let config = config.build().expect("settings");
            AdaptedNetwork::deployed(graph.clone(), config, &deployment).expect("is adapted")
        };
        let new = made(DoraConfig::builder(2).seed(9).dropout(P));
        let moved = made(config());
        for magnitude in &moved.adapter().variables().magnitude {
            let other = (magnitude.as_tensor() * 1.5).expect("multiplies");
            magnitude.set(&other).expect("takes it");
        }
        let bound = bind(&graph, &[]).expect("binds");
        let shape_of = |id| bound.value(id).ty.shape.clone();
        let x = random(&shape_of(bound.inputs()[0]), 40);
        let target = Tensor::zeros(Type::F32, shape_of(bound.outputs()[0])).expect("fits");
        let heads = [OutputHeads::squares("layer", &target)];
        let evaluated = |network: &AdaptedNetwork, x: &Tensor| {
            let evaluation = Evaluation::new(network, &heads, &[], &options);
            let evaluation =
                evaluation
                    .expect("plans")
                    .run(network, &[("x", x)], &[("layer", &target)]);
            evaluation.expect("runs").outputs[0].1.to_f64()
        };
        let stepped = |network: &AdaptedNetwork| {
            let step = TrainingStep::new(network, &heads, &[], &options);
            let (inputs, targets) = ([("x", &x)], [("layer", &target)]);
            let result = step
                .expect("plans")
                .run_pass(network, PASS as u64, &inputs, &targets);
            result.expect("runs").outputs[0].1.to_f64()
        };
        let of_new = evaluated(&new, &x);
        let exact = Model::from_graph(graph.clone(), &options).expect("plans");
        let exact = exact.session().run(&[("x", &x)]).expect("runs");
        assert!(
            off(&of_new, &exact[0].1.to_f64()) > 1e-2,
            "{kind}: is rounded"
        );
        let of_step = off(&stepped(&new), &of_new);
        assert!(of_step < 1e-6, "{kind}: a new adapter changes {of_step:e}");

        let mut dropouts = moved
            .training_graph()
            .nodes
            .iter()
            .filter_map(|n| match n.op {
                Op::CountedDropout(op) => Some(op),
                _ => None,
            });
        let mask = masked(&dropouts.next().expect("drops"), x.to_f32().len());
        let left: Vec<f32> = x.to_f32().iter().zip(mask).map(|(x, m)| x * m).collect();
        let left = Tensor::from_f32(x.shape(), left).expect("fits");
        let (all, of_left) = (evaluated(&moved, &left), evaluated(&new, &left));
        let parts = of_new.iter().zip(all.iter().zip(&of_left));
        let want: Vec<f64> = parts.map(|(own, (all, less))| own + all - less).collect();
        let of_step = off(&stepped(&moved), &want);
        assert!(of_step < 1e-5, "{kind}: off by {of_step:e}");
        assert!(off(&want, &evaluated(&moved, &x)) > 1e-2, "{kind}: drops");
    }
}

/// Until a step is made, nothing is changed, whatever is dropped; and steps learn.
#[test]
fn a_new_adapter_with_dropout_changes_nothing_and_learns() {
    let settings = DoraConfig::builder(2).seed(4).dropout(P);
    let network = AdaptedNetwork::new(network(), settings.build().expect("settings"));
    let network = network.expect("is adapted");
    let (x, target) = (random(&[2, 3, 6, 5], 20), random(&[2, 6], 21));
    let heads = [OutputHeads::squares("y", &target)];
    let (inputs, targets) = ([("x", &x)], [("y", &target)]);
    let base = Model::from_graph(network.base().clone(), &RunOptions::new()).expect("plans");
    let base = base.session().run(&inputs).expect("runs").swap_remove(0).1;
    let step = TrainingStep::new(&network, &heads, &[], &RunOptions::new());
    let mut step = step.expect("plans");
    let groups = network.adapter().variables();
    let rates = LoraPlus {
        rate: 0.02,
        ..LoraPlus::default()
    };
    let mut optimiser = AdamW::new(groups.optimiser_groups(rates)).expect("groups");
    let mut losses = Vec::new();
    for pass in 0..60 {
        let result = step
            .run_pass(&network, pass, &inputs, &targets)
            .expect("runs");
        if pass == 0 {
            let off = off(&result.outputs[0].1.to_f64(), &base.to_f64());
            assert!(off < 1e-6, "{off:e}");
        }
        losses.push(result.loss);
        optimiser.step(&result.gradients, 1.0).expect("steps");
    }
    let mean = |losses: &[f64]| losses.iter().sum::<f64>() / losses.len() as f64;
    let (first, last) = (mean(&losses[..5]), mean(&losses[55..]));
    assert!(last < 0.8 * first, "{first} to {last}");
}
