//! Every form of a layer, forth and back, against spark-dora's modules under candle's gradients.

use candle_core::{DType, Device, Tensor as Candle};
use candle_nn::{Conv1d, Conv1dConfig, Conv2d, Conv2dConfig, Linear};
use spark_dora::loss::{Head, HeadKind, distil};
use spark_dora::optim::Gradients;
use spark_dora::{Adapter, Biases, DoraConfig, DoraConfigBuilder, Init, TrainModule};
use spark_onnx::RunOptions;
use spark_onnx_graph::graph::{
    Binary, Conv, Dim, Gemm, Graph, MatMul, Op, Padding, Unary, ValueId, bind,
};
use spark_onnx_graph::reference::gradient::{GradientOptions, gradients};
use spark_onnx_graph::{DType as Type, Tensor};
use spark_testing::numbers;
use spark_train::{AdaptedNetwork, OutputHeads, TrainError, TrainingStep};

/// Offers a layer to an adapter: what it becomes.
type Offer = Box<dyn Fn(&mut Adapter) -> Box<dyn TrainModule>>;

/// Whose masks of dropout the steps have, where there is any.
const PASS: u64 = 5;

/// A network of one layer and a Tanh: its graph, and the same in candle.
struct Case {
    graph: Graph,
    x: Tensor,
    output: Vec<usize>,
    offer: Offer,
}

impl Case {
    fn has_bias(&self) -> bool {
        let values = &self.graph.values;
        values.iter().any(|value| value.name == "fc.bias")
    }
}

fn known(shape: &[usize]) -> Vec<Dim> {
    shape.iter().map(|&extent| Dim::Known(extent)).collect()
}

fn random(shape: &[usize], seed: u64) -> Tensor {
    let n = shape.iter().product();
    Tensor::from_f32(shape, numbers(n, seed)).expect("fits")
}

fn candle(tensor: &Tensor) -> Candle {
    Candle::from_vec(tensor.to_f32(), tensor.shape(), &Device::Cpu).expect("fits")
}

/// The layer as a node, and a Tanh behind it.
fn graph(op: Op, x: &Tensor, weight: &Tensor, bias: Option<&Tensor>) -> Graph {
    let mut graph = Graph::default();
    let input = graph.add_input("x", Type::F32, known(x.shape()));
    let w = graph.add_constant("fc.weight", weight.clone());
    let mut operands: Vec<Option<ValueId>> = vec![Some(input), Some(w)];
    let bias = bias.map(|bias| graph.add_constant("fc.bias", bias.clone()));
    let is_apart = matches!(op, Op::MatMul(_));
    operands.extend(bias.filter(|_| !is_apart).map(Some));
    let mut layer = graph.add_node("layer", op, &operands);
    if let (true, Some(bias)) = (is_apart, bias) {
        // As exporters write it.
        layer = graph.add_node(
            "biased",
            Op::Binary(Binary::Add),
            &[Some(bias), Some(layer)],
        );
    }
    let y = graph.add_node("y", Op::Unary(Unary::Tanh), &[Some(layer)]);
    graph.outputs.push(y);
    graph
}

fn linear(op: Op, x_shape: &[usize], is_transposed: bool, has_bias: bool) -> Case {
    let (n_in, n_out) = (x_shape[x_shape.len() - 1], 5);
    let x = random(x_shape, 1);
    let weight = random(&[n_out, n_in], 2);
    let bias = has_bias.then(|| random(&[n_out], 3));
    let stored = match is_transposed {
        false => weight.clone(),
        true => {
            let turned = candle(&weight).t().and_then(|t| t.flatten_all());
            let turned = turned.and_then(|t| t.to_vec1()).expect("turns");
            Tensor::from_f32([n_in, n_out], turned).expect("fits")
        }
    };
    let mut output = x_shape.to_vec();
    output.pop();
    output.push(n_out);
    let layer = Linear::new(candle(&weight), bias.as_ref().map(candle));
    Case {
        graph: graph(op, &x, &stored, bias.as_ref()),
        x,
        output,
        offer: Box::new(move |adapter| Box::new(adapter.linear("fc", &layer).expect("fits"))),
    }
}

fn gemm(trans_b: bool) -> Op {
    Op::Gemm(Gemm {
        alpha: 1.0,
        beta: 1.0,
        trans_a: false,
        trans_b,
    })
}

