//! Networks whose lengths hang on values that they compute: head by plan, what stands behind in stages.
//!
//! The oracle is the reference, which runs the whole network as it is (`reference::run_unbound`).

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use spark_onnx::graph::{
    Binary, BodyId, Cast, Conv, Dim, Expand, Gather, Graph, Loop, MatMul, NonMaxSuppression,
    NonZero, Op, Padding, Pool, PoolKind, Reshape, Shape, Squeeze, Unary, Value, ValueId,
};
use spark_onnx::precision::INTERPRETED;
use spark_onnx::{
    DType, Model, ModelError, ModelRunner, Precision, RunOptions, Session, SharedPool, Tensor,
    TensorView, TensorViewMut, file,
};
use spark_onnx_graph::reference::run_unbound;
use spark_onnx_graph::samples::DamagedFiles;
use spark_testing::numbers;

fn list(values: &[i64]) -> Tensor {
    Tensor::from_i64([values.len()], values.to_vec()).expect("a list")
}

fn drawn(seed: u64, shape: &[usize]) -> Tensor {
    let n = shape.iter().product();
    Tensor::from_f32(shape, numbers(n, seed)).expect("fits")
}

fn options() -> RunOptions {
    RunOptions::new()
        .with_precision(Precision::Fp32)
        .with_threads(1)
}

/// Logits by a product, and the positions of those above zero.
fn positive_logits() -> Graph {
    let mut graph = Graph::default();
    let x = graph.add_input("x", DType::F32, vec![Dim::Known(1), Dim::Known(2)]);
    let w = Tensor::from_f32([2, 4], vec![1.0, -1.0, 2.0, 0.0, 0.0, 1.0, -3.0, 1.0]);
    let w = graph.add_constant("w", w.expect("a matrix"));
    let logits = graph.add_node("logits", Op::MatMul(MatMul), &[Some(x), Some(w)]);
    let positive = graph.add_node("positive", Op::Unary(Unary::Relu), &[Some(logits)]);
    let at = graph.add_node("at", Op::NonZero(NonZero), &[Some(positive)]);
    let row = graph.add_constant("row", list(&[1]));
    let row = graph.add_node(
        "column",
        Op::Gather(Gather { axis: 0 }),
        &[Some(at), Some(row)],
    );
    let zero = graph.add_constant("zero", list(&[0]));
    let found = graph.add_node("found", Op::Squeeze(Squeeze), &[Some(row), Some(zero)]);
    graph.outputs = vec![found, logits];
    graph
}

/// Rows that give none, one and more positive logits, with the positions.
const ROWS: [([f32; 2], &[i64]); 4] = [
    ([1.0, 0.0], &[0, 2]),
    ([0.0, 1.0], &[1, 3]),
    ([-1.0, -1.0], &[2]),
    ([0.0, 0.0], &[]),
];

fn row(x: [f32; 2]) -> Tensor {
    Tensor::from_f32([1, 2], x.to_vec()).expect("a row")
}

