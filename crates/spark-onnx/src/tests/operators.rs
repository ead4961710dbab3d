//! The executor against the reference interpreter: every operator, then shapes,
//! strides, pads and groups drawn at random, on every instruction set of this machine.

use proptest::prelude::*;
use spark_onnx::cpu::{Executor, Isa, Pool};
use spark_onnx::graph::{
    Binary, Concat, Conv, ConvTranspose, Dim, Flatten, Gather, Gemm, GlobalPool, Graph,
    InstanceNormalization, MatMul, Op, Pad, PadMode, Padding, Pool as PoolOp, PoolKind, Reduce,
    ReduceKind, Softmax, Transpose, Unary, ValueId, bind,
};
use spark_onnx::plan::lower;
use spark_onnx::{DType, ModelError, Tensor, reference};
use spark_testing::numbers;
use std::sync::Arc;

use spark_onnx_graph::samples::every_operator;

/// Samples no step exists for: what the name ends with, and the reason in the error.
const REFUSED: &[(&str, &str)] = &[
    ("_LSTM", "sequence lengths are not supported"),
    ("_Resize", "crop and resize is not supported"),
];

/// At most `most` cases, fewer where `PROPTEST_CASES` says so: under an emulator.
pub(super) fn cases(most: u32) -> ProptestConfig {
    let default = ProptestConfig::default();
    ProptestConfig {
        cases: default.cases.min(most),
        ..default
    }
}

fn tensor(shape: &[usize], seed: u64) -> Tensor {
    Tensor::from_f32(shape, numbers(shape.iter().product(), seed)).expect("fits")
}

/// Runs `graph` both ways and compares every output, relative to its largest value; numbers of
/// threads must agree to the bit.
pub(super) fn compare(graph: &Graph, inputs: &[(String, Tensor)], bar: f64) -> Result<(), String> {
    let shapes: Vec<(&str, Vec<usize>)> = inputs
        .iter()
        .map(|(n, t)| (n.as_str(), t.shape().to_vec()))
        .collect();
    let given: Vec<(&str, &Tensor)> = inputs.iter().map(|(n, t)| (n.as_str(), t)).collect();
    let bound = bind(graph, &shapes).map_err(|e| format!("bind: {e}"))?;
    let want = reference::run(&bound, &given).map_err(|e| format!("reference: {e}"))?;
    for isa in Isa::available() {
        let mut on_one: Vec<Tensor> = Vec::new();
        for threads in [1, 3] {
            let plan = lower(&bound).map_err(|e| format!("lower: {e}"))?;
            let pool = Arc::new(Pool::new(threads));
            let mut executor = Executor::new(plan, isa, pool).map_err(|e| format!("new: {e}"))?;
            for (i, port) in executor.plan().inputs.clone().iter().enumerate() {
                let found = inputs.iter().find(|(n, _)| *n == port.name);
                let (_, tensor) = found.ok_or("input not given")?;
                executor.set_input(i, tensor).map_err(|e| e.to_string())?;
            }
            // Twice: a plan that spoils its own inputs or constants shows the second time.
            for _ in 0..2 {
                for (i, port) in executor.plan().inputs.clone().iter().enumerate() {
                    let found = inputs.iter().find(|(n, _)| *n == port.name);
                    let (_, tensor) = found.ok_or("input not given")?;
                    executor.set_input(i, tensor).map_err(|e| e.to_string())?;
                }
                executor.run().map_err(|e| format!("run: {e}"))?;
            }
            for (i, (name, want)) in want.iter().enumerate() {
                let got = executor.output(i).map_err(|e| e.to_string())?;
                same(&got, want, bar).map_err(|e| format!("{name} on {isa:?} x{threads}: {e}"))?;
                match threads {
                    1 => on_one.push(got),
                    _ if bits(&got) == bits(&on_one[i]) => {}
                    _ => {
                        return Err(format!(
                            "{name} on {isa:?}: other bits on {threads} threads"
                        ));
                    }
                }
            }
        }
    }
    Ok(())
}

/// Of every element, wide enough for all types.
fn bits(tensor: &Tensor) -> Vec<u64> {
    tensor.to_f64().into_iter().map(f64::to_bits).collect()
}

