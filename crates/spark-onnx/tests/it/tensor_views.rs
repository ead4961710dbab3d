//! Inputs that the caller keeps, in the caller's layout, and outputs that steps write directly.
//!
//! Every network runs on row-major elements, on channels-last ones, on rows with gaps and on repeated ones: all
//! give the bits of the interpreter or of each other, whether an input was read where it lies or converted.

use ndarray::{Array2, ArrayView2, s};
use spark_onnx::graph::{
    Binary, Concat, Conv, Dim, Gather, Graph, MatMul, Op, Padding, Transpose, Unary, ValueId,
};
use spark_onnx::{
    DType, Model, ModelError, ModelRunner, RunOptions, Tensor, TensorView, TensorViewMut,
};

const SHAPE: [usize; 4] = [1, 3, 60, 70];
const LEN: usize = 3 * 60 * 70;

/// Nodes by what they do with the input `x` of [`SHAPE`].
type Build = fn(&mut Graph, Option<ValueId>) -> Vec<ValueId>;

const NETWORKS: [(&str, Build); 6] = [
    ("one function", |g, x| {
        vec![g.add_node("y", Op::Unary(Unary::Relu), &[x])]
    }),
    ("the input itself", |_, x| vec![x.expect("given"); 2]),
    ("a result read again", |g, x| {
        let y = g.add_node("y", Op::Unary(Unary::Relu), &[x]);
        let z = g.add_node("z", Op::Binary(Binary::Add), &[Some(y), x]);
        let w = g.add_node("w", Op::Binary(Binary::Mul), &[Some(z), Some(y)]);
        vec![y, w, w]
    }),
    ("a sum over an axis", |g, x| {
        let y = g.add_node(
            "y",
            Op::Transpose(Transpose {
                perm: Some(vec![0, 3, 1, 2]),
            }),
            &[x],
        );
        let rows = Tensor::from_f32([60, 4], (0..240).map(|i| i as f32 / 64.0).collect());
        let rows = g.add_constant("rows", rows.expect("fits"));
        vec![
            g.add_node("z", Op::MatMul(MatMul), &[Some(y), Some(rows)]),
            y,
        ]
    }),
    ("a convolution", |g, x| {
        let values = (0..4 * 3 * 9).map(|i| (i * 7 % 13) as f32 - 6.0).collect();
        let w = Tensor::from_f32([4, 3, 3, 3], values).expect("fits");
        let w = g.add_constant("w", w);
        let conv = Conv {
            strides: vec![],
            dilations: vec![],
            padding: Padding::SameUpper,
            groups: 1,
        };
        let y = g.add_node("y", Op::Conv(conv), &[x, Some(w)]);
        vec![y, g.add_node("relu", Op::Unary(Unary::Relu), &[Some(y)])]
    }),
    ("two parts of one buffer", |g, x| {
        let y = g.add_node("y", Op::Unary(Unary::Neg), &[x]);
        vec![g.add_node("both", Op::Concat(Concat { axis: 2 }), &[x, Some(y)])]
    }),
];

fn runner(build: Build, threads: usize) -> ModelRunner {
    let mut graph = Graph::default();
    let x = graph.add_input("x", DType::F32, SHAPE.map(Dim::Known).to_vec());
    graph.outputs = build(&mut graph, Some(x));
    ModelRunner::from_graph(graph, &RunOptions::new().with_threads(threads)).expect("fixed shapes")
}

/// Element at an index of [`SHAPE`].
fn value(c: usize, h: usize, w: usize) -> f32 {
    ((c * 31 + h * 17 + w * 7) % 101) as f32 - 50.0
}

/// Elements so that the one at an index lies where `strides` say; all others are NaN.
fn elements(len: usize, strides: [usize; 4]) -> Vec<f32> {
    let mut values = vec![f32::NAN; len];
    for (c, h, w) in (0..LEN).map(|i| (i / 4200, i / 70 % 60, i % 70)) {
        values[c * strides[1] + h * strides[2] + w * strides[3]] = value(c, h, w);
    }
    values
}

