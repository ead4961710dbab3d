//! Binding: symbols, folding, identities, limits.

use super::*;
use crate::graph::{
    Binary, Cast, Concat, ConstantOfShape, Gather, Gemm, MatMul, Reshape, Shape, Unsqueeze,
};

fn symbol(name: &str) -> Dim {
    Dim::Symbol(name.to_owned())
}

fn node_names(graph: &StaticGraph) -> Vec<&str> {
    graph.nodes.iter().map(|node| node.name.as_str()).collect()
}

fn output(graph: &StaticGraph, index: usize) -> &StaticValue {
    graph.value(graph.outputs[index])
}

/// `x [batch, 4] + y [batch, 1]`.
fn two_inputs() -> Graph {
    let mut graph = Graph::default();
    let x = graph.add_input("x", DType::F32, vec![symbol("batch"), Dim::Known(4)]);
    let y = graph.add_input("y", DType::F32, vec![symbol("batch"), Dim::Known(1)]);
    let sum = graph.add_node("sum", Op::Binary(Binary::Add), &[Some(x), Some(y)]);
    graph.outputs.push(sum);
    graph
}

#[test]
fn one_given_shape_binds_a_symbol_everywhere() {
    let bound = bind(&two_inputs(), &[("x", vec![3, 4])]).expect("binds");
    assert_eq!(output(&bound, 0).ty.shape, [3, 4]);
    assert_eq!(bound.value(bound.inputs[1]).ty.shape, [3, 1]);
}

#[test]
fn equal_symbols_must_have_equal_extents() {
    let error = bind(&two_inputs(), &[("x", vec![3, 4]), ("y", vec![2, 1])]).unwrap_err();
    let text = "input `y` has shape [2, 1], the model wants [batch, 1] with batch = 3";
    assert_eq!(error.to_string(), text);
}

#[test]
fn declared_extents_and_ranks_must_match() {
    for wrong in [vec![3, 5], vec![3], vec![3, 4, 1]] {
        let error = bind(&two_inputs(), &[("x", wrong)]).unwrap_err();
        assert!(matches!(error, ModelError::InputShape { .. }), "{error}");
    }
}

#[test]
fn an_open_shape_must_be_given() {
    let error = bind(&two_inputs(), &[]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "input `x` is declared [batch, 4]: give its shape"
    );
    let error = bind(&two_inputs(), &[("z", vec![1])]).unwrap_err();
    assert!(matches!(error, ModelError::InputUnknown { .. }), "{error}");
}

#[test]
fn shape_chains_fold_away() {
    // x [batch, 6] -> Shape -> Gather(0) -> Unsqueeze -> Concat with [-1] -> Reshape
    let mut graph = Graph::default();
    let x = graph.add_input(
        "x",
        DType::F32,
        vec![symbol("batch"), Dim::Known(2), Dim::Known(3)],
    );
    let zero = graph.add_constant("zero", Tensor::from_i64([], vec![0]).unwrap());
    let axes = graph.add_constant("axes", Tensor::from_i64([1], vec![0]).unwrap());
    let rest = graph.add_constant("rest", Tensor::from_i64([1], vec![-1]).unwrap());
    let whole = Op::Shape(Shape {
        start: 0,
        end: None,
    });
    let shape = graph.add_node("shape", whole, &[Some(x)]);
    let batch = graph.add_node(
        "batch",
        Op::Gather(Gather { axis: 0 }),
        &[Some(shape), Some(zero)],
    );
    let batch = graph.add_node(
        "batch1",
        Op::Unsqueeze(Unsqueeze),
        &[Some(batch), Some(axes)],
    );
    let target = graph.add_node(
        "target",
        Op::Concat(Concat { axis: 0 }),
        &[Some(batch), Some(rest)],
    );
    let reshape = Op::Reshape(Reshape { allow_zero: false });
    let y = graph.add_node("y", reshape, &[Some(x), Some(target)]);
    graph.outputs.push(y);
    let bound = bind(&graph, &[("x", vec![5, 2, 3])]).expect("binds");
    assert_eq!(node_names(&bound), ["y"]);
    assert_eq!(output(&bound, 0).ty.shape, [5, 6]);
    let kept: Vec<&str> = bound
        .values
        .iter()
        .filter(|v| v.constant.is_some())
        .map(|v| v.name.as_str())
        .collect();
    assert_eq!(kept, ["target"], "constants that nothing reads are dropped");
}

