//! One product between dequantisation and quantisation: which are joined, and what that changes.
//!
//! ```text
//! joined       results are those of floats, but where a tie is near: there by one step
//! not joined   what no step of integers computes, or would compute otherwise; it runs in floats
//! ```

use proptest::prelude::*;
use spark_onnx::graph::{
    Conv, DequantizeLinear, Dim, Gemm, Graph, MatMul, Op, Padding, QuantizeLinear, Unary, bind,
};
use spark_onnx::plan::lower;
use spark_onnx::{DType, ModelRunner, RunOptions, Tensor};

use super::integers::{bytes, scales};
use super::operators::cases;
use super::quantised::{interpreted, joined};

/// One product between dequantisation and quantisation, of an input `x` of bytes.
#[derive(Debug, Clone)]
struct Layer {
    op: Op,
    x_kind: DType,
    x_shape: Vec<usize>,
    /// Whether the shape of `x` is declared.
    is_declared: bool,
    x_scales: Tensor,
    w: Tensor,
    /// Whether the weights are an input `w`.
    has_computed_weights: bool,
    w_axis: i64,
    w_scales: Tensor,
    /// As floats.
    bias: Option<Tensor>,
    after: Option<Unary>,
    y_scales: Tensor,
    y_zero: Tensor,
    /// Whether somebody else reads the product.
    is_read_twice: bool,
}

fn one(value: f32) -> Tensor {
    Tensor::from_f32([], vec![value]).expect("one")
}

fn list(values: &[f32]) -> Tensor {
    Tensor::from_f32([values.len()], values.to_vec()).expect("a list")
}

fn zero(kind: DType, value: f64) -> Tensor {
    Tensor::from_f64(kind, [], vec![value]).expect("one")
}

impl Layer {
    fn new(op: impl Into<Op>, x_shape: &[usize], w_shape: &[usize]) -> Self {
        Self {
            op: op.into(),
            x_kind: DType::U8,
            x_shape: x_shape.to_vec(),
            is_declared: true,
            x_scales: one(0.02),
            w: bytes(DType::I8, w_shape, 3),
            has_computed_weights: false,
            w_axis: 0,
            w_scales: one(0.01),
            bias: None,
            after: None,
            y_scales: one(0.5),
            y_zero: zero(DType::U8, 100.0),
            is_read_twice: false,
        }
    }

    fn conv(x_shape: &[usize], w_shape: &[usize]) -> Self {
        let conv = Conv {
            strides: vec![],
            dilations: vec![],
            padding: Padding::Valid,
            groups: 1,
        };
        Self::new(conv, x_shape, w_shape)
    }

    fn picture() -> Self {
        Self::conv(&[1, 3, 5, 6], &[4, 3, 3, 3])
    }

    fn gemm(m: usize, k: usize, n: usize) -> Self {
        let gemm = Gemm {
            alpha: 1.0,
            beta: 1.0,
            trans_a: false,
            trans_b: false,
        };
        let layer = Self::new(gemm, &[m, k], &[k, n]);
        Self { w_axis: 1, ..layer }
    }

    fn matmul(m: usize, k: usize, n: usize) -> Self {
        let layer = Self::new(MatMul, &[m, k], &[k, n]);
        Self { w_axis: 1, ..layer }
    }

    fn graph(&self) -> Graph {
        let mut graph = Graph::default();
        let input = |graph: &mut Graph, name: &str, tensor_kind, shape: &[usize]| {
            let dim = |(axis, &extent): (usize, &usize)| match self.is_declared {
                true => Dim::Known(extent),
                false => Dim::Symbol(format!("{name}{axis}")),
            };
            let dims = shape.iter().enumerate().map(dim).collect();
            Some(graph.add_input(name, tensor_kind, dims))
        };
        let x = input(&mut graph, "x", self.x_kind, &self.x_shape);
        let w = match self.has_computed_weights {
            true => input(&mut graph, "w", self.w.dtype(), self.w.shape()),
            false => Some(graph.add_constant("w", self.w.clone())),
        };
        let constant = |graph: &mut Graph, name: &str, tensor: &Tensor| {
            Some(graph.add_constant(name, tensor.clone()))
        };
        let x_scale = constant(&mut graph, "x_scale", &self.x_scales);
        let w_scale = constant(&mut graph, "w_scale", &self.w_scales);
        let y_scale = constant(&mut graph, "y_scale", &self.y_scales);
        let y_zero = constant(&mut graph, "y_zero", &self.y_zero);
        let dequantize = |axis| Op::DequantizeLinear(DequantizeLinear::along(axis));
        let x = graph.add_node("x_floats", dequantize(1), &[x, x_scale]);
        let w = graph.add_node("w_floats", dequantize(self.w_axis), &[w, w_scale]);
        let mut operands = vec![Some(x), Some(w)];
        if let Some(bias) = &self.bias {
            operands.push(constant(&mut graph, "bias", bias));
        }
        let product = graph.add_node("product", self.op.clone(), &operands);
        let mut y = product;
        if let Some(function) = self.after {
            y = graph.add_node("function", Op::Unary(function), &[Some(y)]);
        }
        let quantize = Op::QuantizeLinear(QuantizeLinear::along(1));
        let y = graph.add_node("y", quantize, &[Some(y), y_scale, y_zero]);
        graph.outputs.push(y);
        if self.is_read_twice {
            graph.outputs.push(product);
        }
        graph
    }

