//! Sizes beyond the tensor they concern, and what they mean there: the whole of it, once.
//!
//! ```text
//! a window, a response, a step or a depth of 2^24 .. 2^63 - 1
//!     --> what runner and interpreter answer == what is written here by hand
//! ```

use spark_onnx::graph::*;
use spark_onnx::{DType, ModelRunner, RunOptions, Tensor, reference};

use super::hostile_sizes::{floats, of_lists, output, pool};
use super::memory_budget::scalar;

/// Results of runner and interpreter.
fn both(graph: &Graph, x: &Tensor) -> [Tensor; 2] {
    let given = [("x", x)];
    let bound = bind(graph, &[]).expect("binds");
    let interpreted = reference::run(&bound, &given).expect("interpreted");
    let mut runner = ModelRunner::from_graph(graph.clone(), &RunOptions::new()).expect("loads");
    let executed = runner.run(&given).expect("executed");
    [interpreted, executed].map(|mut outputs| outputs.remove(0).1)
}

fn counted(shape: &[usize]) -> Tensor {
    let n: usize = shape.iter().product();
    Tensor::from_f32(shape, (0..n).map(|i| i as f32).collect()).expect("fits")
}

#[test]
fn a_window_wider_than_the_image_holds_all_of_it() {
    let x = counted(&[1, 2, 4, 4]);
    for (kind, want) in [
        (PoolKind::Average, [7.5, 23.5]),
        (PoolKind::Max, [15.0, 31.0]),
    ] {
        for huge in [8, 1 << 28, 1 << 31] {
            let pool = Pool {
                padding: Padding::SameUpper,
                strides: vec![4, 4],
                ..pool(kind, &[huge, huge])
            };
            let graph = of_lists(Op::Pool(pool), x.shape(), &[]);
            for got in both(&graph, &x) {
                assert_eq!(got.to_f64(), want, "{kind:?} of {huge}");
            }
        }
    }
}

#[test]
fn a_response_is_normalised_over_no_more_channels_than_there_are() {
    let x = counted(&[1, 3, 1, 2]);
    for huge in [1 << 24, 1 << 33, i64::MAX as usize] {
        let op = Op::Lrn(Lrn {
            alpha: huge as f32,
            beta: 1.0,
            bias: 1.0,
            size: huge,
        });
        // `alpha / size` is one: 0 + 4 + 16 and 1 + 9 + 25.
        let want = [
            0.0,
            1.0 / 36.0,
            2.0 / 21.0,
            3.0 / 36.0,
            4.0 / 21.0,
            5.0 / 36.0,
        ];
        for got in both(&of_lists(op, x.shape(), &[]), &x) {
            for (got, want) in got.to_f64().into_iter().zip(want) {
                assert!((got - want).abs() < 1e-6, "{huge}: {got}, wanted {want}");
            }
        }
    }
}

#[test]
fn a_step_beyond_the_axis_takes_one_element() {
    let x = counted(&[4, 2]);
    for (start, end, step, want) in [
        (1, i64::MAX, 1 << 62, [2.0, 3.0]),
        (1, i64::MAX, i64::MAX, [2.0, 3.0]),
        (-1, i64::MIN, -(1 << 62), [6.0, 7.0]),
        (-1, i64::MIN, i64::MIN, [6.0, 7.0]),
    ] {
        let lists = [&[start][..], &[end], &[0], &[step]];
        for got in both(&of_lists(Op::Slice(Slice), x.shape(), &lists), &x) {
            assert_eq!(got.shape(), [1, 2]);
            assert_eq!(got.to_f64(), want, "step {step}");
        }
    }
}

#[test]
fn one_hot_of_nothing_is_empty_however_deep() {
    for axis in [0, -1] {
        let mut graph = Graph::default();
        let x = Some(graph.add_input("x", DType::I64, vec![Dim::Known(0)]));
        let depth = scalar(&mut graph, "depth", 1 << 31);
        let values = floats(&mut graph, "values", &[2]);
        let graph = output(graph, Op::OneHot(OneHot { axis }), &[x, depth, values]);
        let x = Tensor::from_i64([0], vec![]).expect("nothing");
        for got in both(&graph, &x) {
            assert_eq!(got.len(), 0);
            assert_eq!(got.shape()[usize::from(axis == -1)], 1 << 31);
        }
    }
}
