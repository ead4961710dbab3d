//! Control flow that only a run decides: bodies in the plan, steps that say which one is next.

use std::sync::Arc;
use std::time::{Duration, Instant};

use spark_onnx::graph::{
    Binary, BodyId, Dim, Graph, If, Loop, MatMul, Node, Op, Reduce, ReduceKind, Scan, ScanAxis,
    Unary, Value, ValueId, bind,
};
use spark_onnx::{
    DType, Model, ModelError, Precision, RunOptions, Tensor, TensorData, TensorViewMut, reference,
};

fn floats(values: &[f32]) -> Tensor {
    Tensor::from_f32([values.len()], values.to_vec()).expect("a list")
}

fn int_scalar(value: i64) -> Tensor {
    Tensor::from_i64([], vec![value]).expect("a scalar")
}

/// A value of which nothing is declared.
fn value(graph: &mut Graph, name: &str) -> ValueId {
    graph.add_value(Value {
        name: name.to_owned(),
        dtype: None,
        shape: None,
        constant: None,
    })
}

/// A body with inputs of these names.
pub(super) fn body<const N: usize>(names: [&str; N]) -> (Graph, [ValueId; N]) {
    let mut graph = Graph::default();
    let ids = names.map(|name| {
        let id = value(&mut graph, name);
        graph.inputs.push(id);
        id
    });
    (graph, ids)
}

fn binary(graph: &mut Graph, name: &str, op: Binary, a: ValueId, b: ValueId) -> ValueId {
    graph.add_node(name, Op::Binary(op), &[Some(a), Some(b)])
}

/// Adds a node with `n` results and makes them the graph's.
pub(super) fn results(
    graph: &mut Graph,
    op: impl Into<Op>,
    operands: &[Option<ValueId>],
    n: usize,
) {
    let outputs: Vec<_> = (0..n)
        .map(|i| Some(value(graph, &format!("y{i}"))))
        .collect();
    graph.outputs = outputs.iter().copied().flatten().collect();
    graph.nodes.push(Node {
        name: "node".to_owned(),
        op: op.into(),
        inputs: operands.to_vec(),
        outputs,
    });
}

pub(super) fn options() -> RunOptions {
    RunOptions::new().with_threads(1)
}

/// Both ways of running it give the same, for each of these inputs.
#[track_caller]
fn agree(graph: &Graph, runs: &[Vec<(&str, &Tensor)>]) -> Vec<Vec<Tensor>> {
    let bound = bind(graph, &[]).unwrap_or_else(|e| panic!("{e}"));
    let model = Model::from_graph(graph.clone(), &options()).unwrap_or_else(|e| panic!("{e}"));
    let mut session = model.session();
    let each = runs.iter().map(|inputs| {
        let want = reference::run(&bound, inputs).unwrap_or_else(|e| panic!("{e}"));
        let got = session.run(inputs).unwrap_or_else(|e| panic!("{e}"));
        for ((name, want), (_, got)) in want.iter().zip(&got) {
            assert_eq!(want.shape(), got.shape(), "{name}");
            let pairs = want.to_f64().into_iter().zip(got.to_f64());
            for (want, got) in pairs {
                let error = (want - got).abs();
                assert!(
                    error <= 1e-5 * want.abs().max(1.0),
                    "{name}: {got}, not {want}"
                );
            }
        }
        got.into_iter().map(|(_, tensor)| tensor).collect()
    });
    let outputs = each.collect();
    assert_eq!(model.memory().plans, 1);
    outputs
}

