//! Graphs survive being written and read again.

use std::collections::BTreeMap;

use spark_onnx_graph::graph::{
    Binary, CumProd, Dim, Graph, Lrn, Op, RmsNormalization, Softmax, Unary, ValueId, bind,
};
use spark_onnx_graph::{DType, ModelError, Tensor, file, reference};
use spark_onnx_proto::ModelProto;

use crate::samples::every_operator;
use spark_testing::test_data;

/// An input or output: name, element type, shape.
type Signature = (String, Option<DType>, Option<Vec<Dim>>);

/// What a graph computes, by names instead of positions.
#[derive(Debug, PartialEq)]
struct Form {
    inputs: Vec<Signature>,
    outputs: Vec<Signature>,
    nodes: Vec<(String, Op, Vec<String>, Vec<String>)>,
    constants: BTreeMap<String, Tensor>,
    metadata: BTreeMap<String, String>,
}

fn form(graph: &Graph) -> Form {
    let name = |id: &Option<ValueId>| id.map_or(String::new(), |id| graph.value(id).name.clone());
    let signature = |id: &ValueId| {
        let value = graph.value(*id);
        (value.name.clone(), value.dtype, value.shape.clone())
    };
    Form {
        inputs: graph.inputs.iter().map(signature).collect(),
        outputs: graph.outputs.iter().map(signature).collect(),
        nodes: graph
            .nodes
            .iter()
            .map(|n| {
                let inputs = n.inputs.iter().map(name).collect();
                let outputs = n.outputs.iter().map(name).collect();
                (n.name.clone(), n.op.clone(), inputs, outputs)
            })
            .collect(),
        constants: graph
            .values
            .iter()
            .filter_map(|v| Some((v.name.clone(), v.constant.as_deref()?.clone())))
            .collect(),
        metadata: graph.metadata.clone(),
    }
}

#[track_caller]
fn written_and_read(graph: &Graph) -> Graph {
    let bytes = file::to_bytes(graph).expect("writes");
    file::parse(&bytes, None).expect("reads")
}

/// In a file these are elements of a type of their own, between casts, which are read as nodes.
fn has_small_floats(graph: &Graph) -> bool {
    graph.nodes.iter().any(|node| match &node.op {
        Op::RoundFloat(_) => true,
        Op::QuantizeLinear(op) => op.float.is_some(),
        Op::DequantizeLinear(op) => op.float.is_some(),
        _ => false,
    })
}

#[test]
fn every_operator_is_read_as_it_was_written() {
    for sample in every_operator() {
        let again = written_and_read(&sample.graph);
        if let Op::Softmax(softmax) = &sample.graph.nodes[0].op
            && softmax.flatten
        {
            // Written as four operators; those are read as they were written.
            assert_eq!(again.nodes.len(), 4, "{}", sample.name);
            assert_eq!(form(&written_and_read(&again)), form(&again));
            continue;
        }
        if has_small_floats(&sample.graph) {
            assert!(again.nodes.len() > 1, "{}", sample.name);
            continue;
        }
        assert_eq!(form(&again), form(&sample.graph), "{}", sample.name);
    }
}

/// Outputs of a sample by the reference interpreter.
fn computed(graph: &Graph, inputs: &[(String, Tensor)]) -> Vec<(String, Tensor)> {
    let inputs: Vec<(&str, &Tensor)> = inputs.iter().map(|(n, t)| (n.as_str(), t)).collect();
    let bound = bind(graph, &[]).expect("binds");
    reference::run(&bound, &inputs).expect("runs")
}

#[test]
fn every_operator_computes_the_same_after_writing() {
    for sample in every_operator() {
        let before = computed(&sample.graph, &sample.inputs);
        let after = computed(&written_and_read(&sample.graph), &sample.inputs);
        assert_eq!(before, after, "{}", sample.name);
    }
}

/// One operator may be written as several; those are written as they were read.
#[test]
fn what_is_read_of_our_own_is_written_the_same_again() {
    let mut others = Vec::new();
    for sample in every_operator() {
        if has_small_floats(&sample.graph) {
            continue;
        }
        let once = file::to_bytes(&sample.graph).expect("writes");
        let again = file::parse(&once, None).expect("reads");
        if file::to_bytes(&again).expect("writes what it read") != once {
            others.push(sample.name);
        }
    }
    assert_eq!(others, <[String; 0]>::default());
}

/// One node of `op` on operands of these types and shapes, all inputs.
fn one_node(op: Op, operands: &[(DType, &[usize])]) -> Graph {
    let mut graph = Graph::default();
    let inputs: Vec<_> = operands
        .iter()
        .enumerate()
        .map(|(i, (dtype, shape))| {
            let dims = shape.iter().map(|&d| Dim::Known(d)).collect();
            Some(graph.add_input(format!("x{i}"), *dtype, dims))
        })
        .collect();
    let y = graph.add_node("y", op, &inputs);
    graph.outputs.push(y);
    graph
}

#[test]
fn what_a_reader_would_refuse_is_not_written() {
    let floored = Op::Binary(Binary::Mod { fmod: false });
    let lrn = Lrn {
        alpha: 0.1,
        beta: 0.5,
        bias: 1.0,
        size: usize::MAX,
    };
    let (f32, i32) = ((DType::F32, &[2, 3][..]), (DType::I32, &[2, 3][..]));
    for (graph, reason) in [
        (one_node(floored.clone(), &[f32, f32]), "operator set 28"),
        (one_node(lrn.into(), &[f32]), "beyond 63 bits"),
    ] {
        let error = file::to_bytes(&graph).expect_err("refused").to_string();
        assert!(error.contains("`y`") && error.contains(reason), "{error}");
    }
    written_and_read(&one_node(floored, &[i32, i32]));
}

