//! Operators of an embedder's own whose results are as long as values say, that say how long others are, or stand behind such.
//!
//! The oracle is the reference, which runs the whole network as it is (`reference::run_unbound`).

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use spark_onnx::file::{self, OperatorRegistry};
use spark_onnx::graph::{
    BodyId, Concat, CustomAttributes, CustomOperator, Dim, Expand, Gather, Graph, If, Loop, MatMul,
    Op, Operand, OperatorError, Reshape, TensorType, Unary, ValueId,
};
use spark_onnx::precision::INTERPRETED;
use spark_onnx::{DType, Model, ModelError, Tensor, TensorData, TensorView, TensorViewMut};
use spark_onnx_graph::reference::run_unbound;

use super::control_flow::{body, results};
use super::custom_operators::{Reverse, custom, drawn, fixed, function, options};

/// The positions of the elements above zero; fails on 100, panics on NaN.
struct Above {
    /// Whether it says that its length hangs on values.
    says_so: bool,
}

impl CustomOperator for Above {
    fn infer(
        &self,
        operands: &[Option<Operand<'_>>],
        _: usize,
    ) -> Result<Vec<TensorType>, OperatorError> {
        let x = operands.first().copied().flatten().ok_or("no operand")?;
        let x = x.constant.ok_or("its length hangs on values")?.to_f32();
        Ok(vec![TensorType {
            dtype: DType::I64,
            shape: vec![x.iter().filter(|&&x| x > 0.0).count()],
        }])
    }

    fn run(
        &self,
        operands: &[Option<TensorView<'_>>],
        results: &mut [Option<TensorViewMut<'_>>],
    ) -> Result<(), OperatorError> {
        let ([Some(x)], [Some(y)]) = (operands, results) else {
            return Err("one operand, one result".into());
        };
        let (x, y) = (
            x.as_slice::<f32>().ok_or("f32")?,
            y.as_slice_mut::<i64>().ok_or("i64")?,
        );
        assert!(x.iter().all(|x| !x.is_nan()), "a NaN");
        if x.contains(&100.0) {
            return Err("100 is too much".into());
        }
        let above = (0..).zip(x).filter(|(_, x)| **x > 0.0);
        y.iter_mut().zip(above).for_each(|(y, (at, _))| *y = at);
        Ok(())
    }

    fn deciding_operands(&self) -> &[usize] {
        match self.says_so {
            true => &[0],
            false => &[],
        }
    }
}

/// An i64 list as long as the operand, of its elements and one.
fn next() -> Op {
    function("Next", |operands, results| {
        let x = operands[0].as_ref().and_then(|x| x.as_slice::<i64>());
        let y = results[0].as_mut().and_then(|y| y.as_slice_mut::<i64>());
        let (Some(x), Some(y)) = (x, y) else {
            return Err("i64".into());
        };
        y.iter_mut().zip(x).for_each(|(y, x)| *y = x + 1);
        Ok(())
    })
}

fn list(values: &[i64]) -> Tensor {
    Tensor::from_i64([values.len()], values.to_vec()).expect("a list")
}

/// Rows of `x @ w` whose scores are above zero, reversed as a whole, times `v`, reversed again.
fn rows_above(says_so: bool) -> Graph {
    let mut graph = Graph::default();
    let x = graph.add_input("x", DType::F32, fixed(&[9, 4]));
    let scores = graph.add_input("scores", DType::F32, fixed(&[9, 1]));
    let w = graph.add_constant("w", drawn(1, &[4, 6]));
    let product = graph.add_node("product", Op::MatMul(MatMul), &[Some(x), Some(w)]);
    let negated = graph.add_node("negated", Op::Unary(Unary::Neg), &[Some(scores)]);
    let above = custom("Above", Above { says_so });
    let at = graph.add_node("at", above, &[Some(negated)]);
    let gather = Op::Gather(Gather { axis: 0 });
    let rows = graph.add_node("rows", gather, &[Some(product), Some(at)]);
    let reversed = graph.add_node("reversed", custom("Reverse", Reverse), &[Some(rows)]);
    let v = graph.add_constant("v", drawn(2, &[6, 3]));
    let planned = graph.add_node("planned", Op::MatMul(MatMul), &[Some(reversed), Some(v)]);
    let y = graph.add_node("y", custom("Reverse", Reverse), &[Some(planned)]);
    // A file has them; what an operator of one's own makes, only a run knows.
    graph.values[y.0].dtype = Some(DType::F32);
    graph.values[at.0].dtype = Some(DType::I64);
    graph.outputs = vec![y, at];
    graph
}

/// Scores of which `n` are below zero.
fn scores(n: usize) -> Tensor {
    let values = (0..9).map(|i| if (i * 4) % 9 < n { -1.0 } else { 0.5 });
    Tensor::from_f32([9, 1], values.collect()).expect("nine")
}

#[track_caller]
fn check_close(got: &[(String, Tensor)], want: &[(String, Tensor)]) {
    assert_eq!(got.len(), want.len());
    for ((name, got), (_, want)) in got.iter().zip(want) {
        assert_eq!((got.dtype(), got.shape()), (want.dtype(), want.shape()));
        let (got, want) = (got.to_f32(), want.to_f32());
        let mut pairs = got.iter().zip(&want);
        let is_close = pairs.all(|(a, b)| (a - b).abs() <= 1e-5 + 1e-5 * b.abs());
        assert!(is_close, "{name}: {got:?}, {want:?}");
    }
}

#[test]
fn its_length_hangs_on_values_and_others_stand_behind_it() {
    let graph = rows_above(true);
    let model = Model::from_graph(graph.clone(), &options()).expect("cut");
    let mut session = model.session();
    let x = drawn(3, &[9, 4]);
    for n in [4, 0, 9, 1, 4] {
        let scores = scores(n);
        let given = [("x", &x), ("scores", &scores)];
        let got = session.run(&given).expect("runs");
        assert_eq!((got[0].1.shape(), got[1].1.len()), (&[n, 3][..], n));
        check_close(&got, &run_unbound(&graph, &given, 1 << 20).expect("runs"));
    }
    let steps = session.profile(&[("x", &x), ("scores", &scores(4))], 2);
    let steps = steps.expect("runs");
    let own: Vec<(&str, &str, bool)> = steps
        .iter()
        .filter(|step| step.kind == "custom")
        .map(|step| {
            let operator = step.detail.split(',').next().unwrap_or_default();
            (step.name.as_str(), operator, step.reason == INTERPRETED)
        })
        .collect();
    let wanted = [
        ("at", "com.example::Above", true),
        ("reversed", "com.example::Reverse", true),
        ("y", "com.example::Reverse", false),
    ];
    assert_eq!(own, wanted);
    assert!(steps.iter().all(|step| step.mean.is_some()));
}

#[test]
fn one_that_does_not_say_so_is_refused_with_its_reason() {
    let Err(error) = Model::from_graph(rows_above(false), &options()) else {
        panic!("planned, of an unknown length");
    };
    let ModelError::Operator { node, op, reason } = error else {
        panic!("{error}");
    };
    assert_eq!((&node[..], &op[..]), ("at", "com.example::Above"));
    assert_eq!(reason, "its length hangs on values");
}

#[test]
fn an_error_names_the_node_and_a_panic_passes_through_and_nothing_stays_taken() {
    let graph = rows_above(true);
    let model = Model::from_graph(graph, &options()).expect("cut");
    let mut session = model.session();
    let x = drawn(3, &[9, 4]);
    let with = |value: f32| {
        let mut values = scores(4).to_f32();
        values[0] = value;
        Tensor::from_f32([9, 1], values).expect("nine")
    };
    let given = [("x", &x), ("scores", &scores(4))];
    let want = session.run(&given).expect("runs");
    let held = model.memory();
    for _ in 0..3 {
        let error = session.run(&[("x", &x), ("scores", &with(-100.0))]);
        let error = error.expect_err("too much");
        assert!(matches!(error, ModelError::Custom { .. }), "{error}");
        let said = "node `at` (com.example::Above): 100 is too much";
        assert_eq!(error.to_string(), said);
    }
    let bad = with(f32::NAN);
    let ran = catch_unwind(AssertUnwindSafe(|| {
        session.run(&[("x", &x), ("scores", &bad)])
    }));
    let payload = ran.expect_err("it panics");
    assert_eq!(payload.downcast_ref::<&str>().copied(), Some("a NaN"));
    assert_eq!(session.run(&given).expect("runs"), want);
    assert_eq!(model.memory(), held);
}

#[test]
fn it_runs_through_a_file() {
    let mut registry = OperatorRegistry::new();
    let register = |registry: &mut OperatorRegistry| {
        registry.register("com.example", "Above", |_: &CustomAttributes| {
            Ok(Above { says_so: true })
        })?;
        registry.register("com.example", "Reverse", |_: &CustomAttributes| Ok(Reverse))
    };
    register(&mut registry).expect("they are new");
    let graph = rows_above(true);
    let bytes = file::to_bytes(&graph).expect("written");
    let options = options().with_operators(registry);
    let model = Model::from_bytes(&bytes, &options).expect("read");
    let (x, scores) = (drawn(3, &[9, 4]), scores(5));
    let given = [("x", &x), ("scores", &scores)];
    let got = model.session().run(&given).expect("runs");
    check_close(&got, &run_unbound(&graph, &given, 1 << 20).expect("runs"));
}

/// What `model` and the reference give for `inputs`.
#[track_caller]
fn both(graph: Graph, inputs: &[(&str, &Tensor)]) -> Vec<(String, Tensor)> {
    let want = run_unbound(&graph, inputs, 1 << 20).unwrap_or_else(|error| panic!("{error}"));
    let model = Model::from_graph(graph, &options()).unwrap_or_else(|error| panic!("{error}"));
    let got = model.session().run(inputs);
    let got = got.unwrap_or_else(|error| panic!("{error}"));
    check_close(&got, &want);
    got
}

fn expanded(graph: &mut Graph, shape: ValueId) -> ValueId {
    let one = Tensor::from_f32([1], vec![0.5]).expect("one");
    let one = graph.add_constant("half", one);
    graph.add_node("expanded", Op::Expand(Expand), &[Some(one), Some(shape)])
}

#[test]
fn what_it_makes_says_how_long_others_are_though_nothing_folds_it() {
    // Of a constant.
    let mut graph = Graph::default();
    let sizes = graph.add_constant("sizes", list(&[1, 2]));
    let more = graph.add_node("more", next(), &[Some(sizes)]);
    let y = expanded(&mut graph, more);
    graph.outputs.push(y);
    assert_eq!(both(graph, &[])[0].1.shape(), [2, 3]);

    // Of an input that decides a shape itself, too.
    let mut graph = Graph::default();
    let x = graph.add_input("x", DType::F32, fixed(&[6]));
    let sizes = graph.add_input("sizes", DType::I64, fixed(&[1]));
    let reshape = Op::Reshape(Reshape { allow_zero: false });
    let as_it_is = graph.add_node("as_it_is", reshape, &[Some(x), Some(sizes)]);
    let more = graph.add_node("more", next(), &[Some(sizes)]);
    let y = expanded(&mut graph, more);
    graph.outputs = vec![y, as_it_is];
    let x = drawn(1, &[6]);
    let got = both(graph, &[("x", &x), ("sizes", &list(&[6]))]);
    assert_eq!((got[0].1.shape(), got[1].1.shape()), (&[7][..], &[6][..]));
}

#[test]
fn in_bodies_of_control_flow_it_says_how_long_others_are() {
    // A branch, of a constant; only one of them has any.
    for taken in [true, false] {
        let mut graph = Graph::default();
        let condition = graph.add_input("condition", DType::Bool, vec![Dim::Known(1)]);
        let (mut then, []) = body([]);
        let sizes = then.add_constant("sizes", list(&[2]));
        let more = then.add_node("more", next(), &[Some(sizes)]);
        let made = expanded(&mut then, more);
        then.outputs.push(made);
        let (mut other, []) = body([]);
        let four = other.add_constant("four", drawn(1, &[4]));
        other.outputs.push(four);
        graph.bodies = vec![Arc::new(then), Arc::new(other)];
        let op = If {
            then_branch: BodyId(0),
            else_branch: BodyId(1),
        };
        results(&mut graph, op, &[Some(condition)], 1);
        let condition = Tensor::new(vec![1], TensorData::Bool(vec![taken])).expect("one");
        let got = both(graph, &[("condition", &condition)]);
        assert_eq!(got[0].1.shape(), [if taken { 3 } else { 4 }]);
    }
    // A loop, of the number of the iteration: the sum of what is as long.
    let mut graph = Graph::default();
    let x = graph.add_input("x", DType::F32, fixed(&[1]));
    let count = graph.add_constant("count", Tensor::from_i64([], vec![3]).expect("one"));
    let (mut inner, [number, go_on, sum]) = body(["number", "go_on", "sum"]);
    let flat = inner.add_constant("flat", list(&[1]));
    let reshape = Op::Reshape(Reshape { allow_zero: false });
    let number = inner.add_node("length", reshape, &[Some(number), Some(flat)]);
    let more = inner.add_node("more", next(), &[Some(number)]);
    let halves = expanded(&mut inner, more);
    let all = Concat { axis: 0 };
    let sum = inner.add_node("all", Op::Concat(all), &[Some(sum), Some(halves)]);
    inner.outputs = vec![go_on, sum];
    graph.bodies = vec![Arc::new(inner)];
    let op = Loop {
        body: BodyId(0),
        carried: 1,
    };
    results(&mut graph, op, &[Some(count), None, Some(x)], 1);
    let x = drawn(1, &[1]);
    let got = both(graph, &[("x", &x)]);
    assert_eq!(got[0].1.shape(), [1 + 1 + 2 + 3]);
}
