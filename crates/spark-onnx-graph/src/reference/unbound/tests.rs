//! A network that is run as it is gives what it gives bound, and more: lengths may hang on values.

use super::*;
use crate::graph::{
    Binary, BodyId, Dim, Gather, If, Loop, NonZero, Op, Range, Scan, ScanAxis, Unary, ValueId, bind,
};
use crate::reference;
use crate::samples::{Sample, every_operator};
use crate::tensor::{DType, TensorData};

fn list(values: &[i64]) -> Tensor {
    Tensor::from_i64([values.len()], values.to_vec()).expect("a list")
}

fn scalar(value: i64) -> Tensor {
    Tensor::from_i64([], vec![value]).expect("a scalar")
}

#[test]
fn every_sample_gives_the_same_bound_or_not() {
    let mut n_same = 0;
    for Sample { graph, inputs, .. } in every_operator() {
        let given: Vec<(&str, &Tensor)> = inputs.iter().map(|(n, t)| (n.as_str(), t)).collect();
        let shapes: Vec<_> = given
            .iter()
            .map(|(name, tensor)| (*name, tensor.shape().to_vec()))
            .collect();
        let Ok(bound) = bind(&graph, &shapes) else {
            continue;
        };
        let Ok(want) = reference::run(&bound, &given) else {
            continue;
        };
        let got = run_unbound(&graph, &given, 1 << 30).expect("runs as it is too");
        assert_eq!(got.len(), want.len());
        for ((name, got), (_, want)) in got.iter().zip(&want) {
            assert!(got.is_bitwise(want), "{name}: {got:?}, {want:?}");
        }
        n_same += 1;
    }
    assert!(n_same > 100, "{n_same}");
}

/// A body that adds one to what it carries and stacks it.
fn counting() -> Graph {
    let mut body = Graph::default();
    let _ = body.add_input("number", DType::I64, vec![]);
    let _ = body.add_input("goes_on", DType::Bool, vec![]);
    let before = body.add_input("before", DType::I64, vec![]);
    let one = body.add_constant("one", scalar(1));
    let after = body.add_node("after", Op::Binary(Binary::Add), &[Some(before), Some(one)]);
    let last = body.add_node("last", Op::Unary(Unary::Identity), &[Some(after)]);
    let goes_on = Tensor::new(vec![], TensorData::Bool(vec![true])).expect("one");
    let goes_on = body.add_constant("true", goes_on);
    body.outputs = vec![goes_on, after, last];
    body
}

/// As often as `count` says.
fn loops() -> Graph {
    let mut graph = Graph::default();
    let count = graph.add_input("count", DType::I64, vec![Dim::Known(1), Dim::Known(1)]);
    let start = graph.add_input("start", DType::I64, vec![]);
    graph.bodies.push(counting().into());
    let op = Op::Loop(Loop {
        body: BodyId(0),
        carried: 1,
    });
    let end = graph.add_node("end", op, &[Some(count), None, Some(start)]);
    let all = graph.add_value(crate::graph::Value {
        name: "all".to_owned(),
        dtype: None,
        shape: None,
        constant: None,
    });
    graph.nodes[0].outputs.push(Some(all));
    graph.outputs = vec![end, all];
    graph
}

#[test]
fn loops_run_as_often_as_values_say_and_stack_as_much() {
    let graph = loops();
    for count in [3, 1, 0, -2] {
        let times = Tensor::from_i64([1, 1], vec![count]).expect("one");
        let outputs = run_unbound(&graph, &[("count", &times), ("start", &scalar(5))], 1 << 20);
        let outputs = outputs.expect("runs");
        let n = count.max(0);
        assert_eq!(outputs[0].1, scalar(5 + n), "{count}");
        let want: Vec<i64> = (6..6 + n).collect();
        assert_eq!(outputs[1].1, list(&want), "{count}: of no rounds, none");
    }
}

