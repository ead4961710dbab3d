//! A graph under construction, with weights drawn as layers are added.
//!
//! ```text
//! let mut net = Network::new("name", seed);
//! let x = net.input("img", DType::U8, &[1, 12, 128, 256]);
//! let y = net.conv("stem.0", x, ConvLayer::dense(12, 64, 3).stride(2));
//! ```
//!
//! Every layer takes a `gain`: with inputs of mean square `m`, its outputs have
//! mean square about `gain^2 * m`. Weights are uniform in `+-gain * sqrt(3 / fan_in)`,
//! whose variance is `gain^2 / fan_in` (the reasoning of Glorot and Bengio 2010).
//! Gains after an activation make up for what it took away, so the scale of
//! activations stays near one from the first layer to the last and a comparison
//! between number formats means something.
//!
//! Names are PyTorch's (`stages.0.blocks.1.mlp.fc1.weight`); a node has the name of its layer.

use super::random::Stream;
use spark_onnx::graph::{
    BatchNormalization, Binary, Cast, Concat, Conv, Dim, Flatten, Gather, Gemm, GlobalPool, Graph,
    LayerNormalization, MatMul, Op, Padding, PoolKind, Reduce, ReduceKind, Reshape, Softmax,
    Transpose, Unary, ValueId,
};
use spark_onnx::{DType, Tensor};

/// Gain that restores unit mean square after GELU or SiLU of a unit normal: `1 / sqrt(0.425)`.
pub(super) const AFTER_GELU: f32 = 1.53;
/// Gain that restores unit mean square after ReLU of a unit normal: `sqrt(2)`.
pub(super) const AFTER_RELU: f32 = 1.414;

/// Largest absolute value of a drawn bias.
const BIAS_BOUND: f32 = 0.1;

/// One convolution, square kernel, padded to keep `extent / stride`.
#[derive(Debug, Clone, Copy)]
pub(super) struct ConvLayer {
    in_channels: usize,
    out_channels: usize,
    kernel: usize,
    stride: usize,
    groups: usize,
    padding: usize,
    gain: f32,
    bias: bool,
    identity: f32,
}

impl ConvLayer {
    /// Every output channel sees every input channel.
    pub(super) fn dense(in_channels: usize, out_channels: usize, kernel: usize) -> Self {
        Self {
            in_channels,
            out_channels,
            kernel,
            stride: 1,
            groups: 1,
            padding: kernel / 2,
            gain: 1.0,
            bias: true,
            identity: 0.0,
        }
    }

    /// Every output channel sees one input channel; `out_channels` is a multiple of `in_channels`.
    pub(super) fn depthwise(in_channels: usize, out_channels: usize, kernel: usize) -> Self {
        Self {
            groups: in_channels,
            ..Self::dense(in_channels, out_channels, kernel)
        }
    }

    pub(super) fn stride(self, stride: usize) -> Self {
        Self { stride, ..self }
    }

    pub(super) fn unpadded(self) -> Self {
        Self { padding: 0, ..self }
    }

    pub(super) fn gain(self, gain: f32) -> Self {
        Self { gain, ..self }
    }

    pub(super) fn without_bias(self) -> Self {
        Self {
            bias: false,
            ..self
        }
    }

    /// Adds `identity` to the centre tap: what reparametrisation makes of a skip connection.
    pub(super) fn identity(self, identity: f32) -> Self {
        Self { identity, ..self }
    }
}

/// A graph under construction.
#[derive(Debug)]
pub(super) struct Network {
    graph: Graph,
    seed: u64,
}

impl Network {
    pub(super) fn new(name: &str, seed: u64) -> Self {
        let graph = Graph {
            name: name.to_owned(),
            ..Graph::default()
        };
        Self { graph, seed }
    }

    pub(super) fn input(&mut self, name: &str, dtype: DType, shape: &[usize]) -> ValueId {
        let dims = shape.iter().map(|&d| Dim::Known(d)).collect();
        self.graph.add_input(name, dtype, dims)
    }

    /// Declares `value` the only output, called `outputs`, with its type, and hands the graph over.
    pub(super) fn finish(mut self, value: ValueId, shape: &[usize]) -> Graph {
        let output = &mut self.graph.values[value.0];
        output.dtype = Some(DType::F32);
        output.shape = Some(shape.iter().map(|&d| Dim::Known(d)).collect());
        self.graph.outputs.push(value);
        self.graph
    }

    /// Appends a node with all operands present.
    pub(super) fn node(&mut self, name: &str, op: Op, inputs: &[ValueId]) -> ValueId {
        let inputs: Vec<_> = inputs.iter().copied().map(Some).collect();
        self.graph.add_node(name, op, &inputs)
    }