/// A detector of two stages, as those with regions of interest are: boxes and scores of a picture by a convolution; those that
/// a suppression keeps; of each a product of a hundred numbers, and the rows of it that begin above zero.
fn two_stages(n: Dim) -> Graph {
    let mut graph = Graph::default();
    let x = graph.add_input(
        "x",
        DType::F32,
        vec![n, Dim::Known(4), Dim::Known(6), Dim::Known(6)],
    );
    let w = graph.add_constant("conv.w", drawn(1, &[105, 4, 3, 3]));
    let conv = Op::Conv(Conv {
        strides: vec![],
        dilations: vec![],
        padding: Padding::Explicit(vec![1; 4]),
        groups: 1,
    });
    let maps = graph.add_node("maps", conv, &[Some(x), Some(w)]);
    let flat = graph.add_constant("flat", list(&[0, 105, -1]));
    let reshape = Op::Reshape(Reshape { allow_zero: false });
    let cells = graph.add_node("cells", reshape.clone(), &[Some(maps), Some(flat)]);
    let part = |graph: &mut Graph, name: &str, from: i64, to: i64, axis: i64| {
        let numbers: Vec<i64> = (from..to).collect();
        let at = graph.add_constant(format!("{name}.at"), list(&numbers));
        graph.add_node(name, Op::Gather(Gather { axis }), &[Some(cells), Some(at)])
    };
    let scores = part(&mut graph, "scores", 0, 1, 1);
    let corners = part(&mut graph, "corners", 1, 5, 1);
    let turn = spark_onnx::graph::Transpose {
        perm: Some(vec![0, 2, 1]),
    };
    let boxes = graph.add_node("boxes", Op::Transpose(turn.clone()), &[Some(corners)]);
    let most = graph.add_constant("most", Tensor::from_i64([], vec![7]).expect("one"));
    let limit = |value| Tensor::from_f32([], vec![value]).expect("one");
    let overlap = graph.add_constant("overlap", limit(0.3));
    let least = graph.add_constant("least", limit(0.6));
    let suppression = Op::NonMaxSuppression(NonMaxSuppression { is_centred: false });
    let operands = [boxes, scores, most, overlap, least].map(Some);
    let kept = graph.add_node("kept", suppression, &operands);
    let last = graph.add_constant("last", list(&[0, 2]));
    let pairs = graph.add_node(
        "pairs",
        Op::Gather(Gather { axis: 1 }),
        &[Some(kept), Some(last)],
    );
    let features = part(&mut graph, "features", 5, 105, 1);
    let rows = graph.add_node("rows", Op::Transpose(turn), &[Some(features)]);
    let pick = Op::GatherNd(spark_onnx::graph::GatherNd { batch_dims: 0 });
    let chosen = graph.add_node("chosen", pick, &[Some(rows), Some(pairs)]);
    let w = graph.add_constant("product.w", drawn(2, &[100, 12]));
    let product = graph.add_node("product", Op::MatMul(MatMul), &[Some(chosen), Some(w)]);
    let y = graph.add_node("y", Op::Unary(Unary::Tanh), &[Some(product)]);
    let zero = graph.add_constant("zero", list(&[0]));
    let first = graph.add_node(
        "first",
        Op::Gather(Gather { axis: 1 }),
        &[Some(y), Some(zero)],
    );
    let above = graph.add_node("above", Op::Unary(Unary::Relu), &[Some(first)]);
    let at = graph.add_node("at", Op::NonZero(NonZero), &[Some(above)]);
    let at_rows = graph.add_node(
        "at_rows",
        Op::Gather(Gather { axis: 0 }),
        &[Some(at), Some(zero)],
    );
    let flat = graph.add_constant("flat_rows", list(&[-1]));
    let at_rows = graph.add_node("at_list", reshape, &[Some(at_rows), Some(flat)]);
    let found = graph.add_node(
        "found",
        Op::Gather(Gather { axis: 0 }),
        &[Some(y), Some(at_rows)],
    );
    graph.outputs = vec![found, scores, kept, y];
    graph
}

fn open() -> Dim {
    Dim::Symbol("n".to_owned())
}

fn picture(seed: u64, n: usize) -> Tensor {
    drawn(seed, &[n, 4, 6, 6])
}

/// What the reference gives.
fn reference(graph: &Graph, x: &Tensor) -> Vec<(String, Tensor)> {
    run_unbound(graph, &[("x", x)], 1 << 30).expect("interprets")
}

#[track_caller]
fn check_close(got: &[(String, Tensor)], want: &[(String, Tensor)]) {
    assert_eq!(got.len(), want.len());
    for ((name, got), (wanted, want)) in got.iter().zip(want) {
        assert_eq!(
            (name, got.dtype(), got.shape()),
            (wanted, want.dtype(), want.shape())
        );
        for (got, want) in got.to_f32().iter().zip(want.to_f32()) {
            assert!(
                (got - want).abs() <= 1e-4 + 1e-4 * want.abs(),
                "{name}: {got}, {want}"
            );
        }
    }
}

#[test]
fn the_head_runs_and_what_is_behind_gives_as_much_as_there_is() {
    let mut runner = ModelRunner::from_graph(positive_logits(), &options()).expect("ready");
    for (x, want) in ROWS {
        let x = row(x);
        let outputs = runner.run(&[("x", &x)]).expect("runs");
        assert_eq!(outputs[0], ("found".to_owned(), list(want)));
        check_close(&outputs, &reference(&positive_logits(), &x));
    }
    // What users see is the whole network.
    let names: Vec<&str> = runner
        .graph()
        .nodes
        .iter()
        .map(|n| n.name.as_str())
        .collect();
    assert_eq!(names, ["logits", "positive", "at", "column", "found"]);
    assert_eq!(runner.graph().outputs, positive_logits().outputs);
}

