//! The samples of operators that move, make or quantise elements.

use std::slice::from_ref;

use crate::graph::{
    Concat, ConstantOfShape, DepthToSpace, DequantizeLinear, Distribution, Expand, EyeLike,
    Flatten, Gather, GatherElements, GatherNd, NonMaxSuppression, NonZero, OneHot, Op, Pad,
    PadMode, QuantizeLinear, RandomLike, Range, Reshape, RoundFloat, ScatterElements, ScatterNd,
    ScatterReduction, Shape, Size, Slice, SmallFloat, SpaceToDepth, Split, Squeeze, Tile,
    Transpose, Trilu, Unique, Unsqueeze,
};
use crate::tensor::{DType, Tensor};

use super::sample::Operand::{Fixed, Given};
use super::sample::{Samples, boolean, float, int_scalar, ints, scalar, tensor, wave};

/// Adds all samples of this file.
pub(super) fn add(samples: &mut Samples) {
    movement(samples);
    indexing(samples);
    making(samples);
    quantization(samples);
}

fn movement(samples: &mut Samples) {
    let x = Given(float(&[2, 3, 4]));
    let fixed = |values: &[i64]| Fixed(ints(values));
    for allow_zero in [false, true] {
        samples.add(
            Op::Reshape(Reshape { allow_zero }),
            &[x.clone(), fixed(&[3, 2, -1])],
        );
    }
    for axis in [0, 1, -1] {
        samples.add(Op::Flatten(Flatten { axis }), from_ref(&x));
    }
    let ones = Given(float(&[1, 3, 1, 2]));
    samples.add(Op::Squeeze(Squeeze), &[ones.clone(), fixed(&[0, -2])]);
    samples.add(Op::Squeeze(Squeeze), &[ones]);
    samples.add(Op::Unsqueeze(Unsqueeze), &[x.clone(), fixed(&[0, -1])]);
    samples.add(Op::Transpose(Transpose { perm: None }), from_ref(&x));
    let perm = Some(vec![2, 0, 1]);
    samples.add(Op::Transpose(Transpose { perm }), from_ref(&x));
    samples.add(
        Op::Concat(Concat { axis: 1 }),
        &[
            x.clone(),
            Given(float(&[2, 1, 4])),
            Fixed(float(&[2, 2, 4])),
        ],
    );
    let split = Op::Split(Split { axis: 2 });
    samples.add_outputs(split.clone(), &[x.clone(), fixed(&[1, 3])], &[true, true]);
    samples.add_outputs(split, from_ref(&x), &[true, true]);
    samples.add(
        Op::Slice(Slice),
        &[
            x.clone(),
            fixed(&[1, -1]),
            fixed(&[3, i64::MIN]),
            fixed(&[1, 2]),
            fixed(&[1, -2]),
        ],
    );
    samples.add(
        Op::Slice(Slice),
        &[x.clone(), fixed(&[0, 1]), fixed(&[1, 3])],
    );
    samples.add(Op::Expand(Expand), &[x.clone(), fixed(&[5, 1, 3, 1])]);
    samples.add(Op::Tile(Tile), &[x.clone(), fixed(&[1, 2, 3])]);
    for mode in [
        PadMode::Constant,
        PadMode::Reflect,
        PadMode::Edge,
        PadMode::Wrap,
    ] {
        samples.add(
            Op::Pad(Pad { mode }),
            &[x.clone(), fixed(&[0, 1, 2, 1, 0, 1])],
        );
    }
    samples.add(
        Op::Pad(Pad {
            mode: PadMode::Constant,
        }),
        &[x.clone(), fixed(&[1, 2]), Fixed(scalar(7.0)), fixed(&[-1])],
    );
    let deep = Given(float(&[1, 8, 2, 3]));
    for crd in [false, true] {
        samples.add(
            Op::DepthToSpace(DepthToSpace { block: 2, crd }),
            from_ref(&deep),
        );
    }
    let wide = Given(float(&[1, 2, 4, 6]));
    samples.add(Op::SpaceToDepth(SpaceToDepth { block: 2 }), &[wide]);
    for upper in [true, false] {
        let operands = [x.clone(), Fixed(int_scalar(-1))];
        samples.add(Op::Trilu(Trilu { upper }), &operands);
    }
    samples.add(Op::Trilu(Trilu { upper: true }), &[x]);
}