/// Written so that a NaN on one side only, or an infinity of the wrong sign, fails. Integers and truths are exact: beside large
/// ones a bar relative to them would let small ones pass.
pub(super) fn same(got: &Tensor, want: &Tensor, bar: f64) -> Result<(), String> {
    if got.shape() != want.shape() || got.dtype() != want.dtype() {
        return Err(format!(
            "{:?} {} for {:?} {}",
            got.shape(),
            got.dtype(),
            want.shape(),
            want.dtype()
        ));
    }
    let bar = if want.dtype().is_float() { bar } else { 0.0 };
    let (got, want) = (got.to_f64(), want.to_f64());
    let scale = want
        .iter()
        .filter(|v| v.is_finite())
        .fold(0.0f64, |m, v| m.max(v.abs()));
    for (i, (g, w)) in got.iter().zip(&want).enumerate() {
        let equal = g == w || (g.is_nan() && w.is_nan());
        let close = (g - w).abs() <= bar * scale + 1e-30; // never true of NaN
        if !equal && !close {
            return Err(format!("element {i}: {g:e}, want {w:e} (scale {scale:e})"));
        }
    }
    Ok(())
}

#[test]
fn every_operator_agrees_with_the_reference() {
    let mut failures = Vec::new();
    let (mut n_run, mut n_refused) = (0, 0);
    for sample in every_operator() {
        // Halves are carried as f32, so they differ by the roundings left out.
        let narrow = sample
            .inputs
            .iter()
            .any(|(_, t)| matches!(t.dtype(), DType::F16 | DType::BF16));
        let bar = if narrow { 1e-2 } else { 1e-5 };
        let expected = REFUSED.iter().find(|(end, _)| sample.name.ends_with(end));
        match (compare(&sample.graph, &sample.inputs, bar), expected) {
            (Ok(()), _) => n_run += 1,
            (Err(e), Some((_, reason))) if e.contains(reason) => n_refused += 1,
            (Err(e), _) => failures.push(format!("{}: {e}", sample.name)),
        }
    }
    assert!(
        failures.is_empty(),
        "{} fail:\n{}",
        failures.len(),
        failures.join("\n")
    );
    assert!(n_run > 200, "{n_run} ran, {n_refused} refused");
}

/// A graph with one f32 input `x` of `shape`.
pub(super) fn graph_of(shape: &[usize]) -> (Graph, ValueId) {
    let mut graph = Graph::default();
    let dims = shape.iter().map(|&d| Dim::Known(d)).collect();
    let x = graph.add_input("x", DType::F32, dims);
    (graph, x)
}

pub(super) fn unary(graph: &mut Graph, name: &str, op: Unary, x: ValueId) -> ValueId {
    graph.add_node(name, Op::Unary(op), &[Some(x)])
}

#[track_caller]
fn check(mut graph: Graph, out: ValueId, shape: &[usize], seed: u64) {
    graph.outputs.push(out);
    let inputs = [("x".to_owned(), tensor(shape, seed))];
    if let Err(e) = compare(&graph, &inputs, 2e-5) {
        panic!("{e}\n{:#?}", graph.nodes);
    }
}

/// A convolution with weights and bias drawn from the seed.
pub(super) fn convolution(
    graph: &mut Graph,
    conv: Conv,
    x: ValueId,
    shape: [usize; 4],
    seed: u64,
) -> ValueId {
    let w = graph.add_constant("w", tensor(&shape, seed ^ 1));
    let b = graph.add_constant("b", tensor(&shape[..1], seed ^ 2));
    graph.add_node("conv", Op::Conv(conv), &[Some(x), Some(w), Some(b)])
}

prop_compose! {
    pub(super) fn conv_case()(
        groups in 1usize..4,
        in_per_group in 1usize..9,
        out_per_group in 1usize..40,
        kernel in (1usize..5, 1usize..5),
        stride in (1usize..4, 1usize..4),
        dilation in (1usize..3, 1usize..3),
        pads in [0usize..4, 0usize..4, 0usize..4, 0usize..4],
        size in (1usize..14, 1usize..20),
        batch in 1usize..3,
        depthwise in any::<bool>(),
        tail in 0usize..6,
        seed in any::<u64>(),
    ) -> (Conv, [usize; 4], [usize; 4], usize, u64) {
        let reach = |k: usize, d: usize| (k - 1) * d + 1;
        let h = size.0.max(reach(kernel.0, dilation.0).saturating_sub(pads[0] + pads[2]).max(1));
        let w = size.1.max(reach(kernel.1, dilation.1).saturating_sub(pads[1] + pads[3]).max(1));
        let (groups, cin, cout) = if depthwise {
            let channels = in_per_group * 5;
            (channels, 1, 1)
        } else {
            (groups, in_per_group, out_per_group)
        };
        let conv = Conv {
            strides: vec![stride.0, stride.1],
            dilations: vec![dilation.0, dilation.1],
            padding: Padding::Explicit(pads.to_vec()),
            groups,
        };
        let weights = [groups * cout, cin, kernel.0, kernel.1];
        (conv, [batch, groups * cin, h, w], weights, tail, seed)
    }
}

