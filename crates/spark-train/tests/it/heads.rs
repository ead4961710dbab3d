//! New heads on trunks, and networks cut to what is wanted of them.

use spark_dora::DoraConfig;
use spark_onnx::{Model, RunOptions};
use spark_onnx_graph::graph::{Conv, Dim, Flatten, Graph, Op, Padding, Unary};
use spark_onnx_graph::{DType, Tensor};
use spark_testing::numbers;
use spark_train::{
    AdaptedNetwork, Go, OutputHeads, Sample, TrainError, Trainer, TrainerSettings, layers,
    with_head, with_outputs,
};

fn random(shape: &[usize], seed: u64) -> Tensor {
    Tensor::from_f32(shape, numbers(shape.iter().product(), seed)).expect("fits")
}

/// A convolution of 1 x 1, a Tanh, and an output of their own.
fn network() -> Graph {
    let mut graph = Graph::default();
    let shape = [1, 3, 4, 4].map(Dim::Known).to_vec();
    let x = graph.add_input("x", DType::F32, shape);
    let w = graph.add_constant("first.weight", random(&[5, 3, 1, 1], 1));
    let conv = Conv {
        strides: Vec::new(),
        dilations: Vec::new(),
        padding: Padding::Valid,
        groups: 1,
    };
    let h = graph.add_node("first", conv.into(), &[Some(x), Some(w)]);
    let h = graph.add_node("trunk", Op::Unary(Unary::Tanh), &[Some(h)]);
    let y = graph.add_node("y", Op::Unary(Unary::Abs), &[Some(h)]);
    graph.outputs.push(y);
    graph
}

fn outputs(graph: &Graph, x: &Tensor) -> Vec<(String, Tensor)> {
    let model = Model::from_graph(graph.clone(), &RunOptions::new()).expect("plans");
    model.session().run(&[("x", x)]).expect("runs")
}

#[test]
fn a_head_says_zeros_until_it_is_taught_and_the_rest_stays() {
    let x = random(&[1, 3, 4, 4], 2);
    let before = outputs(&network(), &x);
    let graph = with_head(network(), "trunk", "speed", 2).expect("has a trunk");
    let after = outputs(&graph, &x);
    assert_eq!(after[0], before[0]);
    assert_eq!(after[1].0, "speed");
    assert!(after[1].1.shape() == [1, 2] && after[1].1.to_f32() == [0.0; 2]);

    let graph = with_outputs(graph, &["speed"]).expect("is one");
    let names: Vec<String> = layers(&graph).into_iter().map(|layer| layer.name).collect();
    assert_eq!(names, ["first", "speed"]);
    assert!(graph.nodes.iter().all(|node| node.name != "y"));
    let config = DoraConfig::builder(2)
        .targets(["first"])
        .modules_to_save(["speed"])
        .build()
        .expect("settings");
    let adapted = AdaptedNetwork::new(graph, config).expect("is adapted");
    // The mean of the trunk's first channel, and its negative.
    let samples = (0..24).map(|seed| {
        let x = random(&[1, 3, 4, 4], 10 + seed);
        let trunk = outputs(
            &with_outputs(network(), &["trunk"]).expect("is a value"),
            &x,
        );
        let mean = trunk[0].1.to_f32()[..16].iter().sum::<f32>() / 16.0;
        Sample {
            inputs: vec![("x".to_owned(), x)],
            targets: vec![(
                "speed".to_owned(),
                Tensor::from_f32([1, 2], vec![mean, -mean]).expect("fits"),
            )],
        }
    });
    let samples: Vec<Sample> = samples.collect();
    let heads = vec![OutputHeads::squares("speed", &samples[0].targets[0].1)];
    let mut settings = TrainerSettings {
        epochs: 60,
        ..TrainerSettings::default()
    };
    settings.rates.rate = 0.02;
    let trainer = Trainer::new(adapted, heads, &samples, None, settings, RunOptions::new());
    let mut trainer = trainer.expect("a run");
    let outcome = trainer.run(&mut |_: &spark_train::Event| Go::On);
    assert_eq!(outcome.expect("runs").steps, 180);
    let merged = trainer.network().merged().expect("merges").graph;
    let (mut error, mut size) = (0.0, 0.0);
    for sample in &samples {
        let said = outputs(&merged, &sample.inputs[0].1)[0].1.to_f32();
        let want = sample.targets[0].1.to_f32();
        error += said
            .iter()
            .zip(&want)
            .map(|(a, b)| (a - b).powi(2))
            .sum::<f32>();
        size += want.iter().map(|w| w.powi(2)).sum::<f32>();
    }
    assert!(error < 0.01 * size, "{error} of {size}");
}

#[test]
fn what_no_head_can_stand_on_is_refused() {
    let refused = with_head(network(), "nothing", "speed", 2);
    assert!(matches!(refused, Err(TrainError::NoValue { name }) if name == "nothing"));
    let taken = with_head(network(), "trunk", "first", 2);
    assert!(matches!(taken, Err(TrainError::NameTaken { name }) if name == "first"));
    let weight = with_head(network(), "trunk", "y", 2);
    assert!(matches!(weight, Err(TrainError::NameTaken { .. })));
    let none = with_outputs(network(), &["trunk", "nothing"]);
    assert!(matches!(none, Err(TrainError::NoValue { name }) if name == "nothing"));
    // Channels that hang on an open extent; an open number of samples is none.
    let mut open = network();
    let input = open.inputs[0];
    let extents = [
        Dim::Known(1),
        Dim::Known(3),
        Dim::Symbol("h".to_owned()),
        Dim::Known(4),
    ];
    open.values[input.0].shape = Some(extents.to_vec());
    let flat = open.add_node(
        "flat",
        Op::Flatten(Flatten { axis: 1 }),
        &[Some(open.outputs[0])],
    );
    open.outputs.push(flat);
    assert!(with_head(open.clone(), "trunk", "speed", 2).is_ok());
    let refused = with_head(open, "flat", "speed", 2);
    assert!(matches!(refused, Err(TrainError::NoValue { name }) if name == "flat"));
    // A head of a head, and one on the input itself.
    let twice =
        with_head(network(), "trunk", "a", 3).and_then(|graph| with_head(graph, "a", "b", 2));
    let twice = outputs(&twice.expect("two heads"), &random(&[1, 3, 4, 4], 2));
    assert_eq!(twice[2].1.shape(), [1, 2]);
    let on_input = with_head(network(), "x", "a", 3).expect("has two extents");
    assert_eq!(
        outputs(&on_input, &random(&[1, 3, 4, 4], 2))[1].1.shape(),
        [1, 3]
    );
}
