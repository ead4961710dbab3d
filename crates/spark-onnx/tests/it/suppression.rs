//! NonMaxSuppression: operands that do not go together, and boxes that take no comparing.

use spark_onnx::graph::{Graph, NonMaxSuppression, Op, ValueId};
use spark_onnx::{ModelError, ModelRunner, RunOptions, Tensor};

fn list(values: &[i64]) -> Tensor {
    Tensor::from_i64([values.len()], values.to_vec()).expect("a list")
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
fn boxes_without_an_area_are_kept_in_time() {
    // They meet nothing, which takes no comparing of all pairs.
    let n = 100_000;
    let [most, overlap] = scalars(i64::MAX, 0.5);
    let operands = [
        floats(&[1, n, 4], 0.0),
        floats(&[1, 1, n], 1.0),
        most,
        overlap,
    ];
    let kept = suppression(&operands).expect("keeps all");
    assert_eq!(kept[0].1.shape(), [n, 3]);
}
