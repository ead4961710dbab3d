//! The samples of operators that compute.

use std::slice::from_ref;

use crate::graph::{
    AffineGrid, ArgReduce, AspectRatio, BatchNormalization, Binary, Cast, CastLike, Cell, Clip,
    Conv, ConvTranspose, CoordinateTransform, CumProd, CumSum, Det, Dft, Direction, Einsum, Gemm,
    GlobalPool, GridPadding, GridSample, GroupNormalization, InstanceNormalization, Interpolation,
    LayerNormalization, LpNormalization, Lrn, MatMul, NearestRounding, Op, Padding, Pool, PoolKind,
    Recurrent, Reduce, ReduceKind, RegionEdges, Resize, RmsNormalization, RoiAlign, Softmax, TopK,
    Unary, Variadic, Where,
};
use crate::tensor::{DType, Tensor, TensorData};
use half::f16;

use super::sample::Operand::{Absent, Fixed, Given};
use super::sample::{Operand, Samples, boolean, float, int_scalar, ints, positive, scalar, tensor};

/// Adds all samples of this file.
pub(super) fn add(samples: &mut Samples) {
    unary(samples);
    elementwise(samples);
    windows(samples);
    volumes(samples);
    products(samples);
    normalizations(samples);
    recurrent(samples);
    reductions(samples);
    transforms(samples);
    resampling(samples);
}

fn unary(samples: &mut Samples) {
    let any = [
        Unary::Identity,
        Unary::Abs,
        Unary::Neg,
        Unary::Sign,
        Unary::Floor,
        Unary::Ceil,
        Unary::Round,
        Unary::Exp,
        Unary::Sin,
        Unary::Cos,
        Unary::Tan,
        Unary::Asin,
        Unary::Acos,
        Unary::Atan,
        Unary::Sinh,
        Unary::Cosh,
        Unary::Asinh,
        Unary::Atanh,
        Unary::Erf,
        Unary::IsNaN,
        Unary::IsInf,
        Unary::Relu,
        Unary::LeakyRelu { alpha: 0.125 },
        Unary::ThresholdedRelu { alpha: 0.25 },
        Unary::Elu { alpha: 1.5 },
        Unary::Selu {
            alpha: 1.5,
            gamma: 1.25,
        },
        Unary::Celu { alpha: 0.75 },
        Unary::Sigmoid,
        Unary::HardSigmoid {
            alpha: 0.25,
            beta: 0.375,
        },
        Unary::HardSwish,
        Unary::Tanh,
        Unary::Softplus,
        Unary::Softsign,
        Unary::Mish,
        Unary::Gelu { tanh: false },
        Unary::Gelu { tanh: true },
        Unary::Swish { alpha: 1.0 },
        Unary::Swish { alpha: 1.702 },
        Unary::Shrink {
            lambda: 0.5,
            bias: 0.25,
        },
    ];
    for function in any {
        samples.add(Op::Unary(function), &[Given(float(&[2, 3, 5]))]);
    }
    for function in [Unary::Reciprocal, Unary::Sqrt, Unary::Log] {
        samples.add(Op::Unary(function), &[Given(positive(&[2, 7]))]);
    }
    let above_one = positive(&[9]).to_f64().iter().map(|v| v + 0.75).collect();
    let above_one = tensor(DType::F32, &[9], above_one);
    samples.add(Op::Unary(Unary::Acosh), &[Given(above_one)]);
    samples.add(Op::Unary(Unary::Not), &[Given(boolean(&[4, 3]))]);
}

