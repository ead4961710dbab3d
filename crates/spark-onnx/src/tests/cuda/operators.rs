//! Every operator that has a sample, and shapes drawn at random, against the reference.

use proptest::prelude::*;
use proptest::test_runner::{TestCaseError, TestRunner};
use spark_onnx::graph::{
    Binary, Conv, ConvTranspose, Dim, Gather, Graph, LayerNormalization, MaskedSoftmax, MatMul, Op,
    Padding, Reduce, ReduceKind, Softmax, Transpose, Unary, ValueId,
};
use spark_onnx::{DType, Precision, Tensor};
use spark_onnx_graph::samples::every_operator;
use spark_testing::driver::Persona;

use super::{compare, on, tensor};
use crate::tests::operators::{cases, conv_case, convolution, graph_of, pool_case, unary};

/// What there is no kernel for: words of the errors.
const REFUSED: [&str; 8] = [
    "there is no kernel for such steps yet",
    "values say how long its results are",
    "no reduction of integers",
    "no sums of integers",
    " of integers",
    " of f32",
    "decides shapes",
    "sequence lengths are not supported",
];
/// Functions that no kernel has yet.
const NO_FUNCTION: [&str; 11] = [
    "Sin", "Cos", "Tan", "Asin", "Acos", "Atan", "Sinh", "Cosh", "Asinh", "Acosh", "Atanh",
];

#[test]
fn every_operator_agrees_with_the_reference_or_is_refused_by_name() {
    on(Persona::Card, |_, device| {
        let mut failures = Vec::new();
        let (mut n_run, mut n_refused) = (0, 0);
        for sample in every_operator() {
            let narrow = sample
                .inputs
                .iter()
                .any(|(_, t)| matches!(t.dtype(), DType::F16 | DType::BF16));
            let bar = if narrow { 1e-2 } else { 1e-5 };
            let done = compare(device, &sample.graph, &sample.inputs, Precision::Fp32, bar);
            let is_known = |error: &str| {
                REFUSED.iter().any(|words| error.contains(words))
                    || NO_FUNCTION
                        .iter()
                        .any(|name| error.ends_with(&format!("no {name}")))
                    || error.contains("crop and resize is not supported")
            };
            match done {
                Ok(()) => n_run += 1,
                Err(error) if error.starts_with("load: ") && is_known(&error) => n_refused += 1,
                Err(error) => failures.push(format!("{}: {error}", sample.name)),
            }
        }
        let all = failures.join("\n");
        assert!(failures.is_empty(), "{} fail:\n{all}", failures.len());
        println!("{n_run} samples ran, {n_refused} were refused");
        assert!(n_run > 150, "{n_run} ran, {n_refused} refused");
    });
}

/// Runs `check` with some values of `strategy`, on one device.
fn for_random<S: Strategy>(
    most: u32,
    strategy: &S,
    check: impl Fn(
        S::Value,
        &mut dyn FnMut(Graph, Vec<(String, Tensor)>) -> Result<(), String>,
    ) -> Result<(), String>,
) {
    on(Persona::Card, |_, device| {
        let mut runner = TestRunner::new(ProptestConfig {
            failure_persistence: None, // what failed is told, with its numbers
            ..cases(most)
        });
        let outcome = runner.run(strategy, |value| {
            let mut both = |graph: Graph, inputs: Vec<(String, Tensor)>| {
                compare(device, &graph, &inputs, Precision::Fp32, 1e-5)?;
                compare(device, &graph, &inputs, Precision::Fp16, 4e-3)
                    .map_err(|e| format!("fp16: {e}"))
            };
            check(value, &mut both).map_err(TestCaseError::fail)
        });
        outcome.unwrap();
    });
}

fn given(shape: &[usize], seed: u64) -> Vec<(String, Tensor)> {
    vec![("x".to_owned(), tensor(shape, seed))]
}

