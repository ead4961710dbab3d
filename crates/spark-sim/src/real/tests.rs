//! Vectors against single lanes bit for bit, and elementary functions against f64.

use super::dispatch::dispatch_at;
use super::*;
#[cfg(target_arch = "x86_64")]
use spark_simd::Proof;

/// Applies every function of [`Real`] to a column and keeps each answer's bits.
struct Everything<'a> {
    x: &'a [f32],
    y: &'a [f32],
    out: &'a mut [Vec<f32>],
}

impl Kernel for Everything<'_> {
    type Elem = f32;
    type Output = ();
    #[inline(always)]
    fn run<L: Lanes<Elem = f32>>(self) {
        for i in (0..self.x.len()).step_by(L::N) {
            let (x, y) = (L::load(self.x, i), L::load(self.y, i));
            let (sin, cos) = x.sin_cos();
            let answers = [
                x + y,
                x - y,
                x * y,
                x / y,
                -x,
                x.abs().sqrt(),
                x.abs(),
                x.round(),
                sin,
                cos,
                x.tan(),
                x.atan(),
                x.exp(),
                x.tanh(),
                x.minimum(y),
                x.maximum(y),
                x.clamp(-L::one(), y),
                L::select(x.le(y) & !y.lt(L::zero()) | x.gt(L::one()), x, y),
            ];
            for (column, answer) in self.out.iter_mut().zip(answers) {
                answer.store(column, i);
            }
        }
    }
}

fn inputs() -> (Vec<f32>, Vec<f32>) {
    let n = 4096;
    let special = [
        0.0,
        -0.0,
        f32::NAN,
        f32::INFINITY,
        f32::NEG_INFINITY,
        1e-40,
        3.4e38,
    ];
    let mut x: Vec<f32> = (0..n).map(|i| (i as f32 - 2048.0) * 0.017_3).collect();
    let mut y: Vec<f32> = (0..n)
        .map(|i| ((i * 37 % 101) as f32 - 50.0) * 0.11)
        .collect();
    for (i, value) in special.into_iter().enumerate() {
        x[i] = value;
        y[64 + i] = value;
    }
    (x, y)
}

fn evaluate(isa: Isa) -> Vec<Vec<f32>> {
    let (x, y) = inputs();
    let mut out = vec![vec![0.0; x.len()]; 18];
    let kernel = Everything {
        x: &x,
        y: &y,
        out: &mut out,
    };
    dispatch_at(isa, kernel);
    out
}

#[test]
fn every_vector_width_gives_the_bits_of_one_lane() {
    let scalar = evaluate(Isa::portable());
    for isa in Isa::available() {
        let wide = evaluate(isa);
        for (function, (got, want)) in wide.iter().zip(&scalar).enumerate() {
            for (i, (g, w)) in got.iter().zip(want).enumerate() {
                let same = g.to_bits() == w.to_bits() || (g.is_nan() && w.is_nan());
                assert!(same, "{isa}, function {function}, input {i}: {g} != {w}");
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[test]
#[allow(clippy::print_stdout, reason = "a test that is skipped says so")]
fn a_pair_of_registers_gives_the_bits_of_one_lane() {
    let Proof::Avx512(avx512) = Isa::detect().proof() else {
        println!("skipped: this CPU has no AVX-512, and only there are pairs used");
        return;
    };
    let scalar = evaluate(Isa::portable());
    let (x, y) = inputs();
    let mut pairs = vec![vec![0.0; x.len()]; scalar.len()];
    let kernel = Everything {
        x: &x,
        y: &y,
        out: &mut pairs,
    };
    super::dispatch::run_avx512_pairs(avx512, kernel);
    for (function, (got, want)) in pairs.iter().zip(&scalar).enumerate() {
        for (i, (g, w)) in got.iter().zip(want).enumerate() {
            let same = g.to_bits() == w.to_bits() || (g.is_nan() && w.is_nan());
            assert!(same, "function {function}, input {i}: {g} != {w}");
        }
    }
}

#[track_caller]
fn check_against_f64(
    name: &str,
    fast: fn(f32) -> f32,
    exact: fn(f64) -> f64,
    range: f64,
    abs: f64,
    rel: f64,
) {
    let n = 200_000;
    for i in 0..=n {
        let x = (range * (2.0 * f64::from(i) / f64::from(n) - 1.0)) as f32;
        let (got, want) = (f64::from(fast(x)), exact(f64::from(x)));
        let inside = (got - want).abs() <= abs + rel * want.abs();
        assert!(inside, "{name}({x}) = {got}, expected {want}");
    }
}

#[test]
fn polynomials_are_as_close_as_documented() {
    check_against_f64("sin", |x| Real::sin_cos(x).0, f64::sin, 20.0, 1.2e-7, 0.0);
    check_against_f64("cos", |x| Real::sin_cos(x).1, f64::cos, 20.0, 1.2e-7, 0.0);
    check_against_f64("sin", |x| Real::sin_cos(x).0, f64::sin, 1000.0, 2e-7, 0.0);
    check_against_f64("cos", |x| Real::sin_cos(x).1, f64::cos, 1000.0, 2e-7, 0.0);
    check_against_f64("tan", Real::tan, f64::tan, 1.2, 0.0, 4e-7);
    check_against_f64("atan", Real::atan, f64::atan, 30.0, 0.0, 2.4e-7);
    check_against_f64("exp", Real::exp, f64::exp, 80.0, 0.0, 4e-7);
    check_against_f64("tanh", Real::tanh, f64::tanh, 12.0, 2e-7, 0.0);
}

#[test]
fn nan_stays_nan_in_elementary_functions() {
    let nan = f32::NAN;
    assert!(Real::sin_cos(nan).0.is_nan());
    assert!(Real::atan(nan).is_nan());
    assert!(Real::exp(nan).is_nan());
    assert!(Real::tanh(nan).is_nan());
}