#[test]
fn what_no_round_made_has_the_type_that_is_declared_where_values_say_it() {
    let graph = loops();
    let mut body = counting();
    // All numbers up to the carried one, of which only a round knows how many there are.
    let (one, after) = (ValueId(3), ValueId(4));
    let up_to = body.add_node(
        "up_to",
        Op::Range(Range),
        &[Some(one), Some(after), Some(one)],
    );
    body.outputs[2] = up_to;
    let ValueId(value) = up_to;
    let run = |body: &Graph, count: i64| {
        let mut graph = graph.clone();
        graph.bodies[0] = body.clone().into();
        let count = Tensor::from_i64([1, 1], vec![count]).expect("one");
        run_unbound(&graph, &[("count", &count), ("start", &scalar(3))], 1 << 20)
    };
    let outputs = run(&body, 1).expect("one round");
    assert_eq!(
        outputs[1].1,
        Tensor::from_i64([1, 3], vec![1, 2, 3]).expect("three")
    );
    let error = run(&body, 0).expect_err("nobody can tell").to_string();
    assert!(error.contains("must be constant"), "{error}");
    body.values[value].dtype = Some(DType::I64);
    body.values[value].shape = Some(vec![Dim::Symbol("n".to_owned())]);
    let outputs = run(&body, 0).expect("no round");
    assert_eq!(
        outputs[1].1,
        Tensor::from_i64([0, 0], vec![]).expect("none")
    );
}

#[test]
fn branches_may_give_other_shapes() {
    let branch = |op: Op| {
        let mut body = Graph::default();
        let x = body.add_input("x", DType::F32, vec![Dim::Unknown]);
        let y = body.add_node("y", op, &[Some(x)]);
        body.outputs.push(y);
        body.into()
    };
    let mut graph = Graph::default();
    let condition = graph.add_input("condition", DType::Bool, vec![]);
    let x = graph.add_input("x", DType::F32, vec![Dim::Unknown]);
    graph.bodies = vec![
        branch(Op::NonZero(NonZero)),
        branch(Op::Unary(Unary::Identity)),
    ];
    let op = Op::If(If {
        then_branch: BodyId(0),
        else_branch: BodyId(1),
    });
    let y = graph.add_node("y", op, &[Some(condition), Some(x)]);
    graph.outputs.push(y);
    let x = Tensor::from_f32([3], vec![0.0, 7.0, 8.0]).expect("three");
    for (taken, want) in [
        (true, Tensor::from_i64([1, 2], vec![1, 2]).expect("two")),
        (false, x.clone()),
    ] {
        let condition = Tensor::new(vec![], TensorData::Bool(vec![taken])).expect("one");
        let inputs = [("condition", &condition), ("x", &x)];
        let outputs = run_unbound(&graph, &inputs, 1 << 20).expect("runs");
        assert_eq!(outputs[0].1, want);
    }
}

#[test]
fn bodies_that_do_not_fit_are_refused_before_a_run() {
    let refused = |change: &dyn Fn(&mut Graph), wanted: &str| {
        let mut graph = loops();
        change(&mut graph);
        let text = check_unbound(&graph).expect_err(wanted).to_string();
        assert!(text.contains(wanted), "{text}");
    };
    check_unbound(&loops()).expect("fits");
    let body = |change: &dyn Fn(&mut Graph)| {
        let mut body = counting();
        change(&mut body);
        body.into()
    };
    refused(&|graph| graph.bodies.clear(), "its body is 0, there are 0");
    refused(
        &|graph| graph.bodies[0] = body(&|body| _ = body.add_input("more", DType::I64, vec![])),
        "its body takes 4 values, 3 are given",
    );
    refused(
        &|graph| graph.bodies[0] = body(&|body| body.outputs.truncate(1)),
        "its body makes 1 values, 2 are wanted",
    );
    refused(
        &|graph| graph.bodies[0] = body(&|body| _ = body.outputs.pop()),
        "its body makes 2 values",
    );
    refused(
        &|graph| _ = graph.nodes[0].inputs.pop(),
        "2 operands, 3 wanted",
    );
    // Bodies in bodies without end.
    let mut deep = Graph::default();
    for _ in 0..40 {
        let mut outer = Graph::default();
        let condition = outer.add_input("condition", DType::Bool, vec![]);
        outer.bodies.push(deep.into());
        let op = Op::If(If {
            then_branch: BodyId(0),
            else_branch: BodyId(0),
        });
        outer.add_node("if", op, &[Some(condition)]);
        outer.nodes[0].inputs.push(Some(condition));
        outer.nodes[0].outputs.clear();
        deep = outer;
    }
    let text = check_unbound(&deep).expect_err("too deep").to_string();
    assert!(text.contains("nested"), "{text}");
}

