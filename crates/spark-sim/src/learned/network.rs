//! A network of the challenge's shape with random weights, so that its loop can be run and timed.
//!
//! ```text
//! states [b, 20, 4] f32 --linear--> 64 --+-- concat [b, 20, 128] + position
//! tokens [b, 20] i64  --embedding-> 64 --+        |
//!                                                 v
//!    4 x   x + attention(norm(x))     4 heads of 32, every step sees itself and earlier ones
//!          x + mlp(norm(x))           128 -> 512, GELU by tanh, -> 128
//!                                                 |
//!                                        norm --linear--> logits [b, 20, 1024]
//! ```
//!
//! Width, depth, heads, vocabulary and interface are those of the challenge's model; how it
//! joins states and tokens is not published, and half the width each is this crate's choice.
//! The weights are random: its answers mean nothing, its run time does.

use super::{CONTEXT, N_BINS, STATE_SIZE};
use spark_onnx::graph::{
    Binary, Concat, Dim, Gather, Graph, LayerNormalization, MatMul, Op, Reshape, Softmax,
    Transpose, Unary, ValueId,
};
use spark_onnx::{DType, Tensor};
use spark_openpilot::zoo::{RANDOM_WEIGHTS, Stream, WEIGHTS_KEY};

const WIDTH: usize = 128;
const HEADS: usize = 4;
const BLOCKS: usize = 4;
const HIDDEN: usize = 4 * WIDTH;

/// The network with weights from `seed`; about a million parameters.
pub fn random_dynamics(seed: u64) -> Graph {
    let mut net = Builder {
        graph: Graph {
            name: "learned_dynamics".to_owned(),
            ..Graph::default()
        },
        seed,
    };
    let batch = || Dim::Symbol("b".to_owned());
    let states = [batch(), Dim::Known(CONTEXT), Dim::Known(STATE_SIZE)];
    let states = net.graph.add_input("states", DType::F32, states.to_vec());
    let tokens = [batch(), Dim::Known(CONTEXT)];
    let tokens = net.graph.add_input("tokens", DType::I64, tokens.to_vec());

    let states = net.linear("states_in", states, STATE_SIZE, WIDTH / 2);
    let table = net.weights("token_embedding", &[N_BINS, WIDTH / 2], 1.0);
    let tokens = net.node("token_in", Op::Gather(Gather { axis: 0 }), &[table, tokens]);
    let joined = net.node("joined", Op::Concat(Concat { axis: -1 }), &[states, tokens]);
    let position = net.weights("position", &[1, CONTEXT, WIDTH], 0.5);
    let mut x = net.binary("embedded", Binary::Add, joined, position);
    let mask = net.causal_mask();
    for block in 0..BLOCKS {
        x = net.block(&format!("blocks.{block}"), x, mask);
    }
    let x = net.layer_norm("norm", x);
    let logits = net.linear("logits", x, WIDTH, N_BINS);
    let output = &mut net.graph.values[logits.0];
    output.dtype = Some(DType::F32);
    output.shape = Some(vec![batch(), Dim::Known(CONTEXT), Dim::Known(N_BINS)]);
    net.graph.outputs.push(logits);
    let random = (WEIGHTS_KEY.to_owned(), RANDOM_WEIGHTS.to_owned());
    net.graph.metadata.extend([random]);
    net.graph
}

struct Builder {
    graph: Graph,
    seed: u64,
}

impl Builder {
    fn node(&mut self, name: &str, op: Op, inputs: &[ValueId]) -> ValueId {
        let inputs: Vec<_> = inputs.iter().copied().map(Some).collect();
        self.graph.add_node(name, op, &inputs)
    }

    fn binary(&mut self, name: &str, op: Binary, a: ValueId, b: ValueId) -> ValueId {
        self.node(name, Op::Binary(op), &[a, b])
    }

    /// Uniform in `(-bound, bound)`.
    fn weights(&mut self, name: &str, shape: &[usize], bound: f32) -> ValueId {
        let stream = Stream::new(self.seed, name);
        let n = shape.iter().product::<usize>() as u64;
        let values = (0..n).map(|i| stream.signed_unit(i) * bound).collect();
        let tensor = Tensor::from_f32(shape, values).expect("one value per element");
        self.graph.add_constant(name, tensor)
    }

    /// As [`Self::weights`], around one.
    fn scales(&mut self, name: &str) -> ValueId {
        let stream = Stream::new(self.seed, name);
        let values = (0..WIDTH as u64).map(|i| stream.uniform(i, 0.8, 1.2));
        let tensor = Tensor::from_f32([WIDTH], values.collect()).expect("one value per element");
        self.graph.add_constant(name, tensor)
    }

