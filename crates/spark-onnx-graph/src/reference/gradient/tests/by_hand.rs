//! One case of every family, worked out by hand.

use super::super::{GradientOptions, differentiate};
use super::{by, f64s, ints};
use crate::graph::{
    AspectRatio, BatchNormalization, Binary, Cell, Conv, ConvTranspose, CoordinateTransform,
    DequantizeLinear, Direction, Gather, Gemm, Interpolation, LayerNormalization, MatMul,
    NearestRounding, Op, Padding, Pool, PoolKind, QuantizeLinear, Recurrent, Reduce, ReduceKind,
    Resize, RoundFloat, SmallFloat, Softmax, Unary,
};
use crate::tensor::{DType, Tensor};

#[track_caller]
fn is(got: Vec<f64>, want: &[f64]) {
    let close = got.iter().zip(want).all(|(g, w)| (g - w).abs() < 1e-6);
    assert!(got.len() == want.len() && close, "{got:?}, wanted {want:?}");
}

fn conv(strides: Vec<usize>) -> Conv {
    Conv {
        strides,
        dilations: vec![],
        padding: Padding::Explicit(vec![]),
        groups: 1,
    }
}

#[test]
fn products() {
    let (a, b) = (
        f64s(&[2, 2], vec![1.0, 2.0, 3.0, 4.0]),
        f64s(&[2, 2], vec![5.0, 6.0, 7.0, 8.0]),
    );
    let c = f64s(&[2], vec![1.0, 1.0]);
    let gemm = Gemm {
        alpha: 2.0,
        beta: 3.0,
        trans_a: false,
        trans_b: false,
    };
    let dy = [1.0, 0.0, 0.0, 1.0];
    // dy is the identity: alpha B', alpha A', beta for each row.
    is(by(gemm, &[&a, &b, &c], &dy, 0), &[10.0, 14.0, 12.0, 16.0]);
    is(by(gemm, &[&a, &b, &c], &dy, 1), &[2.0, 6.0, 4.0, 8.0]);
    is(by(gemm, &[&a, &b, &c], &dy, 2), &[3.0, 3.0]);
    is(
        by(MatMul, &[&a, &b], &[1.0, 1.0, 0.0, 0.0], 1),
        &[1.0, 1.0, 2.0, 2.0],
    );
}

#[test]
fn convolutions() {
    let w = f64s(&[1, 1, 2], vec![10.0, 20.0]);
    let bias = f64s(&[1], vec![0.0]);
    // y = [10 x0 + 20 x1, 10 x1 + 20 x2]
    let x = f64s(&[1, 1, 3], vec![1.0, 2.0, 3.0]);
    let gradient = |operand| by(conv(vec![]), &[&x, &w, &bias], &[1.0, 2.0], operand);
    is(gradient(0), &[10.0, 40.0, 40.0]);
    is(gradient(1), &[5.0, 8.0]);
    is(gradient(2), &[3.0]);
    // y = [10 x0, 20 x0, 10 x1, 20 x1]
    let x = f64s(&[1, 1, 2], vec![1.0, 2.0]);
    let transpose = ConvTranspose {
        conv: conv(vec![2]),
        output_padding: vec![],
        output_shape: None,
    };
    let gradient = |operand| {
        let dy = [1.0, 2.0, 3.0, 4.0];
        by(transpose.clone(), &[&x, &w, &bias], &dy, operand)
    };
    is(gradient(0), &[50.0, 110.0]);
    is(gradient(1), &[7.0, 10.0]);
    is(gradient(2), &[10.0]);
}

#[test]
fn pools() {
    let x = f64s(&[1, 1, 3], vec![5.0, 1.0, 7.0]);
    let pool = |kind, count_include_pad| Pool {
        kind,
        kernel: vec![2],
        strides: vec![],
        dilations: vec![],
        padding: Padding::Explicit(vec![1, 0]),
        count_include_pad,
        ceil_mode: false,
    };
    let dy = [2.0, 4.0, 8.0];
    // Windows [pad 5], [5 1], [1 7].
    is(
        by(pool(PoolKind::Average, true), &[&x], &dy, 0),
        &[3.0, 6.0, 4.0],
    );
    is(
        by(pool(PoolKind::Average, false), &[&x], &dy, 0),
        &[4.0, 6.0, 4.0],
    );
    is(
        by(pool(PoolKind::Max, false), &[&x], &dy, 0),
        &[6.0, 0.0, 8.0],
    );
}

