//! Driving models taught head by head, as their tables name them.

use spark_dora::DoraConfig;
use spark_dora::loss::HeadKind;
use spark_dora::optim::{AdamW, LoraPlus};
use spark_onnx::{Model, Precision, RunOptions};
use spark_onnx_graph::graph::{Cast, Dim, Graph, MatMul, Op};
use spark_onnx_graph::{DType, Tensor};
use spark_openpilot::{metadata, slices, zoo};
use spark_testing::numbers;
use spark_train::{
    AdaptedNetwork, Deployment, TrainError, TrainingStep, driving_heads, layers, taught,
};

/// `y = x W` with so many outputs, and an input of openpilot's.
fn of_length(len: usize) -> Graph {
    let mut graph = Graph::default();
    let x = graph.add_input("desire", DType::F32, vec![Dim::Known(1), Dim::Known(4)]);
    let w = Tensor::from_f32([4, len], numbers(4 * len, 1)).expect("fits");
    let w = graph.add_constant("head.weight", w);
    let y = graph.add_node("y", Op::MatMul(MatMul), &[Some(x), Some(w)]);
    graph.values[y.0].shape = Some(vec![Dim::Known(1), Dim::Known(len)]);
    graph.outputs.push(y);
    graph
}

#[test]
fn heads_are_those_of_the_table() {
    let heads = driving_heads(&zoo::driving_vision(0)).expect("has a table");
    let heads = heads.expect("is known").heads;
    let kind = |name: &str| heads.iter().find(|head| head.name == name).map(|h| h.kind);
    assert_eq!(heads.len(), slices::VISION.len());
    assert_eq!(kind("lane_lines"), Some(HeadKind::Mdn));
    assert_eq!(kind("meta"), Some(HeadKind::Sigmoid));
    assert_eq!(kind("desire_pred"), Some(HeadKind::Softmax { classes: 8 }));
    assert_eq!(kind("hidden_state"), Some(HeadKind::Squares));
    // Without metadata, by the length; padding is not taught.
    let heads = driving_heads(&of_length(4968)).expect("has no table");
    let heads = heads.expect("is known");
    assert_eq!(heads.output, "y");
    let names: Vec<&str> = heads.heads.iter().map(|head| head.name.as_str()).collect();
    assert_eq!(names, ["plan", "desire_state", "desired_curvature"]);
    let five = HeadKind::Hypotheses {
        hypotheses: 5,
        selections: 1,
    };
    assert_eq!(heads.heads[0].kind, five);
    assert_eq!(driving_heads(&of_length(7)).expect("has no table"), None);
    // As long as a policy's output, but not openpilot's.
    let mut other = of_length(1000);
    assert!(driving_heads(&other).expect("has no table").is_some());
    other.values[other.inputs[0].0].name = "data".to_owned();
    assert_eq!(driving_heads(&other).expect("has no table"), None);
    let mut wrong = of_length(7);
    let table = metadata::encode(slices::POLICY);
    wrong
        .metadata
        .insert(metadata::OUTPUT_SLICES_KEY.to_owned(), table);
    assert!(matches!(driving_heads(&wrong), Err(TrainError::Layout(_))));
}

/// As f32, which losses are in.
#[test]
fn outputs_of_f16_are_taught() {
    let mut graph = of_length(1576);
    let y = graph.outputs[0];
    let half = graph.add_node("half", Op::Cast(Cast { to: DType::F16 }), &[Some(y)]);
    graph.values[half.0].shape = graph.values[y.0].shape.clone();
    graph.outputs = vec![half];
    let heads = driving_heads(&graph)
        .expect("has no table")
        .expect("is known");
    let x = Tensor::from_f32([1, 4], numbers(4, 2)).expect("fits");
    let inputs = vec![vec![("desire".to_owned(), x.clone())]];
    let options = RunOptions::new();
    let samples = taught(&graph, inputs, &options, |_| {}).expect("is taught");
    let (name, target) = &samples[0].targets[0];
    assert_eq!((name.as_str(), target.dtype()), ("half", DType::F32));
    let config = DoraConfig::builder(1).build().expect("settings");
    let network = AdaptedNetwork::new(graph, config).expect("is adapted");
    let shapes = [("desire", vec![1, 4])];
    let step = TrainingStep::new(&network, &[heads], &shapes, &options);
    let result = step
        .expect("plans")
        .run(&network, &[("desire", &x)], &[("half", target)]);
    let loss = result.expect("runs").loss;
    assert!(loss.abs() < 1e-5, "{loss:e} from itself");
}