fn elementwise(samples: &mut Samples) {
    let (a, b) = (Given(float(&[2, 3, 4])), Given(positive(&[3, 1])));
    for function in [
        Binary::Add,
        Binary::Sub,
        Binary::Mul,
        Binary::Div,
        Binary::Mod { fmod: true },
        Binary::PRelu,
        Binary::Equal,
        Binary::Less,
        Binary::LessOrEqual,
        Binary::Greater,
        Binary::GreaterOrEqual,
    ] {
        samples.add(Op::Binary(function), &[a.clone(), b.clone()]);
    }
    samples.add(
        Op::Binary(Binary::Pow),
        &[Given(positive(&[2, 5])), Fixed(scalar(1.5))],
    );
    let sevens = Given(ints(&[-7, 7, -8, 8]));
    for function in [Binary::Mod { fmod: false }, Binary::Div] {
        samples.add(
            Op::Binary(function),
            &[sevens.clone(), Fixed(ints(&[3, -3, 3, 3]))],
        );
    }
    let (p, q) = (Given(boolean(&[2, 6])), Given(boolean(&[6])));
    for function in [Binary::And, Binary::Or, Binary::Xor] {
        samples.add(Op::Binary(function), &[p.clone(), q.clone()]);
    }
    bits(samples);
    signs(samples);
    for function in [Variadic::Sum, Variadic::Mean, Variadic::Max, Variadic::Min] {
        let operands = [a.clone(), b.clone(), Given(float(&[4]))];
        samples.add(Op::Variadic(function), &operands);
    }
    samples.add(
        Op::Where(Where),
        &[Given(boolean(&[2, 3, 1])), a.clone(), b.clone()],
    );
    let (low, high) = (Fixed(scalar(-0.5)), Fixed(scalar(0.25)));
    samples.add(Op::Clip(Clip), &[a.clone(), low.clone(), high.clone()]);
    samples.add(Op::Clip(Clip), &[a.clone(), Absent, high]);
    samples.add(Op::Clip(Clip), &[a.clone(), low]);
    for to in [
        DType::F16,
        DType::BF16,
        DType::F64,
        DType::I8,
        DType::I16,
        DType::I32,
        DType::I64,
        DType::Bool,
    ] {
        samples.add(Op::Cast(Cast { to }), from_ref(&a));
    }
    for to in [DType::U8, DType::U16, DType::U32, DType::U64] {
        samples.add(Op::Cast(Cast { to }), &[Given(positive(&[5]))]);
    }
    let half = Tensor::new(vec![1], TensorData::F16(vec![f16::ONE])).expect("one value");
    samples.add(Op::CastLike(CastLike), &[a, Fixed(half)]);
}

/// Integers of every pair of signs, and remainders that are zero.
fn signs(samples: &mut Samples) {
    for dtype in [DType::I32, DType::I64] {
        let list = |shape: &[usize], values: &[f64]| Given(tensor(dtype, shape, values.to_vec()));
        let a = list(&[9], &[-9.0, -6.0, -5.0, -1.0, 0.0, 1.0, 4.0, 6.0, 9.0]);
        let b = list(&[6, 1], &[-6.0, -3.0, -1.0, 1.0, 3.0, 6.0]);
        for function in [Unary::Abs, Unary::Neg, Unary::Sign] {
            samples.add(Op::Unary(function), from_ref(&a));
        }
        for function in [
            Binary::Mod { fmod: false },
            Binary::Mod { fmod: true },
            Binary::Div,
            Binary::Equal,
            Binary::Less,
            Binary::LessOrEqual,
            Binary::Greater,
            Binary::GreaterOrEqual,
        ] {
            samples.add(Op::Binary(function), &[a.clone(), b.clone()]);
        }
        for function in [Variadic::Max, Variadic::Min] {
            samples.add(Op::Variadic(function), &[a.clone(), b.clone()]);
        }
    }
}