/// `max(x) > 0 ? x W : x - 1`, with the weights in the branch or outside of it.
fn choosing(weights_outside: bool) -> Graph {
    let mut graph = Graph::default();
    let x = graph.add_input("x", DType::F32, vec![Dim::Known(2), Dim::Known(2)]);
    let largest = Reduce {
        kind: ReduceKind::Max,
        keep_dims: false,
        noop_with_empty_axes: false,
    };
    let largest = graph.add_node("largest", Op::Reduce(largest), &[Some(x)]);
    let zero = graph.add_constant("zero", Tensor::from_f32([], vec![0.0]).expect("a scalar"));
    let c = binary(&mut graph, "c", Binary::Greater, largest, zero);
    let weights = Tensor::from_f32([2, 2], vec![1.0, 2.0, 3.0, 4.0]).expect("fits");
    let (mut then_branch, [a, w]) = body(["a", "w"]);
    let inner = then_branch.add_constant("inner", weights.clone());
    let w = if weights_outside { w } else { inner };
    let y = then_branch.add_node("product", Op::MatMul(MatMul), &[Some(a), Some(w)]);
    then_branch.outputs = vec![y];
    let (mut else_branch, [a, _]) = body(["a", "w"]);
    let one = else_branch.add_constant("one", floats(&[1.0]));
    let y = binary(&mut else_branch, "less", Binary::Sub, a, one);
    else_branch.outputs = vec![y];
    graph.bodies = vec![Arc::new(then_branch), Arc::new(else_branch)];
    let w = graph.add_constant("w", weights);
    let op = If {
        then_branch: BodyId(0),
        else_branch: BodyId(1),
    };
    results(&mut graph, op, &[Some(c), Some(x), Some(w)], 1);
    graph
}

#[test]
fn a_branch_is_chosen_by_what_a_run_computes() {
    for weights_outside in [false, true] {
        let graph = choosing(weights_outside);
        let [up, down] = [1.0, -1.0].map(|v| Tensor::from_f32([2, 2], vec![v; 4]).expect("fits"));
        let runs = [&up, &down, &up].map(|x| vec![("x", x)]);
        let outputs = agree(&graph, &runs);
        assert_eq!(outputs[0][0].to_f32(), [4.0, 6.0, 4.0, 6.0]);
        assert_eq!(outputs[1][0].to_f32(), [-2.0; 4]);
        assert_eq!(outputs[2], outputs[0]);
        // Into memory of the caller's as well, whichever branch it is.
        let model = Model::from_graph(graph, &options()).expect("ready");
        let mut session = model.session();
        for (x, want) in [(&down, [-2.0; 4]), (&up, [4.0, 6.0, 4.0, 6.0])] {
            let mut y = [7.0f32; 4];
            let view = TensorViewMut::new(&mut y[..], &[2, 2]).expect("fits");
            session
                .run_into(&[("x", x.into())], &mut [("y0", view)])
                .expect("runs");
            assert_eq!(y, want);
        }
    }
}

#[test]
fn narrow_formats_compute_branches_too() {
    let x = Tensor::from_f32([2, 2], vec![1.0, -0.5, 0.25, 2.0]).expect("fits");
    let run = |precision, threads| {
        let options = RunOptions::new()
            .with_threads(threads)
            .with_precision(precision);
        let model = Model::from_graph(choosing(true), &options).expect("ready");
        model.session().run(&[("x", &x)]).expect("runs")[0]
            .1
            .to_f32()
    };
    let want = run(Precision::Fp32, 1);
    assert_eq!(run(Precision::Fp32, 3), want);
    for precision in [Precision::Bf16, Precision::Fp16] {
        for (got, want) in run(precision, 1).into_iter().zip(&want) {
            assert!(
                (got - want).abs() <= 0.02 * want.abs().max(1.0),
                "{precision}: {got}"
            );
        }
    }
}

/// `while (before[0] < 100) (a, b) = (b, a + b)`, the condition carried as a value too.
#[test]
fn carried_values_change_places() {
    let mut graph = Graph::default();
    let a = graph.add_input("a", DType::F32, vec![Dim::Known(1)]);
    let b = graph.add_input("b", DType::F32, vec![Dim::Known(1)]);
    let (mut inner, [_, _, a_in, b_in, before]) = body(["i", "goes_on", "a", "b", "before"]);
    let sum = binary(&mut inner, "sum", Binary::Add, a_in, b_in);
    let limit = inner.add_constant("limit", floats(&[100.0]));
    let still = binary(&mut inner, "still", Binary::Less, sum, limit);
    // It goes on by what was carried, so one iteration longer than the sum says.
    inner.outputs = vec![before, b_in, sum, still];
    graph.bodies = vec![Arc::new(inner)];
    let op = Loop {
        body: BodyId(0),
        carried: 3,
    };
    let start = graph.add_constant(
        "start",
        Tensor::new(vec![1], TensorData::Bool(vec![true])).expect("one"),
    );
    results(
        &mut graph,
        op,
        &[None, None, Some(a), Some(b), Some(start)],
        3,
    );
    let (one, many) = (floats(&[1.0]), floats(&[90.0]));
    let runs = [
        vec![("a", &one), ("b", &one)],
        vec![("a", &one), ("b", &many)],
    ];
    let outputs = agree(&graph, &runs);
    // 1 1 2 3 5 8 13 21 34 55 89 144, then once more.
    assert_eq!(outputs[0][1].to_f32(), [233.0]);
    assert_eq!(outputs[1][1].to_f32(), [272.0]);
}