    // ---- constants ----

    /// Uniform values in (`low`, `high`).
    pub(super) fn weights(&mut self, name: &str, shape: &[usize], low: f32, high: f32) -> ValueId {
        let stream = Stream::new(self.seed, name);
        let n = shape.iter().product::<usize>() as u64;
        let values = if low == -high {
            (0..n).map(|i| stream.signed_unit(i) * high).collect()
        } else {
            (0..n).map(|i| stream.uniform(i, low, high)).collect()
        };
        self.constant_f32(name, shape, values)
    }

    pub(super) fn constant_f32(
        &mut self,
        name: &str,
        shape: &[usize],
        values: Vec<f32>,
    ) -> ValueId {
        let tensor = Tensor::from_f32(shape, values).expect("the layer computed shape and values");
        self.graph.add_constant(name, tensor)
    }

    fn constant_i64(&mut self, name: &str, values: &[i64]) -> ValueId {
        let tensor = Tensor::from_i64([values.len()], values.to_vec()).expect("one axis");
        self.graph.add_constant(name, tensor)
    }

    // ---- layers with weights ----

    pub(super) fn conv(&mut self, name: &str, x: ValueId, layer: ConvLayer) -> ValueId {
        let ConvLayer {
            in_channels,
            out_channels,
            kernel,
            stride,
            groups,
            padding,
            ..
        } = layer;
        let taps = kernel * kernel;
        let per_group = in_channels / groups;
        let weight_name = format!("{name}.weight");
        let stream = Stream::new(self.seed, &weight_name);
        let bound = layer.gain * (3.0 / (per_group * taps) as f32).sqrt();
        let mut weight: Vec<f32> = (0..(out_channels * per_group * taps) as u64)
            .map(|i| stream.signed_unit(i) * bound)
            .collect();
        if layer.identity != 0.0 {
            for filter in weight.chunks_exact_mut(per_group * taps) {
                filter[taps / 2] += layer.identity;
            }
        }
        let w = self.constant_f32(
            &weight_name,
            &[out_channels, per_group, kernel, kernel],
            weight,
        );
        let mut operands = vec![x, w];
        if layer.bias {
            operands.push(self.bias(name, out_channels));
        }
        let op = Op::Conv(Conv {
            strides: vec![stride; 2],
            dilations: vec![1; 2],
            padding: Padding::Explicit(vec![padding; 4]),
            groups,
        });
        self.node(name, op, &operands)
    }

    /// `y = x W' + b` on `[rows, in]`, `W` `[out, in]`: how exporters write a linear layer of two axes.
    pub(super) fn linear(
        &mut self,
        name: &str,
        x: ValueId,
        (n_in, n_out): (usize, usize),
        gain: f32,
    ) -> ValueId {
        let bound = gain * (3.0 / n_in as f32).sqrt();
        let w = self.weights(&format!("{name}.weight"), &[n_out, n_in], -bound, bound);
        let b = self.bias(name, n_out);
        let gemm = Gemm {
            alpha: 1.0,
            beta: 1.0,
            trans_a: false,
            trans_b: true,
        };
        self.node(name, Op::Gemm(gemm), &[x, w, b])
    }

    /// `y = x W + b` on `[batch, rows, in]`, `W` `[in, out]`: MatMul and Add, as exporters write
    /// a linear layer of three axes.
    pub(super) fn linear_3d(
        &mut self,
        name: &str,
        x: ValueId,
        (n_in, n_out): (usize, usize),
        gain: f32,
    ) -> ValueId {
        let bound = gain * (3.0 / n_in as f32).sqrt();
        let w = self.weights(&format!("{name}.weight"), &[n_in, n_out], -bound, bound);
        let b = self.bias(name, n_out);
        let product = self.node(&format!("{name}.matmul"), Op::MatMul(MatMul), &[x, w]);
        self.node(name, Op::Binary(Binary::Add), &[product, b])
    }

    fn bias(&mut self, name: &str, n: usize) -> ValueId {
        self.weights(&format!("{name}.bias"), &[n], -BIAS_BOUND, BIAS_BOUND)
    }

    /// Batch normalisation whose stored statistics say "variance about `variance`".
    pub(super) fn batch_norm(
        &mut self,
        name: &str,
        x: ValueId,
        channels: usize,
        variance: f32,
    ) -> ValueId {
        let scale = self.weights(&format!("{name}.weight"), &[channels], 0.8, 1.2);
        let bias = self.bias(name, channels);
        let mean = self.weights(&format!("{name}.running_mean"), &[channels], -0.1, 0.1);
        let (low, high) = (0.8 * variance, 1.2 * variance);
        let variance = self.weights(&format!("{name}.running_var"), &[channels], low, high);
        let op = Op::BatchNormalization(BatchNormalization { epsilon: 1e-3 });
        self.node(name, op, &[x, scale, bias, mean, variance])
    }