#[test]
fn two_stages_give_what_the_reference_gives_for_any_number_of_boxes() {
    let graph = two_stages(open());
    let model = Model::from_graph(graph.clone(), &options()).expect("ready");
    let mut session = model.session();
    let mut lengths = std::collections::BTreeSet::new();
    for seed in 0..12 {
        let x = picture(seed, 1 + seed as usize % 3);
        let want = reference(&graph, &x);
        let got = session.run(&[("x", &x)]).expect("runs");
        check_close(&got, &want);
        lengths.insert(got[2].1.shape()[0]);
    }
    assert!(lengths.len() > 3, "{lengths:?}");
    // Nothing is above the threshold.
    let x = Tensor::from_f32([2, 4, 6, 6], vec![0.0; 288]).expect("dark");
    let got = session.run(&[("x", &x)]).expect("runs");
    check_close(&got, &reference(&graph, &x));
    assert_eq!(got[0].1.shape(), [0, 12]);
    assert_eq!(got[2].1.shape(), [0, 3]);
}

#[test]
fn a_network_goes_through_a_file() {
    let graph = two_stages(Dim::Known(1));
    let bytes = file::to_bytes(&graph).expect("written");
    let model = Model::from_bytes(&bytes, &options()).expect("read");
    let x = picture(5, 1);
    let got = model.session().run(&[("x", &x)]).expect("runs");
    check_close(&got, &reference(&graph, &x));
}

#[test]
fn steps_say_what_is_interpreted_and_what_is_planned_behind_it() {
    let model = Model::from_graph(two_stages(Dim::Known(1)), &options()).expect("ready");
    let mut session = model.session();
    assert!(session.steps().is_empty(), "before a plan");
    session.warm_up().expect("fits");
    session.run(&[("x", &picture(3, 1))]).expect("runs");
    let steps = session.steps();
    let interpreted: Vec<(&str, &str)> = steps
        .iter()
        .filter(|step| step.reason == INTERPRETED)
        .map(|step| (step.name.as_str(), step.kind))
        .collect();
    let wanted = [
        ("kept", "NonMaxSuppression"),
        ("pairs", "Gather"),
        ("chosen", "GatherND"),
        ("at", "NonZero"),
        ("at_rows", "Gather"),
        ("at_list", "Reshape"),
        ("found", "Gather"),
    ];
    assert_eq!(interpreted, wanted);
    assert!(
        steps
            .iter()
            .filter(|s| s.reason == INTERPRETED)
            .all(|s| s.kernel == "interpreted")
    );
    let product = steps
        .iter()
        .position(|step| step.kind == "linear")
        .expect("planned");
    let chosen = steps
        .iter()
        .position(|step| step.name == "chosen")
        .expect("interpreted");
    let end = steps
        .iter()
        .position(|step| step.name == "at")
        .expect("interpreted");
    assert!(
        chosen < product && product < end,
        "in the order in which they run"
    );
    assert!(steps[product].weight_bytes >= 4800 && steps[product].macs > 0);
}

#[test]
fn profiles_and_spans_go_through_all_stages() {
    let model = Model::from_graph(two_stages(open()), &options()).expect("ready");
    let mut session = model.session();
    let x = picture(3, 2);
    let inputs = [("x", &x)];
    let steps = session.profile(&inputs, 3).expect("runs");
    assert_eq!(steps.len(), session.steps().len());
    assert!(steps.iter().all(|step| step.mean.is_some()));
    let kept = steps
        .iter()
        .find(|step| step.name == "kept")
        .expect("a step");
    assert!(kept.mean.is_some_and(|mean| mean > Duration::ZERO));
    let spans = session.spans(&inputs, 2).expect("runs");
    let numbers: Vec<usize> = spans.iter().map(|span| span.step).collect();
    let once: Vec<usize> = (0..steps.len()).collect();
    assert_eq!(numbers, [&once[..], &once].concat());
    assert!(spans.is_sorted_by_key(|span| span.start));
    let none = session.profile(&inputs, 0).expect("is set up");
    assert!(none.iter().all(|step| step.mean.is_none()));
}

