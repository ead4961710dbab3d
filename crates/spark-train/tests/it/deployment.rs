//! Training that sees how weights are rounded where the network will run.

use spark_dora::loss::{Head, HeadKind};
use spark_dora::optim::{AdamW, LoraPlus};
use spark_dora::{Biases, DoraConfig, Init};
use spark_onnx::precision::Activations;
use spark_onnx::{Model, Precision, RunOptions};
use spark_onnx_graph::graph::{
    BatchNormalization, Conv, Dim, Gemm, Graph, Op, Padding, ReduceKind, Unary,
};
use spark_onnx_graph::{DType, Tensor, file};
use spark_testing::{numbers, test_data};
use spark_train::{
    AdaptedNetwork, Deployment, Evaluation, OutputHeads, TrainError, TrainingStep, layers,
};

pub(crate) fn heads(output: &str, len: usize) -> OutputHeads {
    OutputHeads {
        output: output.to_owned(),
        heads: vec![Head {
            name: "all".to_owned(),
            range: 0..len,
            kind: HeadKind::Squares,
            weight: 1.0,
        }],
    }
}

pub(crate) fn known(shape: &[usize]) -> Vec<Dim> {
    shape.iter().map(|&extent| Dim::Known(extent)).collect()
}

/// Numbers that E2M1 has, with 6 in every block of 16: rounding to NVFP4 leaves them.
pub(crate) fn of_four_bits(n: usize, seed: u64) -> Vec<f32> {
    let steps = [0.5, 1.0, 1.5, 2.0, 3.0, 4.0, -0.5, -1.0, -2.0, -3.0];
    let values = numbers(n, seed).into_iter().enumerate();
    let of = |(at, x): (usize, f32)| match at % 16 {
        0 => 6.0,
        _ => steps[((x.abs() * 10.0) as usize).min(9)],
    };
    values.map(of).collect()
}

/// A 3x3 and a 1x1 convolution, and a product, of two samples.
fn network() -> Graph {
    network_of(2)
}

pub(crate) fn network_of(n: usize) -> Graph {
    let mut graph = Graph::default();
    let x = graph.add_input("x", DType::F32, known(&[n, 16, 6, 5]));
    let conv = |padding| Conv {
        strides: Vec::new(),
        dilations: Vec::new(),
        padding,
        groups: 1,
    };
    let add = |graph: &mut Graph, name: &str, shape: &[usize], seed| {
        let values = of_four_bits(shape.iter().product(), seed);
        let tensor = Tensor::from_f32(shape, values).expect("fits");
        graph.add_constant(format!("{name}.weight"), tensor)
    };
    let w = add(&mut graph, "first", &[32, 16, 3, 3], 1);
    let first = conv(Padding::Explicit(vec![1; 4]));
    let y = graph.add_node("first", Op::Conv(first), &[Some(x), Some(w)]);
    let y = graph.add_node("tanh", Op::Unary(Unary::Tanh), &[Some(y)]);
    let w = add(&mut graph, "second", &[16, 32, 1, 1], 2);
    let second = conv(Padding::Valid);
    let y = graph.add_node("second", Op::Conv(second), &[Some(y), Some(w)]);
    let y = graph.add_node("tanh2", Op::Unary(Unary::Tanh), &[Some(y)]);
    let axes = graph.add_constant("axes", Tensor::from_i64([2], vec![2, 3]).expect("fits"));
    let mean = spark_onnx_graph::graph::Reduce {
        kind: ReduceKind::Mean,
        keep_dims: false,
        noop_with_empty_axes: false,
    };
    let y = graph.add_node("mean", Op::Reduce(mean), &[Some(y), Some(axes)]);
    let w = add(&mut graph, "third", &[4, 16], 3);
    let gemm = Gemm {
        alpha: 1.0,
        beta: 1.0,
        trans_a: false,
        trans_b: true,
    };
    let y = graph.add_node("y", Op::Gemm(gemm), &[Some(y), Some(w)]);
    graph.outputs.push(y);
    graph
}

