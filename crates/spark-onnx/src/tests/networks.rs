//! Two small networks that have, between them, the kinds of step that driving models have.
//!
//! ```text
//! convolutional  img u8 [1,12,96,96] -> (x - 128) / 128 -> 3x3/2, GELU, 3x3 of each channel
//!                -> 2 x [3x3 of each channel, 1x1 to four times as many, GELU, 1x1 back, scaled, added]
//!                -> 1x1 to twice as many, SiLU, 3x3/2 of each channel -> 3x3 dense
//!                -> squeeze and excite -> pool -> Gemm
//! attentive      tokens [1,150,64], side [1,2] -> 2 x [norm, attention in 4 heads, added, norm,
//!                MLP with GELU spelled out, added] -> mean -> Gemm, joined with a constant
//! ```
//!
//! Sizes are the least at which each step is computed as in a whole network: rows beyond those that keep
//! fp16 weights as such, pictures high enough for fused depthwise tiles, channels enough for Winograd's
//! transform. Deliberately absent: meaning. Networks of openpilot's shapes are in `spark-openpilot`.

use spark_onnx::graph::{
    Binary, Cast, Concat, Conv, Dim, Flatten, Gather, Gemm, GlobalPool, Graph, LayerNormalization,
    MatMul, Op, Padding, PoolKind, Reduce, ReduceKind, Reshape, Softmax, Transpose, Unary, ValueId,
};
use spark_onnx::{DType, Tensor};
use spark_testing::numbers;

/// A graph under construction; weights depend on the number of values before them.
#[derive(Default)]
struct Builder(Graph);

impl Builder {
    fn input(&mut self, name: &str, dtype: DType, shape: &[usize]) -> ValueId {
        let dims = shape.iter().map(|&extent| Dim::Known(extent)).collect();
        self.0.add_input(name, dtype, dims)
    }

    fn node(&mut self, op: Op, inputs: &[ValueId]) -> ValueId {
        let name = format!("node{}", self.0.nodes.len());
        let inputs: Vec<_> = inputs.iter().copied().map(Some).collect();
        self.0.add_node(name, op, &inputs)
    }

    fn constant(&mut self, tensor: Tensor) -> ValueId {
        let name = format!("constant{}", self.0.values.len());
        self.0.add_constant(name, tensor)
    }

    /// Numbers about zero whose sums of `depth` products stay about one.
    fn weights(&mut self, shape: &[usize], depth: usize) -> ValueId {
        let seed = self.0.values.len() as u64;
        let bound = (3.0 / depth as f32).sqrt();
        let values = numbers(shape.iter().product(), seed).into_iter();
        let values: Vec<f32> = values.map(|v| v * bound).collect();
        self.constant(Tensor::from_f32(shape, values).expect("fits"))
    }

    fn scalar(&mut self, value: f32) -> ValueId {
        self.constant(Tensor::from_f32([], vec![value]).expect("one"))
    }

    fn ints(&mut self, values: &[i64]) -> ValueId {
        self.constant(Tensor::from_i64([values.len()], values.to_vec()).expect("fits"))
    }

    fn binary(&mut self, op: Binary, a: ValueId, b: ValueId) -> ValueId {
        self.node(Op::Binary(op), &[a, b])
    }

    fn unary(&mut self, op: Unary, x: ValueId) -> ValueId {
        self.node(Op::Unary(op), &[x])
    }

    /// `[filters, channels of each, kernel]`, at `stride`.
    fn conv(
        &mut self,
        x: ValueId,
        [out, channels, kernel]: [usize; 3],
        stride: usize,
        groups: usize,
    ) -> ValueId {
        let w = self.weights(&[out, channels, kernel, kernel], channels * kernel * kernel);
        let b = self.weights(&[out], 300);
        let conv = Conv {
            strides: vec![stride; 2],
            dilations: vec![1; 2],
            padding: Padding::Explicit(vec![kernel / 2; 4]),
            groups,
        };
        self.node(Op::Conv(conv), &[x, w, b])
    }

