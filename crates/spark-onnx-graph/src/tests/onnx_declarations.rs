//! What a file declares of its values, held against what its operators make of them.

use crate::graph::{Dim, bind};
use crate::samples::messages::{graph, model, node, typed_value, value};
use crate::{ModelError, file};
use spark_onnx_proto::{GraphProto, ValueInfoProto, data_type};

/// `x -> Relu -> z -> Relu -> y` of `[N, 3]`, with declarations of `z` and `y`.
fn relus(
    z: Option<ValueInfoProto<'static>>,
    y: ValueInfoProto<'static>,
) -> Result<crate::graph::Graph, ModelError> {
    let nodes = vec![
        node("Relu", &["x"], &["z"], vec![]),
        node("Relu", &["z"], &["y"], vec![]),
    ];
    let graph = GraphProto {
        value_info: z.into_iter().collect(),
        output: vec![y],
        ..graph(&[-1, 3], nodes)
    };
    file::parse(&model(17, graph).encode(), None)
}

#[track_caller]
fn contradicts(error: ModelError, wanted: [&str; 4]) {
    let ModelError::Declaration {
        what,
        name,
        declared,
        inferred,
    } = &error
    else {
        panic!("{error}");
    };
    assert_eq!([*what, name, declared, inferred], wanted);
    let message = error.to_string();
    assert!(
        wanted.iter().all(|part| message.contains(part)),
        "{message}"
    );
}

#[test]
fn an_output_of_another_element_type_than_declared_is_refused_at_load() {
    let declared = typed_value("y", data_type::INT64, &[-1, 3]);
    let error = relus(None, declared).expect_err("a contradiction");
    contradicts(error, ["output", "y", "i64", "f32"]);
}

#[test]
fn a_value_in_between_of_another_element_type_than_declared_is_refused_at_load() {
    let declared = typed_value("z", data_type::BOOL, &[-1, 3]);
    let error = relus(Some(declared), value("y", &[-1, 3])).expect_err("a contradiction");
    contradicts(error, ["value", "z", "bool", "f32"]);
}

#[test]
fn a_constant_or_input_that_is_an_output_of_another_type_is_refused() {
    let graph = GraphProto {
        output: vec![value("y", &[2]), typed_value("x", data_type::INT32, &[2])],
        ..graph(&[2], vec![node("Relu", &["x"], &["y"], vec![])])
    };
    let error = file::parse(&model(17, graph).encode(), None).expect_err("a contradiction");
    contradicts(error, ["output", "x", "i32", "f32"]);
}

#[test]
fn an_output_of_another_shape_than_declared_is_refused_when_shapes_are_known() {
    let given = [("x", vec![2, 3])];
    for (declared, text) in [
        (vec![2, 4], "f32 [2, 4]"),
        (vec![6], "f32 [6]"),
        (vec![5, 3], "f32 [5, 3]"),
    ] {
        let graph = relus(None, value("y", &declared)).expect("types agree");
        let error = bind(&graph, &given).expect_err("a contradiction");
        contradicts(error, ["output", "y", text, "f32 [2, 3]"]);
    }
    for declared in [vec![2, 3], vec![-1, 3], vec![-1, -1]] {
        let graph = relus(None, value("y", &declared)).expect("types agree");
        bind(&graph, &given).expect("a symbol may stand for any extent");
    }
    let untyped = ValueInfoProto {
        r#type: None,
        ..value("y", &[])
    };
    bind(&relus(None, untyped).expect("reads"), &given).expect("nothing is declared");
}

/// As in onnxruntime, which warns: exporters leave them behind when they change a graph.
#[test]
fn shapes_declared_for_values_in_between_are_passed_over() {
    let graph = relus(Some(value("z", &[7])), value("y", &[-1, 3])).expect("types agree");
    let bound = bind(&graph, &[("x", vec![2, 3])]).expect("binds");
    assert_eq!(bound.value(bound.outputs()[0]).ty.shape, [2, 3]);
}

/// A type that follows only once shapes are known, and one declared in a graph that was built.
#[test]
fn a_declared_type_is_held_against_the_graph_when_it_is_bound_too() {
    let mut graph = relus(None, value("y", &[-1, 3])).expect("types agree");
    let y = graph.outputs[0];
    graph.values[y.0].dtype = Some(crate::DType::F64);
    graph.values[y.0].shape = Some(vec![Dim::Unknown, Dim::Known(3)]);
    let error = bind(&graph, &[("x", vec![2, 3])]).expect_err("a contradiction");
    contradicts(error, ["output", "y", "f64 [?, 3]", "f32 [2, 3]"]);
}