proptest! {
    #![proptest_config(cases(40))]

    #[test]
    fn convolutions_with_what_follows_them((conv, x_shape, w_shape, tail, seed) in conv_case()) {
        let (mut graph, x) = graph_of(&x_shape);
        let y = convolution(&mut graph, conv, x, w_shape, seed);
        let per_channel = [w_shape[0], 1, 1];
        let out = match tail {
            0 => y,
            1 => unary(&mut graph, "relu", Unary::Relu, y),
            2 => unary(&mut graph, "elu", Unary::Elu { alpha: 1.0 }, y),
            3 => {
                let s = graph.add_constant("s", tensor(&per_channel, seed ^ 3));
                let y = graph.add_node("scale", Op::Binary(Binary::Mul), &[Some(y), Some(s)]);
                let t = graph.add_constant("t", tensor(&per_channel, seed ^ 4));
                let y = graph.add_node("shift", Op::Binary(Binary::Add), &[Some(t), Some(y)]);
                unary(&mut graph, "silu", Unary::Swish { alpha: 1.0 }, y)
            }
            4 => {
                let s = unary(&mut graph, "sigmoid", Unary::Sigmoid, y);
                let y = graph.add_node("sum", Op::Binary(Binary::Add), &[Some(y), Some(s)]);
                unary(&mut graph, "tanh", Unary::Tanh, y)
            }
            _ => graph.add_node("pow", Op::Binary(Binary::Mul), &[Some(y), Some(y)]),
        };
        check(graph, out, &x_shape, seed);
    }
}

/// A convolution with nothing, an activation or a residual sum behind it.
fn check_convolution(conv: Conv, x_shape: &[usize], w_shape: [usize; 4], tail: usize, seed: u64) {
    let (mut graph, x) = graph_of(x_shape);
    let y = convolution(&mut graph, conv, x, w_shape, seed);
    let out = match tail {
        0 => y,
        1 => unary(&mut graph, "relu", Unary::Relu, y),
        2 => unary(&mut graph, "elu", Unary::Elu { alpha: 1.0 }, y),
        // A second look at the result, so that the sum is a residual of one product.
        _ => {
            let z = unary(&mut graph, "tanh", Unary::Tanh, y);
            let w = graph.add_constant("w1", tensor(&[w_shape[0], w_shape[0], 3, 3], seed ^ 5));
            let conv = Conv {
                strides: vec![],
                dilations: vec![],
                padding: Padding::Explicit(vec![1; 4]),
                groups: 1,
            };
            let z = graph.add_node("again", Op::Conv(conv), &[Some(z), Some(w)]);
            graph.add_node("sum", Op::Binary(Binary::Add), &[Some(z), Some(y)])
        }
    };
    check(graph, out, x_shape, seed);
}

prop_compose! {
    /// 3x3 windows on enough channels and pixels for Winograd's transform.
    fn square_window_case()(
        depth in 32usize..70,
        n in 32usize..100,
        pads in [0usize..3, 0usize..3, 0usize..3, 0usize..3],
        size in (14usize..20, 17usize..30),
        batch in 1usize..3,
        tail in 0usize..4,
        seed in any::<u64>(),
    ) -> (Conv, [usize; 4], [usize; 4], usize, u64) {
        let conv = Conv {
            strides: vec![1, 1],
            dilations: vec![1, 1],
            padding: Padding::Explicit(pads.to_vec()),
            groups: 1,
        };
        (conv, [batch, depth, size.0, size.1], [n, depth, 3, 3], tail, seed)
    }
}

proptest! {
    #![proptest_config(cases(24))]

    #[test]
    fn convolutions_with_square_windows((conv, x_shape, w_shape, tail, seed) in square_window_case()) {
        check_convolution(conv, &x_shape, w_shape, tail, seed);
    }
}

