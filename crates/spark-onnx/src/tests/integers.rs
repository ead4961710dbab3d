//! Products of 8-bit integers against the reference interpreter, to the bit.

use proptest::prelude::*;
use spark_onnx::graph::{
    Conv, ConvInteger, Dim, Graph, MatMulInteger, Op, Padding, QLinearConv, QLinearMatMul, ValueId,
    bind,
};
use spark_onnx::{DType, ModelError, ModelRunner, RunOptions, Tensor, TensorData, reference};
use spark_testing::numbers;

use super::operators::{cases, compare};

/// Bytes all over the range of the type.
pub(super) fn bytes(dtype: DType, shape: &[usize], seed: u64) -> Tensor {
    let values = numbers(shape.iter().product(), seed);
    let bytes = values.into_iter().map(|v| (v.to_bits() >> 9) as u8);
    let data = match dtype {
        DType::I8 => TensorData::I8(bytes.map(u8::cast_signed).collect()),
        _ => TensorData::U8(bytes.collect()),
    };
    Tensor::new(shape.to_vec(), data).expect("fits")
}

/// Positive numbers about `scale`: one, or one per channel.
pub(super) fn scales(scale: f32, n: usize, seed: u64) -> Tensor {
    let values = numbers(n, seed)
        .into_iter()
        .map(|v| scale * (1.0 + 0.5 * v));
    let shape: &[usize] = if n == 1 { &[] } else { &[n] };
    Tensor::from_f32(shape, values.collect()).expect("fits")
}

fn zero_points(dtype: DType, n: usize, seed: u64) -> Tensor {
    let zeros = bytes(dtype, &[n], seed);
    match n {
        1 => zeros.reshaped([]).expect("one"),
        _ => zeros,
    }
}

/// A graph whose operand `i` is an input where bit `i` of `given` is set, else a constant.
struct Operands {
    graph: Graph,
    inputs: Vec<(String, Tensor)>,
    ids: Vec<Option<ValueId>>,
    given: u32,
}

impl Operands {
    fn new(given: u32) -> Self {
        Self {
            graph: Graph::default(),
            inputs: Vec::new(),
            ids: Vec::new(),
            given,
        }
    }

    fn add(&mut self, tensor: Tensor) {
        let name = format!("x{}", self.ids.len());
        let id = match self.given >> self.ids.len() & 1 {
            1 => {
                let dims = tensor.shape().iter().map(|&d| Dim::Known(d)).collect();
                let id = self.graph.add_input(name.clone(), tensor.dtype(), dims);
                self.inputs.push((name, tensor));
                id
            }
            _ => self.graph.add_constant(name, tensor),
        };
        self.ids.push(Some(id));
    }

    /// The executor's bits are the reference's.
    fn check(mut self, op: Op) -> Result<(), String> {
        let y = self.graph.add_node("y", op, &self.ids);
        self.graph.outputs.push(y);
        compare(&self.graph, &self.inputs, 0.0)
    }
}

fn kind() -> impl Strategy<Value = DType> {
    prop_oneof![Just(DType::I8), Just(DType::U8)]
}

/// Which operands are inputs: the first alone, or any.
fn given() -> impl Strategy<Value = u32> {
    prop_oneof![
        Just(1u32),
        Just(1),
        Just(0b1111_1111),
        any::<u32>().prop_map(|g| g | 1)
    ]
}

prop_compose! {
    fn convolution()(
        groups in 1usize..4,
        in_per_group in 1usize..20,
        out_per_group in 1usize..40,
        is_depthwise in any::<bool>(),
        kernel in [1usize..4, 1usize..4],
        strides in [1usize..3, 1usize..3],
        dilations in [1usize..3, 1usize..3],
        pads in [0usize..3, 0usize..3, 0usize..3, 0usize..3],
        size in [5usize..10, 5usize..10],
        batch in 1usize..3,
    ) -> (Conv, [usize; 4], [usize; 4]) {
        let (groups, each, out) = match is_depthwise {
            true => (groups * in_per_group, 1, 1),
            false => (groups, in_per_group, out_per_group),
        };
        let conv = Conv {
            strides: strides.to_vec(),
            dilations: dilations.to_vec(),
            padding: Padding::Explicit(pads.to_vec()),
            groups,
        };
        let x = [batch, groups * each, size[0], size[1]];
        (conv, x, [groups * out, each, kernel[0], kernel[1]])
    }
}

