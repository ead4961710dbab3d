//! Gradients of real models by the plan, against those of the reference in f64.

use spark_onnx::{Model, RunOptions};
use spark_onnx_graph::backward::with_gradients;
use spark_onnx_graph::graph::{Op, StaticGraph, ValueId, bind};
use spark_onnx_graph::reference::gradient::{GradientOptions, gradients};
use spark_onnx_graph::{Tensor, file};
use spark_testing::{numbers, test_data};

/// A tensor of f32 for each of these values, of random numbers.
fn random(graph: &StaticGraph, values: &[ValueId], seed: u64) -> Vec<Tensor> {
    let values = values.iter().zip(seed..).map(|(&id, seed)| {
        let ty = &graph.value(id).ty;
        let numbers = numbers(ty.shape.iter().product(), seed);
        let numbers = numbers.into_iter().map(f64::from).collect();
        Tensor::from_f64(ty.dtype, ty.shape.clone(), numbers).expect("fits")
    });
    values.collect()
}

fn names(graph: &StaticGraph, values: &[ValueId]) -> Vec<String> {
    let names = values.iter().map(|&id| graph.value(id).name.clone());
    names.collect()
}

fn lent<'t>(names: &'t [String], tensors: &'t [Tensor]) -> Vec<(&'t str, &'t Tensor)> {
    let names = names.iter().map(String::as_str);
    names.zip(tensors).collect()
}

/// The weights and biases of convolutions and products.
fn weights(graph: &StaticGraph) -> Vec<ValueId> {
    let mut found = Vec::new();
    for node in graph.nodes() {
        if !matches!(node.op, Op::Conv(_) | Op::Gemm(_) | Op::MatMul(_)) {
            continue;
        }
        for &id in node.inputs.iter().skip(1).flatten() {
            if graph.value(id).constant.is_some() && !found.contains(&id) {
                found.push(id);
            }
        }
    }
    found
}

/// Holds the gradients by weights, all or the last ones, against the reference's: largest difference for a largest element
/// of 1.
fn check(model: &str, n_last: usize, tolerance: f64) {
    let Some(path) = test_data(&format!("data/models/{model}.onnx")) else {
        return;
    };
    let graph = bind(&file::load(&path).expect("loads"), &[]).expect("binds");
    let all = weights(&graph);
    let wanted = &all[all.len().saturating_sub(n_last)..];
    let (wanted_names, outputs) = (names(&graph, wanted), names(&graph, graph.outputs()));
    let by: Vec<&str> = wanted_names.iter().map(String::as_str).collect();
    let of: Vec<&str> = outputs.iter().map(String::as_str).collect();
    let options = GradientOptions::default();
    let input_names = names(&graph, graph.inputs());
    let inputs = random(&graph, graph.inputs(), 1);
    let dy = random(&graph, graph.outputs(), 50);

    let trained = with_gradients(&graph, &by, &of, &[], options).expect("is written");
    let constants = wanted.iter().map(|&id| graph.value(id).constant.as_deref());
    let constants: Vec<Tensor> = constants.map(|t| t.expect("is one").clone()).collect();
    let mut given = lent(&input_names, &inputs);
    given.extend(lent(&wanted_names, &constants));
    given.extend(lent(&trained.output_gradients, &dy));
    let n_outputs = outputs.len();
    let engine = Model::from_graph(trained.graph, &RunOptions::default()).expect("plans");
    let mut session = engine.session();
    let results = session.run(&given).expect("runs");
    let want = gradients(
        &graph,
        &lent(&input_names, &inputs),
        &lent(&outputs, &dy),
        &by,
        options,
    );
    let want = want.expect("has gradients");
    let mut worst: f64 = 0.0;
    for ((name, got), (of, want)) in results[n_outputs..].iter().zip(&want) {
        let (got, want) = (got.to_f64(), want.to_f64());
        let scale = want.iter().fold(0.0, |m: f64, v| m.max(v.abs()));
        let pairs = got.iter().zip(&want);
        let difference = pairs.fold(0.0, |m: f64, (g, w)| m.max((g - w).abs())) / scale;
        assert!(scale > 0.0, "{of} has no gradient");
        assert!(
            difference <= tolerance,
            "{name}: {difference:e} of {scale:e}"
        );
        worst = worst.max(difference);
    }
    eprintln!("{model}: within {worst:.1e}");
}

/// With weights as inputs every convolution is one whose weights are computed.
#[test]
fn gradients_of_driver_monitoring_agree_with_the_reference() {
    check("dmonitoring_0_8_9", usize::MAX, 3e-5);
}

/// Random weights enlarge what arithmetic leaves, and some of that turns a Relu off.
#[test]
fn gradients_of_the_heads_of_a_driving_network_agree_with_the_reference() {
    check("supercombo_0_7_4_random_fp16", 40, 2e-4);
}
