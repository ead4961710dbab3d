//! Networks of quantised layers, whose products are of integers once they are joined.
//!
//! ```text
//! executor of the network  ==  interpreter of the joined network, to the bit
//! joined                   ==  spelled out in floats, but where a tie is near (`quantised_layers`)
//! ```

use spark_onnx::cpu::Isa;
use spark_onnx::graph::{
    Binary, Clip, Conv, DequantizeLinear, Dim, Flatten, Gemm, GlobalPool, Graph, MatMul, Op,
    Padding, Pool, PoolKind, QuantizeLinear, Reshape, Unary, ValueId, bind,
};
use spark_onnx::{DType, ModelRunner, RunOptions, Tensor, TensorData, reference};
use spark_onnx_graph::join_quantised;
use spark_testing::numbers;

use super::integers::{bytes, scales};

/// A network of quantised layers, as quantisers of float networks write it.
struct Quantised {
    graph: Graph,
    kind: DType,
    is_per_channel: bool,
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

    fn convolve(
        &mut self,
        x: ValueId,
        shape: [usize; 4],
        (groups, step): (usize, usize),
        x_scale: f32,
    ) -> ValueId {
        let (w, bias) = self.weights(&shape, 0, x_scale);
        let pad = shape[2] / 2;
        let conv = Conv {
            strides: vec![step; 2],
            dilations: vec![1, 1],
            padding: Padding::Explicit(vec![pad; 4]),
            groups,
        };
        self.node(Op::Conv(conv), &[Some(x), w, bias])
    }

    fn gemm(&mut self, x: ValueId, shape: [usize; 2], x_scale: f32) -> ValueId {
        let (w, bias) = self.weights(&shape, 1, x_scale);
        let gemm = Gemm {
            alpha: 1.0,
            beta: 1.0,
            trans_a: false,
            trans_b: false,
        };
        self.node(Op::Gemm(gemm), &[Some(x), w, bias])
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
        let quantize = Op::QuantizeLinear(QuantizeLinear::along(1));
        let q = self.node(quantize, &[Some(x), scale, zero]);
        let dequantize = Op::DequantizeLinear(DequantizeLinear::along(1));
        self.node(dequantize, &[Some(q), scale, zero])
    }

    /// Weights of i8 with a scale, or one per channel along `axis`, and a bias in the scale of the sums.
    fn weights(
        &mut self,
        shape: &[usize],
        axis: usize,
        x_scale: f32,
    ) -> (Option<ValueId>, Option<ValueId>) {
        self.n += 1;
        let (seed, channels) = (self.n, shape[axis]);
        let dequantize = |axis: usize| Op::DequantizeLinear(DequantizeLinear::along(axis as i64));
        let n_scales = if self.is_per_channel { channels } else { 1 };
        let w_scales = scales(0.004, n_scales, seed);
        let b_scales: Vec<f32> = w_scales.to_f32().iter().map(|s| s * x_scale).collect();
        let w_scales_shape = w_scales.shape().to_vec();
        let w = self.constant("w", bytes(DType::I8, shape, seed ^ 1));
        let w_scales = self.constant("w_scale", w_scales);
        let w = self.node(dequantize(axis), &[w, w_scales]);
        let bias = numbers(channels, seed ^ 2)
            .into_iter()
            .map(|v| (v * 3000.0) as i32);
        let bias = Tensor::new(vec![channels], TensorData::I32(bias.collect())).expect("fits");
        let bias = self.constant("bias", bias);
        let b_scales = Tensor::from_f32(w_scales_shape, b_scales).expect("fits");
        let b_scales = self.constant("b_scale", b_scales);
        let bias = self.node(dequantize(0), &[bias, b_scales]);
        (Some(w), Some(bias))
    }
}