/// Integers that are held as f32 while running, and those that are not.
fn bits(samples: &mut Samples) {
    for (dtype, values) in [
        (DType::I8, [-128.0, -7.0, 0.0, 5.0, 90.0, 127.0]),
        (DType::U8, [0.0, 1.0, 37.0, 128.0, 200.0, 255.0]),
        (DType::I32, [-2e9, -1.0, 0.0, 3.0, 77.0, 2e9]),
        (DType::U32, [0.0, 1.0, 9.0, 77.0, 3e9, 4e9]),
        (DType::I64, [-4e18, -1.0, 0.0, 3.0, 77.0, 4e18]),
        (DType::U64, [0.0, 1.0, 9.0, 77.0, 3e9, 1.6e19]),
    ] {
        let x = Given(tensor(dtype, &[2, 3], values.to_vec()));
        let pattern = Fixed(tensor(dtype, &[3], vec![12.0, 85.0, 127.0]));
        samples.add(Op::Unary(Unary::BitwiseNot), from_ref(&x));
        for function in [Binary::BitwiseAnd, Binary::BitwiseOr, Binary::BitwiseXor] {
            samples.add(Op::Binary(function), &[x.clone(), pattern.clone()]);
        }
        let distances = Fixed(tensor(dtype, &[3], vec![1.0, 7.0, 64.0]));
        for right in [false, true] {
            let shift = Op::Binary(Binary::BitShift { right });
            samples.add(shift, &[x.clone(), distances.clone()]);
        }
    }
}

fn windows(samples: &mut Samples) {
    let x = Given(float(&[1, 4, 7, 6]));
    let conv = |strides: &[usize], dilations: &[usize], padding, groups| Conv {
        strides: strides.to_vec(),
        dilations: dilations.to_vec(),
        padding,
        groups,
    };
    let weights = |shape: &[usize]| Fixed(float(shape));
    let explicit = Padding::Explicit(vec![1, 0, 2, 1]);
    samples.add(
        Op::Conv(conv(&[], &[], Padding::Explicit(vec![]), 1)),
        &[x.clone(), weights(&[3, 4, 3, 3])],
    );
    samples.add(
        Op::Conv(conv(&[2, 1], &[1, 2], explicit.clone(), 2)),
        &[x.clone(), weights(&[6, 2, 3, 2]), weights(&[6])],
    );
    for padding in [Padding::SameUpper, Padding::SameLower, Padding::Valid] {
        samples.add(
            Op::Conv(conv(&[2, 2], &[], padding, 4)),
            &[x.clone(), weights(&[4, 1, 3, 2])],
        );
    }
    let transpose = |conv, output_padding: &[usize], output_shape| {
        Op::ConvTranspose(ConvTranspose {
            conv,
            output_padding: output_padding.to_vec(),
            output_shape,
        })
    };
    let kernel = weights(&[4, 3, 3, 3]);
    samples.add(
        transpose(
            conv(&[2, 2], &[], Padding::Explicit(vec![1, 1, 1, 1]), 1),
            &[1, 0],
            None,
        ),
        &[x.clone(), kernel.clone(), weights(&[3])],
    );
    samples.add(
        transpose(
            conv(&[2, 2], &[], Padding::SameUpper, 1),
            &[],
            Some(vec![14, 13]),
        ),
        &[x.clone(), kernel],
    );
    pools(samples, &x, explicit);
}

/// Three spatial axes.
fn volumes(samples: &mut Samples) {
    let x = Given(float(&[2, 4, 5, 6, 4]));
    let explicit = Padding::Explicit(vec![1, 0, 1, 2, 1, 0]);
    for (groups, strides, dilations, padding) in [
        (1, vec![], vec![], Padding::Explicit(vec![])),
        (2, vec![2, 1, 2], vec![], explicit.clone()),
        (1, vec![1, 2, 1], vec![2, 1, 1], Padding::SameUpper),
        (4, vec![3, 1, 1], vec![], explicit.clone()),
    ] {
        let conv = Conv {
            strides,
            dilations,
            padding,
            groups,
        };
        let weights = Fixed(float(&[8, 4 / groups, 3, 2, 3]));
        samples.add(Op::Conv(conv), &[x.clone(), weights, Fixed(float(&[8]))]);
    }
    let pointwise = Conv {
        strides: vec![],
        dilations: vec![],
        padding: Padding::Valid,
        groups: 1,
    };
    let weights = Fixed(float(&[3, 4, 1, 1, 1]));
    samples.add(Op::Conv(pointwise), &[x.clone(), weights]);
    transposed_volumes(samples, &x);
    for (kind, padding, count_include_pad, ceil_mode) in [
        (PoolKind::Max, explicit.clone(), false, false),
        (PoolKind::Max, Padding::SameLower, false, false),
        (PoolKind::Average, explicit.clone(), false, false),
        (PoolKind::Average, explicit, true, true),
    ] {
        let pool = Pool {
            kind,
            kernel: vec![2, 2, 3],
            strides: vec![2, 1, 2],
            dilations: vec![],
            padding: match padding {
                Padding::Explicit(_) => Padding::Explicit(vec![1, 0, 1, 0, 1, 2]),
                other => other,
            },
            count_include_pad,
            ceil_mode,
        };
        samples.add(Op::Pool(pool), from_ref(&x));
    }
}