#[test]
fn operands_of_loops_are_checked_where_they_are_used() {
    let graph = loops();
    let two = Tensor::from_i64([1, 1], vec![2]).expect("one");
    let error = |count: &Tensor, start: &Tensor| {
        let mut graph = graph.clone();
        for value in &mut graph.values {
            (value.dtype, value.shape) = (None, None);
        }
        let run = run_unbound(&graph, &[("count", count), ("start", start)], 1 << 20);
        run.expect_err("refused").to_string()
    };
    let text = error(&Tensor::from_f32([], vec![1.0]).expect("one"), &scalar(0));
    assert!(text.contains("its count is f32"), "{text}");
    let text = error(&list(&[1, 2]), &scalar(0));
    assert!(text.contains("its count is i64 of shape [2]"), "{text}");
    let text = error(&two, &Tensor::from_f32([], vec![1.0]).expect("one"));
    assert!(text.contains("node `after`"), "{text}");
    // What is stacked is counted while it waits.
    let text = error(&scalar(i64::MAX), &scalar(0));
    assert!(text.contains("of the budget of 1048576 bytes"), "{text}");
}

#[test]
fn scanned_operands_have_as_many_slices() {
    let mut body = Graph::default();
    let a = body.add_input("a", DType::F32, vec![Dim::Unknown]);
    let b = body.add_input("b", DType::F32, vec![Dim::Unknown]);
    let c = body.add_node("c", Op::Binary(Binary::Add), &[Some(a), Some(b)]);
    body.outputs.push(c);
    let mut graph = Graph::default();
    let dims = vec![Dim::Unknown, Dim::Unknown];
    let a = graph.add_input("a", DType::F32, dims.clone());
    let b = graph.add_input("b", DType::F32, dims);
    graph.bodies.push(body.into());
    let axis = |axis| ScanAxis {
        axis,
        is_reversed: false,
    };
    let op = Op::Scan(Scan {
        body: BodyId(0),
        carried: 0,
        inputs: vec![axis(0), axis(0)],
        outputs: vec![axis(1)],
    });
    let c = graph.add_node("c", op, &[Some(a), Some(b)]);
    graph.outputs.push(c);
    let run = |n: usize, m: usize| {
        let of = |n: usize| Tensor::from_f32([n, 3], vec![1.0; 3 * n]).expect("rows");
        run_unbound(&graph, &[("a", &of(n)), ("b", &of(m))], 1 << 20)
    };
    assert_eq!(run(4, 4).expect("runs")[0].1.shape(), [3, 4]);
    assert_eq!(run(0, 0).expect("runs")[0].1.shape(), [3, 0]);
    let text = run(4, 5).expect_err("refused").to_string();
    assert!(text.contains("different numbers of slices"), "{text}");
}

/// Rows of `x` at which `scores` is not 0.
fn chosen_rows() -> Graph {
    let mut graph = Graph::default();
    let x = graph.add_input("x", DType::F32, vec![Dim::Unknown, Dim::Known(2)]);
    let scores = graph.add_input("scores", DType::F32, vec![Dim::Unknown]);
    let at = graph.add_node("at", Op::NonZero(NonZero), &[Some(scores)]);
    let rows = graph.add_node("rows", Op::Gather(Gather { axis: 0 }), &[Some(x), Some(at)]);
    graph.outputs = vec![rows, rows, x];
    graph
}