/// `n` times `x = tanh(x) + w`, in as many iterations as no plan would spell out.
fn long_loop(count: Option<i64>) -> Graph {
    let mut graph = Graph::default();
    let x = graph.add_input("x", DType::F32, vec![Dim::Known(3)]);
    let w = graph.add_input("w", DType::F32, vec![Dim::Known(3)]);
    let (mut inner, [_, goes_on, before, w_in]) = body(["i", "goes_on", "before", "w"]);
    let narrow = inner.add_node("narrow", Op::Unary(Unary::Tanh), &[Some(before)]);
    let after = binary(&mut inner, "after", Binary::Add, narrow, w_in);
    inner.outputs = vec![goes_on, after];
    graph.bodies = vec![Arc::new(inner)];
    let count = count.map(|count| graph.add_constant("count", int_scalar(count)));
    let op = Loop {
        body: BodyId(0),
        carried: 1,
    };
    results(&mut graph, op, &[count, None, Some(x), Some(w)], 1);
    graph
}

#[test]
fn many_iterations_run_in_the_memory_of_one() {
    let (x, w) = (floats(&[0.5, -0.5, 0.0]), floats(&[0.1, 0.2, -0.3]));
    let graph = long_loop(Some(20_000));
    let outputs = agree(&graph, &[vec![("x", &x), ("w", &w)]]);
    assert!(outputs[0][0].to_f32()[0] > 0.1);
    let model = Model::from_graph(graph, &options()).expect("ready");
    let mut session = model.session();
    session.run(&[("x", &x), ("w", &w)]).expect("runs");
    assert!(session.steps().len() < 12, "{}", session.steps().len());
    let bytes = model.memory().session_bytes;
    assert!(bytes < 64 << 10, "{bytes}");
}

#[test]
fn a_loop_without_an_end_is_ended() {
    let (x, w) = (floats(&[0.0; 3]), floats(&[0.0; 3]));
    let model = Model::from_graph(long_loop(None), &options()).expect("ready");
    let mut session = model.session();
    let inputs = [("x", &x), ("w", &w)];
    let error = session.run(&inputs).expect_err("for ever").to_string();
    assert!(error.contains("more than 1048576 iterations"), "{error}");
    let canceller = session.canceller();
    let begin = Instant::now();
    let error = std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(20));
            canceller.cancel();
        });
        session.run(&inputs).expect_err("ended")
    });
    let took = begin.elapsed();
    assert!(
        matches!(error, ModelError::Cancelled) || took < Duration::from_millis(20),
        "{error} after {took:?}"
    );
}

#[test]
fn a_long_scan_stacks_what_it_makes() {
    const COLUMNS: usize = 9000;
    for (from, to) in [(false, false), (true, false), (false, true), (true, true)] {
        let mut graph = Graph::default();
        let start = graph.add_input("start", DType::F32, vec![Dim::Known(2)]);
        let x = graph.add_input("x", DType::F32, vec![Dim::Known(2), Dim::Known(COLUMNS)]);
        let (mut inner, [before, column]) = body(["before", "column"]);
        let after = binary(&mut inner, "after", Binary::Add, before, column);
        inner.outputs = vec![after, before];
        graph.bodies = vec![Arc::new(inner)];
        let axis = |is_reversed| ScanAxis {
            axis: 1,
            is_reversed,
        };
        let op = Scan {
            body: BodyId(0),
            carried: 1,
            inputs: vec![axis(from)],
            outputs: vec![axis(to)],
        };
        results(&mut graph, op, &[Some(start), Some(x)], 2);
        let zero = floats(&[0.0, 0.5]);
        let values: Vec<f32> = (0..2 * COLUMNS).map(|i| (i % COLUMNS % 7) as f32).collect();
        let x = Tensor::from_f32([2, COLUMNS], values.clone()).expect("fits");
        let outputs = agree(&graph, &[vec![("start", &zero), ("x", &x)]]);
        let stacked = outputs[0][1].to_f32();
        let at = |i: usize, reversed: bool| if reversed { COLUMNS - 1 - i } else { i };
        let mut sum = 0.0;
        for i in 0..COLUMNS {
            assert_eq!(stacked[at(i, to)], sum);
            sum += values[at(i, from)];
        }
        assert_eq!(outputs[0][0].to_f32(), [sum, sum + 0.5]);
    }
}