fn transposed_volumes(samples: &mut Samples, x: &Operand) {
    for (groups, strides, dilations, pads) in [
        (1, vec![], vec![], vec![]),
        (2, vec![3, 1, 2], vec![], vec![1, 0, 1, 2, 1, 0]),
        (1, vec![2, 2, 1], vec![2, 1, 1], vec![5, 0, 0, 0, 0, 1]),
    ] {
        let conv = Conv {
            strides,
            dilations,
            padding: Padding::Explicit(pads),
            groups,
        };
        let transpose = ConvTranspose {
            conv,
            output_padding: vec![],
            output_shape: None,
        };
        let weights = Fixed(float(&[4, 3, 3, 2, 3]));
        let bias = Fixed(float(&[3 * groups]));
        samples.add(Op::ConvTranspose(transpose), &[x.clone(), weights, bias]);
    }
}

fn pools(samples: &mut Samples, x: &Operand, explicit: Padding) {
    for (kind, padding, count_include_pad, ceil_mode, dilations) in [
        (PoolKind::Max, explicit.clone(), false, false, vec![1, 2]),
        (PoolKind::Max, Padding::SameUpper, false, false, vec![]),
        (
            PoolKind::Max,
            Padding::Explicit(vec![]),
            false,
            true,
            vec![],
        ),
        (PoolKind::Average, explicit.clone(), false, false, vec![]),
        (PoolKind::Average, explicit, true, false, vec![]),
        (PoolKind::Average, Padding::Valid, false, false, vec![]),
    ] {
        let pool = Pool {
            kind,
            kernel: vec![3, 2],
            strides: vec![2, 2],
            dilations,
            padding,
            count_include_pad,
            ceil_mode,
        };
        samples.add(Op::Pool(pool), from_ref(x));
    }
    for kind in [PoolKind::Max, PoolKind::Average] {
        samples.add(Op::GlobalPool(GlobalPool { kind }), from_ref(x));
    }
}

fn products(samples: &mut Samples) {
    let gemm = Gemm {
        alpha: 0.5,
        beta: 2.0,
        trans_a: true,
        trans_b: false,
    };
    let (a, b) = (Given(float(&[4, 3])), Fixed(float(&[4, 5])));
    samples.add(Op::Gemm(gemm), &[a.clone(), b, Fixed(float(&[5]))]);
    let plain = Gemm {
        alpha: 1.0,
        beta: 1.0,
        trans_a: false,
        trans_b: true,
    };
    samples.add(Op::Gemm(plain), &[a, Fixed(float(&[5, 3]))]);
    samples.add(
        Op::MatMul(MatMul),
        &[Given(float(&[2, 1, 3, 4])), Given(float(&[5, 4, 2]))],
    );
    // Sums of nothing.
    samples.add(
        Op::MatMul(MatMul),
        &[Given(float(&[2, 3, 0])), Fixed(float(&[0, 4]))],
    );
    let equation = "bij,bjk->bik".to_owned();
    samples.add(
        Op::Einsum(Einsum { equation }),
        &[Given(float(&[2, 3, 4])), Given(float(&[2, 4, 5]))],
    );
}

