//! Inputs whose elements decide shapes: a plan for each value, kept like those for shapes.

use std::sync::Arc;

use spark_onnx::graph::{
    BodyId, Dim, Graph, If, Op, Range, Reduce, ReduceKind, Reshape, Slice, TopK, Unary, Value,
    deciding_inputs,
};
use spark_onnx::{DType, Model, ModelError, RunOptions, Tensor, TensorData, TensorView};

fn ints(values: &[i64]) -> Tensor {
    Tensor::from_i64([values.len()], values.to_vec()).expect("a list")
}

fn floats(values: &[f32]) -> Tensor {
    Tensor::from_f32([values.len()], values.to_vec()).expect("a list")
}

fn options() -> RunOptions {
    RunOptions::new().with_threads(1).with_max_plans(4)
}

/// `y = reshape(x, shape)`, `x` of twelve elements.
fn reshaping() -> Graph {
    let mut graph = Graph::default();
    let x = graph.add_input("x", DType::F32, vec![Dim::Known(12)]);
    let shape = graph.add_input("shape", DType::I64, vec![Dim::Unknown]);
    let reshape = Op::Reshape(Reshape { allow_zero: false });
    let y = graph.add_node("y", reshape, &[Some(x), Some(shape)]);
    graph.outputs.push(y);
    graph
}

#[test]
fn every_value_has_its_plan_and_few_are_kept() {
    let model = Model::from_graph(reshaping(), &options()).expect("ready");
    assert_eq!(model.memory().plans, 0, "none without a value");
    let mut session = model.session();
    let x = floats(&[1.0; 12]);
    let shapes = [[3, 4], [4, 3], [2, 6], [6, 2], [1, 12], [12, 1], [3, 4]];
    for (run, [a, b]) in shapes.into_iter().enumerate() {
        let outputs = session
            .run(&[("x", &x), ("shape", &ints(&[a, b]))])
            .expect("runs");
        assert_eq!(outputs[0].1.shape(), [a as usize, b as usize], "run {run}");
        assert!(model.memory().plans <= 4);
    }
    // The same value again makes no other plan; in another layout neither.
    let before = model.memory();
    let wide = [3i64, 0, 4];
    let strided = TensorView::with_strides(&wide[..], &[2], &[2]).expect("inside");
    let outputs = session
        .run_views(&[("x", (&x).into()), ("shape", strided)])
        .expect("runs");
    assert_eq!(outputs[0].1.shape(), [3, 4]);
    assert_eq!(model.memory(), before);
}

#[test]
fn values_that_do_not_fit_are_refused_and_harm_no_plan() {
    let model = Model::from_graph(reshaping(), &options()).expect("ready");
    let mut session = model.session();
    let x = floats(&[1.0; 12]);
    let mut run = |shape: &[i64]| session.run(&[("x", &x), ("shape", &ints(shape))]);
    run(&[3, 4]).expect("fits");
    for wrong in [&[5, 2][..], &[-1, -1], &[i64::MAX, i64::MAX], &[-5, 1], &[]] {
        let error = run(wrong).expect_err("refused").to_string();
        assert!(error.contains("Reshape"), "{error}");
    }
    // More elements than a shape has are none that decides.
    let error = run(&[1; 100]).expect_err("refused").to_string();
    assert!(error.contains("must be constant"), "{error}");
    run(&[3, 4]).expect("fits still");
    assert_eq!(model.memory().plans, 1);
    let error = model.prepare(&[("shape", vec![2])]).expect_err("no value");
    assert!(matches!(error, ModelError::InputDecides { .. }), "{error}");
}

#[test]
fn nan_is_a_value_like_others() {
    let mut graph = Graph::default();
    let names = ["start", "limit", "delta"];
    let ids = names.map(|name| Some(graph.add_input(name, DType::F32, vec![])));
    let y = graph.add_node("y", Op::Range(Range), &ids);
    graph.outputs.push(y);
    assert_eq!(deciding_inputs(&graph), [0, 1, 2]);
    let model = Model::from_graph(graph, &options()).expect("ready");
    let mut session = model.session();
    let scalar = |value: f32| Tensor::from_f32([], vec![value]).expect("a scalar");
    let mut run = |limit: f32| {
        let (start, limit, delta) = (scalar(1.0), scalar(limit), scalar(0.5));
        session
            .run(&[("start", &start), ("limit", &limit), ("delta", &delta)])
            .map(|outputs| outputs[0].1.to_f32())
    };
    assert_eq!(run(2.5).expect("runs"), [1.0, 1.5, 2.0]);
    for _ in 0..3 {
        // Whatever it means, it is the same every time.
        assert_eq!(run(f32::NAN).ok(), run(f32::NAN).ok());
    }
    assert!(run(1e30).is_err(), "no list is that long");
}

