//! Element functions of values that are no ordinary numbers: runner and interpreter say the same.
//!
//! Deliberately absent: Swish of minus infinity, as a sigmoid of the executor never reaches 0
//! (docs/numerics.md).

use spark_onnx::graph::{DequantizeLinear, Dim, Graph, Op, QuantizeLinear, Unary, bind};
use spark_onnx::{DType, ModelRunner, RunOptions, Tensor, TensorData, reference};

const VALUES: [f32; 12] = [
    f32::NAN,
    f32::INFINITY,
    f32::NEG_INFINITY,
    0.0,
    -0.0,
    0.5,
    -0.5,
    2.0,
    -17.0,
    -1e4,
    -1e30,
    f32::MIN,
];

/// `f` of [`VALUES`], interpreted and executed.
fn both(f: Unary) -> [Vec<f64>; 2] {
    let mut graph = Graph::default();
    let x = graph.add_input("x", DType::F32, vec![Dim::Known(VALUES.len())]);
    let y = graph.add_node("y", Op::Unary(f), &[Some(x)]);
    graph.outputs.push(y);
    run(graph)
}

/// The output of a graph for [`VALUES`], interpreted and executed.
fn run(graph: Graph) -> [Vec<f64>; 2] {
    let x = Tensor::from_f32([VALUES.len()], VALUES.to_vec()).expect("fits");
    let bound = bind(&graph, &[]).expect("binds");
    let interpreted = reference::run(&bound, &[("x", &x)]).expect("interpreted");
    let mut runner = ModelRunner::from_graph(graph, &RunOptions::new()).expect("loads");
    let executed = runner.run(&[("x", &x)]).expect("executed");
    [interpreted, executed].map(|outputs| outputs[0].1.to_f64())
}

/// A byte holds no NaN, nor does what is made of one.
#[test]
fn what_is_quantised_is_a_number() {
    for zero in [
        Tensor::new(vec![], TensorData::I8(vec![3])),
        Tensor::new(vec![], TensorData::U8(vec![3])),
    ] {
        let mut graph = Graph::default();
        let x = graph.add_input("x", DType::F32, vec![Dim::Known(VALUES.len())]);
        let scale = Tensor::from_f32([], vec![0.5]).expect("fits");
        let scale = graph.add_constant("scale", scale);
        let zero = graph.add_constant("zero", zero.expect("fits"));
        let operands = [Some(scale), Some(zero)];
        let quantize = Op::QuantizeLinear(QuantizeLinear::along(1));
        let q = graph.add_node("q", quantize, &[Some(x), operands[0], operands[1]]);
        let dequantize = Op::DequantizeLinear(DequantizeLinear::along(1));
        let y = graph.add_node("y", dequantize, &[Some(q), operands[0], operands[1]]);
        graph.outputs.push(y);
        let [interpreted, executed] = run(graph);
        assert_eq!(executed, interpreted);
        assert_eq!(executed[0], -1.5);
    }
}

#[test]
fn runner_and_interpreter_agree() {
    for f in [
        Unary::Relu,
        Unary::LeakyRelu { alpha: 0.01 },
        Unary::ThresholdedRelu { alpha: 1.0 },
        Unary::ThresholdedRelu { alpha: f32::NAN },
        Unary::Gelu { tanh: false },
        Unary::Gelu { tanh: true },
        Unary::HardSwish,
        Unary::HardSigmoid {
            alpha: 0.2,
            beta: 0.5,
        },
        Unary::Sign,
        Unary::Softplus,
        Unary::Mish,
        Unary::Elu { alpha: 1.0 },
        Unary::Celu { alpha: 2.0 },
        Unary::Selu {
            alpha: 1.673,
            gamma: 1.0507,
        },
        Unary::Shrink {
            lambda: 0.5,
            bias: 0.1,
        },
        Unary::Erf,
        Unary::Sigmoid,
        Unary::Tanh,
    ] {
        let [interpreted, executed] = both(f);
        for ((x, want), got) in VALUES.into_iter().zip(interpreted).zip(executed) {
            let is_same = got == want || (got.is_nan() && want.is_nan());
            let is_near = (got - want).abs() <= 1e-5 * want.abs().max(1e-2);
            assert!(is_same || is_near, "{f:?} of {x} is {got}, wanted {want}");
        }
    }
}

#[test]
fn a_thresholded_relu_of_nan_is_zero() {
    for got in both(Unary::ThresholdedRelu { alpha: 1.0 }) {
        assert_eq!(got[0], 0.0);
    }
}

#[test]
fn gelu_is_nan_at_minus_infinity_and_minus_zero_before() {
    for tanh in [false, true] {
        for got in both(Unary::Gelu { tanh }) {
            assert!(got[2].is_nan(), "{got:?}");
            let far = &got[8..];
            let is_minus_zero = |y: &f64| *y == 0.0 && y.is_sign_negative();
            assert!(far.iter().all(is_minus_zero), "{far:?}");
        }
    }
}
