//! Products of 8-bit integers against the reference interpreter, to the bit; and networks of quantised layers, whose
//! products are of integers once they are joined, against the same networks spelled out in floats.

use proptest::prelude::*;
use spark_onnx::cpu::Isa;
use spark_onnx::graph::{
    Binary, Clip, Conv, ConvInteger, DequantizeLinear, Dim, Gemm, GlobalPool, Graph, MatMul,
    MatMulInteger, Op, Padding, PoolKind, QLinearConv, QLinearMatMul, QuantizeLinear, Reshape,
    Unary, ValueId, bind,
};
use spark_onnx::{DType, ModelError, ModelRunner, RunOptions, Tensor, TensorData, reference};
use spark_testing::numbers;

use super::operators::{cases, compare};

/// Bytes all over the range of the type.
fn bytes(dtype: DType, shape: &[usize], seed: u64) -> Tensor {
    let values = numbers(shape.iter().product(), seed);
    let bytes = values.into_iter().map(|v| (v.to_bits() >> 9) as u8);
    let data = match dtype {
        DType::I8 => TensorData::I8(bytes.map(u8::cast_signed).collect()),
        _ => TensorData::U8(bytes.collect()),
    };
    Tensor::new(shape.to_vec(), data).expect("fits")
}

/// Positive numbers about `scale`: one, or one per channel.
fn scales(scale: f32, n: usize, seed: u64) -> Tensor {
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

/// A network of quantised layers, as quantisers of float networks write it.
struct Quantised {
    graph: Graph,
    kind: DType,
    n: u64,
}

impl Quantised {
    fn name(&mut self, what: &str) -> String {
        self.n += 1;
        format!("{what}{}", self.n)
    }

    fn constant(&mut self, what: &str, tensor: Tensor) -> Option<ValueId> {
        let name = self.name(what);
        Some(self.graph.add_constant(name, tensor))
    }

    fn node(&mut self, op: Op, inputs: &[Option<ValueId>]) -> ValueId {
        let name = self.name(op.name());
        self.graph.add_node(name, op, inputs)
    }

    /// `x` quantised with `scale` and dequantised; a result of ReLU has the least byte as its zero.
    fn through_bytes(&mut self, x: ValueId, scale: f32, is_positive: bool) -> ValueId {
        let zero = match (self.kind, is_positive) {
            (DType::I8, true) => -128.0,
            (DType::I8, false) => 3.0,
            (_, true) => 0.0,
            (_, false) => 120.0,
        };
        let scale = self.constant("scale", Tensor::from_f32([], vec![scale]).expect("one"));
        let zero = Tensor::from_f64(self.kind, [], vec![zero]).expect("one");
        let zero = self.constant("zero", zero);
        let quantize = Op::QuantizeLinear(QuantizeLinear { axis: 1 });
        let q = self.node(quantize, &[Some(x), scale, zero]);
        let dequantize = Op::DequantizeLinear(DequantizeLinear { axis: 1 });
        self.node(dequantize, &[Some(q), scale, zero])
    }

    /// Weights of i8 with a scale per channel along `axis`, and a bias in the scale of the sums.
    fn weights(
        &mut self,
        shape: &[usize],
        axis: usize,
        x_scale: f32,
    ) -> (Option<ValueId>, Option<ValueId>) {
        self.n += 1;
        let (seed, channels) = (self.n, shape[axis]);
        let dequantize = |axis: usize| Op::DequantizeLinear(DequantizeLinear { axis: axis as i64 });
        let w_scales = scales(0.004, channels, seed);
        let b_scales: Vec<f32> = w_scales.to_f32().iter().map(|s| s * x_scale).collect();
        let w = self.constant("w", bytes(DType::I8, shape, seed ^ 1));
        let w_scales = self.constant("w_scale", w_scales);
        let w = self.node(dequantize(axis), &[w, w_scales]);
        let bias = numbers(channels, seed ^ 2)
            .into_iter()
            .map(|v| (v * 3000.0) as i32);
        let bias = Tensor::new(vec![channels], TensorData::I32(bias.collect())).expect("fits");
        let bias = self.constant("bias", bias);
        let b_scales = Tensor::from_f32([channels], b_scales).expect("fits");
        let b_scales = self.constant("b_scale", b_scales);
        let bias = self.node(dequantize(0), &[bias, b_scales]);
        (Some(w), Some(bias))
    }

    fn conv(&mut self, x: ValueId, shape: [usize; 4], groups: usize, x_scale: f32) -> ValueId {
        let (w, bias) = self.weights(&shape, 0, x_scale);
        let pad = shape[2] / 2;
        let conv = Conv {
            strides: vec![1, 1],
            dilations: vec![1, 1],
            padding: Padding::Explicit(vec![pad; 4]),
            groups,
        };
        self.node(Op::Conv(conv), &[Some(x), w, bias])
    }
}

/// Convolutions of every kind, a sum of two branches, ReLU and its bounded form, matrices.
fn network(kind: DType) -> Graph {
    let mut q = Quantised {
        graph: Graph::default(),
        kind,
        n: 0,
    };
    let dims = [1, 3, 9, 11].into_iter().map(Dim::Known).collect();
    let x = q.graph.add_input("x", DType::F32, dims);
    let x = q.through_bytes(x, 0.02, false);
    let y = q.conv(x, [24, 3, 3, 3], 1, 0.02);
    let y = q.node(Op::Unary(Unary::Relu), &[Some(y)]);
    let trunk = q.through_bytes(y, 0.03, true);
    let y = q.conv(trunk, [24, 1, 3, 3], 24, 0.03);
    let (low, high) = (
        q.constant("low", Tensor::from_f32([], vec![0.0]).expect("one")),
        q.constant("high", Tensor::from_f32([], vec![6.0]).expect("one")),
    );
    let y = q.node(Op::Clip(Clip), &[Some(y), low, high]);
    let y = q.through_bytes(y, 6.0 / 255.0, true);
    let y = q.conv(y, [24, 24, 1, 1], 1, 6.0 / 255.0);
    let y = q.through_bytes(y, 0.05, false);
    let y = q.node(Op::Binary(Binary::Add), &[Some(y), Some(trunk)]);
    let y = q.through_bytes(y, 0.06, false);
    let pool = GlobalPool {
        kind: PoolKind::Average,
    };
    let y = q.node(Op::GlobalPool(pool), &[Some(y)]);
    let y = q.through_bytes(y, 0.01, false);
    let shape = Tensor::from_i64([2], vec![1, 24]).expect("two");
    let shape = q.constant("shape", shape);
    let y = q.node(
        Op::Reshape(Reshape { allow_zero: false }),
        &[Some(y), shape],
    );
    let y = q.through_bytes(y, 0.01, false);
    let gemm = Gemm {
        alpha: 1.0,
        beta: 1.0,
        trans_a: false,
        trans_b: false,
    };
    let (w, bias) = q.weights(&[24, 10], 1, 0.01);
    let y = q.node(Op::Gemm(gemm), &[Some(y), w, bias]);
    let y = q.through_bytes(y, 0.02, false);
    let (w, _) = q.weights(&[10, 7], 1, 0.02);
    let y = q.node(Op::MatMul(MatMul), &[Some(y), w]);
    let y = q.through_bytes(y, 0.02, false);
    q.graph.outputs.push(y);
    q.graph
}

#[test]
fn a_quantised_network_runs_on_integers_and_stays_within_a_step() {
    let x = Tensor::from_f32([1, 3, 9, 11], numbers(297, 5)).expect("fits");
    for kind in [DType::U8, DType::I8] {
        let graph = network(kind);
        let bound = bind(&graph, &[]).expect("binds");
        let want = reference::run(&bound, &[("x", &x)]).expect("interprets");
        let want = want[0].1.to_f32();
        for isa in Isa::available() {
            let options = RunOptions::default().with_isa(isa).with_threads(2);
            let mut runner = ModelRunner::from_graph(graph.clone(), &options).expect("loads");
            let kinds: Vec<String> = runner.steps().into_iter().map(|s| s.kernel).collect();
            let n_int8 = kinds
                .iter()
                .filter(|kernel| kernel.contains("int8"))
                .count();
            assert_eq!(n_int8, 5, "{kinds:?}");
            assert!(
                !kinds.iter().any(|kernel| kernel.contains("gemm")),
                "{kinds:?}"
            );
            let got = runner.run(&[("x", &x)]).expect("runs");
            let got = got[0].1.to_f32();
            for (i, (got, want)) in got.iter().zip(&want).enumerate() {
                // One step at the result, and what one step of a layer before makes of it.
                assert!(
                    (got - want).abs() <= 2.5 * 0.02,
                    "{kind} {isa:?} {i}: {got}, {want}"
                );
            }
            let same = got.iter().zip(&want).filter(|(a, b)| a == b).count();
            assert!(
                same + 2 >= want.len(),
                "{kind} {isa:?}: {same} of {}",
                want.len()
            );
        }
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