#[test]
fn memory_is_counted_while_it_is_held_and_given_back() {
    let graph = chosen_rows();
    let x = std::sync::Arc::new(Tensor::from_f32([4, 2], vec![1.0; 8]).expect("rows"));
    let scores = Tensor::from_f32([4], vec![1.0, 0.0, 1.0, 1.0]).expect("scores");
    let mut budget = ModelBudget::new(1 << 20);
    let inputs = vec![x.clone(), scores.into()];
    let mut run = Unbound::start(&graph, inputs.clone(), &mut budget).expect("starts");
    run.step(0).expect("runs");
    run.step(1).expect("runs");
    let made = run.finish().expect("ends");
    let bytes: Vec<usize> = made.iter().map(|made| made.bytes).collect();
    // Three rows, once though they are listed twice; an input is the caller's.
    assert_eq!(bytes, [24, 0, 0]);
    assert_eq!(budget.left(), (1 << 20) - 24);
    // A run that stops, wherever it does, holds nothing any more.
    for steps in 0..2 {
        let mut budget = ModelBudget::new(1 << 20);
        let mut run = Unbound::start(&graph, inputs.clone(), &mut budget).expect("starts");
        (0..steps).for_each(|step| run.step(step).expect("runs"));
        drop(run);
        assert_eq!(budget.left(), 1 << 20);
    }
}

#[test]
fn too_little_memory_is_an_error_that_names_the_node() {
    let n = 100_000;
    let x = Tensor::from_f32([n, 2], vec![1.0; 2 * n]).expect("rows");
    let scores = Tensor::from_f32([n], vec![1.0; n]).expect("scores");
    let inputs = [("x", &x), ("scores", &scores)];
    let error = run_unbound(&chosen_rows(), &inputs, 1 << 20).expect_err("refused");
    assert!(
        matches!(&error, ModelError::OverBudget { node, .. } if node == "at"),
        "{error}"
    );
    run_unbound(&chosen_rows(), &inputs, 1 << 30).expect("fits");
}

#[test]
fn inputs_and_outputs_are_held_against_what_is_declared() {
    let mut graph = chosen_rows();
    let x = Tensor::from_f32([4, 2], vec![1.0; 8]).expect("rows");
    let scores = Tensor::from_f32([4], vec![1.0; 4]).expect("scores");
    let run = |graph: &Graph, inputs: &[(&str, &Tensor)]| run_unbound(graph, inputs, 1 << 20);
    let error = run(&graph, &[("x", &scores), ("scores", &scores)]).expect_err("shape");
    assert!(matches!(error, ModelError::InputShape { .. }), "{error}");
    let error = run(&graph, &[("x", &list(&[1])), ("scores", &scores)]).expect_err("type");
    assert!(matches!(error, ModelError::InputType { .. }), "{error}");
    let error = run(&graph, &[("x", &x)]).expect_err("missing");
    assert!(matches!(error, ModelError::InputMissing { .. }), "{error}");
    let error = run(&graph, &[("x", &x), ("x", &x)]).expect_err("twice");
    assert!(matches!(error, ModelError::InputTwice { .. }), "{error}");
    let error = run(&graph, &[("y", &x)]).expect_err("unknown");
    assert!(matches!(error, ModelError::InputUnknown { .. }), "{error}");
    let ValueId(rows) = graph.outputs[0];
    graph.values[rows].shape = Some(vec![Dim::Symbol("n".to_owned()), Dim::Known(3)]);
    let error = run(&graph, &[("x", &x), ("scores", &scores)]).expect_err("declared");
    let text = error.to_string();
    assert!(
        text.contains("output `rows` is declared f32 [n, 3], the graph makes it f32 [1, 4, 2]"),
        "{text}"
    );
}