#[test]
fn what_has_no_fixed_shape_is_refused_with_its_reason() {
    let refused = |graph: &Graph, wanted: &str| {
        let error = bind(graph, &[]).expect_err("refused").to_string();
        assert!(error.contains(wanted), "`{error}` lacks `{wanted}`");
    };
    // Branches that make different shapes.
    let mut graph = choosing(true);
    let mut other = Graph::clone(&graph.bodies[1]);
    other.outputs = vec![other.inputs[1]];
    other.nodes.clear();
    let row = other.add_constant("row", floats(&[1.0, 2.0]));
    other.outputs = vec![row];
    graph.bodies[1] = Arc::new(other);
    refused(&graph, "f32 [2, 2] of one branch, f32 [2] of the other");
    // A carried value that grows.
    let unknown = || {
        let mut graph = long_loop(None);
        let n = graph.add_input("n", DType::I64, vec![]);
        graph.nodes[0].inputs[0] = Some(n);
        graph
    };
    let mut graph = unknown();
    let (mut inner, [_, goes_on, before, _]) = body(["i", "goes_on", "before", "w"]);
    let axis = spark_onnx::graph::Concat { axis: 0 };
    let longer = inner.add_node("longer", axis.into(), &[Some(before), Some(before)]);
    inner.outputs = vec![goes_on, longer];
    graph.bodies = vec![Arc::new(inner)];
    refused(&graph, "carried value 0 is f32 [3], then f32 [6]");
    // Slices of a number that a run decides.
    let mut graph = unknown();
    let mut inner = Graph::clone(&graph.bodies[0]);
    inner.outputs.push(inner.inputs[2]);
    graph.bodies = vec![Arc::new(inner)];
    refused(&graph, "how many slices it stacks is not known");
    // More slices than memory.
    let mut graph = long_loop(Some(1 << 45));
    let mut inner = Graph::clone(&graph.bodies[0]);
    inner.outputs.push(inner.inputs[2]);
    graph.bodies = vec![Arc::new(inner)];
    let y = value(&mut graph, "stacked");
    graph.nodes[0].outputs.push(Some(y));
    refused(&graph, "elements");
}

#[test]
fn the_budget_of_memory_holds_within_bodies() {
    // A branch with a value of 400 MB in between.
    let mut graph = choosing(true);
    let (mut then_branch, [a, _]) = body(["a", "w"]);
    let shape = then_branch.add_constant(
        "shape",
        Tensor::from_i64([3], vec![25_000_000, 2, 2]).expect("a list"),
    );
    let wide = then_branch.add_node(
        "wide",
        Op::Expand(spark_onnx::graph::Expand),
        &[Some(a), Some(shape)],
    );
    let exp = then_branch.add_node("exp", Op::Unary(Unary::Exp), &[Some(wide)]);
    let axes = then_branch.add_constant("axes", Tensor::from_i64([1], vec![0]).expect("a list"));
    let sum = Reduce {
        kind: ReduceKind::Max,
        keep_dims: false,
        noop_with_empty_axes: false,
    };
    let y = then_branch.add_node("y", Op::Reduce(sum), &[Some(exp), Some(axes)]);
    then_branch.outputs = vec![y];
    graph.bodies[0] = Arc::new(then_branch);
    let options = options().with_memory_budget(100 << 20);
    let error = Model::from_graph(graph.clone(), &options).expect_err("over the budget");
    assert!(matches!(error, ModelError::OverBudget { .. }), "{error}");
    let bound = spark_onnx::graph::bind_within(&graph, &[], 100 << 20).expect("types alone");
    let x = Tensor::from_f32([2, 2], vec![1.0; 4]).expect("fits");
    let error = reference::run(&bound, &[("x", &x)]).expect_err("over the budget");
    assert!(matches!(error, ModelError::OverBudget { .. }), "{error}");
    let down = Tensor::from_f32([2, 2], vec![-1.0; 4]).expect("fits");
    reference::run(&bound, &[("x", &down)]).expect("the other branch is small");
}