#[test]
fn identities_vanish_but_outputs_keep_their_names() {
    let identity = || Op::Unary(Unary::Identity);
    let mut graph = Graph::default();
    let x = graph.add_input("x", DType::F32, vec![Dim::Known(2)]);
    let inner = graph.add_node("inner", identity(), &[Some(x)]);
    let relu = graph.add_node("relu", Op::Unary(Unary::Relu), &[Some(inner)]);
    let y = graph.add_node("y", identity(), &[Some(relu)]);
    let z = graph.add_node("z", identity(), &[Some(relu)]);
    let passed = graph.add_node("passed", identity(), &[Some(x)]);
    graph.outputs = vec![y, z, passed];
    let bound = bind(&graph, &[]).expect("binds");
    // y is made by relu itself; z and passed need a copy of what has a name already.
    assert_eq!(node_names(&bound), ["relu", "z", "passed"]);
    assert_eq!(bound.nodes[0].inputs, [Some(x)]);
    assert_eq!(bound.nodes[0].outputs, [Some(y)]);
    assert_eq!(bound.nodes[1].inputs, [Some(y)]);
}

#[test]
fn constant_outputs_are_folded_under_their_own_name() {
    let mut graph = Graph::default();
    let c = graph.add_constant("c", Tensor::from_f32([2], vec![-1.0, 2.0]).unwrap());
    let y = graph.add_node("y", Op::Unary(Unary::Relu), &[Some(c)]);
    graph.outputs.push(y);
    let bound = bind(&graph, &[]).expect("binds");
    assert!(bound.nodes.is_empty());
    let constant = output(&bound, 0).constant.as_ref().expect("folded");
    assert_eq!(constant.as_f32(), Some(&[0.0, 2.0][..]));
}

#[test]
fn folding_stops_before_it_takes_too_much() {
    // 2^28 f32 elements are 1 GiB: four times what folding may add.
    let mut graph = Graph::default();
    let shape = graph.add_constant("shape", Tensor::from_i64([1], vec![1 << 28]).unwrap());
    let value = Tensor::from_f32([1], vec![1.0]).unwrap();
    let big = graph.add_node(
        "big",
        Op::ConstantOfShape(ConstantOfShape { value }),
        &[Some(shape)],
    );
    graph.outputs.push(big);
    let bound = bind(&graph, &[]).expect("binds");
    assert_eq!(node_names(&bound), ["big"]);
    assert_eq!(output(&bound, 0).ty.shape, [1 << 28]);
}

#[test]
fn folding_stops_before_it_takes_too_long() {
    let mut graph = Graph::default();
    let zeros = |shape: [usize; 2]| Tensor::zeros(DType::F32, shape).unwrap();
    let a = graph.add_constant("a", zeros([2000, 2000]));
    let b = graph.add_constant("b", zeros([2000, 2000]));
    let gemm = Gemm {
        alpha: 1.0,
        beta: 1.0,
        trans_a: false,
        trans_b: false,
    };
    let y = graph.add_node("y", Op::Gemm(gemm), &[Some(a), Some(b)]);
    graph.outputs.push(y);
    let bound = bind(&graph, &[]).expect("binds");
    assert_eq!(node_names(&bound), ["y"]);
}

#[test]
fn folded_constants_are_released_when_read() {
    // 128, 64 and 128 MiB; only what is still needed counts against the limit of 256.
    let mut graph = Graph::default();
    let shape = graph.add_constant("shape", Tensor::from_i64([1], vec![1 << 24]).unwrap());
    let value = Tensor::new(vec![1], crate::TensorData::I64(vec![1])).unwrap();
    let mut last = graph.add_node(
        "ones",
        Op::ConstantOfShape(ConstantOfShape { value }),
        &[Some(shape)],
    );
    for step in 0..2 {
        let name = format!("cast{step}");
        let to = if step % 2 == 0 {
            DType::I32
        } else {
            DType::I64
        };
        last = graph.add_node(name, Op::Cast(Cast { to }), &[Some(last)]);
    }
    graph.outputs.push(last);
    let bound = bind(&graph, &[]).expect("binds");
    assert!(bound.nodes.is_empty(), "{:?}", node_names(&bound));
}

