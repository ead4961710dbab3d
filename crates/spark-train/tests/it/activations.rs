//! Training that sees how activations are rounded where the network will run, beside weights.
//!
//! Rounding is no continuous function: a sum that is off in its last bit may land on the next number of the format, and what is behind it
//! moves by a step. So layers are compared one by one, on operands of the engine's own, to the rounding of sums; and whole networks by how
//! far they are apart beside what rounding the activations changes.

use spark_dora::optim::{AdamW, LoraPlus};
use spark_dora::{Biases, DoraConfig, Init};
use spark_onnx::precision::Activations;
use spark_onnx::{Model, Precision, RunOptions};
use spark_onnx_graph::graph::{
    ActivationFormat, Binary, Cast, Dim, Gather, Gemm, Graph, MatMul, Op, Reshape, Transpose,
    Unary, ValueId,
};
use spark_onnx_graph::{DType, Tensor};
use spark_testing::numbers;
use spark_train::{AdaptedNetwork, Deployment, Evaluation, Sample, TrainingStep, with_free_batch};

use crate::deployment::{heads, known, network_of, of_four_bits, off, x};

const PRECISIONS: [Precision; 2] = [Precision::Fp4, Precision::Fp8];

fn deployment(graph: &Graph, precision: Precision, activations: Activations) -> Deployment {
    let deployment = Deployment::new(graph, precision, &[], &RunOptions::new());
    let deployment = deployment.expect("has layers");
    assert_eq!(deployment.activations(), Activations::Exact);
    deployment.with_activations(activations)
}

fn options(precision: Precision, activations: Activations) -> RunOptions {
    let options = RunOptions::new().with_precision(precision);
    options.with_activations(activations)
}

/// A network whose adapters change something, one layer without.
fn adapted(graph: Graph, deployment: &Deployment) -> AdaptedNetwork {
    let config = DoraConfig::builder(2).init(Init::Random);
    let config = config.targets(["first", "third"]).build();
    let network = AdaptedNetwork::deployed(graph, config.expect("settings"), deployment);
    network.expect("is adapted")
}

fn run(graph: &Graph, options: &RunOptions, inputs: &[(&str, &Tensor)]) -> Vec<(String, Tensor)> {
    let model = Model::from_graph(graph.clone(), options).expect("plans");
    model.session().run(inputs).expect("runs")
}

/// What the network of training says.
fn evaluated(network: &AdaptedNetwork, x: &Tensor) -> Vec<f32> {
    let target = Tensor::from_f32([x.shape()[0], 4], vec![0.0; 4 * x.shape()[0]]).expect("fits");
    let shapes = [("x", x.shape().to_vec())];
    let evaluation = Evaluation::new(network, &[heads("y", 4)], &shapes, &RunOptions::new());
    let result = evaluation
        .expect("plans")
        .run(network, &[("x", x)], &[("y", &target)]);
    result.expect("runs").outputs[0].1.to_f32()
}

fn root_mean_square(a: &[f32], b: &[f32]) -> f64 {
    assert_eq!(a.len(), b.len());
    let squares = a.iter().zip(b).map(|(a, b)| f64::from(a - b).powi(2));
    (squares.sum::<f64>() / a.len() as f64).sqrt()
}

/// One layer of a graph, and what rounds its operand; the operand is an input.
fn alone(graph: &Graph, name: &str, shape: &[usize]) -> (Graph, String) {
    let mut alone = graph.clone();
    let node = graph.nodes.iter().find(|node| node.name == name);
    let node = node.expect("is there");
    let rounded = node.inputs[0];
    let operand = graph.nodes.iter().find(|node| node.outputs[0] == rounded);
    let operand = operand.expect("a node gives it");
    assert!(matches!(operand.op, Op::RoundedActivations(_)), "{name}");
    let x = operand.inputs[0].expect("an operand");
    alone.nodes = vec![operand.clone(), node.clone()];
    let of_node: Vec<ValueId> = node.inputs.iter().flatten().copied().collect();
    alone.inputs.retain(|id| of_node.contains(id));
    alone.inputs.push(x);
    alone.outputs = vec![node.outputs[0].expect("a result")];
    let value = &mut alone.values[x.0];
    (value.dtype, value.shape) = (Some(DType::F32), Some(known(shape)));
    let input = value.name.clone();
    (alone, input)
}