#[test]
fn convolutions_of_random_shapes() {
    for_random(
        24,
        &conv_case(),
        |(conv, x_shape, w_shape, tail, seed), compare| {
            let (mut graph, x) = graph_of(&x_shape);
            let y = convolution(&mut graph, conv, x, w_shape, seed);
            let out = match tail {
                0 => y,
                1 => unary(&mut graph, "relu", Unary::Relu, y),
                2 => unary(&mut graph, "elu", Unary::Elu { alpha: 1.0 }, y),
                3 => unary(&mut graph, "silu", Unary::Swish { alpha: 1.0 }, y),
                _ => {
                    let gate = unary(&mut graph, "gate", Unary::Sigmoid, y);
                    graph.add_node("product", Op::Binary(Binary::Mul), &[Some(y), Some(gate)])
                }
            };
            graph.outputs.push(out);
            compare(graph, given(&x_shape, seed))
        },
    );
}

#[test]
fn transposed_convolutions_of_random_shapes() {
    let case = (
        1usize..3,
        (1usize..6, 1usize..12),
        (1usize..5, 1usize..4),
        (1usize..4, 1usize..4),
        (1usize..7, 1usize..9),
        any::<u64>(),
    );
    for_random(
        12,
        &case,
        |(groups, channels, kernel, stride, size, seed), compare| {
            let pad = (kernel.1 - 1) / 2;
            let conv = Conv {
                strides: vec![stride.0, stride.1],
                dilations: vec![1, 1],
                padding: Padding::Explicit(vec![0, pad, 0, pad]),
                groups,
            };
            let op = Op::ConvTranspose(ConvTranspose {
                conv,
                output_padding: vec![stride.0 - 1, 0],
                output_shape: None,
            });
            let shape = [1, groups * channels.0, size.0, size.1];
            let (mut graph, x) = graph_of(&shape);
            let w_shape = [shape[1], channels.1, kernel.0, kernel.1];
            let w = graph.add_constant("w", tensor(&w_shape, seed ^ 1));
            let y = graph.add_node("y", op, &[Some(x), Some(w)]);
            graph.outputs.push(y);
            compare(graph, given(&shape, seed))
        },
    );
}

#[test]
fn pools_of_random_shapes() {
    for_random(24, &pool_case(), |(pool, shape, seed), compare| {
        let (mut graph, x) = graph_of(&shape);
        let y = graph.add_node("pool", Op::Pool(pool), &[Some(x)]);
        graph.outputs.push(y);
        compare(graph, given(&shape, seed))
    });
}

#[test]
fn products_of_computed_matrices() {
    let case = (
        1usize..4,
        1usize..3,
        [1usize..9, 1usize..12, 1usize..40],
        any::<bool>(),
        any::<u64>(),
    );
    for_random(
        16,
        &case,
        |(batch, heads, [m, n, k], turned, seed), compare| {
            let mut graph = Graph::default();
            let mut input = |name: &str, shape: &[usize]| {
                let dims = shape.iter().map(|&extent| Dim::Known(extent)).collect();
                graph.add_input(name, DType::F32, dims)
            };
            let a_shape = [batch, heads, m, k];
            // The right one is repeated over the batch.
            let b_shape = if turned {
                [1, heads, n, k]
            } else {
                [1, heads, k, n]
            };
            let (a, b) = (input("a", &a_shape), input("b", &b_shape));
            let b = match turned {
                true => graph.add_node(
                    "turned",
                    Op::Transpose(Transpose {
                        perm: Some(vec![0, 1, 3, 2]),
                    }),
                    &[Some(b)],
                ),
                false => b,
            };
            let y = graph.add_node("y", Op::MatMul(MatMul), &[Some(a), Some(b)]);
            graph.outputs.push(y);
            let inputs = [("a", &a_shape), ("b", &b_shape)];
            compare(
                graph,
                inputs
                    .map(|(name, shape)| (name.to_owned(), tensor(shape, seed ^ shape[2] as u64)))
                    .to_vec(),
            )
        },
    );
}