#[test]
fn normalisations() {
    let one = |v: f64| f64s(&[1], vec![v]);
    let x = f64s(&[1, 1], vec![3.0]);
    let operands = [&x, &one(6.0), &one(0.5), &one(1.0), &one(4.0)];
    // y = 6 (3 - 1) / 2 + 0.5
    let op = BatchNormalization { epsilon: 0.0 };
    let slopes = [3.0, 1.0, 1.0, -3.0, -0.75];
    for (operand, slope) in slopes.into_iter().enumerate() {
        is(by(op, &operands, &[1.0], operand), &[slope]);
    }
    // Deviation sqrt(2/3), z = [-sqrt(3/2), 0, sqrt(3/2)].
    let x = f64s(&[3], vec![-1.0, 0.0, 1.0]);
    let (axis, epsilon) = (0, 0.0);
    let scale = f64s(&[3], vec![1.0; 3]);
    let layer = |dy: [f64; 3], operand| {
        by(
            LayerNormalization { axis, epsilon },
            &[&x, &scale, &scale],
            &dy,
            operand,
        )
    };
    let sixth = 1.5f64.sqrt() / 6.0;
    is(layer([1.0, 0.0, 0.0], 0), &[sixth, -2.0 * sixth, sixth]);
    is(
        layer([2.0, 2.0, 2.0], 1),
        &[-12.0 * sixth, 0.0, 12.0 * sixth],
    );
    is(layer([2.0, 3.0, 4.0], 2), &[2.0, 3.0, 4.0]);
    let softmax = Softmax {
        axis: 0,
        log: false,
        flatten: false,
    };
    let even = f64s(&[2], vec![3.0, 3.0]);
    is(by(softmax, &[&even], &[1.0, 0.0], 0), &[0.25, -0.25]);
    let log = Softmax {
        log: true,
        ..softmax
    };
    is(by(log, &[&even], &[1.0, 0.0], 0), &[0.5, -0.5]);
}

#[test]
fn reductions_and_functions() {
    let x = f64s(&[2], vec![3.0, 4.0]);
    let reduce = |kind| {
        let reduce = Reduce {
            kind,
            keep_dims: false,
            noop_with_empty_axes: false,
        };
        by(reduce, &[&x], &[10.0], 0)
    };
    is(reduce(ReduceKind::Mean), &[5.0, 5.0]);
    is(reduce(ReduceKind::L2), &[6.0, 8.0]);
    is(reduce(ReduceKind::Prod), &[40.0, 30.0]);
    is(reduce(ReduceKind::Max), &[0.0, 10.0]);
    is(
        by(Binary::Div, &[&x, &f64s(&[1], vec![2.0])], &[1.0, 1.0], 1),
        &[-1.75],
    );
    is(
        by(Binary::Pow, &[&x, &f64s(&[1], vec![2.0])], &[1.0, 1.0], 0),
        &[6.0, 8.0],
    );
    is(
        by(Unary::Tanh, &[&f64s(&[1], vec![0.0])], &[5.0], 0),
        &[5.0],
    );
}

#[test]
fn moving_and_resizing() {
    let x = f64s(&[2], vec![1.0, 2.0]);
    let gather = Gather { axis: 0 };
    is(
        by(gather, &[&x, &ints(&[0, 0, 1])], &[1.0, 2.0, 4.0], 0),
        &[3.0, 4.0],
    );
    // y = [a, 0.75 a + 0.25 b, 0.25 a + 0.75 b, b]
    let resize = Op::Resize(Resize {
        mode: Interpolation::Linear,
        transform: CoordinateTransform::HalfPixel,
        rounding: NearestRounding::RoundPreferFloor,
        cubic_coeff: -0.75,
        exclude_outside: false,
        extrapolation: 0.0,
        antialias: false,
        axes: None,
        aspect: AspectRatio::Stretch,
    });
    let scales = Tensor::from_f32([1], vec![2.0]).expect("one");
    let dy = f64s(&[4], vec![1.0, 2.0, 4.0, 8.0]);
    let operands = [Some(&x), None, Some(&scales)];
    let options = GradientOptions::default();
    let gradient = differentiate(&resize, &operands, &[Some(&dy)], 0, options).expect("linear");
    is(gradient.to_f64(), &[3.5, 11.5]);
}

