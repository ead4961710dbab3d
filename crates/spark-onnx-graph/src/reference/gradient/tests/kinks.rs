//! What the slope is where it jumps, as PyTorch has it.

use super::{by, f64s};
use crate::graph::{
    Binary, Clip, GlobalPool, LpNormalization, PoolKind, Reduce, ReduceKind, Unary, Variadic,
};

#[track_caller]
fn check(f: Unary, x: f64, slope: f64) {
    let got = by(f, &[&f64s(&[1], vec![x])], &[1.0], 0)[0];
    assert!(
        (got - slope).abs() < 1e-7,
        "{f:?} at {x}: {got}, wanted {slope}"
    );
}

#[test]
fn functions_of_one_operand() {
    check(Unary::Abs, 0.0, 0.0);
    check(Unary::Relu, 0.0, 0.0);
    check(Unary::Relu, -0.0, 0.0);
    check(Unary::LeakyRelu { alpha: 0.125 }, 0.0, 0.125);
    check(Unary::ThresholdedRelu { alpha: 0.5 }, 0.5, 0.0);
    check(Unary::Elu { alpha: 1.5 }, 0.0, 1.5);
    let (alpha, gamma) = (1.5, 1.25);
    check(Unary::Selu { alpha, gamma }, 0.0, 1.875);
    let (alpha, beta) = (0.25, 0.5);
    check(Unary::HardSigmoid { alpha, beta }, 2.0, 0.0);
    check(Unary::HardSigmoid { alpha, beta }, -2.0, 0.0);
    check(Unary::HardSwish, 3.0, 1.0);
    check(Unary::HardSwish, -3.0, 0.0);
    let (lambda, bias) = (0.5, 0.25);
    check(Unary::Shrink { lambda, bias }, 0.5, 0.0);
    check(Unary::Shrink { lambda, bias }, -0.5, 0.0);
}

#[test]
fn equal_extremes_share_evenly() {
    let (a, b) = (
        f64s(&[3], vec![1.0, 2.0, 3.0]),
        f64s(&[3], vec![1.0, 3.0, 2.0]),
    );
    for (function, want) in [
        (Variadic::Max, [5.0, 0.0, 12.0]),
        (Variadic::Min, [5.0, 11.0, 0.0]),
    ] {
        assert_eq!(by(function, &[&a, &b], &[10.0, 11.0, 12.0], 0), want);
    }
    let thrice = by(Variadic::Max, &[&a, &a, &a], &[3.0; 3], 1);
    assert_eq!(thrice, [1.0; 3]);
    let reduce = |kind| Reduce {
        kind,
        keep_dims: true,
        noop_with_empty_axes: false,
    };
    let x = f64s(&[4], vec![7.0, 1.0, 7.0, 1.0]);
    assert_eq!(
        by(reduce(ReduceKind::Max), &[&x], &[4.0], 0),
        [2.0, 0.0, 2.0, 0.0]
    );
    assert_eq!(
        by(reduce(ReduceKind::Min), &[&x], &[4.0], 0),
        [0.0, 2.0, 0.0, 2.0]
    );
    // Of a window the first.
    let kind = PoolKind::Max;
    let x = f64s(&[1, 1, 4], vec![7.0, 1.0, 7.0, 1.0]);
    assert_eq!(
        by(GlobalPool { kind }, &[&x], &[4.0], 0),
        [4.0, 0.0, 0.0, 0.0]
    );
}

#[test]
fn clipping_hands_on_at_its_bounds() {
    let x = f64s(&[5], vec![-2.0, -1.0, 0.0, 1.0, 2.0]);
    let (low, high) = (f64s(&[], vec![-1.0]), f64s(&[], vec![1.0]));
    let gradient = |operand| {
        by(
            Clip,
            &[&x, &low, &high],
            &[1.0, 2.0, 3.0, 4.0, 5.0],
            operand,
        )
    };
    assert_eq!(gradient(0), [0.0, 2.0, 3.0, 4.0, 0.0]);
    assert_eq!((gradient(1), gradient(2)), (vec![1.0], vec![5.0]));
}

#[test]
fn norms_of_zeros_have_none() {
    let zeros = f64s(&[3], vec![0.0; 3]);
    for kind in [ReduceKind::L1, ReduceKind::L2] {
        let reduce = Reduce {
            kind,
            keep_dims: true,
            noop_with_empty_axes: false,
        };
        assert_eq!(by(reduce, &[&zeros], &[1.0], 0), [0.0; 3]);
    }
    for p in [1, 2] {
        assert_eq!(
            by(LpNormalization { axis: 0, p }, &[&zeros], &[1.0; 3], 0),
            [0.0; 3]
        );
    }
}

#[test]
fn products_with_zeros_are_right() {
    let reduce = Reduce {
        kind: ReduceKind::Prod,
        keep_dims: true,
        noop_with_empty_axes: false,
    };
    let x = f64s(&[3], vec![2.0, 0.0, 5.0]);
    assert_eq!(by(reduce, &[&x], &[1.0], 0), [0.0, 10.0, 0.0]);
}

#[test]
fn powers_of_zero_and_slopes_at_zero() {
    let pow = |a: f64, b: f64, operand| {
        by(
            Binary::Pow,
            &[&f64s(&[1], vec![a]), &f64s(&[1], vec![b])],
            &[1.0],
            operand,
        )[0]
    };
    assert_eq!(
        (pow(0.0, 0.0, 0), pow(0.0, 2.0, 1), pow(0.0, 1.0, 0)),
        (0.0, 0.0, 1.0)
    );
    let zero = f64s(&[1], vec![0.0]);
    let negative = f64s(&[1], vec![0.25]);
    assert_eq!(by(Binary::PRelu, &[&zero, &negative], &[1.0], 0), [0.25]);
}
