//! If, Loop and Scan of files: what they become, and what is refused.

use std::time::{Duration, Instant};

use spark_onnx_graph::graph::{Graph, Op, StaticGraph, bind};
use spark_onnx_graph::{Tensor, file, reference};
use spark_onnx_proto::{
    FunctionProto, GraphProto, ModelProto, NodeProto, ValueInfoProto, data_type,
};

use crate::samples::messages::{
    constant, graph_attribute, int, ints, model, node, operator_set, text, typed_value, value,
};

const OPSET: i64 = 17;

fn floats(values: &[f32]) -> Tensor {
    Tensor::from_f32([values.len()], values.to_vec()).expect("a list")
}

fn int_scalar(value: i64) -> Tensor {
    Tensor::from_i64([], vec![value]).expect("a scalar")
}

fn untyped(name: &'static str) -> ValueInfoProto<'static> {
    ValueInfoProto {
        name: text(name),
        ..ValueInfoProto::default()
    }
}

/// A graph within a node, of values whose types are not stated.
fn body(
    inputs: &[&'static str],
    nodes: Vec<NodeProto<'static>>,
    outputs: &[&'static str],
) -> GraphProto<'static> {
    GraphProto {
        name: text("body"),
        node: nodes,
        input: inputs.iter().map(|name| untyped(name)).collect(),
        output: outputs.iter().map(|name| untyped(name)).collect(),
        ..GraphProto::default()
    }
}

/// A model from `x` to `y`.
fn from_x(shape: &[i64], nodes: Vec<NodeProto<'static>>) -> GraphProto<'static> {
    GraphProto {
        input: vec![value("x", shape)],
        ..body(&[], nodes, &["y"])
    }
}

#[track_caller]
fn parsed(graph: GraphProto<'static>) -> Graph {
    read(&model(OPSET, graph))
}

#[track_caller]
fn read(model: &ModelProto<'_>) -> Graph {
    file::parse(&model.encode(), None).unwrap_or_else(|e| panic!("{e}"))
}

#[track_caller]
fn refused(graph: GraphProto<'static>, wanted: &str) {
    let parsed = file::parse(&model(OPSET, graph).encode(), None);
    let error = parsed
        .and_then(|graph| bind(&graph, &[]))
        .expect_err("refused");
    let message = error.to_string();
    assert!(message.contains(wanted), "`{message}` lacks `{wanted}`");
}

/// Binds it for `x`, whose graph then has no control flow left, and gives `y`.
#[track_caller]
fn y_of(graph: &Graph, x: &Tensor) -> (StaticGraph, Tensor) {
    let bound = bind(graph, &[("x", x.shape().to_vec())]).unwrap_or_else(|e| panic!("{e}"));
    assert!(bound.nodes().iter().all(|node| !node.op.is_control_flow()));
    let outputs = reference::run(&bound, &[("x", x)]).unwrap_or_else(|e| panic!("{e}"));
    (bound, outputs[0].1.clone())
}

/// `cond` is whether the first extent of `x` is one.
fn is_single() -> Vec<NodeProto<'static>> {
    vec![
        node("Shape", &["x"], &["shape"], vec![]),
        node("Gather", &["shape", "zero"], &["rows"], vec![]),
        node("Equal", &["rows", "one"], &["cond"], vec![]),
    ]
}

fn if_node(
    then_branch: GraphProto<'static>,
    else_branch: GraphProto<'static>,
) -> NodeProto<'static> {
    let branches = vec![
        graph_attribute("then_branch", then_branch),
        graph_attribute("else_branch", else_branch),
    ];
    NodeProto {
        name: text("if"),
        ..node("If", &["cond"], &["y"], branches)
    }
}

fn with_is_single(then_branch: GraphProto<'static>, else_branch: GraphProto<'static>) -> Graph {
    let mut nodes = is_single();
    nodes.push(if_node(then_branch, else_branch));
    let mut graph = from_x(&[-1, 2], nodes);
    graph.initializer = vec![
        constant("zero", &int_scalar(0)),
        constant("one", &int_scalar(1)),
    ];
    parsed(graph)
}

#[test]
fn a_branch_is_taken_by_a_shape() {
    // Both branches know a local `t`, and the second a constant of its own.
    let then_branch = body(&[], vec![node("Relu", &["x"], &["t"], vec![])], &["t"]);
    let mut else_branch = body(&[], vec![node("Add", &["x", "w"], &["t"], vec![])], &["t"]);
    else_branch.initializer = vec![constant("w", &floats(&[10.0, 20.0]))];
    let graph = with_is_single(then_branch, else_branch);
    let (bound, y) = y_of(
        &graph,
        &Tensor::from_f32([1, 2], vec![-1.0, 2.0]).expect("fits"),
    );
    assert_eq!(y.to_f32(), [0.0, 2.0]);
    assert_eq!(bound.nodes().len(), 1);
    assert_eq!(bound.nodes()[0].name, "if/Relu_0");
    let x = Tensor::from_f32([2, 2], vec![-1.0, 2.0, 3.0, 4.0]).expect("fits");
    let (bound, y) = y_of(&graph, &x);
    assert_eq!(y.to_f32(), [9.0, 22.0, 13.0, 24.0]);
    assert_eq!(bound.nodes().len(), 1);
}

#[test]
fn a_branch_that_is_not_taken_need_not_fit() {
    // Squeeze would fail where the extent is two, and a result of another shape is none there.
    let squeeze = node("Squeeze", &["x", "axes"], &["t"], vec![]);
    let mut then_branch = body(&[], vec![squeeze], &["t"]);
    then_branch.initializer = vec![constant(
        "axes",
        &Tensor::from_i64([1], vec![0]).expect("a list"),
    )];
    let else_branch = body(&[], vec![node("Identity", &["x"], &["t"], vec![])], &["t"]);
    let graph = with_is_single(then_branch, else_branch);
    let (_, y) = y_of(
        &graph,
        &Tensor::from_f32([1, 2], vec![1.0, 2.0]).expect("fits"),
    );
    assert_eq!(y.shape(), [2]);
    let (_, y) = y_of(
        &graph,
        &Tensor::from_f32([3, 2], vec![1.0; 6]).expect("fits"),
    );
    assert_eq!(y.shape(), [3, 2]);
}

#[test]
fn what_a_branch_reads_may_be_made_later_in_the_file() {
    let then_branch = body(&[], vec![], &["late"]);
    let else_branch = body(&[], vec![node("Neg", &["late"], &["t"], vec![])], &["t"]);
    let mut nodes = is_single();
    nodes.push(if_node(then_branch, else_branch));
    nodes.push(node("Exp", &["x"], &["late"], vec![]));
    let mut graph = from_x(&[-1, 2], nodes);
    graph.initializer = vec![
        constant("zero", &int_scalar(0)),
        constant("one", &int_scalar(1)),
    ];
    let (_, y) = y_of(
        &parsed(graph),
        &Tensor::from_f32([2, 2], vec![0.0; 4]).expect("fits"),
    );
    assert_eq!(y.to_f32(), [-1.0; 4]);
}

#[test]
fn branches_within_branches_see_everything_around() {
    let inner_then = body(&[], vec![node("Add", &["x", "a"], &["t"], vec![])], &["t"]);
    let inner_else = body(&[], vec![node("Sub", &["x", "a"], &["t"], vec![])], &["t"]);
    let mut inner = if_node(inner_then, inner_else);
    inner.output = vec!["u".into()];
    // `a` is the outer branch's own, made after the inner node reads it.
    let outer = body(
        &[],
        vec![inner, node("Relu", &["x"], &["a"], vec![])],
        &["u"],
    );
    let other = body(&[], vec![node("Identity", &["x"], &["t"], vec![])], &["t"]);
    let graph = with_is_single(outer, other);
    let (bound, y) = y_of(
        &graph,
        &Tensor::from_f32([1, 2], vec![-1.0, 2.0]).expect("fits"),
    );
    assert_eq!(y.to_f32(), [-1.0, 4.0]);
    assert_eq!(bound.nodes().len(), 2);
}

#[test]
fn control_flow_within_a_function_sees_the_function() {
    let then_branch = body(
        &[],
        vec![node("Add", &["a", "t"], &["t2"], vec![])],
        &["t2"],
    );
    let else_branch = body(
        &[],
        vec![node("Identity", &["t"], &["t2"], vec![])],
        &["t2"],
    );
    let mut if_node = if_node(then_branch, else_branch);
    if_node.input = vec!["c".into()];
    if_node.output = vec!["b".into()];
    let function = FunctionProto {
        name: text("Block"),
        domain: text("my"),
        input: vec!["a".into(), "c".into()],
        output: vec!["b".into()],
        node: vec![node("Relu", &["a"], &["t"], vec![]), if_node],
        opset_import: vec![operator_set("", OPSET)],
        ..FunctionProto::default()
    };
    // The caller has other values of the names that the function uses.
    let mut nodes = is_single();
    nodes.push(node("Neg", &["x"], &["t2"], vec![]));
    let mut call = node("Block", &["t2", "cond"], &["y"], vec![]);
    call.domain = text("my");
    nodes.push(call);
    let mut graph = from_x(&[-1, 2], nodes);
    graph.initializer = vec![
        constant("zero", &int_scalar(0)),
        constant("one", &int_scalar(1)),
    ];
    let mut model = model(OPSET, graph);
    model.opset_import.push(operator_set("my", 1));
    model.functions = vec![function];
    let (_, y) = y_of(
        &read(&model),
        &Tensor::from_f32([1, 2], vec![-1.0, 2.0]).expect("fits"),
    );
    assert_eq!(y.to_f32(), [2.0, -2.0]);
}

/// A loop over `count` that adds `x` to what it carries and stacks twice what it carried.
fn loop_node(body: GraphProto<'static>) -> NodeProto<'static> {
    let attributes = vec![graph_attribute("body", body)];
    NodeProto {
        name: text("loop"),
        ..node("Loop", &["count", "", "x"], &["sum", "y"], attributes)
    }
}

fn adding() -> GraphProto<'static> {
    let nodes = vec![
        node("Identity", &["goes_on"], &["still"], vec![]),
        node("Add", &["before", "x"], &["after"], vec![]),
        node("Cast", &["i"], &["number"], vec![int("to", 1)]),
        node("Mul", &["before", "number"], &["slice"], vec![]),
    ];
    body(
        &["i", "goes_on", "before"],
        nodes,
        &["still", "after", "slice"],
    )
}

#[test]
fn a_loop_of_known_length_is_taken_apart() {
    for count in 0..4 {
        let mut graph = from_x(&[2], vec![loop_node(adding())]);
        graph.initializer = vec![constant("count", &int_scalar(count))];
        graph.output.push(untyped("sum"));
        let graph = parsed(graph);
        let x = floats(&[1.0, -2.0]);
        let (bound, y) = y_of(&graph, &x);
        assert_eq!(y.shape(), [count as usize, 2]);
        let want: Vec<f32> = (0..count as usize)
            .flat_map(|i| [1.0, -2.0].map(|v| v * ((i + 1) * i) as f32))
            .collect();
        assert_eq!(y.to_f32(), want);
        let outputs = reference::run(&bound, &[("x", &x)]).expect("runs");
        assert_eq!(outputs[1].1.to_f32()[0], (count + 1) as f32);
    }
}

#[test]
fn a_loop_ends_where_its_condition_does() {
    // while (i < 3), with a count that is no bound.
    let nodes = vec![
        node("Add", &["i", "one"], &["next"], vec![]),
        node("Less", &["next", "three"], &["still"], vec![]),
        node("Add", &["before", "before"], &["after"], vec![]),
    ];
    let inner = body(&["i", "goes_on", "before"], nodes, &["still", "after"]);
    let mut looping = loop_node(inner);
    looping.output = vec!["y".into()];
    let mut graph = from_x(&[1], vec![looping]);
    graph.initializer = vec![
        constant("count", &int_scalar(i64::MAX)),
        constant("one", &int_scalar(1)),
        constant("three", &int_scalar(3)),
    ];
    let (_, y) = y_of(&parsed(graph), &floats(&[1.0]));
    assert_eq!(y.to_f32(), [8.0]);
}

#[test]
fn a_scan_is_taken_apart_along_its_axes() {
    let nodes = vec![
        node("Add", &["before", "column"], &["after"], vec![]),
        node("Identity", &["after"], &["slice"], vec![]),
    ];
    let inner = body(&["before", "column"], nodes, &["after", "slice"]);
    let attributes = vec![
        graph_attribute("body", inner),
        int("num_scan_inputs", 1),
        ints("scan_input_axes", &[-1]),
        ints("scan_input_directions", &[1]),
        ints("scan_output_axes", &[1]),
        ints("scan_output_directions", &[0]),
    ];
    let scan = node("Scan", &["start", "x"], &["last", "y"], attributes);
    let mut graph = from_x(&[2, 3], vec![scan]);
    graph.initializer = vec![constant("start", &floats(&[100.0, 200.0]))];
    let graph = parsed(graph);
    let x = Tensor::from_f32([2, 3], vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0]).expect("fits");
    let (_, y) = y_of(&graph, &x);
    assert_eq!(y.shape(), [2, 3]);
    assert_eq!(y.to_f32(), [103.0, 105.0, 106.0, 206.0, 211.0, 215.0]);
}