proptest! {
    #![proptest_config(cases(40))]

    /// Windows of every width that shares its taps between pixels, over rows of a few pixels.
    #[test]
    fn depthwise_convolutions_in_tiles(
        channels in 2usize..40,
        kernel in (1usize..8, prop_oneof![Just(3usize), Just(5), Just(7)]),
        stride in (1usize..4, 1usize..4),
        pads in [0usize..4, 0usize..4, 0usize..4, 0usize..4],
        size in (7usize..12, 7usize..24),
        batch in 1usize..3,
        has_activation in any::<bool>(),
        seed in any::<u64>(),
    ) {
        let x_shape = [batch, channels, size.0, size.1];
        let (mut graph, x) = graph_of(&x_shape);
        let conv = Conv {
            strides: vec![stride.0, stride.1],
            dilations: vec![1, 1],
            padding: Padding::Explicit(pads.to_vec()),
            groups: channels,
        };
        let w_shape = [channels, 1, kernel.0, kernel.1];
        let y = convolution(&mut graph, conv, x, w_shape, seed);
        let out = match has_activation {
            false => y,
            true => unary(&mut graph, "silu", Unary::Swish { alpha: 1.0 }, y),
        };
        check(graph, out, &x_shape, seed);
    }
}

proptest! {
    #![proptest_config(cases(16))]

    /// A feature map of more than a megabyte between a GEMM and a depthwise convolution, which are
    /// fused, a tile at a time; the last GEMM reads what the first one reads, or the feature map.
    #[test]
    fn expanding_products_before_depthwise_convolutions(
        depth in 3usize..20,
        c in 70usize..130,
        size in (60usize..70, 62usize..70),
        kernel in prop_oneof![Just(3usize), Just(5)],
        stride in 1usize..3,
        pads in [0usize..3, 0usize..3, 0usize..3, 0usize..3],
        batch in 1usize..3,
        read_again in 0usize..3,
        seed in any::<u64>(),
    ) {
        let x_shape = [batch, depth, size.0, size.1];
        let (mut graph, x) = graph_of(&x_shape);
        let conv = |kernel: usize, stride: usize, pads: &[usize], groups: usize| Conv {
            strides: vec![stride; 2],
            dilations: vec![1, 1],
            padding: Padding::Explicit(if kernel == 1 { vec![0; 4] } else { pads.to_vec() }),
            groups,
        };
        let product = |graph: &mut Graph, name: &str, x: ValueId, n: usize, k: usize| {
            let w = graph.add_constant(format!("{name}.w"), tensor(&[n, k, 1, 1], seed ^ 7));
            graph.add_node(name, Op::Conv(conv(1, 1, &[], 1)), &[Some(x), Some(w)])
        };
        let map = product(&mut graph, "expand", x, c, depth);
        let map = unary(&mut graph, "relu", Unary::Relu, map);
        let w = graph.add_constant("dw", tensor(&[c, 1, kernel, kernel], seed ^ 8));
        let y = graph.add_node("depthwise", Op::Conv(conv(kernel, stride, &pads, c)), &[Some(map), Some(w)]);
        let y = unary(&mut graph, "silu", Unary::Swish { alpha: 1.0 }, y);
        let out = product(&mut graph, "project", y, depth, c);
        match read_again {
            0 => {}
            1 => graph.outputs.push(map),
            _ => {
                let again = product(&mut graph, "again", x, 5, depth);
                graph.outputs.push(again);
            }
        }
        check(graph, out, &x_shape, seed);
    }
}

prop_compose! {
    /// Wide images and few channels of the result: segments of rows, or whole rows in one call, instead of tiles.
    fn few_channels_case()(
        groups in 1usize..3,
        in_per_group in 1usize..20,
        out_per_group in 1usize..34,
        kernel in (1usize..5, prop_oneof![Just(3usize), Just(5)]),
        stride in (1usize..3, 1usize..3),
        dilation in 1usize..3,
        pads in [0usize..4, 0usize..4, 0usize..4, 0usize..4],
        size in (7usize..12, 12usize..140),
        tail in 0usize..4,
        seed in any::<u64>(),
    ) -> (Conv, [usize; 4], [usize; 4], usize, u64) {
        let conv = Conv {
            strides: vec![stride.0, stride.1],
            dilations: vec![dilation, 1],
            padding: Padding::Explicit(pads.to_vec()),
            groups,
        };
        let weights = [groups * out_per_group, in_per_group, kernel.0, kernel.1];
        (conv, [1, groups * in_per_group, size.0, size.1], weights, tail, seed)
    }
}