#[test]
fn every_layer_is_that_of_the_engine_on_the_same_operand() {
    for precision in PRECISIONS {
        let deployment = deployment(&network_of(2), precision, Activations::Quantised);
        let network = adapted(network_of(2), &deployment);
        // All operands and results of layers are outputs.
        let mut merged = network.merged().expect("merges").graph;
        let layers = ["first", "second", "y"];
        for name in layers {
            let node = merged.nodes.iter().find(|node| node.name == name);
            let node = node.expect("is there");
            let both = [node.inputs[0], node.outputs[0]];
            for id in both.into_iter().flatten() {
                if !merged.outputs.contains(&id) && !merged.inputs.contains(&id) {
                    merged.outputs.push(id);
                }
            }
        }
        let name_of = |id: Option<ValueId>| merged.value(id.expect("a value")).name.clone();
        let mut values = run(
            &merged,
            &options(precision, Activations::Quantised),
            &[("x", &x())],
        );
        values.push(("x".to_owned(), x()));
        let value = |name: &str| {
            let found = values.iter().find(|(other, _)| other == name);
            &found.expect("is an output").1
        };
        let factors = network.factors().expect("has factors");
        for name in layers {
            let node = merged.nodes.iter().find(|node| node.name == name);
            let node = node.expect("is there");
            let (operand, result) = (name_of(node.inputs[0]), name_of(node.outputs[0]));
            let x = value(&operand);
            let (alone, input) = alone(network.graph(), name, x.shape());
            let mut inputs = vec![(input.as_str(), x)];
            let factors = factors.iter();
            let factors = factors.filter(|(name, _)| {
                let mut own = alone.inputs.iter();
                own.any(|id| alone.value(*id).name == *name)
            });
            inputs.extend(factors.map(|(name, tensor)| (name.as_str(), tensor)));
            let got = run(&alone, &RunOptions::new(), &inputs)[0].1.to_f32();
            let off = off(&got, &value(&result).to_f32());
            assert!(off < 1e-5, "{precision}, {name}: {off:e}");
        }
    }
}

#[test]
fn the_whole_network_is_that_of_the_engine_beside_what_rounding_changes() {
    for precision in PRECISIONS {
        let deployment = deployment(&network_of(2), precision, Activations::Quantised);
        let network = adapted(network_of(2), &deployment);
        let trained = evaluated(&network, &x());
        let merged = network.merged().expect("merges").graph;
        let of = |activations| {
            run(&merged, &options(precision, activations), &[("x", &x())])[0]
                .1
                .to_f32()
        };
        let (engine, exact) = (of(Activations::Quantised), of(Activations::Exact));
        let apart = root_mean_square(&trained, &engine);
        let rounding = root_mean_square(&engine, &exact);
        assert!(rounding > 0.0, "{precision}: nothing is rounded");
        assert!(
            apart < 0.1 * rounding,
            "{precision}: {apart:e} of {rounding:e}"
        );
    }
}

/// A batch of training is as many runs of the deployed network, each with scales of its own.
#[test]
fn samples_of_a_batch_do_not_share_scales() {
    for precision in PRECISIONS {
        let deployment = deployment(&network_of(1), precision, Activations::Quantised);
        let network = adapted(network_of(1), &deployment);
        let len = 16 * 6 * 5;
        let mut all = Vec::new();
        let mut want = Vec::new();
        for (sample, size) in [1.0, 0.01, 0.2].into_iter().enumerate() {
            let values = numbers(len, 40 + sample as u64).into_iter();
            let values: Vec<f32> = values.map(|x| 0.01 * size * x).collect();
            all.extend(&values);
            let one = Tensor::from_f32([1, 16, 6, 5], values).expect("fits");
            want.extend(evaluated(&network, &one));
        }
        let all = Tensor::from_f32([3, 16, 6, 5], all).expect("fits");
        let off = off(&evaluated(&network, &all), &want);
        assert!(off < 1e-6, "{precision}: {off:e}");
    }
}