fn conv(n_axes: usize, groups: usize, has_bias: bool) -> Case {
    let mut x_shape = vec![2, 4];
    x_shape.extend(vec![7; n_axes]);
    let mut w_shape = vec![6, 4 / groups];
    if groups == 4 {
        w_shape[0] = 4;
    }
    w_shape.extend(vec![3; n_axes]);
    let (x, weight) = (random(&x_shape, 4), random(&w_shape, 5));
    let bias = has_bias.then(|| random(&[w_shape[0]], 6));
    let op = Conv {
        strides: vec![2; n_axes],
        dilations: Vec::new(),
        padding: Padding::Explicit(vec![1; 2 * n_axes]),
        groups,
    };
    let mut output = vec![2, w_shape[0]];
    output.extend(vec![4; n_axes]);
    let graph = graph(Op::Conv(op), &x, &weight, bias.as_ref());
    let (w, b) = (candle(&weight), bias.as_ref().map(candle));
    let offer: Offer = match n_axes {
        1 => {
            let config = Conv1dConfig {
                padding: 1,
                stride: 2,
                groups,
                ..Conv1dConfig::default()
            };
            let layer = Conv1d::new(w, b, config);
            Box::new(move |adapter| Box::new(adapter.conv1d("fc", &layer).expect("fits")))
        }
        _ => {
            let config = Conv2dConfig {
                padding: 1,
                stride: 2,
                groups,
                ..Conv2dConfig::default()
            };
            let layer = Conv2d::new(w, b, config);
            Box::new(move |adapter| Box::new(adapter.conv2d("fc", &layer).expect("fits")))
        }
    };
    Case {
        graph,
        x,
        output,
        offer,
    }
}

fn cases() -> Vec<(&'static str, Case)> {
    vec![
        ("Gemm, transposed", linear(gemm(true), &[3, 4], false, true)),
        ("Gemm", linear(gemm(false), &[3, 4], true, true)),
        (
            "Gemm without bias",
            linear(gemm(true), &[3, 4], false, false),
        ),
        ("MatMul", linear(MatMul.into(), &[2, 3, 4], true, false)),
        (
            "MatMul and Add",
            linear(MatMul.into(), &[2, 3, 4], true, true),
        ),
        ("Conv 1d", conv(1, 1, true)),
        ("Conv 2d", conv(2, 1, true)),
        ("Conv 2d without bias", conv(2, 1, false)),
        ("Conv 2d in two groups", conv(2, 2, true)),
        ("Conv 2d, depthwise", conv(2, 4, true)),
        ("Conv 1d in two groups", conv(1, 2, false)),
    ]
}

fn heads(output: &str, len: usize) -> OutputHeads {
    OutputHeads {
        output: output.to_owned(),
        heads: vec![Head {
            name: "all".to_owned(),
            range: 0..len,
            kind: HeadKind::Squares,
            weight: 3.0,
        }],
    }
}

/// Largest difference, for a largest value of 1.
fn off(got: &Candle, want: &Candle) -> f32 {
    let values = |t: &Candle| -> Vec<f32> {
        t.flatten_all()
            .and_then(|t| t.to_vec1())
            .expect("is in f32")
    };
    let (got, want) = (values(got), values(want));
    assert_eq!(got.len(), want.len());
    let scale = want.iter().fold(1e-3f32, |m, v| m.max(v.abs()));
    let pairs = got.iter().zip(&want);
    pairs.fold(0.0, |m: f32, (g, w)| m.max((g - w).abs())) / scale
}