#[test]
fn a_condition_that_holds_before_the_first_iteration_alone() {
    // Neither count nor condition is known; no iteration leaves what was carried as it was.
    let mut graph = Graph::default();
    let x = graph.add_input("x", DType::F32, vec![Dim::Known(1)]);
    let half = graph.add_constant("half", floats(&[0.5]));
    let c = binary(&mut graph, "c", Binary::Less, x, half);
    let (mut inner, [_, _, before]) = body(["i", "goes_on", "before"]);
    let after = binary(&mut inner, "after", Binary::Add, before, before);
    let half = inner.add_constant("half", floats(&[0.5]));
    let still = binary(&mut inner, "still", Binary::Less, after, half);
    inner.outputs = vec![still, after];
    graph.bodies = vec![Arc::new(inner)];
    let op = Loop {
        body: BodyId(0),
        carried: 1,
    };
    results(&mut graph, op, &[None, Some(c), Some(x)], 1);
    let [none, one, many] = [0.75, 0.25, 0.01].map(|v| floats(&[v]));
    let outputs = agree(
        &graph,
        &[vec![("x", &none)], vec![("x", &one)], vec![("x", &many)]],
    );
    let values: Vec<f32> = outputs.iter().map(|o| o[0].to_f32()[0]).collect();
    assert_eq!(values[..2], [0.75, 0.5]);
    assert!((values[2] - 0.64).abs() < 1e-6, "{}", values[2]);
}

/// Graphs of which each has the next one in both branches: 31 of them, and 2^31 ways down.
#[test]
fn bodies_that_share_bodies_are_not_walked_again_and_again() {
    let (mut innermost, [_, a]) = body(["c", "a"]);
    innermost.outputs = vec![a];
    let mut shared = Arc::new(innermost);
    for level in 0..30 {
        let (mut graph, [c, a]) = body(["c", "a"]);
        graph.bodies = vec![Arc::clone(&shared), shared];
        let op = If {
            then_branch: BodyId(0),
            else_branch: BodyId(1),
        };
        results(&mut graph, op, &[Some(c), Some(c), Some(a)], 1);
        graph.name = format!("{level}");
        shared = Arc::new(graph);
    }
    let begin = Instant::now();
    // Known before it runs, the condition leaves one way.
    let mut known = Graph::clone(&shared);
    for (at, dtype) in [(0, DType::Bool), (1, DType::F32)] {
        known.values[at].dtype = Some(dtype);
        known.values[at].shape = Some(Vec::new());
    }
    let model = Model::from_graph(known, &options()).expect("ready");
    let c = Tensor::new(vec![], TensorData::Bool(vec![true])).expect("a scalar");
    let a = Tensor::from_f32([], vec![7.0]).expect("a scalar");
    let results_of = model.session().run(&[("c", &c), ("a", &a)]).expect("runs");
    assert_eq!(results_of[0].1, a);
    // Computed, it leaves all of them.
    let mut computed = Graph::default();
    let a = computed.add_input("a", DType::F32, vec![]);
    let zero = computed.add_constant("zero", Tensor::from_f32([], vec![0.0]).expect("a scalar"));
    let c = binary(&mut computed, "c", Binary::Greater, a, zero);
    computed.bodies = vec![Arc::clone(&shared), shared];
    let op = If {
        then_branch: BodyId(0),
        else_branch: BodyId(1),
    };
    results(&mut computed, op, &[Some(c), Some(c), Some(a)], 1);
    let error = Model::from_graph(computed, &options()).expect_err("too many ways");
    assert!(error.to_string().contains("bytes"), "{error}");
    let took = begin.elapsed();
    assert!(took < Duration::from_secs(20), "{took:?}");
}