/// Products of rows of 32 numbers, four a sample, which lie behind those of the same place in other samples; flattened or not.
fn across(is_flat: bool) -> Graph {
    let mut graph = Graph::default();
    let x = graph.add_input("x", DType::F32, known(&[1, 4, 32]));
    let turn = Transpose {
        perm: Some(vec![1, 0, 2]),
    };
    let mut turned = graph.add_node("turned", Op::Transpose(turn), &[Some(x)]);
    if is_flat {
        let rows = Tensor::from_f64(DType::I64, [2], vec![-1.0, 32.0]).expect("fits");
        let rows = graph.add_constant("rows", rows);
        let op = Op::Reshape(Reshape { allow_zero: false });
        turned = graph.add_node("flat", op, &[Some(turned), Some(rows)]);
    }
    let w = Tensor::from_f32([32, 8], numbers(32 * 8, 3)).expect("fits");
    let w = graph.add_constant("fc.weight", w);
    let y = graph.add_node("y", Op::MatMul(MatMul), &[Some(turned), Some(w)]);
    graph.outputs.push(y);
    graph
}

/// Where the samples of a batch would share scales, there is no batch; nor is one refused where nothing is rounded.
#[test]
fn samples_that_lie_across_each_other_are_no_batch() {
    for (precision, is_flat) in PRECISIONS.into_iter().flat_map(|p| [(p, false), (p, true)]) {
        let graph = across(is_flat);
        let n_rows = |batch: usize| {
            if is_flat {
                vec![4 * batch, 8]
            } else {
                vec![4, batch, 8]
            }
        };
        let plan = |activations, batch: usize| {
            let deployment = deployment(&graph, precision, activations);
            let config = DoraConfig::builder(2).init(Init::Random).build();
            let config = config.expect("settings");
            let network = AdaptedNetwork::deployed(graph.clone(), config, &deployment);
            let network = network.expect("is adapted");
            let shapes = [("x", vec![batch, 4, 32])];
            Evaluation::new(&network, &[heads("y", 8)], &shapes, &RunOptions::new()).map(
                |mut it| {
                    let x =
                        Tensor::from_f32([batch, 4, 32], numbers(batch * 128, 9)).expect("fits");
                    let target =
                        Tensor::from_f32(n_rows(batch), vec![0.0; batch * 32]).expect("fits");
                    let result = it.run(&network, &[("x", &x)], &[("y", &target)]);
                    let merged = network.merged().expect("merges").graph;
                    let merged = with_free_batch(merged);
                    let want = run(&merged, &options(precision, activations), &[("x", &x)]);
                    off(
                        &result.expect("runs").outputs[0].1.to_f32(),
                        &want[0].1.to_f32(),
                    )
                },
            )
        };
        for batch in [1, 3] {
            let off = plan(Activations::Exact, batch).expect("plans");
            assert!(off < 1e-5, "{precision}, {batch}: {off:e}");
        }
        let off = plan(Activations::Quantised, 1).expect("plans");
        assert!(off < 1e-5, "{precision}: {off:e}");
        let why = plan(Activations::Quantised, 3).expect_err("samples would share scales");
        let why = why.to_string();
        assert!(
            why.contains("384 elements, wanted the 128 of one run"),
            "{why}"
        );
    }
}