proptest! {
    #![proptest_config(cases(64))]

    #[test]
    fn convolutions_of_bytes_have_the_bits_of_the_reference(
        (conv, x_shape, w_shape) in convolution(),
        (x_kind, w_kind, y_kind) in (kind(), kind(), kind()),
        given in given(),
        is_quantised in any::<bool>(),
        is_per_channel in any::<bool>(),
        seed in any::<u64>(),
    ) {
        let n = if is_per_channel { w_shape[0] } else { 1 };
        let mut operands = Operands::new(given);
        operands.add(bytes(x_kind, &x_shape, seed));
        let op = match is_quantised {
            false => {
                operands.add(bytes(w_kind, &w_shape, seed ^ 1));
                operands.add(zero_points(x_kind, 1, seed ^ 2));
                operands.add(zero_points(w_kind, n, seed ^ 3));
                Op::ConvInteger(ConvInteger { conv })
            }
            true => {
                operands.add(scales(0.02, 1, seed ^ 4));
                operands.add(zero_points(x_kind, 1, seed ^ 2));
                operands.add(bytes(w_kind, &w_shape, seed ^ 1));
                operands.add(scales(0.01, n, seed ^ 5));
                operands.add(zero_points(w_kind, n, seed ^ 3));
                operands.add(scales(0.4, 1, seed ^ 6));
                operands.add(zero_points(y_kind, 1, seed ^ 7));
                let bias = numbers(w_shape[0], seed ^ 8);
                let bias = bias.into_iter().map(|v| (v * 50_000.0) as i32).collect();
                let bias = Tensor::new(vec![w_shape[0]], TensorData::I32(bias));
                operands.add(bias.expect("fits"));
                Op::QLinearConv(QLinearConv { conv })
            }
        };
        operands.check(op).map_err(TestCaseError::fail)?;
    }

    #[test]
    fn matrices_of_bytes_have_the_bits_of_the_reference(
        batch in prop_oneof![Just(vec![]), Just(vec![3usize]), Just(vec![2, 2])],
        has_batched_weights in any::<bool>(),
        (m, k, n) in (1usize..20, 1usize..70, 1usize..70),
        (a_kind, b_kind, y_kind) in (kind(), kind(), kind()),
        given in given(),
        is_quantised in any::<bool>(),
        is_per_column in any::<bool>(),
        seed in any::<u64>(),
    ) {
        let a_shape = [&batch[..], &[m, k]].concat();
        let b_shape = match has_batched_weights {
            true => [&batch[..], &[k, n]].concat(),
            false => vec![k, n],
        };
        let columns = if is_per_column { n } else { 1 };
        let mut operands = Operands::new(given);
        operands.add(bytes(a_kind, &a_shape, seed));
        let op = match is_quantised {
            false => {
                operands.add(bytes(b_kind, &b_shape, seed ^ 1));
                operands.add(zero_points(a_kind, 1, seed ^ 2));
                operands.add(zero_points(b_kind, columns, seed ^ 3));
                Op::MatMulInteger(MatMulInteger)
            }
            true => {
                operands.add(scales(0.02, 1, seed ^ 4));
                operands.add(zero_points(a_kind, 1, seed ^ 2));
                operands.add(bytes(b_kind, &b_shape, seed ^ 1));
                operands.add(scales(0.01, columns, seed ^ 5));
                operands.add(zero_points(b_kind, columns, seed ^ 3));
                operands.add(scales(0.4, 1, seed ^ 6));
                operands.add(zero_points(y_kind, 1, seed ^ 7));
                Op::QLinearMatMul(QLinearMatMul)
            }
        };
        operands.check(op).map_err(TestCaseError::fail)?;
    }
}

#[test]
fn more_products_than_a_sum_holds_are_refused_by_number() {
    let k = spark_gemm::int8::MAX_DEPTH + 1;
    let mut operands = Operands::new(1);
    operands.add(bytes(DType::U8, &[1, k], 1));
    operands.add(bytes(DType::I8, &[k, 2], 2));
    let error = operands.check(Op::MatMulInteger(MatMulInteger));
    let error = error.expect_err("sums that may not fit");
    assert!(error.contains("33026 products"), "{error}");
}