#[test]
fn axes_counts_and_ranges_may_be_inputs() {
    let mut graph = Graph::default();
    let x = graph.add_input("x", DType::F32, vec![Dim::Known(2), Dim::Known(3)]);
    let axes = graph.add_input("axes", DType::I64, vec![Dim::Known(1)]);
    let k = graph.add_input("k", DType::I64, vec![]);
    let bounds =
        ["starts", "ends"].map(|name| graph.add_input(name, DType::I64, vec![Dim::Known(1)]));
    let sum = Reduce {
        kind: ReduceKind::Sum,
        keep_dims: false,
        noop_with_empty_axes: false,
    };
    let sum = graph.add_node("sum", Op::Reduce(sum), &[Some(x), Some(axes)]);
    let largest = TopK {
        axis: 0,
        largest: true,
        sorted: true,
    };
    let top = graph.add_node("top", Op::TopK(largest), &[Some(sum), Some(k)]);
    let part = graph.add_node(
        "part",
        Op::Slice(Slice),
        &[Some(x), Some(bounds[0]), Some(bounds[1])],
    );
    graph.outputs = vec![top, part];
    assert_eq!(deciding_inputs(&graph), [1, 2, 3, 4]);
    let mut session = Model::from_graph(graph, &options())
        .expect("ready")
        .session();
    let x = Tensor::from_f32([2, 3], vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0]).expect("fits");
    let mut run = |axis: i64, k: i64, from: i64, to: i64| {
        let k = Tensor::from_i64([], vec![k]).expect("a scalar");
        let (axes, starts, ends) = (ints(&[axis]), ints(&[from]), ints(&[to]));
        session
            .run(&[
                ("x", &x),
                ("axes", &axes),
                ("k", &k),
                ("starts", &starts),
                ("ends", &ends),
            ])
            .map(|outputs| {
                outputs
                    .into_iter()
                    .map(|(_, t)| t.to_f32())
                    .collect::<Vec<_>>()
            })
    };
    assert_eq!(
        run(0, 2, 0, 1).expect("runs"),
        [vec![9.0, 7.0], vec![1.0, 2.0, 3.0]]
    );
    assert_eq!(
        run(-1, 1, -1, 9).expect("runs"),
        [vec![15.0], vec![4.0, 5.0, 6.0]]
    );
    let error = run(-1, 3, 0, 1).expect_err("three of two").to_string();
    assert!(error.contains("k is 3"), "{error}");
}

/// `c ? relu(x) : -x`.
fn choosing() -> Graph {
    let mut graph = Graph::default();
    let c = graph.add_input("c", DType::Bool, vec![]);
    let x = graph.add_input("x", DType::F32, vec![Dim::Known(2)]);
    for op in [Unary::Relu, Unary::Neg] {
        let mut body = Graph::default();
        let a = body.add_value(Value {
            name: "a".to_owned(),
            dtype: None,
            shape: None,
            constant: None,
        });
        body.inputs.push(a);
        let y = body.add_node("t", Op::Unary(op), &[Some(a)]);
        body.outputs.push(y);
        graph.bodies.push(Arc::new(body));
    }
    let op = If {
        then_branch: BodyId(0),
        else_branch: BodyId(1),
    };
    let y = graph.add_node("y", Op::If(op), &[Some(c), Some(x)]);
    graph.outputs.push(y);
    graph
}

#[test]
fn a_boolean_input_chooses_a_branch() {
    let graph = choosing();
    assert_eq!(deciding_inputs(&graph), [0]);
    let model = Model::from_graph(graph, &options()).expect("ready");
    let mut session = model.session();
    let x = floats(&[-1.0, 2.0]);
    for (c, want) in [(true, [0.0, 2.0]), (false, [1.0, -2.0]), (true, [0.0, 2.0])] {
        let c = Tensor::new(Vec::new(), TensorData::Bool(vec![c])).expect("a scalar");
        let outputs = session.run(&[("c", &c), ("x", &x)]).expect("runs");
        assert_eq!(outputs[0].1.to_f32(), want);
    }
    assert_eq!(model.memory().plans, 2);
}