#[test]
fn a_recurrent_step() {
    // tanh(2 * 1 - 1 * 2), where the slope is 1.
    let op = Op::Recurrent(Recurrent {
        cell: Cell::Rnn,
        direction: Direction::Forward,
        hidden: 1,
        activations: vec![],
        batch_first: false,
    });
    let one = |v: f64| f64s(&[1, 1, 1], vec![v]);
    let (x, w, r, h0) = (one(1.0), one(2.0), one(-1.0), one(2.0));
    let bias = f64s(&[1, 2], vec![0.0; 2]);
    let operands = [Some(&x), Some(&w), Some(&r), Some(&bias), None, Some(&h0)];
    let dh = one(10.0);
    let gradient = |operand| {
        let options = GradientOptions::default();
        let gradient = differentiate(&op, &operands, &[None, Some(&dh)], operand, options);
        gradient.expect("has one").to_f64()
    };
    is(gradient(0), &[20.0]);
    is(gradient(1), &[10.0]);
    is(gradient(2), &[20.0]);
    is(gradient(3), &[10.0, 10.0]);
    is(gradient(5), &[-10.0]);
}

#[test]
fn roundings_are_steps_unless_they_are_not_to_count() {
    let x = f64s(&[4], vec![0.9, 300.0, -0.2, -63.9]);
    let scale = f64s(&[1], vec![0.5]);
    let zero = Tensor::from_f64(DType::I8, [1], vec![3.0]).expect("one");
    let dq = f64s(&[4], vec![1.0; 4]);
    let quantize = Op::QuantizeLinear(QuantizeLinear::along(0));
    let gradient = |operand, straight_through| {
        let options = GradientOptions { straight_through };
        let operands = [Some(&x), Some(&scale), Some(&zero)];
        let gradient = differentiate(&quantize, &operands, &[Some(&dq)], operand, options);
        gradient.expect("zero or more").to_f64()
    };
    is(gradient(0, false), &[0.0; 4]);
    is(gradient(1, false), &[0.0]);
    // 300 is beyond, -63.9 is 3 - 128 = -125.
    is(gradient(0, true), &[2.0, 0.0, 2.0, 2.0]);
    is(gradient(1, true), &[-(0.9 - 0.2 - 63.9) / 0.25]);

    let q = Tensor::from_f64(DType::I8, [2], vec![10.0, -4.0]).expect("two");
    let dequantize = DequantizeLinear::along(0);
    is(
        by(dequantize, &[&q, &scale, &zero], &[4.0, 1.0], 1),
        &[4.0 * 7.0 - 7.0],
    );
    is(
        by(dequantize, &[&q, &scale, &zero], &[4.0, 1.0], 0),
        &[2.0, 0.5],
    );
    let float = Some(SmallFloat::E4M3FN);
    let dequantize = DequantizeLinear {
        float,
        ..dequantize
    };
    let held = |values: &[f64]| Tensor::from_f64(DType::F16, [values.len()], values.to_vec());
    let (q, zero) = (
        held(&[10.0, -4.0]).expect("two"),
        held(&[3.0]).expect("one"),
    );
    is(
        by(dequantize, &[&q, &scale, &zero], &[4.0, 1.0], 2),
        &[-2.5],
    );

    let round = Op::RoundFloat(RoundFloat {
        format: SmallFloat::E2M1,
        saturate: true,
    });
    let gradient = |straight_through| {
        let options = GradientOptions { straight_through };
        let gradient = differentiate(&round, &[Some(&x)], &[Some(&dq)], 0, options);
        gradient.expect("zero or more").to_f64()
    };
    is(gradient(false), &[0.0; 4]);
    is(gradient(true), &[1.0, 0.0, 1.0, 0.0]);
}