fn normalizations(samples: &mut Samples) {
    let x = Given(float(&[2, 4, 5, 3]));
    let channels = Fixed(positive(&[4]));
    let bias = Fixed(float(&[4]));
    let epsilon = 1e-3;
    samples.add(
        Op::BatchNormalization(BatchNormalization { epsilon }),
        &[
            x.clone(),
            channels.clone(),
            bias.clone(),
            bias.clone(),
            channels.clone(),
        ],
    );
    // Statistics that are not known before the rest.
    let (scale, statistics) = (Given(positive(&[4])), Given(float(&[4])));
    samples.add(
        Op::BatchNormalization(BatchNormalization { epsilon }),
        &[x.clone(), scale.clone(), bias.clone(), statistics, scale],
    );
    let (scale, shift) = (Fixed(positive(&[5, 3])), Fixed(float(&[5, 3])));
    samples.add(
        Op::LayerNormalization(LayerNormalization { axis: 2, epsilon }),
        &[x.clone(), scale.clone(), shift],
    );
    samples.add(
        Op::LayerNormalization(LayerNormalization { axis: -1, epsilon }),
        &[x.clone(), Fixed(positive(&[3]))],
    );
    samples.add(
        Op::RmsNormalization(RmsNormalization { axis: -2, epsilon }),
        &[x.clone(), scale],
    );
    let operands = [x.clone(), channels, bias];
    samples.add(
        Op::InstanceNormalization(InstanceNormalization { epsilon }),
        &operands,
    );
    samples.add(
        Op::GroupNormalization(GroupNormalization { epsilon, groups: 2 }),
        &operands,
    );
    for p in [1, 2] {
        samples.add(
            Op::LpNormalization(LpNormalization { axis: 1, p }),
            from_ref(&x),
        );
    }
    let lrn = Op::Lrn(Lrn {
        alpha: 0.5,
        beta: 0.75,
        bias: 2.0,
        size: 3,
    });
    samples.add(lrn, from_ref(&x));
    for (axis, log, flatten) in [
        (-1, false, false),
        (1, false, false),
        (1, true, false),
        (1, false, true),
        (2, true, true),
    ] {
        samples.add(Op::Softmax(Softmax { axis, log, flatten }), from_ref(&x));
    }
}

fn recurrent(samples: &mut Samples) {
    let (steps, batch, width, hidden) = (3, 2, 4, 5);
    let cells = [
        (Cell::Rnn, 1),
        (
            Cell::Gru {
                linear_before_reset: false,
            },
            3,
        ),
        (
            Cell::Gru {
                linear_before_reset: true,
            },
            3,
        ),
        (Cell::Lstm, 4),
    ];
    for (cell, n_gates) in cells {
        for (direction, n_directions) in [
            (Direction::Forward, 1),
            (Direction::Reverse, 1),
            (Direction::Bidirectional, 2),
        ] {
            let op = Recurrent {
                cell,
                direction,
                hidden,
                activations: Vec::new(),
                batch_first: false,
            };
            let gates = n_gates * hidden;
            let operands = [
                Given(float(&[steps, batch, width])),
                Fixed(float(&[n_directions, gates, width])),
                Fixed(float(&[n_directions, gates, hidden])),
                Fixed(float(&[n_directions, 2 * gates])),
            ];
            let outputs = if cell == Cell::Lstm { 3 } else { 2 };
            samples.add_outputs(Op::Recurrent(op), &operands, &[true; 3][..outputs]);
        }
    }
    let op = Recurrent {
        cell: Cell::Lstm,
        direction: Direction::Forward,
        hidden,
        activations: vec![
            Unary::HardSigmoid {
                alpha: 0.25,
                beta: 0.5,
            },
            Unary::LeakyRelu { alpha: 0.1 },
            Unary::Softsign,
        ],
        batch_first: false,
    };
    let lengths = Tensor::new(vec![batch], TensorData::I32(vec![3, 2])).expect("a list");
    let state = Given(float(&[1, batch, hidden]));
    let operands = [
        Given(float(&[steps, batch, width])),
        Fixed(float(&[1, 4 * hidden, width])),
        Fixed(float(&[1, 4 * hidden, hidden])),
        Absent,
        Fixed(lengths),
        state.clone(),
        state,
        Fixed(float(&[1, 3 * hidden])),
    ];
    samples.add_outputs(Op::Recurrent(op), &operands, &[true, false, true]);
}