#[test]
fn outputs_go_into_memory_of_the_length_that_comes_out() {
    let graph = two_stages(Dim::Known(1));
    let mut session = Model::from_graph(graph.clone(), &options())
        .expect("ready")
        .session();
    let x = picture(3, 1);
    let want = session.run(&[("x", &x)]).expect("runs");
    let n = want[2].1.shape()[0];
    assert!(n > 0);
    let (mut kept, mut scores) = (vec![0i64; 3 * n], vec![0f32; 36]);
    let kept_shape = [n, 3];
    let mut outputs = [
        (
            "scores",
            TensorViewMut::new(&mut scores[..], &[1, 1, 36]).expect("fits"),
        ),
        (
            "kept",
            TensorViewMut::new(&mut kept[..], &kept_shape).expect("fits"),
        ),
    ];
    let inputs = [("x", TensorView::from(&x))];
    session.run_into(&inputs, &mut outputs).expect("fits");
    assert_eq!(want[2].1.as_i64(), Some(&kept[..]));
    assert_eq!(want[1].1.as_f32(), Some(&scores[..]));
    assert_eq!(session.last_traffic().copied_out_bytes, 24 * n + 4 * 36);
    // Memory for another number of boxes stays as it is.
    let mut more = vec![7i64; 3 * (n + 1)];
    let shape = [n + 1, 3];
    let mut outputs = [
        (
            "scores",
            TensorViewMut::new(&mut scores[..], &[1, 1, 36]).expect("fits"),
        ),
        (
            "kept",
            TensorViewMut::new(&mut more[..], &shape).expect("fits"),
        ),
    ];
    let error = session
        .run_into(&inputs, &mut outputs)
        .expect_err("too long");
    let ModelError::OutputMemory {
        name,
        want_shape,
        got_shape,
        ..
    } = error
    else {
        panic!("{error}");
    };
    assert_eq!(
        (name.as_str(), want_shape, got_shape),
        ("kept", kept_shape.to_vec(), shape.to_vec())
    );
    assert!(more.iter().all(|&value| value == 7));
    let mut floats = vec![0f32; 3 * n];
    let mut outputs = [(
        "kept",
        TensorViewMut::new(&mut floats[..], &kept_shape).expect("fits"),
    )];
    let error = session
        .run_into(&inputs, &mut outputs)
        .expect_err("another type");
    assert!(matches!(error, ModelError::OutputMemory { .. }), "{error}");
    let error = session.run_into(
        &inputs,
        &mut [("none", TensorViewMut::from(&mut Tensor::clone(&x)))],
    );
    assert!(matches!(error, Err(ModelError::OutputUnknown { .. })));
}

#[test]
fn views_of_the_callers_elements_reach_all_stages() {
    // An input that the head does not read, with strides.
    let mut graph = Graph::default();
    let x = graph.add_input("x", DType::F32, vec![Dim::Unknown, Dim::Known(3)]);
    let y = graph.add_node("y", Op::NonZero(NonZero), &[Some(x)]);
    graph.outputs = vec![y, x];
    let mut session = Model::from_graph(graph, &options())
        .expect("ready")
        .session();
    let elements = [0.0f32, 1.0, 2.0, 0.0, 5.0, 0.0];
    let turned = TensorView::with_strides(&elements[..], &[2, 3], &[1, 2]).expect("inside");
    let outputs = session.run_views(&[("x", turned)]).expect("runs");
    let want = Tensor::from_i64([2, 3], vec![0, 0, 1, 1, 2, 0]).expect("three");
    assert_eq!(outputs[0].1, want);
    let whole = Tensor::from_f32([2, 3], vec![0.0, 2.0, 5.0, 1.0, 0.0, 0.0]).expect("rows");
    assert_eq!(outputs[1].1, whole);
    assert_eq!(
        session.last_traffic().copied_in_bytes,
        2 * 24,
        "by the head, and for the interpreter"
    );
}

