//! Old forms of operators, and operators that are spelled out, compute what their own
//! version of the specification says.

use spark_onnx_graph::graph::{Op, bind};
use spark_onnx_graph::{Tensor, file, reference};
use spark_onnx_proto::{AttributeProto, GraphProto, NodeProto};

use crate::samples::messages::{constant, graph, int, ints, model, node};
use crate::samples::spelled_out;
use crate::samples::versions::{cases, constants, f32s};

#[test]
fn every_form_computes_what_its_version_says() {
    for case in cases().into_iter().chain(spelled_out::cases()) {
        let name = case.name;
        let graph =
            file::parse(&case.model.encode(), None).unwrap_or_else(|e| panic!("{name}: {e}"));
        let bound = bind(&graph, &[]).unwrap_or_else(|e| panic!("{name}: {e}"));
        let outputs = reference::run(&bound, &[("x", &case.x)]).expect(name);
        let y = &outputs[0].1;
        assert_eq!(y.shape(), case.shape, "{name}");
        for (got, want) in y.to_f64().iter().zip(&case.y) {
            let close = (got - want).abs() <= 1e-6 * (1.0 + want.abs());
            assert!(close, "{name}: {:?}, wanted {:?}", y.to_f64(), case.y);
        }
    }
}

#[test]
fn an_attribute_of_another_version_is_an_error() {
    // From operator set 13 on, axes are an operand.
    let nodes = vec![node("Squeeze", &["x"], &["y"], vec![ints("axes", &[0])])];
    let bytes = model(13, graph(&[1, 3], nodes)).encode();
    let error = file::parse(&bytes, None).expect_err("refused").to_string();
    assert!(error.contains("`axes`") && error.contains("13"), "{error}");
}

#[test]
fn every_supported_operator_is_listed_once() {
    let names = file::supported_operators();
    assert!(names.windows(2).all(|pair| pair[0] < pair[1]), "{names:?}");
    for name in ["Conv", "GRU", "Resize", "com.microsoft::Gelu"] {
        assert!(names.iter().any(|n| n == name), "{name}");
    }
}

#[test]
fn a_constant_node_leaves_no_node() {
    let case = constants().swap_remove(0);
    let graph = file::parse(&case.model.encode(), None).expect("reads");
    let ops: Vec<&Op> = graph.nodes.iter().map(|n| &n.op).collect();
    assert_eq!(ops.len(), 2, "{ops:?}");
}

/// The error of reading `nodes` at an operator set.
fn refusal(opset: i64, nodes: Vec<NodeProto<'static>>) -> String {
    let graph = graph(&[2, 3], nodes);
    let read = file::parse(&model(opset, graph).encode(), None);
    read.expect_err("refused").to_string()
}

#[test]
fn operators_before_set_7_are_read_where_their_form_is_that_of_7() {
    for opset in [1, 3, 6] {
        for op_type in ["Relu", "Sqrt", "Flatten", "Identity"] {
            let graph = graph(&[2, 3], vec![node(op_type, &["x"], &["y"], vec![])]);
            file::parse(&model(opset, graph).encode(), None).expect("reads");
        }
    }
    let sum = vec![node("Add", &["x", "x"], &["y"], vec![int("broadcast", 0)])];
    file::parse(&model(6, graph(&[2, 3], sum)).encode(), None).expect("reads");
}

#[test]
fn older_forms_that_are_not_read_are_refused_by_operator_and_set() {
    let slope = vec![node("PRelu", &["x", "x"], &["y"], vec![])];
    let message = refusal(6, slope);
    for part in ["PRelu", "operator set 6", "that of 7 is"] {
        assert!(message.contains(part), "{message}");
    }
    let along = vec![int("broadcast", 1), int("axis", 0)];
    let message = refusal(6, vec![node("Add", &["x", "x"], &["y"], along)]);
    assert!(
        message.contains("Add") && message.contains("`axis`"),
        "{message}"
    );
    // Training is what dropout and batch normalisation do unless a parameter says otherwise.
    let message = refusal(6, vec![node("Dropout", &["x"], &["y"], vec![])]);
    assert!(message.contains("training"), "{message}");
}

/// What the operator Attention makes of two queries and three keys of one number each.
fn attention(mask: Tensor, attributes: Vec<AttributeProto<'static>>) -> Vec<f32> {
    let operands = [
        ("q", f32s(&[1, 1, 2, 1], &[1.0, 2.0])),
        ("k", f32s(&[1, 1, 3, 1], &[0.5, -1.0, 2.0])),
        ("v", f32s(&[1, 1, 3, 1], &[1.0, 2.0, 4.0])),
        ("m", mask),
    ];
    let nodes = vec![
        node("Attention", &["q", "k", "v", "m"], &["a"], attributes),
        node("Add", &["a", "x"], &["y"], vec![]),
    ];
    let graph = GraphProto {
        initializer: operands.iter().map(|(n, t)| constant(n, t)).collect(),
        ..graph(&[1], nodes)
    };
    let graph = file::parse(&model(23, graph).encode(), None).expect("reads");
    let bound = bind(&graph, &[]).expect("binds");
    let zero = f32s(&[1], &[0.0]);
    let outputs = reference::run(&bound, &[("x", &zero)]).expect("runs");
    outputs[0].1.to_f32()
}

#[test]
fn attention_gives_zeros_to_a_query_whose_mask_hides_every_key() {
    let hidden = f32::NEG_INFINITY;
    let float = f32s(&[2, 3], &[hidden, hidden, hidden, 0.0, hidden, 0.0]);
    let seen = [0.0, 0.0, 0.0, 1.0, 0.0, 1.0].to_vec();
    let bool = Tensor::from_f64(crate::DType::Bool, [2, 3], seen).expect("fits");
    for mask in [float, bool] {
        let y = attention(mask.clone(), vec![]);
        let weight = 1.0 / (1.0 + (-3.0f32).exp());
        let want = 4.0 * weight + 1.0 - weight;
        assert!(y[0] == 0.0 && (y[1] - want).abs() < 1e-5, "{y:?}");
        // The second query sees the first two keys only, of which the mask hides one.
        assert_eq!(attention(mask, vec![int("is_causal", 1)]), [0.0, 1.0]);
    }
}

#[test]
fn more_queries_than_keys_leave_no_causal_query_without_a_key() {
    let names = ["q", "k", "v"];
    let lengths = [5, 2, 2];
    let initializer = names.iter().zip(lengths).map(|(name, steps)| {
        let values: Vec<f32> = (0..steps).map(|i| 1.0 + i as f32).collect();
        constant(name, &f32s(&[1, 1, steps, 1], &values))
    });
    let nodes = vec![
        node("Attention", &names, &["a"], vec![int("is_causal", 1)]),
        node("Add", &["a", "x"], &["y"], vec![]),
    ];
    let graph = GraphProto {
        initializer: initializer.collect(),
        ..graph(&[1], nodes)
    };
    let graph = file::parse(&model(23, graph).encode(), None).expect("reads");
    let bound = bind(&graph, &[]).expect("binds");
    let outputs = reference::run(&bound, &[("x", &f32s(&[1], &[0.0]))]).expect("runs");
    let y = outputs[0].1.to_f32();
    // The first query sees the first key, the others both.
    assert!(
        y[0] == 1.0 && y[1..].iter().all(|&v| v > 1.0 && v < 2.0),
        "{y:?}"
    );
}