pub(crate) fn x() -> Tensor {
    // Small, so that no Tanh is full.
    let x = numbers(2 * 16 * 6 * 5, 7).into_iter().map(|x| 0.01 * x);
    Tensor::from_f32([2, 16, 6, 5], x.collect()).expect("fits")
}

pub(crate) fn off(got: &[f32], want: &[f32]) -> f32 {
    let scale = want.iter().fold(1e-6f32, |m, v| m.max(v.abs()));
    let pairs = got.iter().zip(want);
    pairs.fold(0.0, |m: f32, (g, w)| m.max((g - w).abs())) / scale
}

/// Where rounding changes nothing, gradients through formed weights are those of the network that is not rounded.
#[test]
fn gradients_pass_over_the_rounding() {
    let deployment = Deployment::new(&network(), Precision::Fp4, &[], &RunOptions::new());
    let deployment = deployment.expect("has layers in fp4");
    assert_eq!(deployment.precision(), Some(Precision::Fp4));
    for (lora, dropout) in [(false, 0.0), (true, 0.0), (false, 0.3), (true, 0.3)] {
        let config = || {
            let config = DoraConfig::builder(2).alpha(3.0).dropout(dropout);
            let config = if lora { config.lora() } else { config };
            config.build().expect("settings")
        };
        let exact = AdaptedNetwork::new(network(), config()).expect("is adapted");
        let rounded = AdaptedNetwork::deployed(network(), config(), &deployment);
        let rounded = rounded.expect("is adapted");
        assert!(rounded.graph().inputs.len() < exact.graph().inputs.len());
        let target = Tensor::from_f32([2, 4], vec![0.3; 8]).expect("fits");
        let run = |network: &AdaptedNetwork| {
            let step = TrainingStep::new(network, &[heads("y", 4)], &[], &RunOptions::new());
            let result =
                step.expect("plans")
                    .run_pass(network, 0, &[("x", &x())], &[("y", &target)]);
            let result = result.expect("runs");
            let variables = network.adapter().variables();
            let gradients = variables.all().map(|var| {
                let gradient = result.gradients.get(var).expect("a gradient");
                let flat = gradient
                    .flatten_all()
                    .and_then(|flat| flat.to_vec1::<f32>());
                flat.expect("is in f32")
            });
            (result.outputs[0].1.to_f32(), gradients.collect::<Vec<_>>())
        };
        let (y, want) = run(&exact);
        let (y_rounded, got) = run(&rounded);
        assert!(off(&y_rounded, &y) < 1e-5, "{y_rounded:?} for {y:?}");
        // B is zero, so that A has no gradient.
        let n_a = exact.adapter().variables().a.len();
        for (number, (got, want)) in got.iter().zip(&want).enumerate() {
            assert_eq!(want.iter().all(|g| *g == 0.0), number < n_a);
            let off = off(got, want);
            assert!(off < 2e-5, "variable {number} is off by {off:e}");
        }
    }
}