proptest! {
    #![proptest_config(cases(60))]

    #[test]
    fn convolutions_to_few_channels((conv, x_shape, w_shape, tail, seed) in few_channels_case()) {
        check_convolution(conv, &x_shape, w_shape, tail, seed);
    }
}

/// Residual blocks: two matmuls of one operand, added, before or after an activation.
#[test]
fn residual_sums_are_folded_into_the_later_product() {
    for (order, seed) in [(0, 1u64), (1, 2), (2, 3)] {
        let shape = [1, 8, 6, 7];
        let (mut graph, x) = graph_of(&shape);
        let point = |graph: &mut Graph, name: &str, x: ValueId, seed: u64| {
            let w = graph.add_constant(format!("{name}.w"), tensor(&[8, 8, 1, 1], seed));
            let conv = Conv {
                strides: vec![],
                dilations: vec![],
                padding: Padding::Valid,
                groups: 1,
            };
            graph.add_node(name, Op::Conv(conv), &[Some(x), Some(w)])
        };
        let a = point(&mut graph, "a", x, seed);
        let a = if order == 1 {
            unary(&mut graph, "act", Unary::Relu, a)
        } else {
            a
        };
        let b = point(&mut graph, "b", x, seed + 10);
        let b = if order == 2 {
            unary(&mut graph, "elu", Unary::Elu { alpha: 0.5 }, b)
        } else {
            b
        };
        let sum = graph.add_node("sum", Op::Binary(Binary::Add), &[Some(a), Some(b)]);
        let out = unary(&mut graph, "out", Unary::Relu, sum);
        let again = graph.add_node("again", Op::Binary(Binary::Add), &[Some(out), Some(x)]);
        let static_graph = {
            let mut g = graph.clone();
            g.outputs.push(again);
            bind(&g, &[]).expect("binds")
        };
        let plan = lower(&static_graph).expect("lowers");
        let kinds: Vec<&str> = plan.steps.iter().map(|s| s.step.kind()).collect();
        // The last sum follows an activation that follows a residual: the epilogue has no place for it.
        assert_eq!(kinds.iter().filter(|k| **k == "linear").count(), 2);
        assert!(kinds.len() <= 4, "{kinds:?}");
        check(graph, again, &shape, seed);
    }
}

/// The end of a stage of a residual network: strided pointwise convolutions read every second
/// pixel of a sum, whose other operand is read whole elsewhere.
#[test]
fn residual_blocks_before_a_strided_pointwise_convolution() {
    for (inner, size) in [(1, [6, 8]), (3, [7, 9])] {
        let shape = [2, 16, size[0], size[1]];
        let (mut graph, x) = graph_of(&shape);
        let conv = |graph: &mut Graph, name: &str, x: ValueId, kernel: usize, stride: usize| {
            let w = tensor(&[16, 16, kernel, kernel], kernel as u64);
            let w = graph.add_constant(format!("{name}.w"), w);
            let conv = Conv {
                strides: vec![stride, stride],
                dilations: vec![],
                padding: Padding::Explicit(vec![kernel / 2; 4]),
                groups: 1,
            };
            graph.add_node(name, Op::Conv(conv), &[Some(x), Some(w)])
        };
        let elu = Unary::Elu { alpha: 1.0 };
        let before = conv(&mut graph, "before", x, 1, 1);
        let before = unary(&mut graph, "before.elu", elu, before);
        let a = conv(&mut graph, "a", before, inner, 1);
        let a = unary(&mut graph, "a.elu", elu, a);
        let a = conv(&mut graph, "point", a, 1, 1);
        let sum = graph.add_node("sum", Op::Binary(Binary::Add), &[Some(a), Some(before)]);
        let sum = unary(&mut graph, "sum.elu", elu, sum);
        let left = conv(&mut graph, "left", sum, 1, 2);
        let right = conv(&mut graph, "right", sum, 1, 2);
        let out = graph.add_node("out", Op::Binary(Binary::Sub), &[Some(left), Some(right)]);
        let plan = {
            let mut graph = graph.clone();
            graph.outputs.push(out);
            lower(&bind(&graph, &[]).expect("binds")).expect("lowers")
        };
        // The sum is a residual of its matmul, for which a quarter of the operand is copied.
        let kinds: Vec<&str> = plan.steps.iter().map(|s| s.step.kind()).collect();
        assert_eq!(kinds.iter().filter(|k| **k == "copy").count(), 1);
        assert_eq!(kinds.iter().filter(|k| **k == "pointwise").count(), 1);
        check(graph, out, &shape, 5);
    }
}

