//! The real models under the test data load, with the operators their manifest lists.

use std::collections::BTreeMap;

use spark_onnx_graph::graph::{Binary, Dim, Graph, Op, PoolKind, Unary, Variadic};
use spark_onnx_graph::{DType, file};

use spark_testing::test_data;

/// What the manifest calls an operator.
fn name_of(op: &Op) -> &'static str {
    match op {
        Op::Unary(Unary::Relu) => "Relu",
        Op::Unary(Unary::Elu { .. }) => "Elu",
        Op::Unary(Unary::Sigmoid) => "Sigmoid",
        Op::Unary(Unary::Tanh) => "Tanh",
        Op::Unary(Unary::Identity) => "Identity",
        Op::Binary(Binary::Add) | Op::Variadic(Variadic::Sum) => "Add",
        Op::Binary(Binary::Mul) => "Mul",
        Op::Conv(_) => "Conv",
        Op::BatchNormalization(_) => "BatchNormalization",
        Op::Gemm(_) => "Gemm",
        Op::Cast(_) => "Cast",
        Op::Flatten(_) => "Flatten",
        Op::Concat(_) => "Concat",
        Op::Softmax(_) => "Softmax",
        Op::Reshape(_) => "Reshape",
        Op::Pool(pool) if pool.kind == PoolKind::Max => "MaxPool",
        Op::Pool(_) => "AveragePool",
        _ => "other",
    }
}

#[track_caller]
fn check(
    file: &str,
    counts: &[(&str, usize)],
    n_constants: usize,
    n_elements: usize,
) -> Option<Graph> {
    let graph = file::load(&test_data(&format!("data/models/{file}"))?).expect(file);
    let mut got: BTreeMap<&str, usize> = BTreeMap::new();
    for node in &graph.nodes {
        *got.entry(name_of(&node.op)).or_default() += 1;
    }
    assert_eq!(got, counts.iter().copied().collect(), "{file}");
    let constants = graph.values.iter().filter_map(|v| v.constant.as_ref());
    let elements: Vec<usize> = constants.map(|t| t.len()).collect();
    assert_eq!(elements.len(), n_constants, "{file}");
    assert_eq!(elements.iter().sum::<usize>(), n_elements, "{file}");
    Some(graph)
}

/// Name, element type and known extents of inputs or outputs.
fn signature(graph: &Graph, outputs: bool) -> Vec<(&str, Option<DType>, Vec<usize>)> {
    let ids = if outputs {
        &graph.outputs
    } else {
        &graph.inputs
    };
    ids.iter()
        .map(|&id| {
            let value = graph.value(id);
            let dims = value.shape.iter().flatten();
            let extents = dims.map(|d| if let Dim::Known(n) = d { *n } else { 0 });
            (value.name.as_str(), value.dtype, extents.collect())
        })
        .collect()
}

#[test]
fn driver_monitoring_0_8_9_loads() {
    let counts = [
        ("Conv", 35),
        ("Relu", 34),
        ("BatchNormalization", 33),
        ("Gemm", 23),
        ("Sigmoid", 10),
        ("Add", 6),
        ("Flatten", 1),
        ("Concat", 1),
    ];
    let Some(graph) = check("dmonitoring_0_8_9.onnx", &counts, 215, 968_506) else {
        return;
    };
    let image = ("input_img", Some(DType::F32), vec![1, 6, 320, 160]);
    assert_eq!(signature(&graph, false), [image]);
    let outputs = ("outputs", Some(DType::F32), vec![1, 38]);
    assert_eq!(signature(&graph, true), [outputs]);
}

#[test]
fn driver_monitoring_0_8_5_loads() {
    let counts = [
        ("Conv", 35),
        ("Relu", 34),
        ("Gemm", 23),
        ("Sigmoid", 10),
        ("Add", 6),
        ("Flatten", 1),
        ("Concat", 1),
    ];
    check("dmonitoring_0_8_5.onnx", &counts, 116, 944_266);
}

#[test]
fn supercombo_0_7_4_loads() {
    let counts = [
        ("Cast", 462),
        ("Conv", 60),
        ("BatchNormalization", 60),
        ("Elu", 59),
        ("Gemm", 51),
        ("Relu", 26),
        ("Add", 20),
        ("Flatten", 3),
        ("Sigmoid", 3),
        ("Mul", 3),
        ("MaxPool", 2),
        ("Concat", 2),
        ("Softmax", 2),
        ("Identity", 2),
        ("AveragePool", 1),
        ("Tanh", 1),
        ("Reshape", 1),
    ];
    let Some(graph) = check("supercombo_0_7_4_random_fp16.onnx", &counts, 463, 6_676_958) else {
        return;
    };
    let halves = graph.values.iter().filter(|v| v.dtype == Some(DType::F16));
    assert_eq!(halves.count(), 462);
    let names: Vec<&str> = signature(&graph, false).iter().map(|s| s.0).collect();
    assert_eq!(names, ["vision_input_imgs", "desire", "rnn_state"]);
    assert_eq!(graph.outputs.len(), 12);
}