#[test]
fn zero_points_per_row_are_refused_by_the_executor_alone() {
    let mut operands = Operands::new(1);
    operands.add(bytes(DType::U8, &[3, 4], 1));
    operands.add(bytes(DType::I8, &[4, 2], 2));
    operands.add(zero_points(DType::U8, 3, 3));
    let graph = {
        let mut graph = operands.graph.clone();
        let y = graph.add_node("y", Op::MatMulInteger(MatMulInteger), &operands.ids);
        graph.outputs.push(y);
        graph
    };
    let bound = bind(&graph, &[]).expect("binds");
    let given: Vec<(&str, &Tensor)> = operands
        .inputs
        .iter()
        .map(|(n, t)| (n.as_str(), t))
        .collect();
    reference::run(&bound, &given).expect("interprets");
    match ModelRunner::from_graph(graph, &RunOptions::default()) {
        Err(ModelError::Operator { reason, .. }) => assert!(reason.contains("per row"), "{reason}"),
        other => panic!("{:?}", other.map(drop)),
    }
}

#[test]
fn depthwise_convolutions_of_weights_around_zero_have_the_bits_of_the_reference() {
    // Channels, window, stride, dilation, padding before and behind, picture.
    for (channels, kernel, stride, dilation, pads, size) in [
        (16, [3, 3], [1, 1], [1, 1], [1, 1, 1, 1], [9, 11]),
        (70, [3, 3], [2, 2], [1, 1], [0, 0, 1, 1], [8, 8]),
        (24, [5, 5], [1, 2], [2, 1], [4, 2, 4, 2], [10, 7]),
        (5, [1, 7], [1, 3], [1, 1], [0, 3, 0, 3], [2, 20]),
        // Wholly padding for some taps; rows far apart; a window that reaches far beyond the picture.
        (33, [2, 2], [1, 1], [1, 1], [3, 3, 3, 3], [1, 1]),
        (16, [3, 3], [1, 1], [50, 1], [50, 1, 50, 1], [5, 6]),
        (16, [1, 3], [1, 1], [1, 4096], [0, 4096, 0, 4096], [3, 4]),
    ] {
        for kind in [DType::U8, DType::I8] {
            let mut operands = Operands::new(1);
            operands.add(bytes(kind, &[2, channels, size[0], size[1]], 1));
            operands.add(scales(0.02, 1, 2));
            operands.add(zero_points(kind, 1, 3));
            operands.add(bytes(DType::I8, &[channels, 1, kernel[0], kernel[1]], 4));
            operands.add(scales(0.01, channels, 5));
            operands.add(Tensor::zeros(DType::I8, []).expect("one"));
            operands.add(scales(0.4, 1, 6));
            operands.add(zero_points(kind, 1, 7));
            let conv = Conv {
                strides: stride.to_vec(),
                dilations: dilation.to_vec(),
                padding: Padding::Explicit(pads.to_vec()),
                groups: channels,
            };
            let checked = operands.check(Op::QLinearConv(QLinearConv { conv }));
            checked.unwrap_or_else(|e| panic!("{channels} {kernel:?} {dilation:?}: {e}"));
        }
    }
}

#[test]
fn pictures_of_one_pixel_are_not_strided_through() {
    for (groups, strides, pads) in [
        (1, [2, 2], [0, 0, 0, 0]),
        (6, [3, 2], [0, 0, 0, 0]),
        (1, [1, 2], [0, 1, 0, 0]),
    ] {
        let mut operands = Operands::new(1);
        operands.add(bytes(DType::U8, &[4, 6, 1, 1], 1));
        operands.add(bytes(DType::I8, &[6, 6 / groups, 1, 1], 2));
        let conv = Conv {
            strides: strides.to_vec(),
            dilations: vec![1, 1],
            padding: Padding::Explicit(pads.to_vec()),
            groups,
        };
        let checked = operands.check(Op::ConvInteger(ConvInteger { conv }));
        checked.unwrap_or_else(|e| panic!("{groups} {strides:?} {pads:?}: {e}"));
    }
}