fn indexing(samples: &mut Samples) {
    let x = Given(float(&[3, 4, 2]));
    let index = |shape: &[usize], values: &[i64]| {
        Fixed(Tensor::from_i64(shape, values.to_vec()).expect("indices fill their shape"))
    };
    samples.add(
        Op::Gather(Gather { axis: 1 }),
        &[x.clone(), index(&[2, 2], &[0, 3, -1, 2])],
    );
    samples.add(
        Op::GatherElements(GatherElements { axis: 0 }),
        &[x.clone(), index(&[2, 1, 2], &[0, 2, 1, -1])],
    );
    for (batch_dims, indices) in [
        (0, index(&[2, 2], &[0, 1, 2, 3])),
        (1, index(&[3, 1], &[0, 1, 3])),
    ] {
        samples.add(Op::GatherNd(GatherNd { batch_dims }), &[x.clone(), indices]);
    }
    for reduction in [
        ScatterReduction::None,
        ScatterReduction::Add,
        ScatterReduction::Mul,
        ScatterReduction::Max,
        ScatterReduction::Min,
    ] {
        samples.add(
            Op::ScatterElements(ScatterElements { axis: 1, reduction }),
            &[
                x.clone(),
                index(&[1, 2, 2], &[0, 1, 3, 2]),
                Given(float(&[1, 2, 2])),
            ],
        );
        samples.add(
            Op::ScatterNd(ScatterNd { reduction }),
            &[x.clone(), index(&[2, 1], &[2, 0]), Given(float(&[2, 4, 2]))],
        );
    }
    let values = Tensor::from_f32([2], vec![-1.0, 2.0]).expect("a list");
    samples.add(
        Op::OneHot(OneHot { axis: 0 }),
        &[
            Given(ints(&[0, 3, -1])),
            Fixed(int_scalar(4)),
            Fixed(values.clone()),
        ],
    );
    // Fractions are cut off, those above -1 become 0.
    let fractions = Tensor::from_f32([5], vec![1.0, 1.5, -0.5, -1.5, 3.9]).expect("a list");
    samples.add(
        Op::OneHot(OneHot { axis: -1 }),
        &[Given(fractions), Fixed(int_scalar(4)), Fixed(values)],
    );
    samples.add(Op::NonZero(NonZero), &[Fixed(boolean(&[2, 5]))]);
    for is_centred in [false, true] {
        samples.add(
            Op::NonMaxSuppression(NonMaxSuppression { is_centred }),
            &[
                Fixed(float(&[2, 6, 4])),
                Fixed(float(&[2, 3, 6])),
                Fixed(int_scalar(2)),
                Fixed(scalar(0.3)),
                Fixed(scalar(-0.5)),
            ],
        );
    }
    let repeated = tensor(DType::I32, &[3, 2], vec![5.0, 1.0, 2.0, 5.0, 5.0, 1.0]);
    for (axis, sorted) in [
        (None, true),
        (None, false),
        (Some(0), true),
        (Some(-1), false),
    ] {
        let op = Op::Unique(Unique { axis, sorted });
        samples.add_outputs(op, &[Fixed(repeated.clone())], &[true; 4]);
    }
    // Without a number of boxes none is kept.
    let operands = [Given(float(&[1, 2, 4])), Given(float(&[1, 1, 2]))];
    let suppression = NonMaxSuppression { is_centred: false };
    samples.add(Op::NonMaxSuppression(suppression), &operands);
}