/// Each generation's heads: nothing to learn from its own outputs, something from others.
#[test]
fn a_network_is_no_distance_from_itself() {
    for table in [
        slices::VISION,
        slices::VISION_1536,
        slices::POLICY_4968,
        slices::DRIVER_MONITORING,
        slices::SUPERCOMBO_2580,
    ] {
        let graph = of_length(slices::total(table));
        let heads = driving_heads(&graph)
            .expect("has no table")
            .expect("is known");
        let config = DoraConfig::builder(1).build().expect("settings");
        let network = AdaptedNetwork::new(graph.clone(), config).expect("is adapted");
        let shapes = [("desire", vec![1, 4])];
        let step = TrainingStep::new(&network, &[heads], &shapes, &RunOptions::new());
        let mut step = step.expect("plans");
        let x = Tensor::from_f32([1, 4], numbers(4, 2)).expect("fits");
        let model = Model::from_graph(graph, &RunOptions::new()).expect("plans");
        let own = model
            .session()
            .run(&[("desire", &x)])
            .expect("runs")
            .swap_remove(0)
            .1;
        let moved = own
            .to_f32()
            .iter()
            .map(|v| v + 0.3 + 0.1 * (7.0 * v).sin())
            .collect();
        let moved = Tensor::from_f32(own.shape(), moved).expect("fits");
        let mut parts = |target: &Tensor| {
            let result = step.run(&network, &[("desire", &x)], &[("y", target)]);
            result.expect("runs").parts
        };
        for ((head, at), (_, away)) in parts(&own).into_iter().zip(parts(&moved)) {
            assert!(at.abs() < 1e-5, "{head}: {at:e} from itself");
            assert!(away > 1e-5, "{head}: {away:e} from another");
        }
    }
}

#[test]
fn a_policy_wins_back_what_four_bits_lose() {
    let graph = zoo::driving_policy(0);
    let rank = 4;
    let fit = layers(&graph).into_iter();
    let fit = fit.filter(|layer| layer.groups == 1 && layer.largest_rank() >= rank);
    let config = DoraConfig::builder(rank).targets(fit.map(|layer| layer.name));
    let config = config.build().expect("settings");
    let options = RunOptions::new();
    let deployment = Deployment::new(&graph, Precision::Fp4, &[], &options).expect("is known");
    let network = AdaptedNetwork::deployed(graph.clone(), config, &deployment);
    let network = network.expect("is adapted");
    let heads = driving_heads(&graph)
        .expect("has a table")
        .expect("is known");

    let mut teacher = Model::from_graph(graph.clone(), &options)
        .expect("plans")
        .session();
    let inputs: Vec<(String, Tensor)> = graph
        .inputs
        .iter()
        .map(|&id| {
            let value = graph.value(id);
            let dims = value.shape.as_ref().expect("is declared");
            let extents = dims.iter().map(|dim| match dim {
                Dim::Known(extent) => *extent,
                _ => 1,
            });
            let shape: Vec<usize> = extents.collect();
            let n = shape.iter().product();
            let tensor = Tensor::from_f32(shape, numbers(n, 3)).expect("fits");
            (value.name.clone(), tensor)
        })
        .collect();
    let inputs: Vec<_> = inputs.iter().map(|(name, t)| (name.as_str(), t)).collect();
    let taught = teacher.run(&inputs).expect("runs");
    let taught: Vec<_> = taught.iter().map(|(name, t)| (name.as_str(), t)).collect();

    let shapes = inputs.iter().map(|(name, t)| (*name, t.shape().to_vec()));
    let shapes: Vec<_> = shapes.collect();
    let step = TrainingStep::new(&network, &[heads], &shapes, &options);
    let mut step = step.expect("plans");
    let groups = network.adapter().variables().optimiser_groups(LoraPlus {
        rate: 1e-3,
        ..LoraPlus::default()
    });
    let mut optimiser = AdamW::new(groups).expect("has groups");
    let mut seen = Vec::new();
    for _ in 0..10 {
        let result = step.run(&network, &inputs, &taught).expect("runs");
        optimiser.step(&result.gradients, 1.0).expect("steps");
        seen.push(result.parts);
    }
    for (position, (head, first)) in seen[0].iter().enumerate() {
        let (_, last) = &seen[9][position];
        assert!(
            *first > 0.0 && *last < 0.5 * first,
            "{head}: {first:e} to {last:e}"
        );
    }
}