    fn gemm(&mut self, x: ValueId, [n_in, n_out]: [usize; 2]) -> ValueId {
        let (w, b) = (
            self.weights(&[n_out, n_in], n_in),
            self.weights(&[n_out], 300),
        );
        let gemm = Gemm {
            alpha: 1.0,
            beta: 1.0,
            trans_a: false,
            trans_b: true,
        };
        self.node(Op::Gemm(gemm), &[x, w, b])
    }

    /// MatMul and Add, as exporters write a linear layer of three axes.
    fn linear(&mut self, x: ValueId, [n_in, n_out]: [usize; 2]) -> ValueId {
        let w = self.weights(&[n_in, n_out], n_in);
        let b = self.weights(&[n_out], 300);
        let product = self.node(Op::MatMul(MatMul), &[x, w]);
        self.binary(Binary::Add, product, b)
    }

    fn layer_norm(&mut self, x: ValueId, width: usize) -> ValueId {
        let (scale, bias) = (self.weights(&[width], 3), self.weights(&[width], 300));
        let norm = Op::LayerNormalization(LayerNormalization {
            axis: -1,
            epsilon: 1e-5,
        });
        self.node(norm, &[x, scale, bias])
    }

    fn reshape(&mut self, x: ValueId, shape: &[usize]) -> ValueId {
        let shape: Vec<i64> = shape.iter().map(|&extent| extent as i64).collect();
        let shape = self.ints(&shape);
        self.node(Op::Reshape(Reshape { allow_zero: false }), &[x, shape])
    }

    fn transpose(&mut self, x: ValueId, perm: &[usize]) -> ValueId {
        let perm = Some(perm.to_vec());
        self.node(Op::Transpose(Transpose { perm }), &[x])
    }

    fn finish(mut self, output: ValueId) -> Graph {
        self.0.outputs.push(output);
        self.0
    }
}

pub(crate) fn convolutional() -> Graph {
    let mut net = Builder::default();
    let img = net.input("img", DType::U8, &[1, 12, 96, 96]);
    let cast = net.node(Op::Cast(Cast { to: DType::F32 }), &[img]);
    let (centre, range) = (net.scalar(128.0), net.scalar(128.0));
    let x = net.binary(Binary::Sub, cast, centre);
    let x = net.binary(Binary::Div, x, range);
    let x = net.conv(x, [32, 12, 3], 2, 1);
    let x = net.unary(Unary::Gelu { tanh: false }, x);
    let mut x = net.conv(x, [32, 1, 3], 1, 32);
    for _ in 0..2 {
        let mixed = net.conv(x, [32, 1, 3], 1, 32);
        let wide = net.conv(mixed, [128, 32, 1], 1, 1);
        let wide = net.unary(Unary::Gelu { tanh: false }, wide);
        let narrow = net.conv(wide, [32, 128, 1], 1, 1);
        let gamma = net.weights(&[32, 1, 1], 3);
        let scaled = net.binary(Binary::Mul, narrow, gamma);
        x = net.binary(Binary::Add, x, scaled);
    }
    let x = net.conv(x, [64, 32, 1], 1, 1);
    let gate = net.unary(Unary::Sigmoid, x);
    let x = net.binary(Binary::Mul, x, gate);
    let x = net.conv(x, [64, 1, 3], 2, 64);
    let x = net.conv(x, [64, 64, 3], 1, 1);
    let pooled = net.node(
        Op::GlobalPool(GlobalPool {
            kind: PoolKind::Average,
        }),
        &[x],
    );
    let squeezed = net.conv(pooled, [16, 64, 1], 1, 1);
    let squeezed = net.unary(Unary::Relu, squeezed);
    let excited = net.conv(squeezed, [64, 16, 1], 1, 1);
    let gate = net.unary(Unary::Sigmoid, excited);
    let x = net.binary(Binary::Mul, x, gate);
    let pooled = net.node(
        Op::GlobalPool(GlobalPool {
            kind: PoolKind::Average,
        }),
        &[x],
    );
    let flat = net.node(Op::Flatten(Flatten { axis: 1 }), &[pooled]);
    let y = net.gemm(flat, [64, 40]);
    net.finish(y)
}