/// Pictures in bytes give as many rows as one sees, alike where the picture is zero; turned, rows of two samples lie side by side.
#[test]
fn samples_of_bytes_that_lie_across_each_other_are_found() {
    for is_turned in [true, false] {
        let mut graph = Graph::default();
        let x = graph.add_input("x", DType::U8, known(&[1, 4, 32]));
        let cast = Op::Cast(Cast { to: DType::F32 });
        let mut y = graph.add_node("numbers", cast, &[Some(x)]);
        if is_turned {
            let turn = Transpose {
                perm: Some(vec![1, 0, 2]),
            };
            y = graph.add_node("turned", Op::Transpose(turn), &[Some(y)]);
        }
        let rows = Tensor::from_f64(DType::I64, [2], vec![-1.0, 32.0]).expect("fits");
        let rows = graph.add_constant("rows", rows);
        y = graph.add_node(
            "flat",
            Op::Reshape(Reshape { allow_zero: false }),
            &[Some(y), Some(rows)],
        );
        // One channel beside which all others are small.
        let scale = (0..32).map(|i| if i == 5 { 1e4 } else { 1e-2 }).collect();
        let scale = graph.add_constant("scale", Tensor::from_f32([32], scale).expect("fits"));
        y = graph.add_node("scaled", Op::Binary(Binary::Mul), &[Some(y), Some(scale)]);
        let w = Tensor::from_f32([32, 8], numbers(32 * 8, 3)).expect("fits");
        let w = graph.add_constant("fc.weight", w);
        y = graph.add_node("y", Op::MatMul(MatMul), &[Some(y), Some(w)]);
        graph.outputs.push(y);
        let deployment = deployment(&graph, Precision::Fp8, Activations::Quantised);
        let config = DoraConfig::builder(2).build().expect("settings");
        let network = AdaptedNetwork::deployed(graph, config, &deployment).expect("is adapted");
        let found: &[&str] = if is_turned { &["fc"] } else { &[] };
        assert_eq!(network.layers_without_batches(), found);
    }
}

/// Whole numbers that are indices, features that are alike where all indices are, constants of the network: found where they lie
/// across each other, and not where they are in order.
#[test]
fn samples_of_indices_and_constants_are_told_apart() {
    let rows = |first: f32, n: usize| -> Vec<f32> {
        let values = numbers(n * 32, 11).into_iter().enumerate();
        values
            .map(|(i, x)| if i < 64 { first * x } else { x })
            .collect()
    };
    for (is_turned, table) in [(true, true), (false, true), (true, false), (false, false)] {
        let mut graph = Graph::default();
        let mut y = match table {
            // Rows 0 and 1 of the table are zero, as those of what is padded.
            true => {
                let x = graph.add_input("x", DType::I64, known(&[1, 4]));
                let table = Tensor::from_f32([10, 32], rows(0.0, 10)).expect("fits");
                let table = graph.add_constant("table", table);
                graph.add_node(
                    "rows",
                    Op::Gather(Gather { axis: 0 }),
                    &[Some(table), Some(x)],
                )
            }
            // Constant beside what the network reads, which adds nothing.
            false => {
                let x = graph.add_input("x", DType::F32, known(&[1, 4, 32]));
                let zero =
                    graph.add_constant("zero", Tensor::from_f32([1], vec![0.0]).expect("fits"));
                let c = Tensor::from_f32([1, 4, 32], rows(1.0, 4)).expect("fits");
                let c = graph.add_constant("c", c);
                let nothing =
                    graph.add_node("nothing", Op::Binary(Binary::Mul), &[Some(x), Some(zero)]);
                let size = graph.add_node("size", Op::Unary(Unary::Abs), &[Some(nothing)]);
                graph.add_node("rows", Op::Binary(Binary::Add), &[Some(size), Some(c)])
            }
        };
        if is_turned {
            let turn = Transpose {
                perm: Some(vec![1, 0, 2]),
            };
            y = graph.add_node("turned", Op::Transpose(turn), &[Some(y)]);
        }
        let flat = Tensor::from_f64(DType::I64, [2], vec![-1.0, 32.0]).expect("fits");
        let flat = graph.add_constant("flat", flat);
        let reshape = Op::Reshape(Reshape { allow_zero: false });
        y = graph.add_node("flattened", reshape, &[Some(y), Some(flat)]);
        let w = Tensor::from_f32([32, 8], numbers(32 * 8, 3)).expect("fits");
        let w = graph.add_constant("fc.weight", w);
        y = graph.add_node("y", Op::MatMul(MatMul), &[Some(y), Some(w)]);
        graph.outputs.push(y);
        let deployment = deployment(&graph, Precision::Fp8, Activations::Quantised);
        let config = DoraConfig::builder(2).build().expect("settings");
        let network = AdaptedNetwork::deployed(graph, config, &deployment).expect("is adapted");
        let found: &[&str] = if is_turned { &["fc"] } else { &[] };
        assert_eq!(
            network.layers_without_batches(),
            found,
            "{is_turned} {table}"
        );
    }
}