/// What was trained is what the merged network gives in that format.
#[test]
fn a_merged_network_in_four_bits_is_the_one_that_was_trained() {
    for precision in [Precision::Fp4, Precision::Fp8] {
        let deployment = Deployment::new(&network(), precision, &[], &RunOptions::new());
        let deployment = deployment.expect("has layers");
        let config = DoraConfig::builder(2).init(Init::Random);
        // One layer is rounded without an adapter.
        let config = config
            .targets(["first", "third"])
            .build()
            .expect("settings");
        let network = AdaptedNetwork::deployed(network(), config, &deployment);
        let network = network.expect("is adapted");
        let target = Tensor::from_f32([2, 4], vec![0.3; 8]).expect("fits");
        let step = TrainingStep::new(&network, &[heads("y", 4)], &[], &RunOptions::new());
        let mut step = step.expect("plans");
        let groups = network.adapter().variables();
        let mut optimiser = AdamW::new(groups.optimiser_groups(LoraPlus {
            rate: 1e-2,
            ..LoraPlus::default()
        }))
        .expect("groups");
        for _ in 0..10 {
            let result = step.run(&network, &[("x", &x())], &[("y", &target)]);
            optimiser
                .step(&result.expect("runs").gradients, 1.0)
                .expect("steps");
        }
        let shapes = [("x", vec![2, 16, 6, 5])];
        let evaluation = Evaluation::new(&network, &[heads("y", 4)], &shapes, &RunOptions::new());
        let trained = evaluation
            .expect("plans")
            .run(&network, &[("x", &x())], &[("y", &target)]);
        let trained = trained.expect("runs").outputs[0].1.to_f32();
        let merged = network.merged().expect("merges").graph;
        let options = RunOptions::new().with_precision(precision);
        let options = options.with_activations(Activations::Exact);
        let run = |options: &RunOptions| {
            let model = Model::from_graph(merged.clone(), options).expect("plans");
            model
                .session()
                .run(&[("x", &x())])
                .expect("runs")
                .swap_remove(0)
                .1
                .to_f32()
        };
        let deployed = off(&run(&options), &trained);
        assert!(deployed < 1e-5, "{precision}: {deployed:e}");
        let exact = off(&run(&RunOptions::new()), &trained);
        assert!(exact > 1e-3, "{precision}: rounding changes nothing");
    }
}

/// The network with a bias in each layer.
fn biased_network() -> Graph {
    let mut graph = network();
    for (name, n, seed) in [("first", 32, 11), ("second", 16, 12), ("y", 4, 13)] {
        let bias = Tensor::from_f32([n], numbers(n, seed)).expect("fits");
        let bias = graph.add_constant(format!("{name}.bias"), bias);
        let mut nodes = graph.nodes.iter_mut();
        let node = nodes.find(|node| node.name == name).expect("is there");
        node.inputs.push(Some(bias));
    }
    graph
}

/// The codes of frozen weights stay, and what is run is what was trained.
#[test]
fn biases_alone_are_trained_under_weights_in_four_bits() {
    let options = RunOptions::new();
    let deployment = Deployment::new(&biased_network(), Precision::Fp4, &[], &options);
    let deployment = deployment.expect("has layers");
    let config = DoraConfig::builder(2).targets([""; 0]).biases(Biases::All);
    let config = config.build().expect("settings");
    let network = AdaptedNetwork::deployed(biased_network(), config, &deployment);
    let network = network.expect("is adapted");
    let groups = network.adapter().variables();
    assert_eq!((groups.bias.len(), groups.all().count()), (3, 3));
    let target = Tensor::from_f32([2, 4], vec![0.3; 8]).expect("fits");
    let (inputs, targets) = ([("x", &x())], [("y", &target)]);
    let step = TrainingStep::new(&network, &[heads("y", 4)], &[], &options);
    let mut step = step.expect("plans");
    let rates = LoraPlus {
        rate: 1e-2,
        ..LoraPlus::default()
    };
    let mut optimiser = AdamW::new(groups.optimiser_groups(rates)).expect("groups");
    let mut losses = Vec::new();
    for _ in 0..30 {
        let result = step.run(&network, &inputs, &targets).expect("runs");
        losses.push(result.loss);
        optimiser.step(&result.gradients, 1.0).expect("steps");
    }
    assert!(losses[29] < 0.5 * losses[0], "{losses:?}");
    let shapes = [("x", vec![2, 16, 6, 5])];
    let evaluation = Evaluation::new(&network, &[heads("y", 4)], &shapes, &options);
    let trained = evaluation.expect("plans").run(&network, &inputs, &targets);
    let trained = trained.expect("runs").outputs[0].1.to_f32();

    let merged = network.merged().expect("merges");
    let named: Vec<_> = merged.report.replaced.iter().map(String::as_str).collect();
    assert_eq!(named, ["first.bias", "second.bias", "third.bias"]);
    let constants = |graph: &Graph| -> Vec<(String, Vec<f32>)> {
        let constants = graph.values.iter();
        let constants = constants.filter_map(|v| Some((v.name.clone(), v.constant.as_ref()?)));
        let weights = constants.filter(|(name, _)| name.ends_with(".weight"));
        weights.map(|(name, t)| (name, t.to_f32())).collect()
    };
    assert_eq!(constants(&merged.graph), constants(&biased_network()));
    assert_eq!(merged.graph.nodes.len(), biased_network().nodes.len());
    let options = options.with_precision(Precision::Fp4);
    let options = options.with_activations(Activations::Exact);
    let model = Model::from_graph(merged.graph, &options).expect("plans");
    let run = model.session().run(&inputs).expect("runs").swap_remove(0);
    let deployed = off(&run.1.to_f32(), &trained);
    assert!(deployed < 1e-5, "{deployed:e}");
}