/// Tokens, their width, heads.
const TOKENS: usize = 150;
const WIDTH: usize = 64;
const HEADS: usize = 4;

pub(crate) fn attentive() -> Graph {
    let mut net = Builder::default();
    let tokens = net.input("tokens", DType::F32, &[1, TOKENS, WIDTH]);
    let side = net.input("side", DType::F32, &[1, 2]);
    let side = net.gemm(side, [2, WIDTH]);
    let mut x = net.binary(Binary::Add, tokens, side);
    for _ in 0..2 {
        let normed = net.layer_norm(x, WIDTH);
        let mixed = attention(&mut net, normed);
        x = net.binary(Binary::Add, x, mixed);
        let normed = net.layer_norm(x, WIDTH);
        let wide = net.linear(normed, [WIDTH, 4 * WIDTH]);
        let active = gelu_spelled_out(&mut net, wide);
        let narrow = net.linear(active, [4 * WIDTH, WIDTH]);
        x = net.binary(Binary::Add, x, narrow);
    }
    let axes = net.ints(&[1]);
    let mean = Op::Reduce(Reduce {
        kind: ReduceKind::Mean,
        keep_dims: false,
        noop_with_empty_axes: false,
    });
    let x = net.node(mean, &[x, axes]);
    let y = net.gemm(x, [WIDTH, 30]);
    let rest = net.constant(Tensor::zeros(DType::F32, [1, 2]).expect("two"));
    let y = net.node(Op::Concat(Concat { axis: 1 }), &[y, rest]);
    net.finish(y)
}

fn attention(net: &mut Builder, x: ValueId) -> ValueId {
    let depth = WIDTH / HEADS;
    let qkv = net.linear(x, [WIDTH, 3 * WIDTH]);
    let split = net.reshape(qkv, &[1, TOKENS, 3, HEADS, depth]);
    let moved = net.transpose(split, &[2, 0, 3, 1, 4]);
    let [q, k, v] = [0, 1, 2].map(|position| {
        let index = Tensor::from_i64([], vec![position]).expect("one");
        let index = net.constant(index);
        net.node(Op::Gather(Gather { axis: 0 }), &[moved, index])
    });
    let scale = net.scalar(1.0 / (depth as f32).sqrt());
    let q = net.binary(Binary::Mul, q, scale);
    let k = net.transpose(k, &[0, 1, 3, 2]);
    let scores = net.node(Op::MatMul(MatMul), &[q, k]);
    let softmax = Op::Softmax(Softmax {
        axis: -1,
        log: false,
        flatten: false,
    });
    let weights = net.node(softmax, &[scores]);
    let mixed = net.node(Op::MatMul(MatMul), &[weights, v]);
    let back = net.transpose(mixed, &[0, 2, 1, 3]);
    let joined = net.reshape(back, &[1, TOKENS, WIDTH]);
    net.linear(joined, [WIDTH, WIDTH])
}

/// `0.5 x (1 + erf(x / sqrt 2))`.
fn gelu_spelled_out(net: &mut Builder, x: ValueId) -> ValueId {
    let root_two = net.scalar(std::f32::consts::SQRT_2);
    let (one, half) = (net.scalar(1.0), net.scalar(0.5));
    let scaled = net.binary(Binary::Div, x, root_two);
    let erf = net.unary(Unary::Erf, scaled);
    let shifted = net.binary(Binary::Add, erf, one);
    let product = net.binary(Binary::Mul, x, shifted);
    net.binary(Binary::Mul, product, half)
}