fn bits(outputs: &[(String, Tensor)]) -> Vec<(Vec<usize>, Vec<u32>)> {
    let outputs = outputs.iter();
    let of = |t: &Tensor| t.to_f32().iter().map(|v| v.to_bits()).collect();
    outputs.map(|(_, t)| (t.shape().to_vec(), of(t))).collect()
}

#[test]
fn every_layout_gives_the_same_bits() {
    let layouts = [
        ("row-major", LEN, [LEN, 4200, 70, 1]),
        ("channels last", LEN, [LEN, 1, 210, 3]),
        ("with gaps", 2 * LEN + 500, [7, 8400 + 60, 140, 2]),
        ("columns first", LEN, [0, 1, 3, 180]),
    ];
    for (name, build) in NETWORKS {
        for threads in [1, 3] {
            let mut runner = runner(build, threads);
            let dense = elements(LEN, [LEN, 4200, 70, 1]);
            let tensor = Tensor::from_f32(SHAPE, dense).expect("fits");
            let want = bits(&runner.run(&[("x", &tensor)]).expect("runs"));
            for (layout, len, strides) in layouts {
                let values = elements(len, strides);
                let view = TensorView::with_strides(&values[..], &SHAPE, &strides);
                let view = view.expect("inside");
                for _ in 0..2 {
                    let got = runner.run_views(&[("x", view)]).expect("runs");
                    assert!(bits(&got) == want, "{name}, {layout}, {threads} threads");
                }
                let kept = elements(len, strides);
                let same = values
                    .iter()
                    .zip(&kept)
                    .all(|(a, b)| a.to_bits() == b.to_bits());
                assert!(same, "{name}: the caller's elements were written");
            }
        }
    }
}

#[test]
fn results_are_those_of_the_interpreter() {
    for (name, build) in NETWORKS {
        let mut runner = runner(build, 2);
        let dense = elements(LEN, [LEN, 4200, 70, 1]);
        let x = Tensor::from_f32(SHAPE, dense).expect("fits");
        let mut graph = Graph::default();
        let id = graph.add_input("x", DType::F32, SHAPE.map(Dim::Known).to_vec());
        graph.outputs = build(&mut graph, Some(id));
        let bound = spark_onnx::graph::bind(&graph, &[]).expect("fixed shapes");
        let want = spark_onnx::reference::run(&bound, &[("x", &x)]).expect("interpreted");
        let got = runner.run(&[("x", &x)]).expect("runs");
        for ((_, want), (_, got)) in want.iter().zip(&got) {
            let close = |(a, b): (f32, &f32)| (a - b).abs() <= 1e-4 * b.abs().max(1.0);
            assert!(
                got.to_f32().into_iter().zip(&want.to_f32()).all(close),
                "{name}"
            );
        }
    }
}

#[test]
fn a_repeated_row_is_read_again_and_again() {
    let mut runner = runner(NETWORKS[0].1, 2);
    let row: Vec<f32> = (0..70).map(|i| i as f32 - 35.0).collect();
    let view = TensorView::with_strides(&row[..], &SHAPE, &[0, 0, 0, 1]).expect("inside");
    let outputs = runner.run_views(&[("x", view)]).expect("runs");
    let got = outputs[0].1.to_f32();
    assert!(
        got.iter()
            .enumerate()
            .all(|(i, &v)| v == row[i % 70].max(0.0))
    );
}