pub(super) fn pool_case() -> impl Strategy<Value = (PoolOp, [usize; 4], u64)> {
    (
        any::<bool>(),
        (1usize..5, 1usize..5),
        (1usize..4, 1usize..4),
        [0usize..3, 0usize..3, 0usize..3, 0usize..3],
        (1usize..40, 4usize..12, 4usize..15),
        any::<bool>(),
        any::<bool>(),
        any::<u64>(),
    )
        .prop_map(
            |(max, kernel, stride, pads, size, include, ceil_mode, seed)| {
                // ONNX: a pad is smaller than the window.
                let pads = [
                    pads[0].min(kernel.0 - 1),
                    pads[1].min(kernel.1 - 1),
                    pads[2].min(kernel.0 - 1),
                    pads[3].min(kernel.1 - 1),
                ];
                let pool = PoolOp {
                    kind: if max {
                        PoolKind::Max
                    } else {
                        PoolKind::Average
                    },
                    kernel: vec![kernel.0, kernel.1],
                    strides: vec![stride.0, stride.1],
                    dilations: vec![],
                    padding: Padding::Explicit(pads.to_vec()),
                    count_include_pad: include,
                    ceil_mode,
                };
                (pool, [2, size.0, size.1, size.2], seed)
            },
        )
}

proptest! {
    #![proptest_config(cases(40))]

    #[test]
    fn pools((pool, shape, seed) in pool_case()) {
        let (mut graph, x) = graph_of(&shape);
        let y = graph.add_node("pool", Op::Pool(pool), &[Some(x)]);
        check(graph, y, &shape, seed);
    }

    #[test]
    fn transposed_convolutions(
        groups in 1usize..4,
        channels in (1usize..6, 1usize..20),
        is_depthwise in any::<bool>(),
        kernel in (1usize..6, 1usize..4),
        stride in (1usize..4, 1usize..4),
        pads in (0usize..3, 0usize..3),
        dilation in 1usize..3,
        has_bias in any::<bool>(),
        size in (1usize..7, 1usize..9),
        seed in any::<u64>(),
    ) {
        let (groups, channels) = match is_depthwise {
            true => (7 * groups + channels.0, (1, 1)),
            false => (groups, channels),
        };
        // A result is left.
        let pad = |pad: usize, size: usize, kernel: usize, stride: usize| {
            pad.min(((size - 1) * stride + kernel - 1) / 2)
        };
        let pads = [pad(pads.0, size.0, kernel.0, stride.0), pad(pads.1, size.1, kernel.1, stride.1)];
        let conv = Conv {
            strides: vec![stride.0, stride.1],
            dilations: vec![1, dilation],
            padding: Padding::Explicit(vec![pads[0], pads[1], pads[0], pads[1]]),
            groups,
        };
        let op = Op::ConvTranspose(ConvTranspose {
            conv,
            output_padding: vec![stride.0 - 1, 0],
            output_shape: None,
        });
        let shape = [2, groups * channels.0, size.0, size.1];
        let (mut graph, x) = graph_of(&shape);
        let w = tensor(&[shape[1], channels.1, kernel.0, kernel.1], seed ^ 1);
        let w = graph.add_constant("w", w);
        let bias = has_bias.then(|| tensor(&[groups * channels.1], seed ^ 2));
        let bias = bias.map(|bias| graph.add_constant("b", bias));
        let y = graph.add_node("convt", op, &[Some(x), Some(w), bias]);
        let y = unary(&mut graph, "relu", Unary::Relu, y);
        check(graph, y, &shape, seed);
    }

    #[test]
    fn matrix_products_of_computed_operands(
        batch in 1usize..4,
        m in 1usize..20,
        k in 1usize..20,
        n in 1usize..70,
        transpose in any::<bool>(),
        seed in any::<u64>(),
    ) {
        let shape = [batch, 2, m, k];
        let (mut graph, x) = graph_of(&shape);
        let b_shape = if transpose { [2, n, k] } else { [2, k, n] };
        let b = graph.add_constant("b", tensor(&b_shape, seed ^ 1));
        let b = unary(&mut graph, "tanh", Unary::Tanh, b);
        let b = if transpose {
            let op = Op::Transpose(Transpose { perm: Some(vec![0, 2, 1]) });
            graph.add_node("t", op, &[Some(b)])
        } else {
            b
        };
        let y = graph.add_node("matmul", Op::MatMul(MatMul), &[Some(x), Some(b)]);
        let softmax = Softmax { axis: -1, log: false, flatten: false };
        let y = graph.add_node("softmax", Op::Softmax(softmax), &[Some(y)]);
        check(graph, y, &shape, seed);
    }

    #[test]
    fn linear_layers_with_bias_and_activation(
        rows in 1usize..40,
        k in 1usize..60,
        n in 1usize..200,
        trans_b in any::<bool>(),
        alpha in 0.5f32..2.0,
        seed in any::<u64>(),
    ) {
        let shape = [rows, k];
        let (mut graph, x) = graph_of(&shape);
        let w_shape = if trans_b { [n, k] } else { [k, n] };
        let w = graph.add_constant("w", tensor(&w_shape, seed ^ 1));
        let c = graph.add_constant("c", tensor(&[n], seed ^ 2));
        let gemm = Gemm { alpha, beta: 0.5, trans_a: false, trans_b };
        let y = graph.add_node("gemm", Op::Gemm(gemm), &[Some(x), Some(w), Some(c)]);
        let y = unary(&mut graph, "gelu", Unary::Gelu { tanh: false }, y);
        check(graph, y, &shape, seed);
    }

    #[test]
    fn reductions_over_any_axes_of_any_layout(
        shape in [1usize..4, 1usize..20, 1usize..7, 1usize..9],
        axes in proptest::sample::subsequence(vec![0i64, 1, 2, 3], 1..=4),
        kind in 0usize..6,
        keep_dims in any::<bool>(),
        seed in any::<u64>(),
    ) {
        use ReduceKind::{L2, LogSumExp, Max, Mean, Min, Sum};
        let (mut graph, x) = graph_of(&shape);
        let n = axes.len();
        let axes = graph.add_constant("axes", Tensor::from_i64([n], axes).expect("fits"));
        let kind = [Sum, Mean, Max, Min, L2, LogSumExp][kind];
        // A sum of all that nearly cancels keeps few digits in f32, whoever adds up.
        let x = match kind {
            Sum | Mean => {
                let two = Tensor::from_f32(Vec::new(), vec![2.0]).expect("fits");
                let two = graph.add_constant("two", two);
                graph.add_node("above", Op::Binary(Binary::Add), &[Some(x), Some(two)])
            }
            _ => x,
        };
        let op = Op::Reduce(Reduce { kind, keep_dims, noop_with_empty_axes: false });
        let y = graph.add_node("reduce", op, &[Some(x), Some(axes)]);
        check(graph, y, &shape, seed);
    }

    #[test]
    fn chains_of_movement_keep_every_element(
        shape in [1usize..3, 1usize..7, 1usize..6, 1usize..6],
        perm in Just(vec![0usize, 1, 2, 3]).prop_shuffle(),
        pads in [0i64..3, -1i64..3, 0i64..3, -1i64..3],
        mode in 0usize..2,
        seed in any::<u64>(),
    ) {
        let (mut graph, x) = graph_of(&shape);
        let op = Op::Transpose(Transpose { perm: Some(perm.clone()) });
        let y = graph.add_node("t", op, &[Some(x)]);
        let moved: Vec<usize> = perm.iter().map(|&p| shape[p]).collect();
        let cut = |i: usize| pads[i].max(1 - moved[i] as i64);
        let begin: Vec<i64> = (0..4).map(cut).collect();
        let both = [begin.clone(), vec![0, 1, 0, 0]].concat();
        let pads = graph.add_constant("pads", Tensor::from_i64([8], both).expect("fits"));
        let mode = [PadMode::Constant, PadMode::Edge][mode];
        let y = graph.add_node("pad", Op::Pad(Pad { mode }), &[Some(y), Some(pads)]);
        let twice = graph.add_node("concat", Op::Concat(Concat { axis: 1 }), &[Some(y), Some(y)]);
        let flat = graph.add_node("flat", Op::Flatten(Flatten { axis: 2 }), &[Some(twice)]);
        let out = unary(&mut graph, "neg", Unary::Neg, flat);
        check(graph, out, &shape, seed);
    }
}