fn making(samples: &mut Samples) {
    let x = Given(float(&[2, 3, 4]));
    samples.add(
        Op::Shape(Shape {
            start: 0,
            end: None,
        }),
        from_ref(&x),
    );
    let part = Op::Shape(Shape {
        start: 1,
        end: Some(-1),
    });
    samples.add(part, from_ref(&x));
    samples.add(Op::Size(Size), &[x]);
    for value in [
        Tensor::from_f32([1], vec![1.5]).expect("one value"),
        ints(&[7]),
    ] {
        samples.add(
            Op::ConstantOfShape(ConstantOfShape { value }),
            &[Fixed(ints(&[2, 3]))],
        );
    }
    let (start, limit, delta) = (int_scalar(3), int_scalar(-4), int_scalar(-2));
    samples.add(
        Op::Range(Range),
        &[Fixed(start), Fixed(limit), Fixed(delta)],
    );
    for (dtype, k) in [(None, 1), (Some(DType::I64), -1)] {
        samples.add(Op::EyeLike(EyeLike { dtype, k }), &[Given(float(&[3, 4]))]);
    }
    let (low, high) = (-1.0, 2.5);
    let (mean, scale) = (1.0, 0.5);
    for (distribution, dtype) in [
        (Distribution::Uniform { low, high }, None),
        (Distribution::Normal { mean, scale }, Some(DType::F16)),
    ] {
        let random = RandomLike {
            distribution,
            dtype,
            seed: 7.0,
        };
        samples.add(Op::RandomLike(random), &[Given(float(&[3, 4]))]);
    }
}

fn quantization(samples: &mut Samples) {
    let x = Given(float(&[2, 3, 4]));
    let list = |dtype, values: &[f64]| Fixed(tensor(dtype, &[values.len()], values.to_vec()));
    let scale = Fixed(scalar(0.02));
    samples.add(
        Op::QuantizeLinear(QuantizeLinear::along(1)),
        &[x.clone(), scale.clone()],
    );
    let scales = list(DType::F32, &[0.01, 0.02, 0.04]);
    for (dtype, zeros) in [
        (DType::I8, [0.0, 3.0, -5.0]),
        (DType::U8, [128.0, 0.0, 7.0]),
    ] {
        samples.add(
            Op::QuantizeLinear(QuantizeLinear::along(1)),
            &[x.clone(), scales.clone(), list(dtype, &zeros)],
        );
        let low = if dtype == DType::I8 { -64.0 } else { 0.0 };
        let values = wave(24).map(|v| (v + 1.0) * 60.0 + low).collect();
        let quantized = Given(tensor(dtype, &[2, 3, 4], values));
        samples.add(
            Op::DequantizeLinear(DequantizeLinear::along(1)),
            &[quantized, scales.clone(), list(dtype, &zeros)],
        );
    }
    let x = Given(float(&[1, 3, 4]));
    let blocks = [1, 2, 4];
    let scales = Fixed(tensor(
        DType::F32,
        &blocks,
        vec![0.01, 0.02, 0.04, 0.08, 0.5, 0.1, 0.2, 0.3],
    ));
    for float in [
        None,
        Some(SmallFloat::E4M3FN),
        Some(SmallFloat::E5M2FNUZ),
        Some(SmallFloat::E2M1),
    ] {
        let held = float.map_or(DType::I16, |_| DType::F16);
        let zeros = Fixed(tensor(
            held,
            &blocks,
            vec![1.0, 0.0, 2.0, 0.0, 0.0, 0.0, 4.0, 3.0],
        ));
        let round = |format| RoundFloat {
            format,
            saturate: format != SmallFloat::E5M2FNUZ,
        };
        samples.add(
            Op::QuantizeLinear(QuantizeLinear {
                axis: -2,
                block_size: 2,
                float: float.map(round),
            }),
            &[x.clone(), scales.clone(), zeros.clone()],
        );
        // Numbers that every format has.
        let codes = (0..12).map(|i| f64::from(i % 5)).collect();
        samples.add(
            Op::DequantizeLinear(DequantizeLinear {
                axis: 1,
                block_size: 2,
                float,
            }),
            &[
                Given(tensor(held, &[1, 3, 4], codes)),
                scales.clone(),
                zeros,
            ],
        );
        if let Some(format) = float {
            samples.add(Op::RoundFloat(round(format)), from_ref(&x));
        }
    }
    let accumulated = Given(tensor(DType::I32, &[4], vec![1e6, -3.0, 0.0, 77.0]));
    samples.add(
        Op::DequantizeLinear(DequantizeLinear::along(1)),
        &[accumulated, scale],
    );
}