    fn is_joined(&self) -> bool {
        let graph = joined(&self.graph());
        let is_product = |op: &Op| matches!(op, Op::QLinearConv(_) | Op::QLinearMatMul(_));
        graph.nodes.iter().any(|node| is_product(&node.op))
    }

    /// Runs it: bytes of the executor, and of the interpreter as it is spelled out.
    fn run(&self) -> Result<[Tensor; 2], String> {
        let graph = self.graph();
        let x = bytes(self.x_kind, &self.x_shape, 9);
        let mut inputs = vec![("x", &x)];
        if self.has_computed_weights {
            inputs.push(("w", &self.w));
        }
        let want = interpreted(&graph, &inputs);
        let runner = ModelRunner::from_graph(graph, &RunOptions::default());
        let got = runner.and_then(|mut runner| runner.run(&inputs));
        let got = got.map_err(|error| error.to_string())?;
        Ok([got[0].1.clone(), want])
    }

    /// Whether it is joined; either way it runs, and stays within a step of what is spelled out.
    fn check(&self, is_joined: bool) -> Result<(), String> {
        if self.is_joined() != is_joined {
            return Err(format!("joined is {}", !is_joined));
        }
        let [got, want] = self.run()?;
        let steps = got.to_f64().into_iter().zip(want.to_f64());
        let most = steps
            .map(|(got, want)| (got - want).abs())
            .fold(0.0, f64::max);
        match got.shape() == want.shape() && most <= 1.0 {
            true => Ok(()),
            false => Err(format!("{most} steps")),
        }
    }
}

/// Most products of one sum, as lowering bounds them.
const MAX_DEPTH: usize = spark_gemm::int8::MAX_DEPTH;

/// `layer` with something changed.
fn with(mut layer: Layer, change: impl FnOnce(&mut Layer)) -> Layer {
    change(&mut layer);
    layer
}

/// A picture with this bias.
fn biased(values: &[f32]) -> Layer {
    with(Layer::picture(), |l| l.bias = Some(list(values)))
}

/// Matrices of four columns with a bias of this shape.
fn biased_rows(values: &[f32], shape: [usize; 2]) -> Layer {
    let bias = list(values).reshaped(shape).expect("fits");
    with(Layer::gemm(4, 5, 4), |l| l.bias = Some(bias))
}

/// Sums of many products, on a scale that holds them.
fn deep(layer: Layer) -> Layer {
    with(layer, |l| l.y_scales = one(20.0))
}

#[test]
fn what_integers_compute_is_joined() {
    let picture = Layer::picture;
    let relu = with(picture(), |l| {
        (l.after, l.y_zero) = (Some(Unary::Relu), zero(DType::U8, 0.0));
    });
    let per_channel = list(&[0.01, 0.02, 0.005, 0.01]);
    let most = deep(Layer::conv(&[1, MAX_DEPTH, 1, 2], &[2, MAX_DEPTH, 1, 1]));
    let values = [0.02, -0.04, 2.0, 0.0];
    let all = [
        ("a picture", picture()),
        ("a line", Layer::conv(&[2, 3, 9], &[4, 3, 3])),
        ("matrices", Layer::gemm(3, 5, 4)),
        ("rows", Layer::matmul(3, 5, 4)),
        (
            "products of both",
            with(Layer::matmul(3, 5, 4), |l| l.has_computed_weights = true),
        ),
        ("as many products as fit", most),
        (
            "scales per channel",
            with(picture(), |l| l.w_scales = per_channel),
        ),
        ("open shapes", with(picture(), |l| l.is_declared = false)),
        ("a whole bias", biased(&values)),
        ("a bias of one row", biased_rows(&values, [1, 4])),
        ("an implied ReLU", relu),
    ];
    for (name, layer) in all {
        layer.check(true).unwrap_or_else(|e| panic!("{name}: {e}"));
    }
}