fn reductions(samples: &mut Samples) {
    let x = Given(positive(&[2, 3, 4]));
    for kind in [
        ReduceKind::Sum,
        ReduceKind::Mean,
        ReduceKind::Max,
        ReduceKind::Min,
        ReduceKind::Prod,
        ReduceKind::L1,
        ReduceKind::L2,
        ReduceKind::SumSquare,
        ReduceKind::LogSum,
        ReduceKind::LogSumExp,
    ] {
        let reduce = |keep_dims, noop_with_empty_axes| {
            Op::Reduce(Reduce {
                kind,
                keep_dims,
                noop_with_empty_axes,
            })
        };
        samples.add(reduce(true, false), &[x.clone(), Fixed(ints(&[0, -1]))]);
        samples.add(reduce(false, false), from_ref(&x));
        samples.add(reduce(true, true), &[x.clone(), Fixed(ints(&[1]))]);
    }
    for (max, keep_dims, select_last) in [(true, true, false), (false, false, true)] {
        let op = ArgReduce {
            max,
            axis: 1,
            keep_dims,
            select_last,
        };
        samples.add(Op::ArgReduce(op), from_ref(&x));
    }
    for largest in [true, false] {
        let op = Op::TopK(TopK {
            axis: -1,
            largest,
            sorted: true,
        });
        samples.add_outputs(op, &[x.clone(), Fixed(ints(&[2]))], &[true, true]);
    }
    for (exclusive, reverse) in [(false, false), (true, false), (false, true)] {
        let op = Op::CumSum(CumSum { exclusive, reverse });
        samples.add(op, &[x.clone(), Fixed(int_scalar(1))]);
        let op = Op::CumProd(CumProd { exclusive, reverse });
        samples.add(op.clone(), &[x.clone(), Fixed(int_scalar(-1))]);
        let whole = Given(tensor(
            DType::I32,
            &[4],
            vec![-70_000.0, 3.0, 50_000.0, 9.0],
        ));
        samples.add(op, &[whole, Fixed(int_scalar(0))]);
    }
}

fn transforms(samples: &mut Samples) {
    samples.add(Op::Det(Det), &[Fixed(float(&[2, 3, 3]))]);
    for (shape, inverse, one_sided, length, axis) in [
        (&[2, 6, 1][..], false, true, None, None),
        (&[2, 7, 3, 1], false, false, Some(5), Some(1)),
        (&[5, 3, 2], false, false, Some(7), Some(0)),
        (&[2, 6, 2], true, false, None, Some(-2)),
        (&[2, 4, 3, 2], true, true, None, Some(1)),
        (&[2, 4, 2], true, true, Some(9), None),
        (&[2, 6, 2], true, true, Some(4), None),
    ] {
        let scalar = |value: Option<i64>| value.map_or(Absent, |v| Fixed(int_scalar(v)));
        let op = Op::Dft(Dft { inverse, one_sided });
        let mut operands = vec![Given(float(shape)), scalar(length), scalar(axis)];
        while matches!(operands.last(), Some(Absent)) {
            operands.pop();
        }
        samples.add(op, &operands);
    }
}

fn resize(mode: Interpolation, transform: CoordinateTransform) -> Resize {
    Resize {
        mode,
        transform,
        rounding: NearestRounding::RoundPreferFloor,
        cubic_coeff: -0.75,
        exclude_outside: false,
        extrapolation: 0.0,
        antialias: false,
        axes: None,
        aspect: AspectRatio::Stretch,
    }
}

