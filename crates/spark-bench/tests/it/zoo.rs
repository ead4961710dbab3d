//! The zoo's networks, fed as the benchmark feeds them: against onnxruntime, and with sane activations.

use spark_bench::{Accuracy, made_up_inputs, read_tensors};
use spark_onnx::graph::{Graph, Op, Unary};
use spark_onnx::{DType, ModelRunner, RunOptions, Tensor, TensorData};
use spark_openpilot::zoo::ZooModel;

fn run(graph: Graph, inputs: &[(String, Tensor)]) -> Vec<(String, Tensor)> {
    let mut runner =
        ModelRunner::from_graph(graph, &RunOptions::default()).expect("fp32 runs everywhere");
    let inputs: Vec<(&str, &Tensor)> = inputs.iter().map(|(n, t)| (n.as_str(), t)).collect();
    runner.run(&inputs).expect("inputs that fit")
}

fn inputs_of(model: ZooModel, graph: &Graph, seed: u64) -> Vec<(String, Tensor)> {
    made_up_inputs(model.name(), graph, seed)
        .expect("declared inputs")
        .0
}

/// Smooth pictures instead of noise: bytes that rise and fall slowly.
fn smooth(inputs: Vec<(String, Tensor)>) -> Vec<(String, Tensor)> {
    let wave =
        |i: usize| (128.0 + 90.0 * (i as f64 * 0.013).sin() * (i as f64 * 0.000_7).cos()) as u8;
    inputs
        .into_iter()
        .map(|(name, tensor)| match tensor.dtype() {
            DType::U8 => {
                let bytes = (0..tensor.len()).map(wave).collect();
                let shape = tensor.shape().to_vec();
                (
                    name,
                    Tensor::new(shape, TensorData::U8(bytes)).expect("the same shape"),
                )
            }
            _ => (name, tensor),
        })
        .collect()
}

/// `zoo_goldens.safetensors` holds what onnxruntime 1.31.1 gives for seed 0 with graph
/// optimisation off; `benches/rivals/zoo_check` wrote it.
#[test]
fn outputs_are_those_of_onnxruntime() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/it/zoo_goldens.safetensors"
    );
    let goldens = read_tensors(path.as_ref()).expect("part of the repository");
    for model in ZooModel::ALL {
        let graph = model.build(0);
        let inputs = inputs_of(model, &graph, 0);
        let outputs = run(graph, &inputs);
        let want = &goldens[&format!("{}/outputs", model.name())];
        assert_eq!(outputs.len(), 1);
        assert_eq!(outputs[0].1.shape(), want.shape());
        let accuracy = Accuracy::of(&outputs[0].1.to_f64(), &want.to_f64());
        assert!(accuracy.max_rel < 1e-5, "{}: {accuracy:?}", model.name());
    }
}

/// Every value inside a network becomes an output.
fn with_all_values(mut graph: Graph) -> Graph {
    let inner = graph
        .nodes
        .iter()
        .flat_map(|node| node.outputs.iter().flatten().copied());
    graph.outputs = inner.collect();
    graph
}

fn standard_deviation(values: &[f64]) -> f64 {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    (values.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / n).sqrt()
}

#[test]
fn activations_keep_their_scale_from_first_to_last_layer() {
    for model in ZooModel::ALL {
        let graph = model.build(0);
        // Gates and attention weights lie between 0 and 1 by nature, bytes before they are
        // normalised between 0 and 255.
        let bounded: Vec<String> = graph
            .nodes
            .iter()
            .filter(|n| {
                matches!(
                    n.op,
                    Op::Unary(Unary::Sigmoid | Unary::Erf) | Op::Softmax(_) | Op::Cast(_)
                )
            })
            .map(|n| n.name.clone())
            .collect();
        let noise = inputs_of(model, &graph, 1);
        for inputs in [noise.clone(), smooth(noise)] {
            for (name, tensor) in run(with_all_values(graph.clone()), &inputs) {
                let values = tensor.to_f64();
                assert!(values.iter().all(|v| v.is_finite()), "{name}");
                let is_raw = bounded.contains(&name)
                    || name.ends_with("normalised.sub")
                    || name == "luma.sub";
                if is_raw || tensor.len() < 256 {
                    continue;
                }
                let deviation = standard_deviation(&values);
                assert!(
                    (0.05..5.0).contains(&deviation),
                    "{}: {name} has {deviation}",
                    model.name()
                );
            }
        }
    }
}

#[test]
fn other_pictures_give_other_outputs() {
    for model in ZooModel::ALL {
        let graph = model.build(0);
        let [first, second] = [1, 2].map(|seed| {
            let inputs = inputs_of(model, &graph, seed);
            run(graph.clone(), &inputs)[0].1.to_f64()
        });
        let differences: Vec<f64> = first.iter().zip(&second).map(|(a, b)| a - b).collect();
        let ratio = standard_deviation(&differences) / standard_deviation(&first);
        assert!(
            ratio > 0.1,
            "{}: outputs differ by {ratio} of their spread",
            model.name()
        );
    }
}