#[test]
fn what_integers_do_not_compute_stays_in_floats() {
    let many = MAX_DEPTH + 1;
    let picture = Layer::picture;
    let computed = |layer| with(layer, |l: &mut Layer| l.has_computed_weights = true);
    let undeclared = with(Layer::matmul(3, 5, 4), |l| l.is_declared = false);
    let values = [0.02, -4.0, 2.0, 0.0];
    let all = [
        ("a volume", Layer::conv(&[1, 3, 4, 4, 5], &[4, 3, 2, 3, 3])),
        (
            "too many channels",
            deep(Layer::conv(&[1, many, 1, 2], &[2, many, 1, 1])),
        ),
        (
            "too many taps",
            deep(Layer::conv(&[1, 4, 91, 92], &[2, 4, 91, 91])),
        ),
        ("too many rows of a matrix", deep(Layer::gemm(2, many, 3))),
        ("too many rows", deep(Layer::matmul(2, many, 3))),
        (
            "too many of both",
            computed(deep(Layer::matmul(2, many, 3))),
        ),
        ("nobody knows how many", computed(undeclared)),
        (
            "computed weights of a matrix",
            computed(Layer::gemm(3, 5, 4)),
        ),
        (
            "a bias between whole numbers",
            biased(&[0.02, -0.04, 2.0, 0.0001]),
        ),
        (
            "a bias that sums have no room for",
            biased(&[429_300.0, 0.0, 0.0, 0.0]),
        ),
        ("a bias beyond 32 bits", biased(&[1e30, 0.0, 0.0, 0.0])),
        ("an infinite bias", biased(&[f32::INFINITY, 0.0, 0.0, 0.0])),
        ("a bias per row", biased_rows(&values, [4, 1])),
        ("a bias per result", biased_rows(&[0.02; 16], [4, 4])),
        (
            "a scale per channel of the picture",
            with(picture(), |l| l.x_scales = list(&[0.02, 0.01, 0.03])),
        ),
        (
            "a scale per channel of the result",
            with(picture(), |l| {
                l.y_scales = list(&[0.5, 0.6, 0.4, 0.5]);
                l.y_zero = Tensor::zeros(DType::U8, [4]).expect("four");
            }),
        ),
        (
            "a scale per input channel",
            with(picture(), |l| {
                (l.w_axis, l.w_scales) = (1, list(&[0.01, 0.02, 0.03]));
            }),
        ),
        (
            "ReLU above the least byte",
            with(picture(), |l| l.after = Some(Unary::Relu)),
        ),
        (
            "another function",
            with(picture(), |l| {
                (l.after, l.y_scales) = (Some(Unary::Tanh), one(0.01));
            }),
        ),
        ("two readers", with(picture(), |l| l.is_read_twice = true)),
        (
            "a scale below all",
            with(picture(), |l| {
                (l.x_scales, l.w_scales) = (one(1e-30), one(1e-12));
            }),
        ),
    ];
    for (name, layer) in all {
        layer.check(false).unwrap_or_else(|e| panic!("{name}: {e}"));
    }
    // No step quantises to 16 bits.
    let wide = with(picture(), |l| l.y_zero = zero(DType::I16, 0.0));
    assert!(!wide.is_joined());
    let wide = with(picture(), |l| l.x_kind = DType::I16);
    assert!(!wide.is_joined());
}

/// A sum of products in whole numbers, and the same of their magnitudes.
fn sums(x: &[f64], w: &[f64]) -> (f64, f64) {
    let products = x.iter().zip(w).map(|(x, w)| x * w);
    products.fold((0.0, 0.0), |(sum, size), p| (sum + p, size + p.abs()))
}

/// One row times one column, by integers and spelled out in floats: the results, the exact quotient of the result's
/// scale, and how far floats may be from it.
fn quotient(k: usize, scales: [f32; 3], seed: u64) -> ([f64; 2], f64, f64) {
    let [x_scale, w_scale, y_scale] = scales;
    let layer = Layer {
        x_kind: DType::I8,
        x_scales: one(x_scale),
        w: bytes(DType::I8, &[k, 1], seed),
        w_scales: one(w_scale),
        y_scales: one(y_scale),
        y_zero: zero(DType::I8, 0.0),
        ..Layer::matmul(1, k, 1)
    };
    let x = bytes(DType::I8, &[1, k], seed ^ 1);
    let (sum, size) = sums(&x.to_f64(), &layer.w.to_f64());
    let scale = f64::from(x_scale) * f64::from(w_scale) / f64::from(y_scale);
    let graph = layer.graph();
    let results = [&joined(&graph), &graph].map(|g| interpreted(g, &[("x", &x)]).to_f64()[0]);
    // Factors, sum, quotient; or multiplier and product: at most four roundings of f32 either way.
    (
        results,
        sum * scale,
        size * scale * 4.0 * f64::from(f32::EPSILON),
    )
}