/// Holds one step of the engine against candle's, for these settings.
fn agrees(what: &str, case: &Case, config: &DoraConfig) {
    let network = AdaptedNetwork::new(case.graph.clone(), config.clone()).expect("is adapted");
    // The same layer in candle: an adapter's variables follow from its seed and the layer's name.
    let mut adapter = Adapter::new(config.clone(), DType::F32, &Device::Cpu).expect("settings");
    let layer = (case.offer)(&mut adapter);
    // Away from where a scale is 1.
    for adapter in [&adapter, network.adapter()] {
        for magnitude in &adapter.variables().magnitude {
            let other = (magnitude.as_tensor() * 1.5).expect("multiplies");
            magnitude.set(&other).expect("takes it");
        }
    }
    let target = random(&case.output, 9);
    let last = case.output[case.output.len() - 1];
    let y = layer.forward_train(&candle(&case.x), PASS);
    let y = y.and_then(|y| y.tanh());
    let y = y.expect("runs");
    let heads = heads("y", last);
    let (loss, _) = distil(&candle(&target), &y, &heads.heads).expect("has a loss");
    let groups = adapter.variables();
    let want = Gradients::of(&loss.backward().expect("goes back"), groups.all());

    let mut step = TrainingStep::new(&network, &[heads], &[], &RunOptions::new()).expect("plans");
    let got = step.run_pass(&network, PASS, &[("x", &case.x)], &[("y", &target)]);
    let got = got.expect("runs");
    let want_loss: f32 = loss.to_scalar().expect("is one number");
    assert!(
        (got.loss - f64::from(want_loss)).abs() < 1e-5 * f64::from(want_loss),
        "{what}: loss {} for {want_loss}",
        got.loss
    );
    assert!(off(&candle(&got.outputs[0].1), &y) < 1e-5, "{what}: output");
    let ours = network.adapter().variables();
    assert_eq!(got.gradients.len(), want.len(), "{what}");
    for (ours, theirs) in ours.all().zip(groups.all()) {
        assert_eq!(ours.dims(), theirs.dims(), "{what}");
        let (got, want) = (got.gradients.get(ours), want.get(theirs));
        let (got, want) = (got.expect("a gradient"), want.expect("a gradient"));
        let off = off(got, want);
        assert!(off < 2e-5, "{what}: {:?} is off by {off:e}", ours.dims());
    }
}

fn config() -> DoraConfigBuilder {
    // B is not zero, so that everything has a gradient; alpha scales.
    DoraConfig::builder(2)
        .alpha(3.0)
        .init(Init::Random)
        .targets(["fc"])
}

#[test]
fn layers_under_dora_agree_with_candle() {
    for (what, case) in cases() {
        agrees(what, &case, &config().build().expect("settings"));
    }
}

#[test]
fn layers_under_lora_agree_with_candle() {
    for (what, case) in cases() {
        let config = config().lora().build().expect("settings");
        agrees(what, &case, &config);
    }
}

#[test]
fn layers_that_train_magnitudes_alone_agree_with_candle() {
    for (what, case) in cases() {
        let config = config().magnitude_only(["fc"]);
        agrees(what, &case, &config.build().expect("settings"));
    }
}

/// Candle's layers drop the same places: masks follow from the seed, the layer's name and the pass alone.
#[test]
fn layers_with_dropout_agree_with_candle() {
    for (what, case) in cases() {
        for config in [config(), config().lora(), config().magnitude_only(["fc"])] {
            for biases in [Biases::None, Biases::LoraOnly] {
                let config = config.clone().dropout(0.4).biases(biases);
                agrees(what, &case, &config.build().expect("settings"));
            }
        }
    }
}

#[test]
fn biases_beside_adapters_agree_with_candle() {
    for (what, case) in cases() {
        for config in [config(), config().lora(), config().magnitude_only(["fc"])] {
            let config = config.biases(Biases::LoraOnly);
            agrees(what, &case, &config.build().expect("settings"));
        }
    }
}

#[test]
fn biases_without_adapters_agree_with_candle() {
    let config = DoraConfig::builder(2).targets([""; 0]).biases(Biases::All);
    let config = config.build().expect("settings");
    let mut n_biased = 0;
    for (what, case) in cases() {
        if case.has_bias() {
            n_biased += 1;
            agrees(what, &case, &config);
        } else {
            let refused = AdaptedNetwork::new(case.graph.clone(), config.clone());
            let refused = refused.expect_err("there is nothing to train");
            assert!(
                matches!(refused, TrainError::NothingTrained { .. }),
                "{refused}"
            );
        }
    }
    assert!(n_biased > 4, "{n_biased}");
}

/// What is added to a product that others read too, or to more than its outputs, is not the layer's bias.
#[test]
fn additions_that_are_no_bias_stay() {
    let config = DoraConfig::builder(2).targets([""; 0]).biases(Biases::All);
    let config = config.build().expect("settings");
    let with = |change: fn(&mut Graph)| {
        let mut graph = linear(MatMul.into(), &[2, 3, 4], true, true).graph;
        change(&mut graph);
        AdaptedNetwork::new(graph, config.clone())
    };
    let network = with(|_| ()).expect("a bias");
    assert_eq!(network.adapter().variables().bias.len(), 1);
    let refused: [fn(&mut Graph); 4] = [
        |graph| {
            graph
                .outputs
                .push(graph.nodes[0].outputs[0].expect("a product"))
        },
        |graph| {
            let product = graph.nodes[0].outputs[0];
            let again = graph.add_node("again", Op::Unary(Unary::Tanh), &[product]);
            graph.outputs.push(again);
        },
        |graph| graph.nodes[1].op = Op::Binary(Binary::Sub),
        |graph| {
            let bias = graph.nodes[1].inputs[0].expect("a bias");
            let whole = random(&[3, 5], 9);
            graph.values[bias.0].constant = Some(std::sync::Arc::new(whole));
        },
    ];
    for (nth, change) in refused.into_iter().enumerate() {
        let error = with(change).expect_err("no bias");
        assert!(
            matches!(error, TrainError::NothingTrained { .. }),
            "{nth}: {error}"
        );
    }
}