#[test]
fn what_is_all_known_becomes_a_constant() {
    // The same values are stacked and carried, and the stacked ones are read twice.
    let nodes = vec![
        node("Identity", &["goes_on"], &["still"], vec![]),
        node("Add", &["before", "w"], &["after"], vec![]),
    ];
    let inner = body(
        &["i", "goes_on", "before"],
        nodes,
        &["still", "after", "after"],
    );
    let mut looping = loop_node(inner);
    looping.input[2] = "w".into();
    looping.output = vec!["sum".into(), "all".into()];
    let joined = node("Add", &["all", "sum"], &["both"], vec![]);
    let nodes = vec![looping, joined, node("Add", &["both", "x"], &["y"], vec![])];
    let mut graph = from_x(&[2], nodes);
    graph.initializer = vec![
        constant("count", &int_scalar(3)),
        constant("w", &floats(&[1.0, 10.0])),
    ];
    let (bound, y) = y_of(&parsed(graph), &floats(&[0.0, 0.0]));
    assert_eq!(y.to_f32(), [6.0, 60.0, 7.0, 70.0, 8.0, 80.0]);
    assert_eq!(bound.nodes().len(), 1);
}

/// If within If, `depth` of them.
fn nested(depth: usize) -> GraphProto<'static> {
    let leaf = || body(&[], vec![node("Identity", &["x"], &["t"], vec![])], &["t"]);
    let mut inner = leaf();
    for _ in 0..depth {
        let mut holder = if_node(inner, leaf());
        holder.output = vec!["u".into()];
        inner = body(&[], vec![holder], &["u"]);
    }
    GraphProto {
        initializer: vec![constant(
            "cond",
            &Tensor::from_f64(spark_onnx_graph::DType::Bool, [], vec![1.0]).expect("a scalar"),
        )],
        input: vec![value("x", &[2])],
        ..inner
    }
}

