//! Measured errors of the element functions, on every instruction set here.

use super::*;

/// Largest error of `op` over `samples`, as `error(got, want)`.
#[track_caller]
fn check(
    op: Unary,
    low: f32,
    high: f32,
    want: fn(f64) -> f64,
    error: fn(f32, f64) -> f64,
    bar: f64,
) {
    const SAMPLES: usize = 200_003;
    let x: Vec<f32> = (0..SAMPLES)
        .map(|i| low + (high - low) * (i as f32 / (SAMPLES - 1) as f32))
        .collect();
    for isa in Isa::available() {
        let mut y = x.clone();
        apply(isa, op, &mut y);
        let worst = x
            .iter()
            .zip(&y)
            .map(|(&x, &y)| error(y, want(f64::from(x))))
            .fold(0.0, f64::max);
        // Written so that NaN fails.
        assert!(
            worst <= bar,
            "{op:?} on {}: error {worst:e}, bar {bar:e}",
            isa.name()
        );
    }
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
    check(Unary::Exp, -87.0, 88.7, f64::exp, ulp, 2.0);
    check(Unary::Exp, -103.0, -87.0, f64::exp, absolute, 2e-45);
}

#[test]
fn log_is_within_two_ulp() {
    check(Unary::Log, 1e-3, 4.0, f64::ln, ulp, 2.0);
    check(Unary::Log, 1.0, 1e9, f64::ln, ulp, 2.0);
    check(Unary::Log, 1e-44, 1e-38, f64::ln, ulp, 2.0);
}

#[test]
fn sigmoid_and_tanh_are_within_three_ulp() {
    check(
        Unary::Sigmoid,
        -80.0,
        80.0,
        |x| 1.0 / (1.0 + (-x).exp()),
        ulp,
        3.0,
    );
    check(Unary::Tanh, -12.0, 12.0, f64::tanh, ulp, 3.0);
}

#[test]
fn elu_keeps_relative_precision_near_zero() {
    let elu = |x: f64| if x > 0.0 { x } else { x.exp_m1() };
    check(Unary::Elu { alpha: 1.0 }, -30.0, 1.0, elu, ulp, 2.0);
}

#[test]
fn softplus_is_within_four_ulp() {
    let softplus = |x: f64| if x > 30.0 { x } else { x.exp().ln_1p() };
    check(Unary::Softplus, -80.0, 80.0, softplus, ulp, 4.0);
}

#[test]
fn gelu_by_tanh_keeps_its_precision() {
    let gelu = |x: f64| {
        let u = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044_715 * x * x * x);
        0.5 * x * (1.0 + u.tanh())
    };
    let op = Unary::Gelu { tanh: true };
    check(op, 0.0, 40.0, gelu, ulp, 4.0);
    check(op, -1e6, 0.0, gelu, absolute, 3e-7);
    check(op, -8.0, 0.0, gelu, absolute, 3e-7);
}

#[test]
fn gelu_keeps_its_precision() {
    let gelu = |x: f64| 0.5 * x * libm::erfc(-x * std::f64::consts::FRAC_1_SQRT_2);
    let op = Unary::Gelu { tanh: false };
    check(op, 0.0, 40.0, gelu, ulp, 5.0);
    check(op, 0.0, 1e-3, gelu, ulp, 5.0);
    check(op, -1e6, 0.0, gelu, absolute, 2e-6);
    check(op, -8.0, 0.0, gelu, absolute, 2e-6);
}

#[test]
fn gelu_far_below_zero_is_minus_zero_on_every_instruction_set() {
    for (tanh, cut) in [(false, -5.5), (true, -16.0)] {
        for x in [-1e4, -1e30, f32::MIN, -17.0, f32::next_down(cut)] {
            for isa in Isa::available() {
                let mut y = [x; 20];
                apply(isa, Unary::Gelu { tanh }, &mut y);
                let is_minus_zero = y.iter().all(|y| y.to_bits() == (-0.0f32).to_bits());
                assert!(is_minus_zero, "gelu({x}) on {} is {y:?}", isa.name());
            }
        }
    }
}

#[test]
fn special_values_follow_ieee() {
    let cases: [(Unary, f32, f32); 18] = [
        (Unary::Gelu { tanh: false }, f32::INFINITY, f32::INFINITY),
        // ONNX defines both as a product of x, and minus infinity times 0 is NaN.
        (Unary::Gelu { tanh: false }, f32::NEG_INFINITY, f32::NAN),
        (Unary::Gelu { tanh: false }, f32::NAN, f32::NAN),
        (Unary::Gelu { tanh: true }, f32::INFINITY, f32::INFINITY),
        (Unary::Gelu { tanh: true }, f32::NEG_INFINITY, f32::NAN),
        (Unary::Gelu { tanh: true }, f32::NAN, f32::NAN),
        (Unary::Exp, f32::INFINITY, f32::INFINITY),
        (Unary::Exp, f32::NEG_INFINITY, 0.0),
        (Unary::Exp, f32::NAN, f32::NAN),
        (Unary::Log, 0.0, f32::NEG_INFINITY),
        (Unary::Log, -1.0, f32::NAN),
        (Unary::Log, f32::INFINITY, f32::INFINITY),
        (Unary::Erf, f32::INFINITY, 1.0),
        (Unary::Tanh, f32::NEG_INFINITY, -1.0),
        (Unary::Tanh, f32::NAN, f32::NAN),
        (Unary::Relu, f32::NAN, f32::NAN),
        (Unary::Softplus, 100.0, 100.0),
        (Unary::Erf, 0.0, 0.0),
    ];
    for isa in Isa::available() {
        for (op, x, want) in cases {
            let mut y = [x; 20];
            apply(isa, op, &mut y);
            for got in y {
                let same = got == want || (got.is_nan() && want.is_nan());
                assert!(
                    same || (got - want).abs() < 1e-6,
                    "{op:?}({x}) = {got}, want {want}"
                );
            }
        }
    }
}

#[test]
fn erf_matches_tabulated_values() {
    // Abramowitz and Stegun, table 7.1.
    let table = [
        (0.1, 0.112_462_916),
        (0.5, 0.520_499_878),
        (1.0, 0.842_700_793),
        (2.0, 0.995_322_265),
    ];
    for isa in Isa::available() {
        for (x, want) in table {
            let mut y = [x as f32, -x as f32];
            apply(isa, Unary::Erf, &mut y);
            assert!((f64::from(y[0]) - want).abs() < 4e-7, "erf({x}) = {}", y[0]);
            assert!((f64::from(y[1]) + want).abs() < 4e-7);
        }
    }
}