#[test]
fn results_do_not_depend_on_the_number_of_threads() {
    let shape = [1, 16, 40, 50];
    let (mut graph, x) = graph_of(&shape);
    let w = graph.add_constant("w", tensor(&[48, 16, 3, 3], 5));
    let conv = Conv {
        strides: vec![1, 1],
        dilations: vec![1, 1],
        padding: Padding::Explicit(vec![1; 4]),
        groups: 1,
    };
    let y = graph.add_node("conv", Op::Conv(conv), &[Some(x), Some(w)]);
    let y = unary(&mut graph, "gelu", Unary::Gelu { tanh: false }, y);
    let pool = Op::GlobalPool(GlobalPool {
        kind: PoolKind::Average,
    });
    let pooled = graph.add_node("pool", pool, &[Some(y)]);
    graph.outputs.extend([y, pooled]);
    let bound = bind(&graph, &[]).expect("binds");
    let input = tensor(&shape, 9);
    for isa in Isa::available() {
        let outputs: Vec<Vec<u32>> = [1, 2, 3, 7]
            .into_iter()
            .map(|threads| {
                let plan = lower(&bound).expect("lowers");
                let pool = Arc::new(Pool::new(threads));
                let mut executor = Executor::new(plan, isa, pool).expect("prepares");
                executor.set_input(0, &input).expect("fits");
                executor.run().expect("runs");
                let outputs = [0, 1].map(|i| executor.output(i).expect("reads").to_f32());
                outputs.concat().iter().map(|v| v.to_bits()).collect()
            })
            .collect();
        assert!(outputs.windows(2).all(|pair| pair[0] == pair[1]), "{isa:?}");
    }
}

