//! Bytes between products: looked up, averaged and moved without floats.
//!
//! ```text
//! with bytes      x ─Quantize─Reshape─Dequantize─f─Quantize─Reshape─Dequantize─ y       a table
//! without         x ─Quantize─Dequantize─f─Quantize─Dequantize─ y                       a program of floats
//! ```
//!
//! A reshape of bytes makes them lie in memory; nothing else differs, so the bits are the same.

use spark_onnx::cpu::Isa;
use spark_onnx::graph::{
    Binary, Concat, DequantizeLinear, Dim, GlobalPool, Graph, MatMul, Op, Padding, Pool, PoolKind,
    QuantizeLinear, Reshape, Softmax, Transpose, Unary, ValueId,
};
use spark_onnx::{DType, ModelRunner, RunOptions, Tensor};
use spark_testing::numbers;

use super::quantised::interpreted;

/// Quantised values over a graph, each with a scale and a zero point of its own.
struct Bytes {
    graph: Graph,
    kind: DType,
    shape: Vec<usize>,
    /// Whether bytes are laid in memory.
    are_held: bool,
}

impl Bytes {
    fn new(kind: DType, shape: &[usize], are_held: bool) -> Self {
        Self {
            graph: Graph::default(),
            kind,
            shape: shape.to_vec(),
            are_held,
        }
    }

    fn input(&mut self, name: &str) -> ValueId {
        let dims = self.shape.iter().map(|&extent| Dim::Known(extent));
        let dims = dims.collect();
        self.graph.add_input(name, DType::F32, dims)
    }

    fn name(&self) -> String {
        format!("value{}", self.graph.values.len())
    }

    fn node(&mut self, op: impl Into<Op>, inputs: &[Option<ValueId>]) -> ValueId {
        let name = self.name();
        self.graph.add_node(name, op.into(), inputs)
    }

    fn constant(&mut self, tensor: Tensor) -> Option<ValueId> {
        let name = self.name();
        Some(self.graph.add_constant(name, tensor))
    }

    /// `x` as bytes and back.
    fn through(&mut self, x: ValueId, scale: f32) -> ValueId {
        let zero = if self.kind == DType::I8 { -7.0 } else { 119.0 };
        let zero = Tensor::from_f64(self.kind, [], vec![zero]).expect("one");
        let zero = self.constant(zero);
        let scale = self.constant(Tensor::from_f32([], vec![scale]).expect("one"));
        let quantize = QuantizeLinear::along(1);
        let mut y = self.node(quantize, &[Some(x), scale, zero]);
        if self.are_held {
            let shape: Vec<i64> = self.shape.iter().map(|&extent| extent as i64).collect();
            let shape = Tensor::from_i64([shape.len()], shape).expect("a list");
            let shape = self.constant(shape);
            y = self.node(Reshape { allow_zero: false }, &[Some(y), shape]);
        }
        self.node(DequantizeLinear::along(1), &[Some(y), scale, zero])
    }

    fn finish(mut self, y: ValueId) -> Graph {
        self.graph.outputs.push(y);
        self.graph
    }
}

/// Results of `graph` and the names of its kernels.
fn run(graph: &Graph, x: &Tensor, (isa, threads): (Isa, usize)) -> (Tensor, Vec<String>) {
    let options = RunOptions::default().with_isa(isa).with_threads(threads);
    let mut runner = ModelRunner::from_graph(graph.clone(), &options).expect("loads");
    let kernels = runner.steps().into_iter().map(|step| step.kernel).collect();
    let results = runner.run(&[("x", x)]).expect("runs");
    (results.into_iter().next().expect("a result").1, kernels)
}

fn processors() -> Vec<(Isa, usize)> {
    let with = |isa| [(isa, 1), (isa, 3)];
    Isa::available().into_iter().flat_map(with).collect()
}

/// Values over the whole range of bytes at a scale of 0.05, some beyond it.
fn values(shape: &[usize]) -> Tensor {
    let values = numbers(shape.iter().product(), 3);
    let values = values.into_iter().map(|v| v * 8.0);
    Tensor::from_f32(shape, values.collect()).expect("fits")
}