#[test]
fn graphs_nested_too_deep_say_so() {
    let graph = parsed(nested(16));
    let bound = bind(&graph, &[]).expect("binds");
    assert!(bound.nodes().len() <= 1);
    for depth in [17, 30] {
        refused(nested(depth), "graphs are nested more than 16 deep");
    }
    refused(nested(60), "messages are nested more than 100 deep");
}

#[test]
fn names_that_lead_nowhere_are_told_with_their_node() {
    let then_branch = body(&[], vec![node("Relu", &["nobody"], &["t"], vec![])], &["t"]);
    let else_branch = body(&[], vec![node("Relu", &["x"], &["t"], vec![])], &["t"]);
    let mut graph = from_x(&[2], vec![if_node(then_branch, else_branch)]);
    graph.input.push(typed_value("cond", data_type::BOOL, &[]));
    refused(graph, "`nobody`");
    // What one branch makes the other one does not see.
    let then_branch = body(&[], vec![node("Relu", &["x"], &["t"], vec![])], &["t"]);
    let else_branch = body(&[], vec![node("Neg", &["t"], &["u"], vec![])], &["u"]);
    let mut graph = from_x(&[2], vec![if_node(then_branch, else_branch)]);
    graph.input.push(typed_value("cond", data_type::BOOL, &[]));
    refused(graph, "`t`");
}