    /// Layer normalisation over the last axis.
    pub(super) fn layer_norm(&mut self, name: &str, x: ValueId, width: usize) -> ValueId {
        let scale = self.weights(&format!("{name}.weight"), &[width], 0.8, 1.2);
        let bias = self.bias(name, width);
        let op = Op::LayerNormalization(LayerNormalization {
            axis: -1,
            epsilon: 1e-5,
        });
        self.node(name, op, &[x, scale, bias])
    }

    /// `x + gamma * branch`, one gamma per channel, `gamma` of shape `[width, 1, ...]`.
    pub(super) fn scaled_residual(
        &mut self,
        name: &str,
        x: ValueId,
        branch: ValueId,
        gamma_shape: &[usize],
    ) -> ValueId {
        let gamma = self.weights(&format!("{name}.gamma"), gamma_shape, 0.3, 0.6);
        let scaled = self.mul(&format!("{name}.scale"), branch, gamma);
        self.add(&format!("{name}.add"), x, scaled)
    }

    /// Squeeze and excite: `x * sigmoid(expand(relu(reduce(mean(x)))))`.
    pub(super) fn squeeze_excite(
        &mut self,
        name: &str,
        x: ValueId,
        channels: usize,
        squeezed: usize,
    ) -> ValueId {
        let pooled = self.global_average(&format!("{name}.pool"), x);
        let reduce = ConvLayer::dense(channels, squeezed, 1);
        let reduced = self.conv(&format!("{name}.reduce"), pooled, reduce);
        let active = self.unary(&format!("{name}.relu"), Unary::Relu, reduced);
        let expand = ConvLayer::dense(squeezed, channels, 1).gain(AFTER_RELU);
        let expanded = self.conv(&format!("{name}.expand"), active, expand);
        let gate = self.unary(&format!("{name}.gate"), Unary::Sigmoid, expanded);
        self.mul(&format!("{name}.mul"), x, gate)
    }

    /// Multi-head self-attention on `[1, tokens, width]`: one projection to queries, keys and
    /// values, softmax of their scaled products, one projection back.
    pub(super) fn attention(
        &mut self,
        name: &str,
        x: ValueId,
        (tokens, width, heads): (usize, usize, usize),
    ) -> ValueId {
        let head_width = width / heads;
        let qkv = self.linear_3d(&format!("{name}.qkv"), x, (width, 3 * width), 1.0);
        let shape = [1, tokens, 3, heads, head_width];
        let split = self.reshape(&format!("{name}.split_heads"), qkv, &shape);
        let moved = self.transpose(&format!("{name}.heads_first"), split, &[2, 0, 3, 1, 4]);
        let q = self.take(&format!("{name}.q"), moved, 0);
        let k = self.take(&format!("{name}.k"), moved, 1);
        let v = self.take(&format!("{name}.v"), moved, 2);
        let scale_name = format!("{name}.scale");
        let scale = self.constant_f32(&scale_name, &[], vec![1.0 / (head_width as f32).sqrt()]);
        let q = self.mul(&format!("{name}.q_scaled"), q, scale);
        let k = self.transpose(&format!("{name}.k_transposed"), k, &[0, 1, 3, 2]);
        let scores = self.node(&format!("{name}.scores"), Op::MatMul(MatMul), &[q, k]);
        let softmax = Op::Softmax(Softmax {
            axis: -1,
            log: false,
            flatten: false,
        });
        let weights = self.node(&format!("{name}.softmax"), softmax, &[scores]);
        let mixed = self.node(&format!("{name}.mix"), Op::MatMul(MatMul), &[weights, v]);
        let back = self.transpose(&format!("{name}.tokens_first"), mixed, &[0, 2, 1, 3]);
        let joined = self.reshape(&format!("{name}.join_heads"), back, &[1, tokens, width]);
        // Averaging over tokens shrinks the values; the last projection makes up for part of it.
        self.linear_3d(&format!("{name}.proj"), joined, (width, width), 2.0)
    }

    // ---- layers without weights ----

    pub(super) fn unary(&mut self, name: &str, op: Unary, x: ValueId) -> ValueId {
        self.node(name, Op::Unary(op), &[x])
    }

