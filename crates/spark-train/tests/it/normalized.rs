//! Batch normalisations that training computes as part of weights: the same network, and the same gradients.

use candle_core::Tensor as Candle;
use spark_dora::loss::{Head, HeadKind};
use spark_dora::{DoraConfig, Init};
use spark_onnx::{Model, RunOptions};
use spark_onnx_graph::graph::{
    BatchNormalization, Conv, Dim, Graph, Op, Padding, Unary, ValueId, bind,
};
use spark_onnx_graph::reference::gradient::{GradientOptions, gradients};
use spark_onnx_graph::{DType, Tensor};
use spark_testing::numbers;
use spark_train::{AdaptedNetwork, OutputHeads, TrainingStep};

const CHANNELS: [usize; 5] = [3, 8, 8, 6, 5];

fn random(shape: &[usize], seed: u64) -> Tensor {
    let n = shape.iter().product();
    Tensor::from_f32(shape, numbers(n, seed)).expect("fits")
}

fn conv(kernel: usize, groups: usize) -> Op {
    Op::Conv(Conv {
        strides: vec![1, 1],
        dilations: Vec::new(),
        padding: Padding::Explicit(vec![kernel / 2; 4]),
        groups,
    })
}

/// Three convolutions in a row, the second of each channel on its own, and one with a window, each with a normalisation
/// behind it; the last result is an output before it is normalised too.
fn network() -> Graph {
    let mut graph = Graph::default();
    let shape = [2, CHANNELS[0], 5, 7].map(Dim::Known).to_vec();
    let mut value = graph.add_input("x", DType::F32, shape);
    let layers = [
        ("wide", 1, 1),
        ("deep", 3, 8),
        ("narrow", 1, 1),
        ("window", 3, 1),
    ];
    for (i, (name, kernel, groups)) in layers.into_iter().enumerate() {
        let (from, to) = (CHANNELS[i] / groups, CHANNELS[i + 1]);
        let seed = 10 * i as u64;
        let weight = random(&[to, from, kernel, kernel], seed);
        let weight = graph.add_constant(format!("{name}.weight"), weight);
        let mut operands = vec![Some(value), Some(weight)];
        if i != 1 {
            let bias = graph.add_constant(format!("{name}.bias"), random(&[to], seed + 1));
            operands.push(Some(bias));
        }
        let layer = graph.add_node(name, conv(kernel, groups), &operands);
        value = normalized(&mut graph, name, layer, to, seed);
        value = graph.add_node(
            format!("{name}.relu"),
            Op::Unary(Unary::Relu),
            &[Some(value)],
        );
    }
    graph.outputs.push(value);
    graph
}

fn normalized(graph: &mut Graph, name: &str, x: ValueId, channels: usize, seed: u64) -> ValueId {
    let positive = numbers(channels, seed + 5);
    let positive = positive.iter().map(|v| 0.5 + v.abs()).collect();
    let operands = [
        ("scale", random(&[channels], seed + 2)),
        ("shift", random(&[channels], seed + 3)),
        ("mean", random(&[channels], seed + 4)),
        (
            "variance",
            Tensor::from_f32([channels], positive).expect("fits"),
        ),
    ];
    let mut ids = vec![Some(x)];
    for (of, tensor) in operands {
        ids.push(Some(
            graph.add_constant(format!("{name}.norm.{of}"), tensor),
        ));
    }
    let op = BatchNormalization { epsilon: 1e-3 };
    graph.add_node(format!("{name}.norm"), Op::BatchNormalization(op), &ids)
}

fn adapted(graph: &Graph, layers: &[&str]) -> AdaptedNetwork {
    let config = DoraConfig::builder(2).alpha(3.0).init(Init::Random);
    let config = config.targets(layers.iter().map(|name| (*name).to_owned()));
    let config = config.build().expect("settings");
    let network = AdaptedNetwork::new(graph.clone(), config).expect("is adapted");
    for magnitude in &network.adapter().variables().magnitude {
        let other = (magnitude.as_tensor() * 1.5).expect("multiplies");
        magnitude.set(&other).expect("takes it");
    }
    network
}

fn norms(graph: &Graph) -> usize {
    let nodes = graph.nodes.iter();
    nodes
        .filter(|node| matches!(node.op, Op::BatchNormalization(_)))
        .count()
}

fn off(got: &[f64], want: &[f64]) -> f64 {
    assert_eq!(got.len(), want.len());
    let scale = want.iter().fold(1e-6f64, |m, v| m.max(v.abs()));
    let pairs = got.iter().zip(want);
    pairs.fold(0.0, |m: f64, (g, w)| m.max((g - w).abs())) / scale
}

fn numbers_of(tensor: &Candle) -> Vec<f64> {
    let flat = tensor.flatten_all().expect("flattens");
    let values: Vec<f32> = flat.to_vec1().expect("is in f32");
    values.into_iter().map(f64::from).collect()
}

