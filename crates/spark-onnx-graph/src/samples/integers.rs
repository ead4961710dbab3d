//! Samples of products of 8-bit integers: both kinds of bytes on either side, zero points and scales in every
//! form.

use crate::graph::{Conv, ConvInteger, MatMulInteger, Op, Padding, QLinearConv, QLinearMatMul};
use crate::tensor::{DType, Tensor};

use super::sample::Operand::{Absent, Fixed, Given};
use super::sample::{Operand, Samples, scalar, tensor, wave};

/// Adds all samples of this file.
pub(super) fn add(samples: &mut Samples) {
    convolutions(samples);
    matrices(samples);
}

/// Bytes all over the range of the type.
fn bytes(dtype: DType, shape: &[usize]) -> Tensor {
    let low = if dtype == DType::I8 { -128.0 } else { 0.0 };
    let n = shape.iter().product();
    let values = wave(n).map(|v| low + ((v + 1.0) * 127.9).floor());
    tensor(dtype, shape, values.collect())
}

/// One value as a scalar, or a list.
fn list(dtype: DType, values: &[f64]) -> Tensor {
    match values {
        [one] => tensor(dtype, &[], vec![*one]),
        all => tensor(dtype, &[all.len()], all.to_vec()),
    }
}

fn window(strides: &[usize], dilations: &[usize], pads: &[usize], groups: usize) -> Conv {
    Conv {
        strides: strides.to_vec(),
        dilations: dilations.to_vec(),
        padding: Padding::Explicit(pads.to_vec()),
        groups,
    }
}

const KINDS: [(DType, DType); 4] = [
    (DType::U8, DType::I8),
    (DType::I8, DType::I8),
    (DType::U8, DType::U8),
    (DType::I8, DType::U8),
];

fn convolutions(samples: &mut Samples) {
    let convs = [
        (window(&[], &[], &[], 1), [2, 3, 6, 5], [4, 3, 3, 3]),
        (
            window(&[2, 1], &[1, 2], &[1, 2, 0, 1], 1),
            [1, 5, 7, 8],
            [6, 5, 3, 3],
        ),
        (
            window(&[], &[], &[1, 1, 1, 1], 2),
            [1, 6, 4, 4],
            [8, 3, 3, 3],
        ),
        (
            window(&[2, 2], &[], &[1, 1, 1, 1], 4),
            [1, 4, 6, 6],
            [4, 1, 3, 3],
        ),
        (window(&[], &[], &[], 1), [1, 17, 3, 2], [19, 17, 1, 1]),
    ];
    for (index, (conv, x_shape, w_shape)) in convs.iter().enumerate() {
        let (x_kind, w_kind) = KINDS[index % KINDS.len()];
        let x = Given(bytes(x_kind, x_shape));
        let w = bytes(w_kind, w_shape);
        let zeros: Vec<f64> = (0..w_shape[0]).map(|c| (c % 5) as f64).collect();
        let scales: Vec<f64> = (0..w_shape[0]).map(|c| 0.001 + c as f64 * 3e-4).collect();
        let integer = Op::ConvInteger(ConvInteger { conv: conv.clone() });
        samples.add(integer.clone(), &[x.clone(), Fixed(w.clone())]);
        let zero_points = [Fixed(list(x_kind, &[3.0])), Fixed(list(w_kind, &zeros))];
        let [x_zero, w_zero] = zero_points;
        let computed = [x.clone(), Given(w.clone()), x_zero.clone(), w_zero.clone()];
        samples.add(integer, &computed);
        let quantised = Op::QLinearConv(QLinearConv { conv: conv.clone() });
        let bias = (0..w_shape[0]).map(|c| c as f64 * 311.0 - 700.0);
        let bias = Fixed(tensor(DType::I32, &[w_shape[0]], bias.collect()));
        let (y_scale, y_zero) = (Fixed(scalar(0.11)), Fixed(list(w_kind, &[5.0])));
        let mut operands = vec![
            x,
            Fixed(scalar(0.02)),
            x_zero,
            Fixed(w),
            Fixed(list(DType::F32, &scales)),
            w_zero,
            y_scale,
            y_zero,
        ];
        samples.add(quantised.clone(), &operands);
        operands.push(bias);
        samples.add(quantised.clone(), &operands);
        let given = operands.into_iter().map(given);
        samples.add(quantised, &given.collect::<Vec<_>>());
    }
    // One spatial axis, and no zero point of the picture.
    let conv = window(&[2], &[], &[1, 0], 1);
    let operands = [
        Given(bytes(DType::U8, &[2, 3, 9])),
        Fixed(bytes(DType::I8, &[4, 3, 4])),
        Absent,
        Fixed(list(DType::I8, &[-7.0])),
    ];
    samples.add(Op::ConvInteger(ConvInteger { conv }), &operands);
}

/// The same operand as an input of the graph.
fn given(operand: Operand) -> Operand {
    match operand {
        Fixed(value) => Given(value),
        other => other,
    }
}

fn matrices(samples: &mut Samples) {
    let integer = || Op::MatMulInteger(MatMulInteger);
    let quantised = || Op::QLinearMatMul(QLinearMatMul);
    let shapes: [(&[usize], &[usize]); 5] = [
        (&[5, 7], &[7, 9]),
        (&[2, 3, 33], &[33, 17]),
        (&[2, 1, 3, 8], &[4, 8, 5]),
        (&[6], &[6, 4]),
        (&[3, 6], &[6]),
    ];
    for (index, (a_shape, b_shape)) in shapes.into_iter().enumerate() {
        let (a_kind, b_kind) = KINDS[index % KINDS.len()];
        let a = Given(bytes(a_kind, a_shape));
        let b = Fixed(bytes(b_kind, b_shape));
        let columns = if b_shape.len() > 1 {
            *b_shape.last().unwrap_or(&1)
        } else {
            1
        };
        let zeros: Vec<f64> = (0..columns).map(|c| (c % 7) as f64).collect();
        let scales: Vec<f64> = (0..columns).map(|c| 0.003 + c as f64 * 2e-4).collect();
        samples.add(integer(), &[a.clone(), b.clone()]);
        let a_zero = Fixed(list(a_kind, &[101.0]));
        let b_zero = Fixed(list(b_kind, &zeros));
        let operands = [a.clone(), b.clone(), a_zero.clone(), b_zero.clone()];
        samples.add(integer(), &operands);
        samples.add(integer(), &operands.map(given));
        let operands = [
            a,
            Fixed(scalar(0.05)),
            a_zero,
            b,
            Fixed(list(DType::F32, &scales)),
            b_zero,
            Fixed(scalar(0.7)),
            Fixed(list(a_kind, &[64.0])),
        ];
        samples.add(quantised(), &operands);
        samples.add(quantised(), &operands.map(given));
    }
}