#[test]
fn bodies_of_another_form_are_refused() {
    let relu = || body(&[], vec![node("Relu", &["x"], &["t"], vec![])], &["t"]);
    let with_condition = |if_node: NodeProto<'static>| {
        let mut graph = from_x(&[2], vec![if_node]);
        graph.input.push(typed_value("cond", data_type::BOOL, &[]));
        graph
    };
    let none = body(&[], vec![], &[]);
    refused(
        with_condition(if_node(relu(), none)),
        "`else_branch` makes 0 results",
    );
    let given = body(&["g"], vec![], &["g"]);
    refused(
        with_condition(if_node(given, relu())),
        "`then_branch` takes 1 values",
    );
    let mut half = if_node(relu(), relu());
    half.attribute.pop();
    refused(with_condition(half), "`else_branch` holds no graph");
    let mut short = loop_node(body(&["i", "goes_on"], vec![], &["goes_on"]));
    short.output = vec!["y".into()];
    let mut graph = from_x(&[2], vec![short]);
    graph.initializer = vec![constant("count", &int_scalar(1))];
    refused(graph, "`body` takes 2 values, 3 are given");
}

/// Loops within loops, each `count` times.
fn loops(depth: usize, count: i64) -> GraphProto<'static> {
    let mut inner = vec![node("Relu", &["before"], &["after"], vec![])];
    for _ in 0..depth {
        let nodes = std::mem::take(&mut inner);
        let body = body(&["i", "goes_on", "before"], nodes, &["goes_on", "after"]);
        let mut looping = loop_node(body);
        looping.input = vec!["count".into(), "".into(), "before".into()];
        looping.output = vec!["after".into()];
        inner = vec![looping];
    }
    let mut nodes = vec![node("Identity", &["x"], &["before"], vec![])];
    nodes.append(&mut inner);
    nodes.push(node("Identity", &["after"], &["y"], vec![]));
    GraphProto {
        initializer: vec![constant("count", &int_scalar(count))],
        ..from_x(&[2], nodes)
    }
}

#[test]
fn loops_that_multiply_are_not_taken_apart_for_ever() {
    let begin = Instant::now();
    for (depth, count) in [(1, i64::MAX), (2, 5000), (6, 100), (10, 9), (15, 5)] {
        let bound = bind(&parsed(loops(depth, count)), &[]).unwrap_or_else(|e| panic!("{e}"));
        // Some of it stays a loop.
        let mut nodes = bound.nodes().iter();
        assert!(nodes.any(|n| matches!(n.op, Op::Loop(_))), "{depth}");
    }
    assert!(
        begin.elapsed() < Duration::from_secs(60),
        "{:?}",
        begin.elapsed()
    );
}