/// A merged bias stands where the file has it, also where others read the same constant.
#[test]
fn a_bias_behind_a_product_is_merged_into_its_constant() {
    let config = DoraConfig::builder(2).targets([""; 0]).biases(Biases::All);
    let config = config.build().expect("settings");
    let mut graph = linear(MatMul.into(), &[2, 3, 4], true, true).graph;
    let bias = graph.nodes[1].inputs[0].expect("a bias");
    let other = graph.add_node("other", Op::Unary(Unary::Tanh), &[Some(bias)]);
    graph.outputs.push(other);
    let before = graph.value(bias).constant.as_ref().map(|t| t.to_f32());
    let network = AdaptedNetwork::new(graph, config).expect("a bias");
    let variables = network.adapter().variables();
    let moved = variables.bias[0].affine(1.0, 0.5).expect("moves");
    variables.bias[0].set(&moved).expect("as long");
    let merged = network.merged().expect("merges").graph;
    assert_eq!(merged.nodes.len(), network.base().nodes.len());
    let values = |id: ValueId| merged.value(id).constant.as_ref().map(|t| t.to_f32());
    assert_eq!(values(bias), before, "what others read stays");
    let own = merged.nodes[1].inputs[0]
        .and_then(values)
        .expect("constant");
    let expected = before.expect("constant").into_iter().map(|b| b + 0.5);
    assert_eq!(own, expected.collect::<Vec<f32>>());
}

/// Against the reference in f64: candle's own convolutions along one axis give other gradients.
#[test]
fn layers_that_are_trained_whole_agree_with_the_reference() {
    for (what, case) in cases() {
        let config = DoraConfig::builder(2).targets([""; 0]);
        let config = config.modules_to_save(["fc"]).build().expect("settings");
        let network = AdaptedNetwork::new(case.graph.clone(), config).expect("is adapted");
        let target = random(&case.output, 9);
        let heads = heads("y", case.output[case.output.len() - 1]);
        let step = TrainingStep::new(&network, &[heads], &[], &RunOptions::new());
        let mut step = step.expect("plans");
        let got = step.run(&network, &[("x", &case.x)], &[("y", &target)]);
        let got = got.expect("runs");

        let y = got.outputs[0].1.to_f64();
        let n = y.len() as f64;
        let of_loss = y.iter().zip(target.to_f64());
        let of_loss = of_loss.map(|(y, t)| 3.0 * 2.0 * (y - t) / n).collect();
        let dy = Tensor::from_f64(Type::F32, case.output.clone(), of_loss).expect("fits");
        let base = bind(&case.graph, &[]).expect("binds");
        let has_bias = case.has_bias();
        let by: &[&str] = match has_bias {
            true => &["fc.bias", "fc.weight"],
            false => &["fc.weight"],
        };
        let inputs = [("x", &case.x)];
        let options = GradientOptions::default();
        let want = gradients(&base, &inputs, &[("y", &dy)], by, options).expect("has gradients");
        let variables = network.adapter().variables();
        assert_eq!(variables.whole.len(), by.len(), "{what}");
        for (variable, (name, want)) in variables.whole.iter().zip(&want) {
            let want = candle(want);
            let want = match want.dims() == variable.dims() {
                true => want,
                false => want.t().expect("turns"),
            };
            let got = got.gradients.get(variable).expect("a gradient");
            let off = off(got, &want.contiguous().expect("copies"));
            assert!(off < 1e-5, "{what}: {name} is off by {off:e}");
        }
    }
}

/// What stays under A and B is not the file's weight then.
#[test]
fn layers_that_begin_as_parts_of_their_weight_agree_with_candle() {
    for (what, case) in cases().into_iter().take(4) {
        for dropout in [0.0, 0.3] {
            let config = config().init(Init::Pissa).dropout(dropout);
            agrees(what, &case, &config.build().expect("settings"));
        }
    }
}