proptest! {
    #![proptest_config(cases(256))]

    #[test]
    fn integers_and_floats_differ_by_a_step_and_near_ties_alone(
        k in 1usize..40,
        x_scale in 1e-4f32..0.1,
        w_scale in 1e-4f32..0.1,
        // Scales of results by which many quotients are ties.
        by in prop_oneof![Just(2.0f32), Just(200.0), Just(1000.0), 50.0f32..5000.0],
        seed in any::<u64>(),
    ) {
        let (results, exact, room) = quotient(k, [x_scale, w_scale, x_scale * w_scale * by], seed);
        let rounded = exact.round_ties_even().clamp(-128.0, 127.0);
        let from_tie = (exact.fract().abs() - 0.5).abs();
        for result in results {
            if from_tie > room {
                prop_assert_eq!(result, rounded, "{}", exact);
            } else {
                prop_assert!((result - exact.clamp(-128.0, 127.0)).abs() < 0.51, "{} for {}", result, exact);
            }
        }
    }
}

proptest! {
    #![proptest_config(cases(64))]

    #[test]
    fn whatever_is_planned_in_floats_is_planned_when_it_is_joined(
        form in 0usize..5,
        (m, k, n) in (1usize..5, 1usize..6, 1usize..6),
        depth in prop_oneof![4 => Just(0usize), 1 => Just(MAX_DEPTH - 3), 1 => Just(MAX_DEPTH + 1)],
        is_declared in any::<bool>(),
        has_computed_weights in any::<bool>(),
        is_per_channel in any::<bool>(),
        has_per_channel_rows in any::<bool>(),
        bias in prop_oneof![Just(None), Just(Some(0.02f32)), Just(Some(0.001)), Just(Some(1e6))],
        is_bias_per_row in any::<bool>(),
        after in prop_oneof![Just(None), Just(Some(Unary::Relu)), Just(Some(Unary::Neg))],
        y_kind in prop_oneof![Just(DType::U8), Just(DType::I8)],
        least in any::<bool>(),
    ) {
        let k = k + depth;
        let mut layer = match form {
            0 => Layer::conv(&[m, k, 3], &[n, k, 2]),
            1 => Layer::conv(&[m, k, 3, 2], &[n, k, 1, 2]),
            2 => Layer::conv(&[m, k, 2, 2, 2], &[n, k, 1, 2, 2]),
            3 => Layer::gemm(m, k, n),
            _ => Layer::matmul(m, k, n),
        };
        layer.is_declared = is_declared;
        layer.has_computed_weights = has_computed_weights;
        if is_per_channel {
            layer.w_scales = scales(0.01, n, 4).reshaped([n]).expect("a list");
        }
        if has_per_channel_rows {
            layer.x_scales = scales(0.02, k, 5).reshaped([k]).expect("a list");
        }
        if form < 4 {
            let rows = if form == 3 && is_bias_per_row { vec![m, 1] } else { vec![n] };
            let len = rows.iter().product();
            layer.bias = bias.map(|b| Tensor::from_f32(rows, vec![b; len]).expect("fits"));
        }
        layer.after = after;
        layer.y_scales = one(0.002 * k as f32);
        let lowest = if y_kind == DType::I8 { -128.0 } else { 0.0 };
        layer.y_zero = zero(y_kind, if least { lowest } else { 7.0 });
        let graph = layer.graph();
        let shapes = [("x", layer.x_shape.clone()), ("w", layer.w.shape().to_vec())];
        let given = if has_computed_weights { &shapes[..] } else { &shapes[..1] };
        // Weights per channel that are not of `n` channels are no network.
        let Ok(bound) = bind(&graph, given) else {
            return Ok(());
        };
        let as_floats = lower(&bound);
        let as_joined = bind(&joined(&graph), given).and_then(|bound| lower(&bound));
        if let Err(error) = &as_joined {
            prop_assert!(as_floats.is_err(), "{error}");
        }
        if as_floats.is_ok() {
            layer.check(layer.is_joined()).map_err(TestCaseError::fail)?;
        }
    }
}

#[test]
fn ties_are_decided_otherwise_by_floats() {
    let others = (0..4000).filter(|&seed| {
        let scale = 0.001 * (seed % 23 + 1) as f32;
        let ([integers, floats], ..) = quotient(9, [scale, 0.3, scale * 0.3 * 200.0], seed);
        integers != floats
    });
    // The interpreter computes both, so that these are the same on every machine.
    assert_eq!(others.count(), 5);
}
