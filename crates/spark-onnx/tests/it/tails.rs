//! Networks that end in results whose length values say: the head on the executor, the tail interpreted.

use spark_onnx::graph::{
    Dim, Gather, Graph, MatMul, NonMaxSuppression, NonZero, Op, Squeeze, Unary, ValueId,
};
use spark_onnx::{DType, ModelError, ModelRunner, RunOptions, Tensor, split_at_values};

fn list(values: &[i64]) -> Tensor {
    Tensor::from_i64([values.len()], values.to_vec()).expect("a list")
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

#[test]
fn the_head_runs_and_the_tail_gives_as_much_as_there_is() {
    let (head, tail) = split_at_values(positive_logits()).expect("cuts");
    let tail = tail.expect("a tail");
    let mut runner =
        ModelRunner::from_graph(head, &RunOptions::new().with_threads(1)).expect("runs");
    for (x, want) in [
        ([1.0, 0.0], &[0, 2][..]),
        ([0.0, 1.0], &[1, 3]),
        ([-1.0, -1.0], &[2]),
        ([0.0, 0.0], &[]),
    ] {
        let x = Tensor::from_f32([1, 2], x.to_vec()).expect("a row");
        let made = runner.run(&[("x", &x)]).expect("runs");
        let outputs = tail.run(made, &[("x", &x)], 1 << 20).expect("runs");
        assert_eq!(outputs[0], ("found".to_owned(), list(want)));
        assert_eq!(outputs[1].1.shape(), [1, 4]);
    }
}

#[test]
fn whole_it_is_refused_with_the_reason() {
    let refused = ModelRunner::from_graph(positive_logits(), &RunOptions::new());
    let text = refused.expect_err("no shape").to_string();
    assert!(
        text.contains("`x` must be constant: the result's shape depends on it"),
        "{text}"
    );
}

/// A suppression of constants.
fn suppression(operands: &[Tensor]) -> Result<Vec<(String, Tensor)>, ModelError> {
    let mut graph = Graph::default();
    let inputs: Vec<Option<ValueId>> = operands
        .iter()
        .enumerate()
        .map(|(i, tensor)| Some(graph.add_constant(format!("x{i}"), tensor.clone())))
        .collect();
    let op = Op::NonMaxSuppression(NonMaxSuppression { is_centred: true });
    let y = graph.add_node("y", op, &inputs);
    graph.outputs.push(y);
    ModelRunner::from_graph(graph, &RunOptions::new().with_threads(1))?.run(&[])
}

fn scalars(most: i64, overlap: f32) -> [Tensor; 2] {
    [
        Tensor::from_i64([], vec![most]).expect("a scalar"),
        Tensor::from_f32([], vec![overlap]).expect("a scalar"),
    ]
}

fn floats(shape: &[usize], value: f32) -> Tensor {
    Tensor::from_f32(shape, vec![value; shape.iter().product()]).expect("fills its shape")
}

#[test]
fn operands_that_do_not_go_together_are_refused() {
    let check = |operands: &[Tensor], wanted: &str| {
        let text = suppression(operands).expect_err(wanted).to_string();
        assert!(text.contains(wanted), "{text}");
    };
    let (boxes, scores) = (floats(&[1, 3, 4], 1.0), floats(&[1, 2, 3], 1.0));
    let [most, overlap] = scalars(1, 0.5);
    check(
        &[floats(&[1, 3, 5], 0.0), scores.clone()],
        "four numbers each",
    );
    check(
        &[boxes.clone(), floats(&[1, 2, 4], 0.0)],
        "for 1 samples of 3 boxes",
    );
    check(
        &[boxes.clone(), floats(&[2, 2, 3], 0.0)],
        "for 1 samples of 3 boxes",
    );
    check(&[boxes.clone(), list(&[1])], "is i64, wanted f32");
    check(
        &[boxes.clone(), scores.clone(), floats(&[], 1.0)],
        "wanted i64",
    );
    for outside in [-0.5, 1.5, f32::NAN] {
        let [_, overlap] = scalars(1, outside);
        check(
            &[boxes.clone(), scores.clone(), most.clone(), overlap],
            "wanted 0 to 1",
        );
    }
    let kept = suppression(&[boxes, scores, most, overlap]).expect("keeps one of each class");
    assert_eq!(kept[0].1.shape(), [2, 3]);
}

#[test]
fn too_many_pairs_of_boxes_are_refused_in_time() {
    // Boxes without an area suppress nothing, so that every pair is compared.
    let n = 40_000;
    let [most, overlap] = scalars(i64::MAX, 0.5);
    let operands = [
        floats(&[1, n, 4], 0.0),
        floats(&[1, 1, n], 1.0),
        most,
        overlap,
    ];
    let text = suppression(&operands).expect_err("too many").to_string();
    assert!(text.contains("pairs of boxes to compare"), "{text}");
}
