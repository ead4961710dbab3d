//! Each pattern in the forms exporters write, and near misses that must stay.

use super::*;
use crate::graph::{Clip, Dim, Graph, Reduce, bind};
use crate::{DType, reference};

struct Build {
    graph: Graph,
    x: ValueId,
    n: usize,
}

impl Build {
    fn new() -> Self {
        let mut graph = Graph::default();
        let x = graph.add_input("x", DType::F32, vec![Dim::Known(3), Dim::Known(8)]);
        Self { graph, x, n: 0 }
    }

    fn name(&mut self) -> String {
        self.n += 1;
        format!("n{}", self.n)
    }

    fn scalar(&mut self, value: f32) -> ValueId {
        let name = self.name();
        let tensor = Tensor::from_f32([], vec![value]).expect("a scalar");
        self.graph.add_constant(name, tensor)
    }

    fn vector(&mut self, n: usize) -> ValueId {
        let name = self.name();
        let values = (0..n).map(|i| 0.5 + i as f32 / 7.0).collect();
        let tensor = Tensor::from_f32([n], values).expect("a vector");
        self.graph.add_constant(name, tensor)
    }

    fn un(&mut self, op: Unary, a: ValueId) -> ValueId {
        let name = self.name();
        self.graph.add_node(name, Op::Unary(op), &[Some(a)])
    }

    fn bin(&mut self, op: Binary, a: ValueId, b: ValueId) -> ValueId {
        let name = self.name();
        self.graph
            .add_node(name, Op::Binary(op), &[Some(a), Some(b)])
    }

    fn mean(&mut self, a: ValueId) -> ValueId {
        let name = self.name();
        let axes = Tensor::from_i64([1], vec![-1]).expect("one axis");
        let axes = self.graph.add_constant(format!("{name}.axes"), axes);
        let op = Op::Reduce(Reduce {
            kind: ReduceKind::Mean,
            keep_dims: true,
            noop_with_empty_axes: false,
        });
        self.graph.add_node(name, op, &[Some(a), Some(axes)])
    }

    /// Joins, checks the remaining operators, and that values are unchanged.
    #[track_caller]
    fn check(mut self, out: ValueId, want: &[&str]) {
        self.graph.outputs.push(out);
        let before = bind(&self.graph, &[]).expect("binds");
        let mut after = before.clone();
        join(&mut after);
        let names: Vec<&str> = after.nodes.iter().map(|n| n.op.name()).collect();
        assert_eq!(names, want);
        let x = (0..24).map(|i| (i as f32 - 12.0) / 5.0).collect();
        let x = Tensor::from_f32([3, 8], x).expect("fits");
        let run = |g: &StaticGraph| reference::run(g, &[("x", &x)]).expect("runs")[0].1.to_f64();
        for (a, b) in run(&before).iter().zip(run(&after)) {
            assert!((a - b).abs() < 2e-6, "{a} became {b}");
        }
    }
}

#[test]
fn gelu_is_found_in_three_orders() {
    for order in 0..3 {
        let mut b = Build::new();
        let x = b.x;
        let root = b.scalar(std::f32::consts::SQRT_2);
        let (half, one) = (b.scalar(0.5), b.scalar(1.0));
        let scaled = b.bin(Binary::Div, x, root);
        let erf = b.un(Unary::Erf, scaled);
        let sum = b.bin(Binary::Add, erf, one);
        let out = match order {
            0 => {
                let product = b.bin(Binary::Mul, x, sum);
                b.bin(Binary::Mul, product, half)
            }
            1 => {
                let halved = b.bin(Binary::Mul, half, x);
                b.bin(Binary::Mul, halved, sum)
            }
            _ => {
                let halved = b.bin(Binary::Mul, sum, half);
                b.bin(Binary::Mul, x, halved)
            }
        };
        b.check(out, &["Gelu"]);
    }
}

#[test]
fn a_gelu_whose_inside_is_read_elsewhere_stays() {
    let mut b = Build::new();
    let x = b.x;
    let root = b.scalar(std::f32::consts::SQRT_2);
    let (half, one) = (b.scalar(0.5), b.scalar(1.0));
    let scaled = b.bin(Binary::Div, x, root);
    let erf = b.un(Unary::Erf, scaled);
    let sum = b.bin(Binary::Add, erf, one);
    let product = b.bin(Binary::Mul, x, sum);
    let out = b.bin(Binary::Mul, product, half);
    let both = b.bin(Binary::Add, out, erf);
    b.check(both, &["Div", "Erf", "Add", "Mul", "Mul", "Add"]);
}

#[test]
fn swish_and_hard_swish_are_found() {
    let mut b = Build::new();
    let x = b.x;
    let gate = b.un(Unary::Sigmoid, x);
    let out = b.bin(Binary::Mul, gate, x);
    b.check(out, &["Swish"]);

    let mut b = Build::new();
    let x = b.x;
    let op = Unary::HardSigmoid {
        alpha: 1.0 / 6.0,
        beta: 0.5,
    };
    let gate = b.un(op, x);
    let out = b.bin(Binary::Mul, x, gate);
    b.check(out, &["HardSwish"]);

    let mut b = Build::new();
    let x = b.x;
    let (three, zero, six) = (b.scalar(3.0), b.scalar(0.0), b.scalar(6.0));
    let sum = b.bin(Binary::Add, x, three);
    let name = b.name();
    let clip = b
        .graph
        .add_node(name, Op::Clip(Clip), &[Some(sum), Some(zero), Some(six)]);
    let product = b.bin(Binary::Mul, x, clip);
    let out = b.bin(Binary::Div, product, six);
    b.check(out, &["HardSwish"]);
}

#[test]
fn layer_normalisation_is_found_and_a_wrong_axis_is_not() {
    for square in [Binary::Pow, Binary::Mul] {
        let mut b = Build::new();
        let x = b.x;
        let mean = b.mean(x);
        let minus = b.bin(Binary::Sub, x, mean);
        let two = b.scalar(2.0);
        let other = if square == Binary::Pow { two } else { minus };
        let squared = b.bin(square, minus, other);
        let variance = b.mean(squared);
        let epsilon = b.scalar(1e-5);
        let sum = b.bin(Binary::Add, variance, epsilon);
        let root = b.un(Unary::Sqrt, sum);
        let quotient = b.bin(Binary::Div, minus, root);
        let (scale, bias) = (b.vector(8), b.vector(8));
        let scaled = b.bin(Binary::Mul, quotient, scale);
        let out = b.bin(Binary::Add, scaled, bias);
        b.check(out, &["LayerNormalization"]);
    }
}