fn resampling(samples: &mut Samples) {
    let x = Given(float(&[1, 2, 4, 6]));
    let scales = |values: &[f32]| {
        let list = Tensor::from_f32([values.len()], values.to_vec());
        Fixed(list.expect("a list"))
    };
    let double = scales(&[1.0, 1.0, 2.0, 1.5]);
    for transform in [
        CoordinateTransform::HalfPixel,
        CoordinateTransform::HalfPixelSymmetric,
        CoordinateTransform::PytorchHalfPixel,
        CoordinateTransform::AlignCorners,
        CoordinateTransform::Asymmetric,
    ] {
        let op = Op::Resize(resize(Interpolation::Linear, transform));
        samples.add(op, &[x.clone(), Absent, double.clone()]);
    }
    for rounding in [
        NearestRounding::RoundPreferFloor,
        NearestRounding::RoundPreferCeil,
        NearestRounding::Floor,
        NearestRounding::Ceil,
    ] {
        let op = Resize {
            rounding,
            ..resize(Interpolation::Nearest, CoordinateTransform::Asymmetric)
        };
        samples.add(Op::Resize(op), &[x.clone(), Absent, double.clone()]);
    }
    let cubic = Resize {
        cubic_coeff: -0.5,
        exclude_outside: true,
        ..resize(Interpolation::Cubic, CoordinateTransform::HalfPixel)
    };
    samples.add(Op::Resize(cubic), &[x.clone(), Absent, double]);
    let smaller = Resize {
        antialias: true,
        axes: Some(vec![2, 3]),
        ..resize(Interpolation::Linear, CoordinateTransform::HalfPixel)
    };
    let sizes = Fixed(ints(&[2, 3]));
    samples.add(
        Op::Resize(smaller),
        &[x.clone(), Absent, Absent, sizes.clone()],
    );
    for aspect in [AspectRatio::NotLarger, AspectRatio::NotSmaller] {
        let op = Resize {
            aspect,
            axes: Some(vec![2, 3]),
            ..resize(Interpolation::Linear, CoordinateTransform::HalfPixel)
        };
        samples.add(Op::Resize(op), &[x.clone(), Absent, Absent, sizes.clone()]);
    }
    let crop = Resize {
        extrapolation: 10.0,
        ..resize(Interpolation::Linear, CoordinateTransform::TfCropAndResize)
    };
    let region = scales(&[0.0, 0.0, 0.25, 0.125, 1.0, 1.0, 0.75, 1.25]);
    let sizes = Fixed(ints(&[1, 2, 3, 5]));
    samples.add(Op::Resize(crop), &[x.clone(), region, Absent, sizes]);
    for (mode, padding, align_corners) in [
        (Interpolation::Linear, GridPadding::Zeros, false),
        (Interpolation::Nearest, GridPadding::Border, true),
        (Interpolation::Cubic, GridPadding::Reflection, false),
    ] {
        let op = Op::GridSample(GridSample {
            mode,
            padding,
            align_corners,
        });
        samples.add(op, &[x.clone(), Given(float(&[1, 3, 5, 2]))]);
    }
    for align_corners in [false, true] {
        let op = Op::AffineGrid(AffineGrid { align_corners });
        let flat = [Given(float(&[2, 2, 3])), Fixed(ints(&[2, 5, 3, 4]))];
        samples.add(op.clone(), &flat);
        let deep = [Given(float(&[1, 3, 4])), Fixed(ints(&[1, 5, 2, 1, 4]))];
        samples.add(op, &deep);
    }
    for (kind, edges, cells) in [
        (PoolKind::Average, RegionEdges::HalfPixel, 0),
        (PoolKind::Average, RegionEdges::OutputHalfPixel, 2),
        (PoolKind::Max, RegionEdges::HalfPixel, 3),
    ] {
        let op = Op::RoiAlign(RoiAlign {
            kind,
            edges,
            cells: [3, 2],
            samples: cells,
            scale: 0.5,
        });
        // One region within, one that goes beyond all sides, one turned round.
        let regions = vec![
            0.0, 1.0, 9.0, 12.0, -5.0, -4.0, 30.0, 22.0, 8.0, 8.0, 2.0, 3.0,
        ];
        let regions = Fixed(tensor(DType::F32, &[3, 4], regions));
        let maps = Given(float(&[2, 3, 7, 6]));
        samples.add(op, &[maps, regions, Fixed(ints(&[1, 0, 1]))]);
    }
}