#[test]
fn a_file_is_of_the_first_operator_set_that_has_its_operators() {
    let norm = RmsNormalization {
        axis: -1,
        epsilon: 1e-5,
    };
    let product = CumProd {
        exclusive: false,
        reverse: false,
    };
    let x: (DType, &[usize]) = (DType::F32, &[2, 3]);
    let scale: (DType, &[usize]) = (DType::F32, &[3]);
    let axis: (DType, &[usize]) = (DType::I64, &[]);
    for (op, operands, wanted) in [
        (Op::from(Unary::Relu), vec![x], 21),
        (Op::from(norm), vec![x, scale], 23),
        (Op::from(Unary::Swish { alpha: 1.0 }), vec![x], 24),
        (Op::from(product), vec![x, axis], 26),
    ] {
        let name = op.name().to_owned();
        let bytes = file::to_bytes(&one_node(op, &operands)).expect("writes");
        let model = ModelProto::decode(&bytes).expect("reads");
        assert_eq!(model.opset_import[0].version, Some(wanted), "{name}");
    }
}

#[test]
fn a_flattened_softmax_of_no_elements_is_read_as_one() {
    let softmax = Softmax {
        axis: 1,
        log: false,
        flatten: true,
    };
    for shape in [&[2, 0, 3][..], &[0, 2, 3]] {
        let again = written_and_read(&one_node(softmax.into(), &[(DType::F32, shape)]));
        let bound = bind(&again, &[]).expect("binds");
        assert_eq!(bound.value(bound.outputs()[0]).ty.shape, shape);
    }
}

const REAL: [&str; 3] = [
    "data/models/dmonitoring_0_8_5.onnx",
    "data/models/dmonitoring_0_8_9.onnx",
    "data/models/supercombo_0_7_4_random_fp16.onnx",
];

#[test]
fn messages_of_real_files_are_written_byte_for_byte() {
    for file in REAL {
        let Some(path) = test_data(file) else { return };
        let bytes = std::fs::read(path).expect("readable");
        let model = ModelProto::decode(&bytes).expect(file);
        assert!(model.encode() == bytes, "{file} changes");
    }
}

#[test]
fn real_files_are_read_as_they_were_written() {
    for file in REAL {
        let Some(path) = test_data(file) else { return };
        let graph = file::load(&path).expect(file);
        assert!(
            form(&written_and_read(&graph)) == form(&graph),
            "{file} changes"
        );
    }
}

/// Positions at which two byte strings differ, as one range; they are equally long.
fn changed(before: &[u8], after: &[u8]) -> std::ops::Range<usize> {
    assert_eq!(before.len(), after.len());
    let differs = |i: &usize| before[*i] != after[*i];
    let first = (0..before.len()).find(differs).expect("a change");
    let last = (0..before.len()).rev().find(differs).expect("a change");
    first..last + 1
}

#[test]
fn replacing_a_constant_changes_its_elements_only() {
    let Some(path) = test_data(REAL[1]) else {
        return;
    };
    let bytes = std::fs::read(path).expect("readable");
    let graph = file::parse(&bytes, None).expect("reads");
    let constants = graph.values.iter().filter(|v| v.constant.is_some());
    let value = constants.max_by_key(|v| v.constant.as_ref().map(|t| t.len()));
    let value = value.expect("a constant");
    let mut tensor = value.constant.as_deref().expect("a constant").clone();
    let elements = tensor.as_f32_mut().expect("a constant of f32");
    elements.iter_mut().for_each(|v| *v += 1.0);
    let size = tensor.size_bytes();
    let new = BTreeMap::from([(value.name.clone(), tensor.clone())]);
    let edited = file::replace_constants(&bytes, &new).expect("replaces");
    assert!(changed(&bytes, &edited).len() <= size);
    let mut wanted = form(&graph);
    wanted.constants.insert(value.name.clone(), tensor);
    assert!(form(&file::parse(&edited, None).expect("reads")) == wanted);
}

#[test]
fn replacing_what_is_not_there_or_does_not_fit_is_an_error() {
    let sample = every_operator().swap_remove(0);
    let mut graph = sample.graph;
    graph.add_constant("w", Tensor::from_f32([2], vec![1.0, 2.0]).expect("a list"));
    let bytes = file::to_bytes(&graph).expect("writes");
    for (name, tensor, wanted) in [
        ("nothing", Tensor::from_f32([2], vec![0.0; 2]), "nothing"),
        ("w", Tensor::from_f32([1, 2], vec![0.0; 2]), "shape [1, 2]"),
        ("w", Tensor::from_i64([2], vec![0; 2]), "type i64"),
    ] {
        let new = BTreeMap::from([(name.to_owned(), tensor.expect("fills its shape"))]);
        let error = file::replace_constants(&bytes, &new).expect_err(name);
        assert!(matches!(error, ModelError::Onnx(_)), "{error}");
        assert!(error.to_string().contains(wanted), "{error}");
    }
}

#[test]
fn an_output_shape_that_is_not_declared_is_written_if_it_follows() {
    for sample in every_operator().into_iter().take(40) {
        let mut graph = sample.graph;
        let declared = form(&graph).outputs;
        for id in graph.outputs.clone() {
            graph.values[id.0].shape = None;
        }
        let again = written_and_read(&graph);
        assert_eq!(form(&again).outputs, declared, "{}", sample.name);
    }
}