#[test]
fn absurd_totals_are_refused() {
    let mut graph = Graph::default();
    let x = graph.add_input("x", DType::F64, vec![symbol("n")]);
    let mut last = x;
    for step in 0..3 {
        last = graph.add_node(format!("relu{step}"), Op::Unary(Unary::Relu), &[Some(last)]);
    }
    graph.outputs.push(last);
    let error = bind(&graph, &[("x", vec![1 << 30])]).unwrap_err();
    assert!(matches!(error, ModelError::GraphTooLarge { .. }), "{error}");
    let error = bind(&graph, &[("x", vec![1 << 32])]).unwrap_err();
    assert!(matches!(error, ModelError::InputShape { .. }), "{error}");
}

#[test]
fn a_refused_node_is_named() {
    let mut graph = two_inputs();
    let product = graph.add_node(
        "product",
        Op::MatMul(MatMul),
        &[Some(ValueId(0)), Some(ValueId(1))],
    );
    graph.outputs.push(product);
    let error = bind(&graph, &[("x", vec![3, 4])]).unwrap_err();
    let text =
        "node `product` (MatMul): shapes [3, 4] and [3, 1] do not multiply: depth 4 is not 3";
    assert_eq!(error.to_string(), text);
}

#[track_caller]
fn refused(graph: &Graph, why: &str) {
    let error = bind(graph, &[("x", vec![3, 4])]).unwrap_err();
    assert!(matches!(error, ModelError::Graph { .. }), "{error}");
    assert!(error.to_string().contains(why), "{error}");
}

/// `relu(x + y)` with nothing wrong yet.
fn sound() -> Graph {
    let mut graph = two_inputs();
    let relu = Op::Unary(Unary::Relu);
    let relu = graph.add_node("relu", relu, &[graph.outputs.first().copied()]);
    graph.outputs = vec![relu];
    bind(&graph, &[("x", vec![3, 4])]).expect("is sound");
    graph
}

#[test]
fn a_number_without_a_value_is_refused() {
    let nowhere = ValueId(99);
    let mut graph = sound();
    graph.inputs.push(nowhere);
    refused(&graph, "the inputs name value 99, there are 4");
    let mut graph = sound();
    graph.outputs.push(nowhere);
    refused(&graph, "the outputs name value 99");
    let mut graph = sound();
    graph.nodes[0].inputs[0] = Some(nowhere);
    refused(&graph, "node `sum` name value 99");
    let mut graph = sound();
    graph.nodes[1].outputs[0] = Some(nowhere);
    refused(&graph, "node `relu` name value 99");
}

#[test]
fn a_value_made_twice_is_refused() {
    let mut graph = sound();
    // A second shape for a value that somebody has read already.
    let again = graph.nodes[0].clone();
    graph.nodes.push(again);
    refused(&graph, "node `sum` makes `sum`, which exists already");
    let mut graph = sound();
    graph.nodes[1].outputs[0] = Some(ValueId(0));
    refused(&graph, "node `relu` makes `x`, which exists already");
    let mut graph = sound();
    graph.inputs.push(ValueId(0));
    refused(&graph, "input `x` is a constant or an input already");
    let mut graph = sound();
    graph.values[1].name = "x".to_owned();
    refused(&graph, "two inputs are named `x`");
}

#[test]
fn a_value_read_before_it_is_made_is_refused() {
    let mut graph = sound();
    graph.nodes.swap(0, 1);
    refused(&graph, "node `relu` reads `sum` before it is made");
    let mut graph = sound();
    graph.nodes.pop();
    refused(&graph, "nothing makes the output `relu`");
}
