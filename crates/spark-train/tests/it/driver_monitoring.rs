//! A trained network under an adapter: unchanged before training, taught in twenty steps, merged.

use spark_dora::DoraConfig;
use spark_dora::loss::{Head, HeadKind};
use spark_dora::optim::{AdamW, LoraPlus};
use spark_onnx::{Model, RunOptions};
use spark_onnx_graph::{Tensor, file};
use spark_testing::{numbers, test_data};
use spark_train::{AdaptedNetwork, OutputHeads, TrainingStep, layers, with_free_batch};

const BATCH: usize = 2;

fn largest(values: &[f32]) -> f32 {
    values.iter().fold(0.0, |m, v| m.max(v.abs()))
}

fn off(got: &Tensor, want: &Tensor) -> f32 {
    let (got, want) = (got.to_f32(), want.to_f32());
    let differences: Vec<f32> = got.iter().zip(&want).map(|(g, w)| g - w).collect();
    largest(&differences) / largest(&want)
}

fn outputs(graph: &spark_onnx_graph::graph::Graph, inputs: &[(&str, &Tensor)]) -> Tensor {
    let graph = with_free_batch(graph.clone());
    let model = Model::from_graph(graph, &RunOptions::new()).expect("plans");
    let mut results = model.session().run(inputs).expect("runs");
    results.swap_remove(0).1
}

#[test]
fn twenty_steps_teach_a_network_and_merging_keeps_what_it_learnt() {
    let Some(path) = test_data("data/models/dmonitoring_0_8_9.onnx") else {
        return;
    };
    let graph = file::load(&path).expect("loads");
    let layers = layers(&graph);
    assert_eq!(layers.len(), 58, "{layers:?}");
    // One of the layers in groups, whose gradients are slow.
    let large = layers
        .iter()
        .filter(|layer| layer.largest_rank() >= 4 && (layer.groups == 1 || layer.groups == 672));
    let config = DoraConfig::builder(4).targets(large.map(|layer| layer.name.clone()));
    let config = config.build().expect("settings");
    let network = AdaptedNetwork::new(graph.clone(), config).expect("is adapted");

    let x = Tensor::from_f32([BATCH, 6, 320, 160], numbers(BATCH * 6 * 320 * 160, 1));
    let x = x.expect("fits");
    let inputs = [("input_img", &x)];
    let before = outputs(&graph, &inputs);
    // Something that it does not say, in the outputs that are no probabilities.
    let moved: Vec<f32> = before.to_f32().iter().map(|v| v + 0.1).collect();
    let target = Tensor::from_f32(before.shape(), moved).expect("fits");
    let heads = [OutputHeads {
        output: "outputs".to_owned(),
        heads: vec![Head {
            name: "pose".to_owned(),
            range: 0..6,
            kind: HeadKind::Squares,
            weight: 1.0,
        }],
    }];
    let shapes = [("input_img", x.shape().to_vec())];
    let step = TrainingStep::new(&network, &heads, &shapes, &RunOptions::new());
    let mut step = step.expect("plans");
    less_memory_for_the_same_bits(&network, &heads, &mut step, &x, &target);
    let variables = network.adapter().variables();
    let mut optimiser = AdamW::new(variables.optimiser_groups(LoraPlus {
        rate: 1e-3,
        ..LoraPlus::default()
    }))
    .expect("has groups");
    let mut losses = Vec::new();
    for _ in 0..20 {
        let result = step
            .run(&network, &inputs, &[("outputs", &target)])
            .expect("runs");
        if losses.is_empty() {
            let off = off(&result.outputs[0].1, &before);
            assert!(off < 1e-5, "before training it is off by {off:e}");
        }
        losses.push(result.loss);
        optimiser.step(&result.gradients, 1.0).expect("steps");
    }
    let (first, last) = (losses[0], losses[losses.len() - 1]);
    assert!((first - 0.01).abs() < 1e-4, "{first}");
    assert!(last < 0.1 * first, "{losses:?}");

    let factors = network.factors().expect("has factors");
    let mut given = inputs.to_vec();
    given.extend(factors.iter().map(|(name, tensor)| (name.as_str(), tensor)));
    let taught = outputs(network.graph(), &given);
    assert!(off(&taught, &before) > 1e-3, "nothing was learnt");
    let merged = network.merged().expect("merges");
    assert_eq!(merged.graph.nodes.len(), graph.nodes.len());
    let off = off(&outputs(&merged.graph, &inputs), &taught);
    assert!(off < 1e-5, "merged, it is off by {off:e}");
    assert_eq!(
        file::to_bytes(network.base()).ok(),
        file::to_bytes(&graph).ok()
    );
}

fn less_memory_for_the_same_bits(
    network: &AdaptedNetwork,
    heads: &[OutputHeads],
    step: &mut TrainingStep,
    x: &Tensor,
    target: &Tensor,
) {
    let shapes = [("input_img", x.shape().to_vec())];
    let again = TrainingStep::recomputing(network, heads, &shapes, &RunOptions::new());
    let mut again = again.expect("plans");
    let (inputs, targets) = ([("input_img", x)], [("outputs", target)]);
    let want = step.run(network, &inputs, &targets).expect("runs");
    let got = again.run(network, &inputs, &targets).expect("runs");
    assert_eq!(got.loss.to_bits(), want.loss.to_bits());
    for variable in network.adapter().variables().all() {
        let bits = |result: &spark_train::StepResult| -> Vec<u32> {
            let gradient = result.gradients.get(variable).expect("has one");
            let flat = gradient.flatten_all().and_then(|g| g.to_vec1::<f32>());
            flat.expect("is f32")
                .into_iter()
                .map(f32::to_bits)
                .collect()
        };
        assert!(bits(&got) == bits(&want));
    }
    let [less, whole] = [&mut again, step].map(|step| step.session().arena_bytes());
    assert!(10 * less < 6 * whole, "{less} of {whole} bytes");
}