#[test]
fn what_cannot_be_rounded_is_said() {
    let refused = Deployment::new(&network(), Precision::Bf16, &[], &RunOptions::new());
    assert!(matches!(refused, Err(TrainError::NoRounding { .. })));
    // A batch normalisation is folded into what is rounded.
    let mut graph = network();
    let norm = Op::BatchNormalization(BatchNormalization { epsilon: 1e-5 });
    let vector = |graph: &mut Graph, name: &str| {
        graph.add_constant(name, Tensor::from_f32([32], vec![1.0; 32]).expect("fits"))
    };
    let [scale, shift, mean, variance] =
        ["scale", "shift", "mean", "variance"].map(|name| vector(&mut graph, name));
    let first = graph.nodes[0].outputs[0];
    let operands = [first, Some(scale), Some(shift), Some(mean), Some(variance)];
    let y = graph.add_node("norm", norm, &operands);
    let node = graph.nodes.pop().expect("was added");
    graph.nodes.insert(1, node);
    graph.nodes[2].inputs[0] = Some(y);
    let refused = Deployment::new(&graph, Precision::Fp4, &[], &RunOptions::new());
    let error = refused.expect_err("is refused");
    assert_eq!(
        error.to_string(),
        "node `norm` is folded into the weight of `first` before that is rounded: fold it in the file"
    );
}

/// The network's own layers: those of 16 input channels and more, none of which is depthwise.
#[test]
fn layers_of_a_real_network_that_are_rounded_are_those_of_the_engine() {
    let Some(path) = test_data("data/models/dmonitoring_0_8_5.onnx") else {
        return;
    };
    let graph = file::load(&path).expect("loads");
    let deployment = Deployment::new(&graph, Precision::Fp4, &[], &RunOptions::new());
    let large = layers(&graph).into_iter();
    let large = large.filter(|layer| layer.groups == 1 && layer.largest_rank() >= 4);
    let config = DoraConfig::builder(4).targets(large.map(|layer| layer.name));
    let config = config.build().expect("settings");
    let network = AdaptedNetwork::deployed(graph, config, &deployment.expect("has layers"));
    let network = network.expect("is adapted");
    let x = Tensor::from_f32([1, 6, 320, 160], numbers(6 * 320 * 160, 3)).expect("fits");
    let shapes = [("input_img", x.shape().to_vec())];
    let target = Tensor::from_f32([1, 38], vec![0.0; 38]).expect("fits");
    let evaluation = Evaluation::new(
        &network,
        &[heads("outputs", 38)],
        &shapes,
        &RunOptions::new(),
    );
    let trained =
        evaluation
            .expect("plans")
            .run(&network, &[("input_img", &x)], &[("outputs", &target)]);
    let trained = trained.expect("runs").outputs[0].1.to_f32();
    let options = RunOptions::new().with_precision(Precision::Fp4);
    let options = options.with_activations(Activations::Exact);
    let model = Model::from_graph(network.base().clone(), &options).expect("plans");
    let results = model.session().run(&[("input_img", &x)]).expect("runs");
    let off = off(&trained, &results[0].1.to_f32());
    assert!(off < 1e-5, "{off:e}");
}