#[test]
fn normalisations_become_part_of_weights_where_those_are_formed() {
    let graph = network();
    assert_eq!(norms(&graph), 4);
    // Of the layer with a window the product with its own weight is frozen: a normalisation stays behind it.
    assert_eq!(norms(adapted(&graph, &["wide", "window"]).graph()), 1);
    assert_eq!(norms(adapted(&graph, &["deep"]).graph()), 0);
    // A result that others read is not changed.
    let mut read = graph.clone();
    read.outputs
        .push(read.nodes[0].outputs[0].expect("has one"));
    assert_eq!(norms(adapted(&read, &["wide", "narrow"]).graph()), 1);
}

/// Gradients of the merged weights in f64, taken apart by hand: `dm = <dW', W'> / m` and `dV = m / |V| dW'` by row.
#[test]
fn a_network_with_its_normalisations_in_weights_has_the_same_gradients() {
    let graph = network();
    let x = random(&[2, CHANNELS[0], 5, 7], 99);
    let target = random(&[2, CHANNELS[4], 5, 7], 98);
    let layers = ["wide", "deep", "narrow", "window"];
    let network = adapted(&graph, &layers);
    let merged = network.merged().expect("merges").graph;
    let heads = OutputHeads {
        output: "window.relu".to_owned(),
        heads: vec![Head {
            name: "all".to_owned(),
            range: 0..7,
            kind: HeadKind::Squares,
            weight: 1.0,
        }],
    };
    let mut step = TrainingStep::new(&network, &[heads], &[], &RunOptions::new()).expect("plans");
    let output = step.targets().next().expect("is taught").0.to_owned();
    let got = step.run(&network, &[("x", &x)], &[(&output, &target)]);
    let got = got.expect("runs");
    let model = Model::from_graph(merged.clone(), &RunOptions::new()).expect("plans");
    let want = model.session().run(&[("x", &x)]).expect("runs");
    let y = want[0].1.to_f64();
    assert!(off(&got.outputs[0].1.to_f64(), &y) < 1e-5);

    let n = y.len() as f64;
    let dy = y
        .iter()
        .zip(target.to_f64())
        .map(|(y, t)| 2.0 * (y - t) / n);
    let dy = Tensor::from_f64(DType::F32, target.shape().to_vec(), dy.collect()).expect("fits");
    let names = layers.map(|name| format!("{name}.weight"));
    let by: Vec<&str> = names.iter().map(String::as_str).collect();
    let bound = bind(&merged, &[]).expect("binds");
    let options = GradientOptions::default();
    let want = gradients(&bound, &[("x", &x)], &[(&output, &dy)], &by, options);
    let want = want.expect("has gradients");

    let constant = |graph: &Graph, name: &str| {
        let value = graph.values.iter().find(|value| value.name == name);
        let constant = value.and_then(|value| value.constant.clone());
        constant.expect("is a constant").to_f64()
    };
    let variables = network.adapter().variables();
    let adapted: Vec<&str> = network.adapter().adapted().collect();
    for (i, name) in names.iter().enumerate() {
        let of_adapter = adapted.iter().position(|layer| *layer == layers[i]);
        let of_adapter = of_adapter.expect("is adapted");
        let (dw, w) = (want[i].1.to_f64(), constant(&merged, name));
        let rows = CHANNELS[i + 1];
        let columns = w.len() / rows;
        let vars = [&variables.a, &variables.b, &variables.magnitude].map(|of| &of[of_adapter]);
        let [a, b, m] = vars.map(|var| numbers_of(var.as_tensor()));
        let (rank, scaling) = (2, 3.0 / 2.0);
        let base = constant(&graph, name);
        let (mut dm, mut db) = (vec![0.0; rows], vec![0.0; rows * rank]);
        let mut da = vec![0.0; rank * columns];
        for row in 0..rows {
            let at = row * columns..(row + 1) * columns;
            let along: f64 = dw[at.clone()]
                .iter()
                .zip(&w[at.clone()])
                .map(|(d, w)| d * w)
                .sum();
            dm[row] = along / m[row];
            let v = |column: usize| {
                let low: f64 = (0..rank)
                    .map(|r| b[row * rank + r] * a[r * columns + column])
                    .sum();
                base[row * columns + column] + scaling * low
            };
            let norm = (0..columns)
                .map(|column| v(column).powi(2))
                .sum::<f64>()
                .sqrt();
            for column in 0..columns {
                let dv = m[row] / norm * dw[row * columns + column];
                for r in 0..rank {
                    db[row * rank + r] += scaling * dv * a[r * columns + column];
                    da[r * columns + column] += scaling * dv * b[row * rank + r];
                }
            }
        }
        for (var, want) in vars.into_iter().zip([da, db, dm]) {
            let got = numbers_of(got.gradients.get(var).expect("a gradient"));
            let off = off(&got, &want);
            assert!(off < 2e-5, "{name}: {:?} is off by {off:e}", var.dims());
        }
    }
}