/// Convolutions of every kind, a sum of two branches, ReLU and its bounded form, matrices.
fn every_product(kind: DType) -> Graph {
    let mut q = Quantised {
        graph: Graph::default(),
        kind,
        is_per_channel: true,
        n: 0,
    };
    let dims = [1, 3, 9, 11].into_iter().map(Dim::Known).collect();
    let x = q.graph.add_input("x", DType::F32, dims);
    let x = q.through_bytes(x, 0.02, false);
    let y = q.convolve(x, [24, 3, 3, 3], (1, 1), 0.02);
    let y = q.node(Op::Unary(Unary::Relu), &[Some(y)]);
    let trunk = q.through_bytes(y, 0.03, true);
    let y = q.convolve(trunk, [24, 1, 3, 3], (24, 1), 0.03);
    let (low, high) = (
        q.constant("low", Tensor::from_f32([], vec![0.0]).expect("one")),
        q.constant("high", Tensor::from_f32([], vec![6.0]).expect("one")),
    );
    let y = q.node(Op::Clip(Clip), &[Some(y), low, high]);
    let y = q.through_bytes(y, 6.0 / 255.0, true);
    let y = q.convolve(y, [24, 24, 1, 1], (1, 1), 6.0 / 255.0);
    let y = q.through_bytes(y, 0.05, false);
    let y = q.node(Op::Binary(Binary::Add), &[Some(y), Some(trunk)]);
    let y = q.through_bytes(y, 0.06, false);
    // Averages are sums of floats, in the order of whoever makes them, which may decide a tie.
    let pool = GlobalPool {
        kind: PoolKind::Max,
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
    let y = q.gemm(y, [24, 10], 0.01);
    let y = q.through_bytes(y, 0.02, false);
    let (w, _) = q.weights(&[10, 7], 1, 0.02);
    let y = q.node(Op::MatMul(MatMul), &[Some(y), w]);
    let y = q.through_bytes(y, 0.02, false);
    q.graph.outputs.push(y);
    q.graph
}

/// Convolution, ReLU, convolution, pooling, matrix, as onnxruntime's quantiser writes them: around pooling and
/// flattening the same scale as before, no ReLU where bytes begin at its zero, unless it was told to keep them.
fn as_quantisers_write_it(kind: DType, is_per_channel: bool, keeps_relu: bool) -> Graph {
    let mut q = Quantised {
        graph: Graph::default(),
        kind,
        is_per_channel,
        n: 0,
    };
    let dims = PICTURE.into_iter().map(Dim::Known).collect();
    let x = q.graph.add_input("x", DType::F32, dims);
    let x = q.through_bytes(x, 0.01, false);
    let mut y = q.convolve(x, [8, 3, 3, 3], (1, 1), 0.01);
    if keeps_relu {
        y = q.node(Op::Unary(Unary::Relu), &[Some(y)]);
    }
    let y = q.through_bytes(y, 0.012, true);
    let y = q.convolve(y, [12, 8, 3, 3], (1, 2), 0.012);
    let y = q.through_bytes(y, 0.05, false);
    let pool = Pool {
        kind: PoolKind::Max,
        kernel: vec![2, 2],
        strides: vec![2, 2],
        dilations: vec![1, 1],
        padding: Padding::Explicit(vec![0; 4]),
        count_include_pad: false,
        ceil_mode: false,
    };
    let y = q.node(Op::Pool(pool), &[Some(y)]);
    let y = q.through_bytes(y, 0.05, false);
    let y = q.node(Op::Flatten(Flatten { axis: 1 }), &[Some(y)]);
    let y = q.through_bytes(y, 0.05, false);
    let y = q.gemm(y, [12 * 4 * 4, 10], 0.05);
    let y = q.through_bytes(y, RESULT_SCALE, false);
    q.graph.outputs.push(y);
    q.graph
}

const PICTURE: [usize; 4] = [1, 3, 16, 16];
const RESULT_SCALE: f32 = 0.2;

pub(super) fn joined(graph: &Graph) -> Graph {
    let mut joined = graph.clone();
    join_quantised(&mut joined);
    joined
}

/// What the interpreter makes of `graph` as it is.
pub(super) fn interpreted(graph: &Graph, inputs: &[(&str, &Tensor)]) -> Tensor {
    let shapes: Vec<(&str, Vec<usize>)> = inputs
        .iter()
        .map(|(name, tensor)| (*name, tensor.shape().to_vec()))
        .collect();
    let bound = bind(graph, &shapes).unwrap_or_else(|e| panic!("{e}"));
    let results = reference::run(&bound, inputs).unwrap_or_else(|e| panic!("{e}"));
    results.into_iter().next().expect("a result").1
}

/// The executor's bits of `graph` are the interpreter's of the joined one, which has `products` of integers
/// and none of floats.
#[track_caller]
fn runs_on_integers(graph: &Graph, products: usize, inputs: &[Tensor]) {
    let joined = joined(graph);
    let is_float = |op: &Op| matches!(op, Op::Conv(_) | Op::Gemm(_) | Op::MatMul(_));
    assert!(!joined.nodes.iter().any(|node| is_float(&node.op)));
    let want: Vec<Tensor> = inputs
        .iter()
        .map(|x| interpreted(&joined, &[("x", x)]))
        .collect();
    for isa in Isa::available() {
        for threads in [1, 3] {
            let options = RunOptions::default().with_isa(isa).with_threads(threads);
            let mut runner = ModelRunner::from_graph(graph.clone(), &options).expect("loads");
            let kernels: Vec<String> = runner.steps().into_iter().map(|s| s.kernel).collect();
            let of_integers = kernels.iter().filter(|kernel| kernel.contains("int8"));
            assert_eq!(of_integers.count(), products, "{kernels:?}");
            for (x, want) in inputs.iter().zip(&want) {
                let got = runner.run(&[("x", x)]).expect("runs");
                assert_eq!(got[0].1, *want, "{isa:?} on {threads}");
            }
        }
    }
}

fn pictures(shape: &[usize], n: u64) -> Vec<Tensor> {
    let len = shape.iter().product();
    let picture = |seed| Tensor::from_f32(shape, numbers(len, seed)).expect("fits");
    (0..n).map(|seed| picture(seed + 5)).collect()
}

/// The interpreter divides what is quantised in f64: of these pictures no element is so near a tie that this shows.
#[test]
fn a_quantised_network_has_the_bits_of_its_integers() {
    for kind in [DType::U8, DType::I8] {
        runs_on_integers(&every_product(kind), 5, &pictures(&[1, 3, 9, 11], 3));
        for (is_per_channel, keeps_relu) in [(false, false), (true, false), (true, true)] {
            let graph = as_quantisers_write_it(kind, is_per_channel, keeps_relu);
            runs_on_integers(&graph, 3, &pictures(&PICTURE, 3));
        }
    }
}

#[test]
fn of_two_thousand_results_none_differs_from_the_spelled_out_network() {
    let mut results = Vec::new();
    for kind in [DType::U8, DType::I8] {
        for is_per_channel in [false, true] {
            let graph = as_quantisers_write_it(kind, is_per_channel, false);
            let joined = joined(&graph);
            for x in pictures(&PICTURE, 50) {
                let got = interpreted(&joined, &[("x", &x)]);
                assert_eq!(got, interpreted(&graph, &[("x", &x)]));
                results.extend(got.to_f32());
            }
        }
    }
    assert_eq!(results.len(), 2000);
    results.sort_by(f32::total_cmp);
    results.dedup();
    assert!(results.len() > 80, "only {} different ones", results.len());
}