/// A product of 32 numbers.
fn product(n: usize) -> Graph {
    let mut graph = Graph::default();
    let x = graph.add_input("x", DType::F32, known(&[n, 32]));
    let w = Tensor::from_f32([4, 32], of_four_bits(4 * 32, 3)).expect("fits");
    let w = graph.add_constant("fc.weight", w);
    let gemm = Gemm {
        alpha: 1.0,
        beta: 1.0,
        trans_a: false,
        trans_b: true,
    };
    let y = graph.add_node("y", Op::Gemm(gemm), &[Some(x), Some(w)]);
    graph.outputs.push(y);
    graph
}

/// Where rounding changes nothing, gradients are those of the network that is not rounded.
#[test]
fn gradients_pass_over_the_rounding_of_activations() {
    let x = Tensor::from_f32([3, 32], of_four_bits(3 * 32, 5)).expect("fits");
    let target = Tensor::from_f32([3, 4], vec![0.3; 12]).expect("fits");
    for dropout in [0.0, 0.3] {
        let step = |activations| {
            let config = DoraConfig::builder(2).alpha(3.0).dropout(dropout);
            let config = config.init(Init::Random).build().expect("settings");
            let deployment = deployment(&product(1), Precision::Fp4, activations);
            let network = AdaptedNetwork::deployed(product(1), config, &deployment);
            let network = network.expect("is adapted");
            let shapes = [("x", vec![3, 32])];
            let step = TrainingStep::new(&network, &[heads("y", 4)], &shapes, &RunOptions::new());
            let mut step = step.expect("plans");
            let result = step.run_pass(&network, 0, &[("x", &x)], &[("y", &target)]);
            let result = result.expect("runs");
            let variables = network.adapter().variables();
            let gradients = variables.all().map(|var| {
                let gradient = result.gradients.get(var).expect("a gradient");
                let flat = gradient.flatten_all().and_then(|g| g.to_vec1::<f32>());
                flat.expect("is in f32")
            });
            gradients.collect::<Vec<_>>()
        };
        let (got, want) = (step(Activations::Quantised), step(Activations::Exact));
        assert_eq!((got.len(), want.len()), (3, 3));
        for (got, want) in got.iter().zip(&want) {
            assert!(want.iter().any(|g| *g != 0.0));
            let off = off(got, want);
            assert!(off < 2e-5, "dropout {dropout}: {off:e}");
        }
    }
}

/// What rounding weights and activations loses is won back where the engine rounds both.
#[test]
fn training_lessens_the_error_of_the_engine_with_rounded_activations() {
    let target = run(&network_of(2), &RunOptions::new(), &[("x", &x())]);
    let target = &target[0].1;
    let quantised = options(Precision::Fp4, Activations::Quantised);
    let error = |graph: &Graph| {
        let y = run(graph, &quantised, &[("x", &x())])[0].1.to_f32();
        root_mean_square(&y, &target.to_f32())
    };
    let deployment = deployment(&network_of(2), Precision::Fp4, Activations::Quantised);
    let config = DoraConfig::builder(2).build().expect("settings");
    let network = AdaptedNetwork::deployed(network_of(2), config, &deployment);
    let network = network.expect("is adapted");
    let step = TrainingStep::new(&network, &[heads("y", 4)], &[], &RunOptions::new());
    let mut step = step.expect("plans");
    let rates = LoraPlus {
        rate: 3e-3,
        ..LoraPlus::default()
    };
    let groups = network.adapter().variables().optimiser_groups(rates);
    let mut optimiser = AdamW::new(groups).expect("groups");
    for _ in 0..60 {
        let result = step.run(&network, &[("x", &x())], &[("y", target)]);
        let gradients = result.expect("runs").gradients;
        optimiser.step(&gradients, 1.0).expect("steps");
    }
    let before = error(network.base());
    let after = error(&network.merged().expect("merges").graph);
    assert!(after < 0.7 * before, "{before:e} before, {after:e} after");
}