#[test]
fn a_function_of_a_byte_is_looked_up_with_the_bits_of_its_program() {
    let functions = [
        Unary::Sigmoid,
        Unary::HardSwish,
        Unary::Exp,
        Unary::Log,
        Unary::Tanh,
        Unary::LeakyRelu { alpha: 0.1 },
        Unary::Gelu { tanh: false },
    ];
    let shapes: [&[usize]; 4] = [&[1], &[2, 63], &[65, 1], &[3, 11000]];
    for kind in [DType::U8, DType::I8] {
        for (function, shape) in functions.iter().flat_map(|f| shapes.map(|s| (f, s))) {
            let x = values(shape);
            let of = |are_held: bool| {
                let mut bytes = Bytes::new(kind, shape, are_held);
                let input = bytes.input("x");
                let y = bytes.through(input, 0.05);
                let y = bytes.node(Op::Unary(*function), &[Some(y)]);
                let y = bytes.through(y, 0.02);
                bytes.finish(y)
            };
            let (held, spelled_out) = (of(true), of(false));
            for processor in processors() {
                let (got, kernels) = run(&held, &x, processor);
                let (want, _) = run(&spelled_out, &x, processor);
                assert_eq!(got, want, "{function:?} {shape:?} {processor:?}");
                let tables = kernels.iter().filter(|name| name.ends_with("byte-table"));
                assert_eq!(tables.count(), 2, "{kernels:?}");
            }
        }
    }
}

#[test]
fn a_gate_of_a_byte_by_itself_is_one_table() {
    let x = values(&[2, 300]);
    let of = |are_held: bool| {
        let mut bytes = Bytes::new(DType::U8, &[2, 300], are_held);
        let input = bytes.input("x");
        let y = bytes.through(input, 0.05);
        let gate = bytes.node(Op::Unary(Unary::Sigmoid), &[Some(y)]);
        let y = bytes.node(Op::Binary(Binary::Mul), &[Some(y), Some(gate)]);
        let y = bytes.through(y, 0.03);
        bytes.finish(y)
    };
    for processor in processors() {
        let (got, kernels) = run(&of(true), &x, processor);
        assert_eq!(got, run(&of(false), &x, processor).0, "{processor:?}");
        // Quantised, gated, dequantised.
        assert_eq!(kernels.len(), 3, "{kernels:?}");
        assert!(kernels[1].ends_with("byte-table"), "{kernels:?}");
    }
}

#[test]
fn two_bytes_give_the_bits_of_their_floats() {
    let shape = [2, 5, 200];
    let x = values(&shape);
    for (op, kind) in [
        (Binary::Add, DType::U8),
        (Binary::Mul, DType::I8),
        (Binary::Sub, DType::U8),
    ] {
        let of = |are_held: bool| {
            let mut bytes = Bytes::new(kind, &shape, are_held);
            let input = bytes.input("x");
            let a = bytes.through(input, 0.05);
            let b = bytes.node(Op::Unary(Unary::Cos), &[Some(input)]);
            let b = bytes.through(b, 0.01);
            let y = bytes.node(Op::Binary(op), &[Some(a), Some(b)]);
            let y = bytes.through(y, 0.03);
            bytes.finish(y)
        };
        for processor in processors() {
            let (got, _) = run(&of(true), &x, processor);
            assert_eq!(
                got,
                run(&of(false), &x, processor).0,
                "{op:?} {processor:?}"
            );
        }
    }
}

#[test]
fn a_mean_of_bytes_is_exact_but_for_its_last_rounding() {
    for kind in [DType::U8, DType::I8] {
        for shape in [[2, 3, 4, 5], [1, 130, 7, 9], [1, 1, 300, 70]] {
            let x = values(&shape);
            let mut bytes = Bytes::new(kind, &shape, true);
            let input = bytes.input("x");
            let y = bytes.through(input, 0.05);
            let pool = GlobalPool {
                kind: PoolKind::Average,
            };
            let y = bytes.node(pool, &[Some(y)]);
            let graph = bytes.finish(y);
            let want = interpreted(&graph, &[("x", &x)]).to_f32();
            for processor in processors() {
                let (got, kernels) = run(&graph, &x, processor);
                let is_mean = |name: &String| name.ends_with("byte-mean");
                assert!(kernels.iter().any(is_mean), "{kernels:?}");
                for (got, want) in got.to_f32().iter().zip(&want) {
                    let near = (got - want).abs() <= 1e-6 * want.abs().max(1.0);
                    assert!(near, "{got} {want} {processor:?}");
                }
            }
        }
    }
}

