//! What evaluating takes, measured, beside the bound.

use super::*;
use crate::graph::Op;
use crate::graph::{
    AspectRatio, Cast, Concat, ConstantOfShape, CumSum, Einsum, Expand, Gather, GlobalPool, MatMul,
    OneHot, Range, ScatterElements, Tile, TopK, Transpose,
};
use crate::graph::{
    Binary, Conv, CoordinateTransform, Gemm, Interpolation, NearestRounding, Operand, Padding,
    Pool, PoolKind, Reduce, ReduceKind, Resize, ScatterReduction, Softmax, Unary, infer,
};
use crate::reference::evaluate::{evaluate, working_bytes};
use crate::{DType, TensorData};

use spark_testing::Watch;

fn floats(shape: &[usize]) -> Tensor {
    let n: usize = shape.iter().product();
    let values = (0..n).map(|i| (i % 251) as f32).collect();
    Tensor::from_f32(shape, values).expect("fits")
}

fn ints(values: &[i64]) -> Tensor {
    Tensor::from_i64([values.len()], values.to_vec()).expect("a list")
}

fn scalar(value: i64) -> Tensor {
    Tensor::from_i64([], vec![value]).expect("one")
}

#[track_caller]
fn check(op: Op, operands: &[&Tensor]) {
    let inputs: Vec<Option<&Tensor>> = operands.iter().map(|t| Some(*t)).collect();
    let typed: Vec<_> = operands
        .iter()
        .map(|t| Some(Operand::constant(t)))
        .collect();
    let n_outputs = if matches!(op, Op::TopK(_)) { 2 } else { 1 };
    let types = infer(&op, &typed, n_outputs).expect("operands fit");
    let bound = working_bytes(&op, &inputs, &types);
    let watch = Watch::start();
    let results = evaluate(&op, &inputs, n_outputs).expect("evaluates");
    let peak = watch.peak();
    assert!(peak <= bound, "{}: {peak} bytes, bound {bound}", op.name());
    // A bound far above what is taken would refuse what fits.
    let moved: usize = operands.iter().map(|t| t.len()).sum::<usize>()
        + results.iter().map(Tensor::len).sum::<usize>();
    assert!(bound <= SMALL + 700 * moved, "{}: bound {bound}", op.name());
}

fn resize(mode: Interpolation, antialias: bool) -> Op {
    Op::Resize(Resize {
        mode,
        transform: CoordinateTransform::HalfPixel,
        rounding: NearestRounding::RoundPreferFloor,
        cubic_coeff: -0.75,
        exclude_outside: false,
        extrapolation: 0.0,
        antialias,
        axes: None,
        aspect: AspectRatio::Stretch,
    })
}

#[test]
fn element_wise_operators_stay_below_their_bound() {
    let x = floats(&[200, 300]);
    let wide = Tensor::new(vec![60_000], TensorData::I64((0..60_000).collect())).expect("fits");
    check(Op::Unary(Unary::Relu), &[&x]);
    check(Op::Cast(Cast { to: DType::F16 }), &[&x]);
    check(Op::Cast(Cast { to: DType::F32 }), &[&wide]);
    check(Op::Binary(Binary::Add), &[&x, &x]);
    check(Op::Binary(Binary::Add), &[&wide, &wide]);
    check(Op::Binary(Binary::Mul), &[&x, &floats(&[300])]);
    let softmax = Softmax {
        axis: -1,
        log: false,
        flatten: false,
    };
    check(Op::Softmax(softmax), &[&x]);
    check(
        Op::CumSum(CumSum {
            exclusive: false,
            reverse: false,
        }),
        &[&x, &scalar(1)],
    );
}

#[test]
fn moving_operators_stay_below_their_bound() {
    let x = floats(&[200, 300]);
    check(Op::Transpose(Transpose { perm: None }), &[&x]);
    check(Op::Concat(Concat { axis: 0 }), &[&x, &x, &x]);
    check(Op::Expand(Expand), &[&floats(&[300]), &ints(&[200, 300])]);
    check(Op::Tile(Tile), &[&floats(&[300]), &ints(&[200])]);
    let indices: Vec<i64> = (0..60_000).map(|i| i % 200).collect();
    check(
        Op::Gather(Gather { axis: 0 }),
        &[&floats(&[200]), &ints(&indices)],
    );
    let value = Tensor::from_f32([1], vec![1.0]).expect("one");
    check(
        Op::ConstantOfShape(ConstantOfShape { value }),
        &[&ints(&[60_000])],
    );
    check(Op::Range(Range), &[&scalar(0), &scalar(60_000), &scalar(1)]);
    let values = Tensor::from_f32([2], vec![0.0, 1.0]).expect("two");
    check(
        Op::OneHot(OneHot { axis: -1 }),
        &[&ints(&indices[..300]), &scalar(200), &values],
    );
    let scatter = Op::ScatterElements(ScatterElements {
        axis: 0,
        reduction: ScatterReduction::Add,
    });
    check(
        scatter,
        &[&floats(&[60_000]), &ints(&indices), &floats(&[60_000])],
    );
}

#[test]
fn operators_that_make_lists_stay_below_their_bound() {
    let x = floats(&[2, 8, 60, 60]);
    let reduce = |keep_dims| {
        Op::Reduce(Reduce {
            kind: ReduceKind::Sum,
            keep_dims,
            noop_with_empty_axes: false,
        })
    };
    check(reduce(true), &[&x]);
    check(reduce(false), &[&x, &ints(&[1])]);
    check(
        Op::TopK(TopK {
            axis: -1,
            largest: true,
            sorted: true,
        }),
        &[&x, &ints(&[3])],
    );
    check(
        Op::GlobalPool(GlobalPool {
            kind: PoolKind::Average,
        }),
        &[&x],
    );
    check(
        Op::Pool(Pool {
            kind: PoolKind::Max,
            kernel: vec![3, 3],
            strides: vec![1, 1],
            dilations: vec![1, 1],
            padding: Padding::Explicit(vec![1; 4]),
            count_include_pad: false,
            ceil_mode: false,
        }),
        &[&x],
    );
    let conv = Conv {
        strides: vec![1, 1],
        dilations: vec![1, 1],
        padding: Padding::Explicit(vec![1; 4]),
        groups: 1,
    };
    check(Op::Conv(conv), &[&x, &floats(&[8, 8, 3, 3])]);
    let (a, b) = (floats(&[120, 90]), floats(&[90, 130]));
    check(Op::MatMul(MatMul), &[&a, &b]);
    let gemm = Gemm {
        alpha: 1.0,
        beta: 1.0,
        trans_a: false,
        trans_b: false,
    };
    check(Op::Gemm(gemm), &[&a, &b, &floats(&[130])]);
    let equation = "ij,jk->ik".to_owned();
    check(Op::Einsum(Einsum { equation }), &[&a, &b]);
    // Small enough that the system is not asked beforehand, which would count.
    let x = floats(&[2, 8, 30, 30]);
    let sizes = |h, w| ints(&[2, 8, h, w]);
    let empty = Tensor::from_f32([0], vec![]).expect("none");
    for (mode, antialias, to) in [
        (Interpolation::Nearest, false, (35, 32)),
        (Interpolation::Linear, false, (35, 32)),
        (Interpolation::Cubic, false, (15, 45)),
        (Interpolation::Linear, true, (5, 6)),
    ] {
        let sizes = sizes(to.0, to.1);
        check(resize(mode, antialias), &[&x, &empty, &empty, &sizes]);
    }
}