    /// GELU as one node, as exporters for operator set 20 write it.
    pub(super) fn gelu(&mut self, name: &str, x: ValueId) -> ValueId {
        self.unary(name, Unary::Gelu { tanh: false }, x)
    }

    /// GELU spelled out, `0.5 x (1 + erf(x / sqrt 2))`, as exporters for older sets write it.
    pub(super) fn gelu_spelled_out(&mut self, name: &str, x: ValueId) -> ValueId {
        let root_two = self.constant_f32(
            &format!("{name}.sqrt2"),
            &[],
            vec![std::f32::consts::SQRT_2],
        );
        let one = self.constant_f32(&format!("{name}.one"), &[], vec![1.0]);
        let half = self.constant_f32(&format!("{name}.half"), &[], vec![0.5]);
        let scaled = self.node(
            &format!("{name}.div"),
            Op::Binary(Binary::Div),
            &[x, root_two],
        );
        let erf = self.unary(&format!("{name}.erf"), Unary::Erf, scaled);
        let shifted = self.add(&format!("{name}.add"), erf, one);
        let product = self.mul(&format!("{name}.mul"), x, shifted);
        self.mul(name, product, half)
    }

    /// SiLU spelled out, `x * sigmoid(x)`.
    pub(super) fn silu(&mut self, name: &str, x: ValueId) -> ValueId {
        let gate = self.unary(&format!("{name}.sigmoid"), Unary::Sigmoid, x);
        self.mul(name, x, gate)
    }

    pub(super) fn add(&mut self, name: &str, a: ValueId, b: ValueId) -> ValueId {
        self.node(name, Op::Binary(Binary::Add), &[a, b])
    }

    pub(super) fn mul(&mut self, name: &str, a: ValueId, b: ValueId) -> ValueId {
        self.node(name, Op::Binary(Binary::Mul), &[a, b])
    }

    /// Bytes to numbers around zero: `(x - 128) / 128`.
    pub(super) fn normalise_bytes(&mut self, name: &str, x: ValueId) -> ValueId {
        let centre = self.constant_f32(&format!("{name}.centre"), &[], vec![128.0]);
        let range = self.constant_f32(&format!("{name}.range"), &[], vec![128.0]);
        let cast = self.node(
            &format!("{name}.cast"),
            Op::Cast(Cast { to: DType::F32 }),
            &[x],
        );
        let centred = self.node(
            &format!("{name}.sub"),
            Op::Binary(Binary::Sub),
            &[cast, centre],
        );
        self.node(
            &format!("{name}.div"),
            Op::Binary(Binary::Div),
            &[centred, range],
        )
    }

    pub(super) fn global_average(&mut self, name: &str, x: ValueId) -> ValueId {
        self.node(
            name,
            Op::GlobalPool(GlobalPool {
                kind: PoolKind::Average,
            }),
            &[x],
        )
    }

    pub(super) fn flatten(&mut self, name: &str, x: ValueId) -> ValueId {
        self.node(name, Op::Flatten(Flatten { axis: 1 }), &[x])
    }

    pub(super) fn concat(&mut self, name: &str, parts: &[ValueId], axis: i64) -> ValueId {
        self.node(name, Op::Concat(Concat { axis }), parts)
    }

    pub(super) fn reshape(&mut self, name: &str, x: ValueId, shape: &[usize]) -> ValueId {
        let extents: Vec<i64> = shape.iter().map(|&d| d as i64).collect();
        let target = self.constant_i64(&format!("{name}.shape"), &extents);
        self.node(
            name,
            Op::Reshape(Reshape { allow_zero: false }),
            &[x, target],
        )
    }

    pub(super) fn transpose(&mut self, name: &str, x: ValueId, perm: &[usize]) -> ValueId {
        self.node(
            name,
            Op::Transpose(Transpose {
                perm: Some(perm.to_vec()),
            }),
            &[x],
        )
    }

    /// Entry `position` of the first axis, which goes away.
    fn take(&mut self, name: &str, x: ValueId, position: i64) -> ValueId {
        let tensor = Tensor::from_i64([], vec![position]).expect("a scalar");
        let index = self.graph.add_constant(format!("{name}.index"), tensor);
        self.node(name, Op::Gather(Gather { axis: 0 }), &[x, index])
    }

    /// Mean over `axis`, which goes away.
    pub(super) fn mean(&mut self, name: &str, x: ValueId, axis: i64) -> ValueId {
        let axes = self.constant_i64(&format!("{name}.axes"), &[axis]);
        let op = Op::Reduce(Reduce {
            kind: ReduceKind::Mean,
            keep_dims: false,
            noop_with_empty_axes: false,
        });
        self.node(name, op, &[x, axes])
    }
}
