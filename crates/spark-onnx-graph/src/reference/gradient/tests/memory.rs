//! What computing a gradient takes, measured, beside the bound.

use std::borrow::Cow;

use super::super::differentiate::{gradient, types_of, working_bytes};
use super::{f64s, ints};
use crate::graph::{
    Binary, Concat, Conv, CumProd, Det, Einsum, Expand, Gather, GlobalPool, LayerNormalization,
    MatMul, Op, Pad, PadMode, Padding, Pool, PoolKind, Reduce, ReduceKind, ScatterElements,
    ScatterReduction, Softmax, TopK, Transpose, Unary, Variadic, Where,
};
use crate::tensor::{DType, Tensor};
use spark_testing::Watch;

fn floats(shape: &[usize]) -> Tensor {
    let n: usize = shape.iter().product();
    f64s(shape, (0..n).map(|i| (i % 251) as f64 + 1.0).collect())
}

#[track_caller]
fn check(op: impl Into<Op>, operands: &[&Tensor]) {
    let op = op.into();
    let given: Vec<Option<&Tensor>> = operands.iter().map(|t| Some(*t)).collect();
    let n_results = if matches!(op, Op::TopK(_)) { 2 } else { 1 };
    let types = types_of(&op, &given, n_results).expect("operands fit");
    let dy = floats(&types[0].shape).to_f64();
    let gradients: Vec<Option<Cow<'_, [f64]>>> = vec![Some(Cow::Borrowed(&dy))];
    let bound = working_bytes(&op, &given, &types);
    for (operand, by) in operands.iter().enumerate() {
        if by.dtype() != DType::F64 {
            continue;
        }
        let watch = Watch::start();
        let found = gradient(&op, &given, &types, &gradients, operand).expect("has a gradient");
        let peak = watch.peak();
        assert!(peak <= bound, "{}: {peak} bytes, bound {bound}", op.name());
        assert_eq!(found.len(), by.len());
    }
    // A bound far above what is taken would refuse what fits.
    let moved = operands.iter().map(|t| t.len()).sum::<usize>() + dy.len();
    assert!(
        bound <= (64 << 10) + 700 * moved,
        "{}: bound {bound}",
        op.name()
    );
}

#[test]
fn gradients_stay_below_their_bound() {
    let x = floats(&[200, 300]);
    let line = floats(&[300]);
    check(Unary::Tanh, &[&x]);
    check(Binary::Mul, &[&x, &line]);
    check(Variadic::Max, &[&x, &line, &x]);
    let condition = Tensor::from_f64(DType::Bool, [300], vec![1.0; 300]).expect("fits");
    check(Where, &[&condition, &x, &x]);
    check(MatMul, &[&floats(&[40, 50]), &floats(&[50, 60])]);
    let equation = "ij,jk,k->i".to_owned();
    check(
        Einsum { equation },
        &[&floats(&[20, 30]), &floats(&[30, 20]), &floats(&[20])],
    );
    let softmax = Softmax {
        axis: -1,
        log: true,
        flatten: false,
    };
    check(softmax, &[&x]);
    let (axis, epsilon) = (-1, 1e-5);
    check(LayerNormalization { axis, epsilon }, &[&x, &line, &line]);
    for kind in [ReduceKind::Max, ReduceKind::LogSumExp, ReduceKind::Prod] {
        for axes in [&[0][..], &[1], &[0, 1]] {
            let reduce = Reduce {
                kind,
                keep_dims: false,
                noop_with_empty_axes: false,
            };
            check(reduce, &[&x, &ints(axes)]);
        }
    }
    let axis = Tensor::from_i64([], vec![1]).expect("one");
    let (exclusive, reverse) = (false, true);
    check(CumProd { exclusive, reverse }, &[&x, &axis]);
    check(Det, &[&floats(&[5, 6, 6])]);
    check(Det, &[&floats(&[1, 40, 40])]);
    let top = TopK {
        axis: 0,
        largest: true,
        sorted: true,
    };
    check(top, &[&x, &ints(&[150])]);
}

#[test]
fn gradients_of_what_moves_stay_below_their_bound() {
    let x = floats(&[200, 300]);
    check(Transpose { perm: None }, &[&x]);
    check(Concat { axis: 0 }, &[&x, &x, &floats(&[1, 300])]);
    check(Expand, &[&floats(&[200, 1]), &ints(&[200, 300])]);
    let rows: Vec<i64> = (0..500).map(|i| i % 200).collect();
    check(Gather { axis: 0 }, &[&x, &ints(&rows)]);
    let mode = PadMode::Constant;
    check(Pad { mode }, &[&x, &ints(&[1, 2, 3, 4])]);
    let indices = Tensor::from_i64([100, 300], (0..30_000).map(|i| i % 200).collect());
    let indices = indices.expect("fits");
    for reduction in [ScatterReduction::None, ScatterReduction::Mul] {
        let scatter = ScatterElements { axis: 0, reduction };
        check(scatter, &[&x, &indices, &floats(&[100, 300])]);
    }
}

#[test]
fn gradients_of_windows_stay_below_their_bound() {
    let x = floats(&[2, 8, 40, 40]);
    let conv = Conv {
        strides: vec![2, 2],
        dilations: vec![],
        padding: Padding::SameUpper,
        groups: 1,
    };
    check(conv, &[&x, &floats(&[16, 8, 3, 3]), &floats(&[16])]);
    for kind in [PoolKind::Max, PoolKind::Average] {
        let pool = Pool {
            kind,
            kernel: vec![3, 3],
            strides: vec![],
            dilations: vec![],
            padding: Padding::Valid,
            count_include_pad: false,
            ceil_mode: false,
        };
        check(pool, &[&x]);
        check(GlobalPool { kind }, &[&x]);
    }
}