#[test]
fn arrays_are_read_and_written_where_they_lie() {
    let mut graph = Graph::default();
    let x = graph.add_input("x", DType::F32, vec![Dim::Known(3), Dim::Known(4)]);
    let y = graph.add_node("y", Op::Unary(Unary::Neg), &[Some(x)]);
    graph.outputs.push(y);
    let model = Model::from_graph(graph, &RunOptions::new()).expect("fixed shapes");
    let mut session = model.session();
    let frames = Array2::from_shape_fn((7, 4), |(row, column)| (4 * row + column) as f32);
    let mut out = Array2::<f32>::zeros((3, 4));
    let mut run = |x: &ArrayView2<'_, f32>, out: &mut Array2<f32>| {
        let inputs = [("x", TensorView::try_from(x)?)];
        let mut outputs = [("y", TensorViewMut::try_from(&mut *out)?)];
        session.run_into(&inputs, &mut outputs)?;
        let copied = session.last_traffic();
        Ok::<_, ModelError>((copied.copied_in_bytes, copied.copied_out_bytes))
    };
    let rows = frames.slice(s![2..5, ..]);
    assert_eq!(run(&rows, &mut out).expect("runs"), (0, 0));
    assert_eq!(out, -&rows);
    let columns = Array2::from_shape_fn((4, 3), |(row, column)| (row * column) as f32);
    let (copied_in, _) = run(&columns.t(), &mut out).expect("runs");
    assert_eq!((copied_in, &out), (48, &-&columns.t()));
    run(&frames.row(1).broadcast((3, 4)).expect("repeats"), &mut out).expect("runs");
    assert!(out.rows().into_iter().all(|row| row == -&frames.row(1)));
    assert!(run(&frames.slice(s![..;3, ..]), &mut out).is_err(), "gaps");
}

#[test]
fn outputs_are_the_callers_own() {
    let mut runner = runner(NETWORKS[0].1, 1);
    let x = Tensor::from_f32(SHAPE, vec![2.0; LEN]).expect("fits");
    let first = runner.run(&[("x", &x)]).expect("runs");
    let y = Tensor::from_f32(SHAPE, vec![3.0; LEN]).expect("fits");
    let second = runner.run(&[("x", &y)]).expect("runs");
    assert!(first[0].1.to_f32().iter().all(|&v| v == 2.0));
    assert!(second[0].1.to_f32().iter().all(|&v| v == 3.0));
}

#[test]
fn a_run_that_fails_leaves_the_runner_whole() {
    let mut graph = Graph::default();
    let x = graph.add_input("x", DType::F32, vec![Dim::Known(4)]);
    let index = graph.add_input("index", DType::I64, vec![Dim::Known(2)]);
    let y = graph.add_node("y", Op::Gather(Gather { axis: 0 }), &[Some(x), Some(index)]);
    graph.outputs.push(y);
    let mut runner = ModelRunner::from_graph(graph, &RunOptions::new()).expect("fixed shapes");
    let mut run = |x: &[f32], index: [i64; 2]| {
        let (x, index) = (x.to_vec(), index.to_vec());
        let x = TensorView::new(&x[..], &[4])?;
        let index = TensorView::new(&index[..], &[2])?;
        let outputs = runner.run_views(&[("index", index), ("x", x)])?;
        Ok::<_, ModelError>(outputs[0].1.to_f32())
    };
    let outside = run(&[1.0, 2.0, 3.0, 4.0], [0, 4]);
    assert!(matches!(
        outside,
        Err(ModelError::IndexOutside { index: 4, .. })
    ));
    assert_eq!(
        run(&[1.0, 2.0, 3.0, 4.0], [3, 0]).expect("inside"),
        [4.0, 1.0]
    );
    let wrong_shape = TensorView::new(&[0.0f32; 3][..], &[3]).expect("three");
    let index = TensorView::new(&[0i64; 2][..], &[2]).expect("two");
    let refused = runner.run_views(&[("x", wrong_shape), ("index", index)]);
    assert!(matches!(refused, Err(ModelError::InputShape { .. })));
    let twice = runner.run_views(&[("index", index), ("index", index)]);
    assert!(matches!(twice, Err(ModelError::InputTwice { .. })));
}