/// Adds numbers to a list: those of `x` that are not zero, after those of `before`.
fn collecting() -> Graph {
    let mut graph = Graph::default();
    let x = graph.add_input("x", DType::F32, vec![Dim::Known(1), Dim::Known(4)]);
    let before = graph.add_input("before", DType::I64, vec![Dim::Known(1), Dim::Unknown]);
    let at = graph.add_node("at", Op::NonZero(NonZero), &[Some(x)]);
    let one = graph.add_constant("one", list(&[1]));
    let columns = graph.add_node(
        "columns",
        Op::Gather(Gather { axis: 0 }),
        &[Some(at), Some(one)],
    );
    let concat = Op::Concat(spark_onnx::graph::Concat { axis: 1 });
    let all = graph.add_node("all", concat, &[Some(before), Some(columns)]);
    graph.outputs.push(all);
    graph
}

#[test]
fn outputs_are_carried_whatever_their_length() {
    let model = Model::from_graph(collecting(), &options()).expect("ready");
    let mut session = model.session();
    let none = Tensor::from_i64([1, 0], vec![]).expect("none");
    session.carry("all", "before", none).expect("of one type");
    let frames = [[0.0, 1.0, 0.0, 2.0], [0.0; 4], [3.0, 0.0, 0.0, 0.0]]
        .map(|x| Tensor::from_f32([1, 4], x.to_vec()).expect("a frame"));
    let inputs = |frame| [("x", frame)];
    assert!(session.run(&inputs(&frames[0])).expect("runs").is_empty());
    for frame in &frames[1..] {
        let views = [("x", TensorView::from(frame))];
        session.run_into(&views, &mut []).expect("runs");
    }
    let state = session.state("before").expect("carried");
    assert_eq!(
        *state,
        Tensor::from_i64([1, 3], vec![1, 3, 0]).expect("three")
    );
    // A run that fails leaves it.
    let nothing = Tensor::from_f32([1, 3], vec![0.0; 3]).expect("another shape");
    session.run(&inputs(&nothing)).expect_err("refused");
    assert_eq!(session.state("before").map(Tensor::len), Some(3));
}

#[test]
fn outputs_of_another_type_are_not_carried() {
    let mut graph = collecting();
    let cast = Op::Cast(Cast { to: DType::F32 });
    let (before, all) = (graph.inputs[1], graph.outputs[0]);
    let floats = graph.add_node("floats", cast, &[Some(all)]);
    graph.values[before.0].dtype = Some(DType::I64);
    graph.outputs[0] = floats;
    let mut session = Model::from_graph(graph, &options())
        .expect("ready")
        .session();
    let none = Tensor::from_i64([1, 0], vec![]).expect("none");
    session
        .carry("floats", "before", none.clone())
        .expect("not known yet");
    let x = Tensor::from_f32([1, 4], vec![1.0; 4]).expect("a frame");
    let error = session.run(&[("x", &x)]).expect_err("f32 to i64");
    assert!(matches!(error, ModelError::InputType { .. }), "{error}");
    assert_eq!(session.state("before"), Some(&none));
}

#[test]
fn sessions_on_threads_get_the_bits_of_one() {
    let pool = SharedPool::new(2);
    let options = options().with_pool(pool).with_max_plans(3);
    let model = Model::from_graph(two_stages(open()), &options).expect("ready");
    let run = |session: &mut Session, seed: u64| {
        session
            .run(&[("x", &picture(seed, 1 + seed as usize % 2))])
            .expect("runs")
    };
    let want: Vec<_> = (0..8).map(|seed| run(&mut model.session(), seed)).collect();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (model, want) = (&model, &want);
            scope.spawn(move || {
                let mut session = model.session();
                for round in 0..16 {
                    let seed = (thread * 3 + round) % 8;
                    let got = run(&mut session, seed as u64);
                    for ((_, got), (_, want)) in got.iter().zip(&want[seed]) {
                        assert!(got.is_bitwise(want));
                    }
                }
            });
        }
    });
    assert_eq!(model.memory().session_bytes, 0, "all is given back");
}