fn i64_constant(graph: &mut Graph, name: &str, values: &[i64]) -> ValueId {
    let values = Tensor::from_i64([values.len()], values.to_vec()).expect("a list");
    graph.add_constant(name, values)
}

#[test]
fn rows_and_reductions_of_random_shapes() {
    let kinds = prop_oneof![
        Just(ReduceKind::Sum),
        Just(ReduceKind::Mean),
        Just(ReduceKind::Max),
        Just(ReduceKind::Min),
        Just(ReduceKind::L1),
        Just(ReduceKind::L2),
        Just(ReduceKind::SumSquare),
        Just(ReduceKind::LogSumExp),
    ];
    let case = (
        kinds,
        [1usize..4, 1usize..9, 1usize..300],
        0usize..3,
        any::<bool>(),
        any::<u64>(),
    );
    for_random(
        24,
        &case,
        |(kind, shape, axis, keep_dims, seed), compare| {
            let (mut graph, x) = graph_of(&shape);
            let softmax = Op::Softmax(Softmax {
                axis: axis as i64,
                log: keep_dims,
                flatten: false,
            });
            let soft = graph.add_node("soft", softmax, &[Some(x)]);
            let scale = graph.add_constant("scale", tensor(&[shape[2]], seed ^ 3));
            let norm = Op::LayerNormalization(LayerNormalization {
                axis: -1,
                epsilon: 1e-3,
            });
            let norm = graph.add_node("norm", norm, &[Some(x), Some(scale)]);
            let axes = i64_constant(&mut graph, "axes", &[axis as i64, (axis as i64 + 1) % 3]);
            let reduce = Op::Reduce(Reduce {
                kind,
                keep_dims,
                noop_with_empty_axes: false,
            });
            let reduced = graph.add_node("reduced", reduce, &[Some(x), Some(axes)]);
            graph.outputs.extend([soft, norm, reduced]);
            compare(graph, given(&shape, seed))
        },
    );
}

/// Every reduction, softmax and normalisation of rows in which NaN and infinities stand, alone and together, in
/// the first round of a warp and in later ones.
pub(super) fn rows_of_no_numbers() -> (Graph, Tensor) {
    let (nan, inf) = (f32::NAN, f32::INFINITY);
    let seen: [&[(usize, f32)]; 13] = [
        &[],
        &[(0, nan)],
        &[(37, nan)],
        &[(69, nan)],
        &[(3, inf)],
        &[(3, -inf)],
        &[(68, inf)],
        &[(3, inf), (40, -inf)],
        &[(3, nan), (40, inf)],
        &[(3, inf), (40, nan)],
        &[(3, nan), (40, -inf)],
        &[(3, -inf), (40, nan)],
        &[(35, nan), (36, nan)],
    ];
    let width = 70;
    let (n_seen, n_rows) = (seen.len(), seen.len() + 3);
    // Around 1, so that products and sums of logarithms are numbers too.
    let values = tensor(&[n_rows, width], 9).to_f32();
    let mut values: Vec<f32> = values.iter().map(|value| 1.0 + 0.05 * value).collect();
    for (row, places) in values.chunks_mut(width).zip(seen) {
        places.iter().for_each(|&(at, value)| row[at] = value);
    }
    for (row, all) in values[n_seen * width..]
        .chunks_mut(width)
        .zip([nan, inf, -inf])
    {
        row.fill(all);
    }
    let (mut graph, x) = graph_of(&[n_rows, width]);
    let axes = i64_constant(&mut graph, "axes", &[1]);
    for kind in [
        ReduceKind::Sum,
        ReduceKind::Mean,
        ReduceKind::Max,
        ReduceKind::Min,
        ReduceKind::Prod,
        ReduceKind::L1,
        ReduceKind::L2,
        ReduceKind::SumSquare,
        ReduceKind::LogSum,
        ReduceKind::LogSumExp,
    ] {
        let reduce = Op::Reduce(Reduce {
            kind,
            keep_dims: true,
            noop_with_empty_axes: false,
        });
        let reduced = graph.add_node(format!("{kind:?}"), reduce, &[Some(x), Some(axes)]);
        graph.outputs.push(reduced);
    }
    for log in [false, true] {
        let softmax = Op::Softmax(Softmax {
            axis: 1,
            log,
            flatten: false,
        });
        let soft = graph.add_node(format!("softmax, {log}"), softmax, &[Some(x)]);
        graph.outputs.push(soft);
    }
    let scale = graph.add_constant("scale", tensor(&[width], 3));
    let norm = Op::LayerNormalization(LayerNormalization {
        axis: -1,
        epsilon: 1e-3,
    });
    let norm = graph.add_node("norm", norm, &[Some(x), Some(scale)]);
    graph.outputs.push(norm);
    let x = Tensor::from_f32([n_rows, width], values).expect("fits");
    (graph, x)
}

