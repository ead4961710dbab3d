//! A small network, made here: a convolution, a product, a softmax, and what is between.
//!
//! ```text
//! x [1,3,12,16] ── conv 3x3 of 8 ── relu ── flatten ── product with [8*12*16, 10] ── softmax ──> y [1,10]
//! ```

use spark_onnx::graph::{Conv, Dim, Flatten, Graph, MatMul, Op, Padding, Softmax, Unary};
use spark_onnx::{DType, ModelError, Tensor};

const CHANNELS: [usize; 2] = [3, 8];
const EXTENTS: [usize; 2] = [12, 16];
const CLASSES: usize = 10;
/// Name of its input.
pub(crate) const INPUT: &str = "x";

/// The network, and an input of it.
pub(crate) fn make() -> Result<(Graph, Tensor), ModelError> {
    let [from, to] = CHANNELS;
    let [rows, columns] = EXTENTS;
    let n_flat = to * rows * columns;
    let mut graph = Graph::default();
    let shape = [1, from, rows, columns];
    let x = graph.add_input(INPUT, DType::F32, shape.map(Dim::Known).to_vec());
    let filters = graph.add_constant("filters", tensor(&[to, from, 3, 3], 0.3, 1)?);
    let conv = Op::Conv(Conv {
        strides: Vec::new(),
        dilations: Vec::new(),
        padding: Padding::Explicit(vec![1; 4]),
        groups: 1,
    });
    let y = graph.add_node("conv", conv, &[Some(x), Some(filters)]);
    let y = graph.add_node("relu", Op::Unary(Unary::Relu), &[Some(y)]);
    let y = graph.add_node("flat", Op::Flatten(Flatten { axis: 1 }), &[Some(y)]);
    let weights = graph.add_constant("weights", tensor(&[n_flat, CLASSES], 0.05, 2)?);
    let y = graph.add_node("product", Op::MatMul(MatMul), &[Some(y), Some(weights)]);
    let softmax = Op::Softmax(Softmax {
        axis: -1,
        log: false,
        flatten: false,
    });
    let y = graph.add_node("y", softmax, &[Some(y)]);
    graph.outputs.push(y);
    Ok((graph, tensor(&shape, 1.0, 3)?))
}

/// Numbers between `-most` and `most` that depend on the seed alone.
fn tensor(shape: &[usize], most: f32, seed: u32) -> Result<Tensor, ModelError> {
    let mut state = seed;
    let next = |_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        most * ((state >> 8) as f32 / (1 << 23) as f32 - 1.0)
    };
    let n = shape.iter().product();
    Tensor::from_f32(shape, (0..n).map(next).collect::<Vec<f32>>())
}