#[test]
fn formats_axes_and_runs_are_those_of_the_layers() {
    let deployment = deployment(&network_of(1), Precision::Fp8, Activations::Quantised);
    // Biases alone leave the layers as they are, but for what they read.
    let mut graph = network_of(1);
    let bias = Tensor::from_f32([4], vec![0.0; 4]).expect("fits");
    let bias = graph.add_constant("third.bias", bias);
    let node = graph.nodes.iter_mut().find(|node| node.name == "y");
    node.expect("is there").inputs.push(Some(bias));
    let config = DoraConfig::builder(2).targets([""; 0]).biases(Biases::All);
    let config = config.build().expect("settings");
    let network = AdaptedNetwork::deployed(graph, config, &deployment).expect("is adapted");
    let ops = network
        .graph()
        .nodes
        .iter()
        .filter_map(|node| match node.op {
            Op::RoundedActivations(op) => Some((op.format, op.axis, op.together, op.scale)),
            _ => None,
        });
    let of = |axis| (ActivationFormat::E4m3, axis, 1, None);
    assert_eq!(ops.collect::<Vec<_>>(), [of(1), of(1), of(-1)]);
    let first = network.graph().value(network.graph().inputs[0]);
    assert!(matches!(first.shape.as_deref(), Some([Dim::Symbol(_), ..])));
    // Where weights stay as they are, activations do.
    let exact = Deployment::exact().with_activations(Activations::Quantised);
    assert_eq!(exact.activations(), Activations::Exact);
}

/// The trunk keeps operands rounded or not, and what is left is the same network, with dropout and without.
#[test]
fn what_is_cut_off_is_rounded_as_before() {
    for dropout in [0.0, 0.3] {
        let deployment = deployment(&network_of(1), Precision::Fp4, Activations::Quantised);
        let config = DoraConfig::builder(2).init(Init::Random).dropout(dropout);
        let config = config.targets(["third"]).build().expect("settings");
        let network = AdaptedNetwork::deployed(network_of(1), config, &deployment);
        let network = network.expect("is adapted");
        let values = numbers(16 * 6 * 5, 7).into_iter().map(|x| 0.01 * x);
        let x = Tensor::from_f32([1, 16, 6, 5], values.collect()).expect("fits");
        let want = evaluated(&network, &x);
        let (trunk, rest) = network.cut(&[("x", vec![1, 16, 6, 5])]).expect("is cut");
        let samples = vec![Sample {
            inputs: vec![("x".to_owned(), x)],
            targets: Vec::new(),
        }];
        let folder = std::env::temp_dir();
        let cached = trunk.cached(&samples, &folder, &RunOptions::new(), |_| ());
        let sample = spark_train::Samples::sample(&cached.expect("is kept"), 0).expect("is read");
        let mut inputs: Vec<(String, Tensor)> = sample.inputs;
        inputs.extend(rest.factors().expect("has factors"));
        let inputs: Vec<(&str, &Tensor)> = inputs.iter().map(|(n, t)| (n.as_str(), t)).collect();
        let got = run(rest.graph(), &RunOptions::new(), &inputs)[0].1.to_f32();
        assert_eq!(got, want, "dropout {dropout}");
    }
}