#[test]
fn weights_of_later_stages_are_packed_once_and_plans_are_few() {
    let model = Model::from_graph(two_stages(open()), &options().with_max_plans(2)).expect("ready");
    let mut session = model.session();
    let mut most = 0;
    for seed in 0..12 {
        let x = picture(seed, 1 + seed as usize % 3);
        session.run(&[("x", &x)]).expect("runs");
        most = most.max(model.memory().plans);
    }
    // Two of the head, two of the stage behind.
    assert_eq!(most, 4);
    let of_two = model.memory().weight_bytes;
    assert!(of_two < 2 * (105 * 36 + 100 * 12) * 4, "{of_two}");
}

/// The positions of what is not zero in `x`, `[n, n]`, of every pair of numbers of the input.
fn outer(n: usize) -> Graph {
    let mut graph = Graph::default();
    let x = graph.add_input("x", DType::F32, vec![Dim::Known(1), Dim::Known(n)]);
    let at = graph.add_node("at", Op::NonZero(NonZero), &[Some(x)]);
    let one = graph.add_constant("one", list(&[1]));
    let columns = graph.add_node(
        "columns",
        Op::Gather(Gather { axis: 0 }),
        &[Some(at), Some(one)],
    );
    let turn = spark_onnx::graph::Transpose { perm: None };
    let rows = graph.add_node("rows", Op::Transpose(turn), &[Some(columns)]);
    let sums = graph.add_node(
        "sums",
        Op::Binary(Binary::Add),
        &[Some(columns), Some(rows)],
    );
    graph.outputs.push(sums);
    graph
}

#[test]
fn what_is_interpreted_is_held_against_the_budget_and_given_back() {
    let (n, budget) = (3000, 64 << 20);
    let options = options().with_memory_budget(budget);
    let model = Model::from_graph(outer(n), &options).expect("ready");
    let mut session = model.session();
    let of = |n_set: usize| {
        let x = (0..n).map(|i| f32::from(u8::from(i < n_set)));
        Tensor::from_f32([1, n], x.collect()).expect("a row")
    };
    let run = |session: &mut Session, x: &Tensor| session.run(&[("x", x)]);
    let few = run(&mut session, &of(10)).expect("fits");
    assert_eq!(few[0].1.shape(), [10, 10]);
    let before = model.memory();
    let error = run(&mut session, &of(n)).expect_err("nine million sums");
    let ModelError::OverBudget {
        node,
        op,
        budget: of_budget,
        ..
    } = &error
    else {
        panic!("{error}");
    };
    assert_eq!(
        (node.as_str(), op.as_str(), *of_budget),
        ("sums", "Add", budget)
    );
    assert_eq!(model.memory(), before, "all is given back");
    let again = run(&mut session, &of(10)).expect("fits again");
    assert_eq!(few, again);
    assert_eq!(model.memory(), before);
}

#[test]
fn plans_for_other_shapes_give_way_to_what_is_interpreted() {
    // A head whose arenas are as large as what is interpreted.
    let mut graph = Graph::default();
    let x = graph.add_input(
        "x",
        DType::F32,
        vec![Dim::Known(1), Dim::Known(64), Dim::Unknown, Dim::Known(128)],
    );
    let pool = Op::Pool(Pool {
        kind: PoolKind::Max,
        kernel: vec![3, 3],
        strides: vec![1, 1],
        dilations: vec![1, 1],
        padding: Padding::Explicit(vec![1; 4]),
        count_include_pad: false,
        ceil_mode: false,
    });
    let y = graph.add_node("y", pool, &[Some(x)]);
    let at = graph.add_node("at", Op::NonZero(NonZero), &[Some(y)]);
    graph.outputs.push(at);
    let of =
        |h: usize| Tensor::from_f32([1, 64, h, 128], vec![1.0; 64 * h * 128]).expect("a picture");
    let probe = Model::from_graph(graph.clone(), &options()).expect("ready");
    let mut session = probe.session();
    session.run(&[("x", &of(16))]).expect("runs");
    let held = probe.memory();
    let each = held.session_bytes + held.weight_bytes;
    // What is interpreted takes four positions of 8 bytes for each element, and as much while it does.
    let interpreted = 64 * 16 * 128 * 64 + (1 << 20);
    let budget = 2 * each + interpreted;
    let model = Model::from_graph(graph, &options().with_memory_budget(budget)).expect("ready");
    let mut session = model.session();
    for h in [11, 12, 13, 14, 15, 16, 11, 16] {
        session
            .run(&[("x", &of(h))])
            .unwrap_or_else(|error| panic!("{h}: {error}"));
    }
    assert!(model.memory().plans < 6, "some went");
}