#[test]
fn bytes_are_moved_and_joined_as_bytes() {
    let shape = [2, 3, 4, 5];
    let x = values(&shape);
    for kind in [DType::U8, DType::I8] {
        let mut bytes = Bytes::new(kind, &shape, true);
        let input = bytes.input("x");
        let a = bytes.through(input, 0.05);
        let b = bytes.node(Op::Unary(Unary::Neg), &[Some(a)]);
        let b = bytes.through(b, 0.05);
        let y = bytes.node(Concat { axis: 1 }, &[Some(a), Some(b)]);
        let perm = Some(vec![0, 2, 3, 1]);
        let y = bytes.node(Transpose { perm }, &[Some(y)]);
        bytes.are_held = false;
        let y = bytes.through(y, 0.05);
        let graph = bytes.finish(y);
        let want = interpreted(&graph, &[("x", &x)]);
        for processor in processors() {
            let (got, kernels) = run(&graph, &x, processor);
            assert_eq!(got, want, "{processor:?} {kernels:?}");
            // Quantised; its negative looked up; both copied side by side; dequantised.
            let copies = kernels.iter().filter(|name| name.ends_with("copy"));
            assert_eq!((kernels.len(), copies.count()), (5, 2), "{kernels:?}");
        }
    }
}

#[test]
fn the_greatest_of_bytes_is_a_byte() {
    for kind in [DType::U8, DType::I8] {
        for (shape, kernel, stride, pad) in [
            ([2, 70, 7, 9], 3, 2, 1),
            ([1, 64, 6, 6], 2, 2, 0),
            ([1, 3, 5, 4], 5, 1, 2),
        ] {
            let x = values(&shape);
            let mut bytes = Bytes::new(kind, &shape, true);
            let input = bytes.input("x");
            let y = bytes.through(input, 0.05);
            let pool = Pool {
                kind: PoolKind::Max,
                kernel: vec![kernel; 2],
                strides: vec![stride; 2],
                dilations: vec![1; 2],
                padding: Padding::Explicit(vec![pad; 4]),
                count_include_pad: false,
                ceil_mode: false,
            };
            let y = bytes.node(pool, &[Some(y)]);
            bytes.are_held = false;
            let y = bytes.through(y, 0.05);
            let graph = bytes.finish(y);
            let want = interpreted(&graph, &[("x", &x)]);
            for processor in processors() {
                let (got, kernels) = run(&graph, &x, processor);
                assert_eq!(got, want, "{shape:?} {processor:?}");
                let is_pool = |name: &String| name.ends_with("byte-pool");
                assert!(kernels.iter().any(is_pool), "{kernels:?}");
            }
        }
    }
}

#[test]
fn a_window_that_is_wholly_padding_has_the_least_byte() {
    for kind in [DType::U8, DType::I8] {
        let shape = [1, 16, 1, 1];
        let x = values(&shape);
        let mut bytes = Bytes::new(kind, &shape, false);
        let input = bytes.input("x");
        let y = bytes.through(input, 0.05);
        let pool = Pool {
            kind: PoolKind::Max,
            kernel: vec![2; 2],
            strides: vec![1; 2],
            dilations: vec![3; 2],
            padding: Padding::Explicit(vec![1, 1, 2, 2]),
            count_include_pad: false,
            ceil_mode: false,
        };
        let y = bytes.node(pool, &[Some(y)]);
        let y = bytes.through(y, 0.05);
        let graph = bytes.finish(y);
        let want = interpreted(&graph, &[("x", &x)]);
        for processor in processors() {
            assert_eq!(run(&graph, &x, processor).0, want, "{processor:?}");
        }
    }
}

#[test]
fn factors_of_bytes_are_no_factors_of_scores() {
    let mut bytes = Bytes::new(DType::U8, &[1, 4, 8], true);
    let input = bytes.input("x");
    let scale = bytes.constant(Tensor::from_f32([], vec![0.05]).expect("one"));
    let quantised = bytes.node(QuantizeLinear::along(1), &[Some(input), scale]);
    bytes.graph.outputs.push(quantised);
    let q = bytes.node(DequantizeLinear::along(1), &[Some(quantised), scale]);
    let perm = Some(vec![0, 2, 1]);
    let k = bytes.node(Transpose { perm }, &[Some(input)]);
    let scores = bytes.node(MatMul, &[Some(q), Some(k)]);
    let softmax = Softmax {
        axis: 2,
        flatten: false,
        log: false,
    };
    let weights = bytes.node(softmax, &[Some(scores)]);
    let y = bytes.node(MatMul, &[Some(weights), Some(input)]);
    let mut graph = bytes.graph;
    graph.outputs = vec![y, quantised];
    let x = values(&[1, 4, 8]);
    let want = interpreted(&graph, &[("x", &x)]).to_f32();
    for processor in processors() {
        let (got, _) = run(&graph, &x, processor);
        for (got, want) in got.to_f32().iter().zip(&want) {
            assert!((got - want).abs() <= 1e-4, "{got} {want} {processor:?}");
        }
    }
}