#[test]
fn an_index_outside_its_axis_stops_the_run() {
    let mut graph = Graph::default();
    let index = graph.add_input("x", DType::I64, vec![Dim::Known(2)]);
    let table = graph.add_constant("table", tensor(&[5, 3], 1));
    let y = graph.add_node(
        "gather",
        Op::Gather(Gather { axis: 0 }),
        &[Some(table), Some(index)],
    );
    graph.outputs.push(y);
    let plan = lower(&bind(&graph, &[]).expect("binds")).expect("lowers");
    let pool = Arc::new(Pool::new(1));
    let mut executor = Executor::new(plan, Isa::detect(), pool).expect("prepares");
    for (values, fits) in [(vec![0, 4], true), (vec![-5, 1], true), (vec![0, 5], false)] {
        let index = Tensor::from_i64([2], values).expect("fits");
        executor.set_input(0, &index).expect("fits");
        match executor.run() {
            Ok(()) => assert!(fits),
            Err(ModelError::IndexOutside {
                index: 5,
                extent: 5,
                ..
            }) => assert!(!fits),
            Err(other) => panic!("{other}"),
        }
    }
}

#[test]
fn group_norm_takes_positions_that_lie_apart() {
    let x = tensor(&[2, 3, 4, 6], 1);
    for perm in [[0, 3, 1, 2], [0, 1, 3, 2], [3, 2, 1, 0]] {
        let mut graph = Graph::default();
        let input = graph.add_input(
            "x",
            DType::F32,
            x.shape().iter().map(|&n| Dim::Known(n)).collect(),
        );
        let op = Op::Transpose(Transpose {
            perm: Some(perm.to_vec()),
        });
        let operand = graph.add_node("order", op, &[Some(input)]);
        let channels = x.shape()[perm[1]];
        let scale = graph.add_constant("scale", tensor(&[channels], 2));
        let bias = graph.add_constant("bias", tensor(&[channels], 3));
        let op = Op::InstanceNormalization(InstanceNormalization { epsilon: 1e-3 });
        let y = graph.add_node("norm", op, &[Some(operand), Some(scale), Some(bias)]);
        graph.outputs.push(y);
        let inputs = [("x".to_owned(), x.clone())];
        compare(&graph, &inputs, 1e-5).unwrap_or_else(|e| panic!("{perm:?}: {e}"));
    }
}