#[test]
fn a_run_is_cancelled_before_and_while_it_is_interpreted() {
    // A loop as long as the input says.
    let mut body = Graph::default();
    let _ = body.add_input("number", DType::I64, vec![]);
    let goes_on = body.add_input("goes_on", DType::Bool, vec![]);
    let before = body.add_input("before", DType::I64, vec![]);
    let one = body.add_constant("one", Tensor::from_i64([], vec![1]).expect("one"));
    let after = body.add_node("after", Op::Binary(Binary::Add), &[Some(before), Some(one)]);
    let same = body.add_node("same", Op::Unary(Unary::Identity), &[Some(goes_on)]);
    let stacked = body.add_node("stacked", Op::Unary(Unary::Identity), &[Some(after)]);
    body.outputs = vec![same, after, stacked];
    let mut graph = Graph::default();
    let x = graph.add_input("x", DType::I64, vec![Dim::Known(1), Dim::Known(1)]);
    let zero = graph.add_constant("zero", Tensor::from_i64([], vec![0]).expect("zero"));
    graph.bodies.push(body.into());
    let op = Op::Loop(Loop {
        body: BodyId(0),
        carried: 1,
    });
    let end = graph.add_node("end", op, &[Some(x), None, Some(zero)]);
    let all = Value {
        name: "all".to_owned(),
        dtype: None,
        shape: None,
        constant: None,
    };
    let all: ValueId = graph.add_value(all);
    graph.nodes[0].outputs.push(Some(all));
    graph.outputs = vec![end, all];
    let mut session = Model::from_graph(graph, &options())
        .expect("ready")
        .session();
    let count = |n| Tensor::from_i64([1, 1], vec![n]).expect("one");
    let outputs = session.run(&[("x", &count(5))]).expect("runs");
    assert_eq!(outputs[1].1, list(&[1, 2, 3, 4, 5]));
    session.canceller().cancel();
    let error = session.run(&[("x", &count(5))]).expect_err("cancelled");
    assert!(matches!(error, ModelError::Cancelled), "{error}");
    session.run(&[("x", &count(5))]).expect("the next one runs");
    // A million rounds take longer than somebody needs to change their mind.
    let (canceller, has_ended) = (session.canceller(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !has_ended.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(20));
                canceller.cancel();
            }
        });
        let error = session.run(&[("x", &count(1_000_000))]);
        has_ended.store(true, Ordering::Relaxed);
        assert!(matches!(error, Err(ModelError::Cancelled)), "{error:?}");
    });
}

#[test]
fn plans_are_prepared_and_precisions_hold_in_all_stages() {
    let model = Model::from_graph(two_stages(open()), &options()).expect("ready");
    assert_eq!(model.memory().plans, 0);
    model.prepare(&[("x", vec![2, 4, 6, 6])]).expect("fits");
    assert_eq!(model.memory().plans, 1, "the head's");
    let error = model
        .prepare(&[("x", vec![2, 4, 6])])
        .expect_err("no picture");
    assert!(matches!(error, ModelError::InputShape { .. }), "{error}");
    let x = picture(3, 1);
    for precision in [
        Precision::Bf16,
        Precision::Fp16,
        Precision::Fp8,
        Precision::Fp4,
    ] {
        let options = options().with_precision(precision);
        let model = Model::from_graph(two_stages(open()), &options).expect("ready");
        let mut session = model.session();
        session.run(&[("x", &x)]).expect("runs");
        let steps = session.steps();
        let linear = steps
            .iter()
            .find(|step| step.kind == "linear")
            .expect("planned");
        assert_eq!(linear.precision, precision);
    }
}