#[test]
fn rows_in_which_no_numbers_stand() {
    let (graph, x) = rows_of_no_numbers();
    let inputs = [("x".to_owned(), x)];
    crate::tests::operators::compare(&graph, &inputs, 1e-5).expect("the CPU's rows");
    on(Persona::Card, |_, device| {
        compare(device, &graph, &inputs, Precision::Fp32, 1e-5).expect("the GPU's rows");
        compare(device, &graph, &inputs, Precision::Fp16, 4e-3).expect("the GPU's rows in 16 bits");
    });
}

#[test]
fn gathered_rows_of_random_shapes() {
    let case = (
        [1usize..5, 1usize..7, 1usize..5],
        0usize..3,
        1usize..6,
        any::<u64>(),
    );
    for_random(12, &case, |(shape, axis, n, seed), compare| {
        let (mut graph, x) = graph_of(&shape);
        let index = graph.add_input("index", DType::I64, vec![Dim::Known(n)]);
        let gather = Op::Gather(Gather { axis: axis as i64 });
        let y = graph.add_node("y", gather, &[Some(x), Some(index)]);
        graph.outputs.push(y);
        let extent = shape[axis] as i64;
        let index = (0..n as u64)
            .map(|i| (seed.rotate_left(7 * i as u32) % (2 * extent as u64)) as i64 - extent);
        let index = Tensor::from_i64([n], index.collect()).expect("a list");
        let mut inputs = given(&shape, seed);
        inputs.push(("index".to_owned(), index));
        compare(graph, inputs)
    });
}

/// A row of masks alone becomes zeros; one in which a NaN stands stays NaN, also beside masks alone.
#[test]
fn masked_rows_with_a_nan_stay_nan() {
    let (mut graph, x) = graph_of(&[4, 40]);
    let softmax = Op::MaskedSoftmax(MaskedSoftmax);
    let y = graph.add_node("softmax", softmax, &[Some(x)]);
    graph.outputs.push(y);
    let mut values = tensor(&[4, 40], 1).to_f32();
    values[40..].fill(f32::NEG_INFINITY);
    values[80 + 7] = f32::NAN;
    values[120..].fill(f32::NAN);
    let x = Tensor::from_f32([4, 40], values).expect("fits");
    on(Persona::Card, |_, device| {
        let mut session =
            super::CudaSession::from_graph(graph.clone(), device, &super::options(Precision::Fp32))
                .expect("loads");
        let got = session.run(&[("x", &x)]).expect("runs")[0].1.to_f32();
        let is_nan: Vec<usize> = got
            .chunks(40)
            .map(|row| row.iter().filter(|v| v.is_nan()).count())
            .collect();
        assert_eq!(is_nan, [0, 0, 40, 40]);
        assert_eq!(got[40..80], [0.0; 40]);
        assert!((got[..40].iter().sum::<f32>() - 1.0).abs() < 1e-5);
    });
}