    fn extents(&mut self, name: &str, values: &[i64]) -> ValueId {
        let tensor = Tensor::from_i64([values.len()], values.to_vec()).expect("one axis");
        self.graph.add_constant(name, tensor)
    }

    /// `x W + b`; outputs have about the mean square of the inputs.
    fn linear(&mut self, name: &str, x: ValueId, n_in: usize, n_out: usize) -> ValueId {
        let bound = (3.0 / n_in as f32).sqrt();
        let w = self.weights(&format!("{name}.weight"), &[n_in, n_out], bound);
        let b = self.weights(&format!("{name}.bias"), &[n_out], 0.1);
        let product = self.node(&format!("{name}.product"), Op::MatMul(MatMul), &[x, w]);
        self.binary(name, Binary::Add, product, b)
    }

    fn layer_norm(&mut self, name: &str, x: ValueId) -> ValueId {
        let scale = self.scales(&format!("{name}.weight"));
        let bias = self.weights(&format!("{name}.bias"), &[WIDTH], 0.1);
        let op = Op::LayerNormalization(LayerNormalization {
            axis: -1,
            epsilon: 1e-5,
        });
        self.node(name, op, &[x, scale, bias])
    }

    /// Zero where a step may look, far below every score where it may not.
    fn causal_mask(&mut self) -> ValueId {
        let at = |i: usize| match i % CONTEXT <= i / CONTEXT {
            true => 0.0,
            false => -1e9,
        };
        let values = (0..CONTEXT * CONTEXT).map(at).collect();
        let tensor = Tensor::from_f32([CONTEXT, CONTEXT], values).expect("a square");
        self.graph.add_constant("causal_mask", tensor)
    }

    fn block(&mut self, name: &str, x: ValueId, mask: ValueId) -> ValueId {
        let normed = self.layer_norm(&format!("{name}.norm1"), x);
        let mixed = self.attention(&format!("{name}.attention"), normed, mask);
        let x = self.binary(&format!("{name}.add1"), Binary::Add, x, mixed);
        let normed = self.layer_norm(&format!("{name}.norm2"), x);
        let wide = self.linear(&format!("{name}.wide"), normed, WIDTH, HIDDEN);
        let gelu = Op::Unary(Unary::Gelu { tanh: true });
        let active = self.node(&format!("{name}.gelu"), gelu, &[wide]);
        let narrow = self.linear(&format!("{name}.narrow"), active, HIDDEN, WIDTH);
        self.binary(&format!("{name}.add2"), Binary::Add, x, narrow)
    }

    fn attention(&mut self, name: &str, x: ValueId, mask: ValueId) -> ValueId {
        let head = WIDTH / HEADS;
        let part = |net: &mut Self, which: &str, perm: [usize; 4]| {
            let name = format!("{name}.{which}");
            let flat = net.linear(&format!("{name}.linear"), x, WIDTH, WIDTH);
            let shape = [0, CONTEXT as i64, HEADS as i64, head as i64];
            let shape = net.extents(&format!("{name}.shape"), &shape);
            let reshape = Op::Reshape(Reshape { allow_zero: false });
            let split = net.node(&format!("{name}.split"), reshape, &[flat, shape]);
            let perm = Some(perm.to_vec());
            net.node(&name, Op::Transpose(Transpose { perm }), &[split])
        };
        let q = part(self, "q", [0, 2, 1, 3]);
        let k = part(self, "k", [0, 2, 3, 1]);
        let v = part(self, "v", [0, 2, 1, 3]);
        let scale = Tensor::from_f32([], vec![1.0 / (head as f32).sqrt()]).expect("a scalar");
        let scale = self.graph.add_constant(format!("{name}.factor"), scale);
        let scores = self.node(&format!("{name}.scores"), Op::MatMul(MatMul), &[q, k]);
        let scaled = self.binary(&format!("{name}.scaled"), Binary::Mul, scores, scale);
        let masked = self.binary(&format!("{name}.masked"), Binary::Add, scaled, mask);
        let softmax = Op::Softmax(Softmax {
            axis: -1,
            log: false,
            flatten: false,
        });
        let weights = self.node(&format!("{name}.weights"), softmax, &[masked]);
        let mixed = self.node(&format!("{name}.mixed"), Op::MatMul(MatMul), &[weights, v]);
        let perm = Some(vec![0, 2, 1, 3]);
        let back = self.node(
            &format!("{name}.back"),
            Op::Transpose(Transpose { perm }),
            &[mixed],
        );
        let shape = [0, CONTEXT as i64, WIDTH as i64];
        let shape = self.extents(&format!("{name}.join.shape"), &shape);
        let reshape = Op::Reshape(Reshape { allow_zero: false });
        let joined = self.node(&format!("{name}.join"), reshape, &[back, shape]);
        self.linear(&format!("{name}.out"), joined, WIDTH, WIDTH)
    }
}