#[test]
fn scores_that_are_no_numbers_are_kept_out() {
    let graph = two_stages(Dim::Known(1));
    let mut session = Model::from_graph(graph.clone(), &options())
        .expect("ready")
        .session();
    let mut x = picture(3, 1);
    if let Some(values) = x.as_f32_mut() {
        values
            .iter_mut()
            .step_by(5)
            .for_each(|value| *value = f32::NAN);
    }
    let got = session.run(&[("x", &x)]).expect("runs");
    let want = reference(&graph, &x);
    assert_eq!(got[2].1, want[2].1);
    let x = Tensor::from_f32([1, 4, 6, 6], vec![f32::NAN; 144]).expect("no picture");
    let got = session.run(&[("x", &x)]).expect("runs");
    assert_eq!(got[2].1.shape(), [0, 3]);
}

#[test]
fn a_small_input_that_asks_for_much_is_refused() {
    // The shape of the result is what the network computes: `x + x`.
    let mut graph = Graph::default();
    let x = graph.add_input("x", DType::I64, vec![Dim::Known(1), Dim::Known(2)]);
    let sum = graph.add_node("sum", Op::Binary(Binary::Add), &[Some(x), Some(x)]);
    let flat = graph.add_constant("flat", list(&[-1]));
    let reshape = Op::Reshape(Reshape { allow_zero: false });
    let shape = graph.add_node("shape", reshape, &[Some(sum), Some(flat)]);
    let one = graph.add_constant("one", Tensor::from_f32([1], vec![1.0]).expect("one"));
    let y = graph.add_node("y", Op::Expand(Expand), &[Some(one), Some(shape)]);
    let all = Shape {
        start: 0,
        end: None,
    };
    let z = graph.add_node("z", Op::Shape(all), &[Some(y)]);
    graph.outputs = vec![y, z];
    let mut session = Model::from_graph(graph, &options())
        .expect("ready")
        .session();
    let mut run = |a: i64, b: i64| {
        let x = Tensor::from_i64([1, 2], vec![a, b]).expect("two");
        session.run(&[("x", &x)])
    };
    assert_eq!(run(1, 2).expect("runs")[0].1.shape(), [2, 4]);
    for (a, b) in [
        (20_000, 20_000),
        (i64::MAX / 4, 1),
        (-3, 1),
        (1 << 40, 1 << 40),
    ] {
        let error = run(a, b).expect_err("too much").to_string();
        assert!(error.contains("`y`"), "{error}");
    }
    assert_eq!(run(0, 2).expect("runs")[0].1.shape(), [0, 4]);
}

#[test]
fn damaged_files_are_refused_or_run_and_nothing_panics() {
    let files = [two_stages(Dim::Known(1)), positive_logits(), collecting()];
    let options = options().with_memory_budget(32 << 20);
    let (mut n_ran, mut n_refused) = (0, 0);
    for graph in files {
        let bytes = file::to_bytes(&graph).expect("written");
        let files = DamagedFiles::of(bytes);
        for number in 0..250 {
            let Ok(graph) = file::parse(&files.mutant(number), None) else {
                continue;
            };
            let inputs = graph.inputs.iter().map(|&id| graph.value(id));
            let inputs: Option<Vec<(String, Tensor)>> = inputs
                .map(|value| {
                    let dims = value.shape.as_deref()?.iter();
                    let shape = dims.map(|dim| match dim {
                        Dim::Known(extent) => *extent,
                        Dim::Symbol(_) | Dim::Unknown => 2,
                    });
                    let shape: Vec<usize> = shape.collect();
                    let n = shape.iter().try_fold(1usize, |n, &d| n.checked_mul(d))?;
                    let values = (0..n.min(1 << 16)).map(|i| (i % 7) as f64 - 2.0);
                    let tensor = Tensor::from_f64(value.dtype?, shape, values.collect());
                    Some((value.name.clone(), tensor.ok()?))
                })
                .collect();
            let Some(inputs) = inputs else { continue };
            let given: Vec<_> = inputs.iter().map(|(name, t)| (name.as_str(), t)).collect();
            let model = Model::from_graph(graph, &options);
            match model.and_then(|model| model.session().run(&given)) {
                Ok(_) => n_ran += 1,
                Err(_) => n_refused += 1,
            }
        }
    }
    // A test in which nothing runs, or everything does, would prove nothing.
    assert!(
        n_ran > 50 && n_refused > 50,
        "{n_ran} ran, {n_refused} were refused"
    );
}
