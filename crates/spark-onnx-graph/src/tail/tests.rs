//! What a cut network gives is what the whole gives where its inputs are constants.

use super::*;
use crate::graph::{
    Binary, Dim, Gather, NonMaxSuppression, NonZero, Op, Reshape, Shape, Squeeze, Unary, bind,
    bind_with_values,
};
use crate::reference;
use crate::tensor::DType;

fn list(values: &[i64]) -> Tensor {
    Tensor::from_i64([values.len()], values.to_vec()).expect("a list")
}

/// Two classes of boxes: scores by a sigmoid, the boxes that are kept, and twice the scores.
fn detector() -> Graph {
    let mut graph = Graph::default();
    let boxes = graph.add_input(
        "boxes",
        DType::F32,
        vec![Dim::Known(1), Dim::Unknown, Dim::Known(4)],
    );
    let dims = vec![Dim::Known(1), Dim::Known(2), Dim::Unknown];
    let logits = graph.add_input("logits", DType::F32, dims);
    let scores = graph.add_node("scores", Op::Unary(Unary::Sigmoid), &[Some(logits)]);
    let doubled = graph.add_node(
        "doubled",
        Op::Binary(Binary::Add),
        &[Some(scores), Some(scores)],
    );
    let most = graph.add_constant("most", list(&[3]));
    let limit = |value| Tensor::from_f32([], vec![value]).expect("a scalar");
    let overlap = graph.add_constant("overlap", limit(0.5));
    let score = graph.add_constant("score", limit(0.6));
    let suppression = Op::NonMaxSuppression(NonMaxSuppression { is_centred: false });
    let operands = [boxes, scores, most, overlap, score].map(Some);
    let kept = graph.add_node("kept", suppression, &operands);
    let last = graph.add_constant("last", list(&[2]));
    let column = graph.add_node(
        "column",
        Op::Gather(Gather { axis: 1 }),
        &[Some(kept), Some(last)],
    );
    let one = graph.add_constant("one", list(&[1]));
    let index = graph.add_node("index", Op::Squeeze(Squeeze), &[Some(column), Some(one)]);
    let flat = graph.add_constant("flat", list(&[-1, 4]));
    let rows = Op::Reshape(Reshape { allow_zero: false });
    let rows = graph.add_node("rows", rows, &[Some(boxes), Some(flat)]);
    let found = graph.add_node(
        "found",
        Op::Gather(Gather { axis: 0 }),
        &[Some(rows), Some(index)],
    );
    graph.outputs = vec![found, doubled, kept];
    graph
}

/// Boxes side by side, and logits by which some are kept.
fn picture(n: usize, step: f32) -> [Tensor; 2] {
    let corners = (0..n).flat_map(|i| {
        let at = i as f32 * step;
        [at, 0.0, at + 1.0, 1.0]
    });
    let logits = (0..2 * n).map(|i| ((i * 7) % 5) as f32 - 1.5);
    [
        Tensor::from_f32([1, n, 4], corners.collect()).expect("boxes"),
        Tensor::from_f32([1, 2, n], logits.collect()).expect("logits"),
    ]
}

#[test]
fn a_cut_detector_gives_what_the_whole_does() {
    let (head, tail) = split_at_values(detector()).expect("cuts");
    let tail = tail.expect("a tail");
    let names: Vec<&str> = head
        .outputs
        .iter()
        .map(|&id| head.value(id).name.as_str())
        .collect();
    // Of the boxes the tail has the head's rows, for a Gather.
    assert_eq!(names, ["doubled", "scores", "rows"]);
    let mut lengths = Vec::new();
    for (n, step) in [(6, 2.0), (9, 0.25), (1, 1.0)] {
        let [boxes, logits] = picture(n, step);
        let inputs = [("boxes", &boxes), ("logits", &logits)];
        let shapes = inputs.map(|(name, tensor)| (name, tensor.shape().to_vec()));
        let bound = bind(&head, &shapes).expect("binds");
        let made = reference::run(&bound, &inputs).expect("runs");
        let got = tail.run(made, &inputs, 1 << 24).expect("runs");
        let values = inputs.map(|(name, tensor)| (name, Arc::new(tensor.clone())));
        let whole = bind_with_values(&detector(), &shapes, &values, 1 << 24).expect("binds");
        let want = reference::run(&whole, &inputs).expect("runs");
        assert_eq!(got, want);
        lengths.push(got[0].1.shape()[0]);
    }
    assert!(lengths.iter().any(|&n| n != lengths[0]), "{lengths:?}");
}

#[test]
fn a_tail_may_read_the_inputs_themselves() {
    let mut graph = Graph::default();
    // A list of so few would be one of the inputs that an engine plans by.
    let dims = vec![Dim::Known(1), Dim::Known(3)];
    let x = graph.add_input("x", DType::F32, dims);
    let y = graph.add_node("y", Op::NonZero(NonZero), &[Some(x)]);
    graph.outputs.push(y);
    let (head, tail) = split_at_values(graph).expect("cuts");
    assert!(head.nodes.is_empty() && head.outputs.is_empty());
    let tail = tail.expect("a tail");
    let x = Tensor::from_f32([1, 3], vec![0.0, 4.0, 0.0]).expect("a row");
    let got = tail.run(Vec::new(), &[("x", &x)], 1 << 20).expect("runs");
    assert_eq!(got[0].1, Tensor::from_i64([2, 1], vec![0, 1]).expect("one"));
    let missing = tail.run(Vec::new(), &[], 1 << 20).expect_err("no input");
    assert!(matches!(missing, ModelError::InputMissing { name } if name == "x"));
}

#[test]
fn shapes_that_follow_from_shapes_are_no_cut() {
    let mut graph = Graph::default();
    let x = graph.add_input("x", DType::F32, vec![Dim::Unknown]);
    let whole = Shape {
        start: 0,
        end: None,
    };
    let shape = graph.add_node("shape", Op::Shape(whole), &[Some(x)]);
    let reshape = Op::Reshape(Reshape { allow_zero: false });
    let y = graph.add_node("y", reshape, &[Some(x), Some(shape)]);
    graph.outputs.push(y);
    let (head, tail) = split_at_values(graph).expect("looks");
    assert!(tail.is_none());
    assert_eq!((head.nodes.len(), head.outputs.len()), (2, 1));
}
