//! Measured errors of the element functions, on every instruction set here.

use super::*;
use crate::{Isa, dispatch};

/// A function of every element of a slice of whole vectors.
type Function = fn(Isa, &mut [f32]);

/// The function of this name as a [`Function`].
macro_rules! mapped {
    ($function:ident) => {{
        fn mapped(isa: Isa, x: &mut [f32]) {
            #[inline(always)]
            unsafe fn all<S: Simd>(x: &mut [f32]) {
                for x in x.chunks_exact_mut(S::LANES) {
                    // SAFETY: a chunk is a vector; the caller's processor has the instruction set.
                    unsafe { S::store(x.as_mut_ptr(), crate::math::$function::<S>(S::load(x.as_ptr()))) }
                }
            }
            // SAFETY: `isa` is what this processor has.
            unsafe { dispatch!(isa, all(x: &mut [f32]) => (x)) }
        }
        mapped
    }};
}

/// Largest error of `function` over samples from `low` to `high`, as `error(got, want)`.
#[track_caller]
fn check(
    function: Function,
    low: f32,
    high: f32,
    want: fn(f64) -> f64,
    error: fn(f32, f64) -> f64,
    bar: f64,
) {
    // Whole vectors of every set.
    const SAMPLES: usize = 200_000;
    let x: Vec<f32> = (0..SAMPLES)
        .map(|i| low + (high - low) * (i as f32 / (SAMPLES - 1) as f32))
        .collect();
    for isa in Isa::available() {
        let mut y = x.clone();
        function(isa, &mut y);
        let worst = x
            .iter()
            .zip(&y)
            .map(|(&x, &y)| error(y, want(f64::from(x))))
            .fold(0.0, worse);
        // Written so that NaN fails.
        assert!(worst <= bar, "on {isa}: error {worst:e}, bar {bar:e}");
    }
}

/// The larger error; NaN stays, which `f64::max` would drop.
fn worse(a: f64, b: f64) -> f64 {
    if b > a || b.is_nan() { b } else { a }
}

fn ulp(got: f32, want: f64) -> f64 {
    let unit =
        f64::from(f32::from_bits((want.abs() as f32).to_bits() + 1)) - f64::from(want.abs() as f32);
    (f64::from(got) - want).abs() / unit
}

fn absolute(got: f32, want: f64) -> f64 {
    (f64::from(got) - want).abs()
}

#[test]
fn exp_is_within_two_ulp() {
    check(mapped!(exp), -87.0, 88.7, f64::exp, ulp, 2.0);
    check(mapped!(exp), -103.0, -87.0, f64::exp, absolute, 2e-45);
}

#[test]
fn log_is_within_two_ulp() {
    check(mapped!(log), 1e-3, 4.0, f64::ln, ulp, 2.0);
    check(mapped!(log), 1.0, 1e9, f64::ln, ulp, 2.0);
    check(mapped!(log), 1e-44, 1e-38, f64::ln, ulp, 2.0);
}

#[test]
fn sigmoid_is_within_four_and_tanh_within_three_ulp() {
    let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
    check(mapped!(sigmoid), -87.0, 87.0, sigmoid, ulp, 4.0);
    check(mapped!(sigmoid), -2.0, 2.0, sigmoid, ulp, 4.0);
    check(mapped!(tanh), -12.0, 12.0, f64::tanh, ulp, 3.0);
}

#[test]
fn swish_is_within_four_ulp_and_nothing_far_below() {
    let swish = |x: f64| x / (1.0 + (-x).exp());
    check(mapped!(swish), -86.0, 87.0, swish, ulp, 4.0);
    check(mapped!(swish), -2.0, 2.0, swish, ulp, 4.0);
    check(mapped!(swish), f32::MIN, -87.0, |_| 0.0, absolute, 2e-36);
    check(mapped!(swish), 87.0, f32::MAX, |x| x, ulp, 1.0);
}

#[test]
fn elu_keeps_relative_precision_near_zero() {
    let elu = |x: f64| if x > 0.0 { x } else { x.exp_m1() };
    check(mapped!(elu_one), -30.0, 1.0, elu, ulp, 2.0);
}

#[test]
fn softplus_is_within_four_ulp() {
    let softplus = |x: f64| if x > 30.0 { x } else { x.exp().ln_1p() };
    check(mapped!(softplus), -80.0, 80.0, softplus, ulp, 4.0);
}

#[test]
fn gelu_by_tanh_keeps_its_precision() {
    let gelu = |x: f64| {
        let u = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044_715 * x * x * x);
        0.5 * x * (1.0 + u.tanh())
    };
    let op = mapped!(gelu_tanh);
    check(op, 0.0, 40.0, gelu, ulp, 4.0);
    check(op, -1e6, 0.0, gelu, absolute, 3e-7);
    check(op, -8.0, 0.0, gelu, absolute, 3e-7);
}

#[test]
fn gelu_keeps_its_precision() {
    let gelu = |x: f64| 0.5 * x * libm::erfc(-x * std::f64::consts::FRAC_1_SQRT_2);
    let op = mapped!(gelu);
    check(op, 0.0, 40.0, gelu, ulp, 5.0);
    check(op, 0.0, 1e-3, gelu, ulp, 5.0);
    check(op, -1e6, 0.0, gelu, absolute, 2e-6);
    check(op, -8.0, 0.0, gelu, absolute, 2e-6);
}

#[test]
fn gelu_far_below_zero_is_minus_zero_on_every_instruction_set() {
    let versions: [(Function, f32); 2] = [(mapped!(gelu), -5.5), (mapped!(gelu_tanh), -16.0)];
    for (function, cut) in versions {
        for x in [-1e4, -1e30, f32::MIN, -17.0, f32::next_down(cut)] {
            for isa in Isa::available() {
                let mut y = [x; 16];
                function(isa, &mut y);
                let is_minus_zero = y.iter().all(|y| y.to_bits() == (-0.0f32).to_bits());
                assert!(is_minus_zero, "gelu({x}) on {isa} is {y:?}");
            }
        }
    }
}
