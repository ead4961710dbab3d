//! Element functions fast enough for every layer, with stated errors.
//!
//! ```text
//! exp(x) = 2^n * e^r,  n = round(x / ln 2),  |r| <= ln 2 / 2
//! ```
//!
//! Branch-free scalar code that the compiler vectorises inside a [`dispatch!`]ed loop.
//! Errors are measured in the tests against f64 libm over dense samples and stated at
//! each function; a unit (ulp) is that of the f32 result.
//!
//! Coefficients: exp, log and tanh after Cephes (S. Moshier, single precision); erf after
//! the rational approximation used by Eigen (`erf(x) = x P(x^2) / Q(x^2)`, |x| < 4).

use super::simd::{Isa, Simd, dispatch};
use crate::graph::Unary;

/// `e^x`, within 2 ulp; 0 below -104, infinity above 88.73, subnormals kept, NaN stays NaN.
#[inline(always)]
pub(crate) fn exp<S: Simd>(x: f32) -> f32 {
    const LN2_HIGH: f32 = 0.693_359_4;
    const LN2_LOW: f32 = -2.121_944_4e-4;
    let x = if x < -104.0 { -104.0 } else { x };
    let x = if x > 89.0 { 89.0 } else { x };
    // Adding 1.5 * 2^23 leaves the nearest integer in the low bits.
    const MAGIC: f32 = 12_582_912.0;
    let shifted = S::fma_one(x, std::f32::consts::LOG2_E, MAGIC);
    let n = shifted - MAGIC;
    let r = S::fma_one(n, -LN2_HIGH, x);
    let r = S::fma_one(n, -LN2_LOW, r);
    let mut p = 1.987_569_1e-4;
    p = S::fma_one(p, r, 1.398_199_9e-3);
    p = S::fma_one(p, r, 8.333_452e-3);
    p = S::fma_one(p, r, 4.166_579_6e-2);
    p = S::fma_one(p, r, 1.666_666_5e-1);
    p = S::fma_one(p, r, 5.0e-1);
    let y = S::fma_one(p * r, r, r) + 1.0;
    // Two factors, so that results below the normal range round once, at the end.
    let n = shifted.to_bits().wrapping_sub(MAGIC.to_bits()) as i32;
    let half = n >> 1;
    let first = f32::from_bits((half.wrapping_add(127) as u32) << 23);
    let second = f32::from_bits((n.wrapping_sub(half).wrapping_add(127) as u32) << 23);
    y * first * second
}

/// Natural logarithm, within 2 ulp; -infinity at 0, NaN below, infinity stays.
#[inline(always)]
pub(crate) fn log<S: Simd>(x: f32) -> f32 {
    // Subnormals are scaled into the normal range first.
    let tiny = x < f32::MIN_POSITIVE;
    let scaled = if tiny { x * 8_388_608.0 } else { x };
    let bits = scaled.to_bits() as i32;
    // Mantissa in sqrt(1/2)..sqrt(2): exponent counted from there.
    let offset = bits.wrapping_sub(0x3f35_04f3);
    let e = (offset >> 23) as f32 - if tiny { 23.0 } else { 0.0 };
    let m = f32::from_bits(((offset & 0x007f_ffff).wrapping_add(0x3f35_04f3)) as u32) - 1.0;
    let mut p = 7.037_683_6e-2;
    p = S::fma_one(p, m, -1.151_461_1e-1);
    p = S::fma_one(p, m, 1.167_699_9e-1);
    p = S::fma_one(p, m, -1.242_014_1e-1);
    p = S::fma_one(p, m, 1.424_932_3e-1);
    p = S::fma_one(p, m, -1.666_805_7e-1);
    p = S::fma_one(p, m, 2.000_071_5e-1);
    p = S::fma_one(p, m, -2.499_999_4e-1);
    p = S::fma_one(p, m, 3.333_333e-1);
    let square = m * m;
    let tail = S::fma_one(e, -2.121_944_4e-4, p * m * square);
    let y = S::fma_one(-0.5, square, tail) + m;
    let y = S::fma_one(e, 0.693_359_4, y);
    let y = if x == 0.0 { f32::NEG_INFINITY } else { y };
    let y = if x == f32::INFINITY { x } else { y };
    // Written so that NaN takes the first branch.
    if x >= 0.0 { y } else { f32::NAN }
}

/// Error function, within 4e-7 absolute and exact at 0.
#[inline(always)]
pub(crate) fn erf<S: Simd>(x: f32) -> f32 {
    let c = if x > 4.0 { 4.0 } else { x };
    let c = if c < -4.0 { -4.0 } else { c };
    let z = c * c;
    let mut p = -2.726_142_3e-10;
    p = S::fma_one(p, z, 2.770_681_4e-8);
    p = S::fma_one(p, z, -2.101_024e-6);
    p = S::fma_one(p, z, -5.692_506_5e-5);
    p = S::fma_one(p, z, -7.349_906e-4);
    p = S::fma_one(p, z, -2.954_6e-3);
    p = S::fma_one(p, z, -1.609_603_3e-2);
    let mut q = -1.456_607_2e-5;
    q = S::fma_one(q, z, -2.133_740_6e-4);
    q = S::fma_one(q, z, -1.682_827e-3);
    q = S::fma_one(q, z, -7.373_329e-3);
    q = S::fma_one(q, z, -1.426_473_9e-2);
    c * p / q
}

/// Hyperbolic tangent, within 3 ulp.
#[inline(always)]
pub(crate) fn tanh<S: Simd>(x: f32) -> f32 {
    let z = x * x;
    let mut p = -5.704_988_7e-3;
    p = S::fma_one(p, z, 2.063_909e-2);
    p = S::fma_one(p, z, -5.373_971_6e-2);
    p = S::fma_one(p, z, 1.333_144_2e-1);
    p = S::fma_one(p, z, -3.333_328e-1);
    let small = S::fma_one(p * z, x, x);
    let a = x.abs();
    let large = 1.0 - 2.0 / (exp::<S>(2.0 * a) + 1.0);
    if a < 0.625 { small } else { large.copysign(x) }
}

/// `1 / (1 + e^-x)`, within 3 ulp.
#[inline(always)]
pub(crate) fn sigmoid<S: Simd>(x: f32) -> f32 {
    1.0 / (1.0 + exp::<S>(-x))
}

/// `e^x - 1` for x <= 0, within 1e-7 absolute and 4 ulp relative above -0.35.
#[inline(always)]
fn exp_minus_one_negative<S: Simd>(x: f32) -> f32 {
    // Taylor where the subtraction would cancel; the first left-out term is x^9 / 9!.
    let mut p = 2.480_158_7e-5;
    p = S::fma_one(p, x, 1.984_127e-4);
    p = S::fma_one(p, x, 1.388_888_9e-3);
    p = S::fma_one(p, x, 8.333_333e-3);
    p = S::fma_one(p, x, 4.166_666_8e-2);
    p = S::fma_one(p, x, 1.666_666_7e-1);
    p = S::fma_one(p, x, 0.5);
    let small = S::fma_one(p * x, x, x);
    if x > -0.35 { small } else { exp::<S>(x) - 1.0 }
}

/// `log(1 + e^x)`, within 4 ulp.
#[inline(always)]
fn softplus<S: Simd>(x: f32) -> f32 {
    let t = exp::<S>(-x.abs());
    // log1p(t): the rounding of 1 + t is put back to first order.
    let u = 1.0 + t;
    let log1p = log::<S>(u) + (t - (u - 1.0)) / u;
    let positive = if x > 0.0 { x } else { 0.0 };
    if x.is_nan() { x } else { positive + log1p }
}

/// Gaussian error linear unit, `x / 2 * (1 + erf(x / sqrt 2))`.
#[inline(always)]
fn gelu<S: Simd>(x: f32) -> f32 {
    0.5 * x * (1.0 + erf::<S>(x * std::f32::consts::FRAC_1_SQRT_2))
}

#[inline(always)]
fn gelu_tanh<S: Simd>(x: f32) -> f32 {
    const SQRT_2_OVER_PI: f32 = 0.797_884_6;
    let inner = SQRT_2_OVER_PI * S::fma_one(0.044_715 * x * x, x, x);
    0.5 * x * (1.0 + tanh::<S>(inner))
}

#[inline(always)]
fn map<F: Fn(f32) -> f32>(x: &mut [f32], f: F) {
    for v in x {
        *v = f(*v);
    }
}

/// One loop per function, so that each vectorises on its own.
#[inline(always)]
unsafe fn apply_kernel<S: Simd>(op: Unary, x: &mut [f32]) {
    match op {
        Unary::Identity => {}
        Unary::Abs => map(x, f32::abs),
        Unary::Neg => map(x, |v| -v),
        Unary::Sign => map(x, |v| {
            let sign = if v > 0.0 { 1.0 } else { v };
            if v < 0.0 { -1.0 } else { sign }
        }),
        Unary::Floor => map(x, f32::floor),
        Unary::Ceil => map(x, f32::ceil),
        Unary::Round => map(x, f32::round_ties_even),
        Unary::Reciprocal => map(x, |v| 1.0 / v),
        Unary::Sqrt => map(x, f32::sqrt),
        Unary::Exp => map(x, exp::<S>),
        Unary::Log => map(x, log::<S>),
        Unary::Sin => map(x, f32::sin),
        Unary::Cos => map(x, f32::cos),
        Unary::Tan => map(x, f32::tan),
        Unary::Asin => map(x, f32::asin),
        Unary::Acos => map(x, f32::acos),
        Unary::Atan => map(x, f32::atan),
        Unary::Sinh => map(x, f32::sinh),
        Unary::Cosh => map(x, f32::cosh),
        Unary::Asinh => map(x, f32::asinh),
        Unary::Acosh => map(x, f32::acosh),
        Unary::Atanh => map(x, f32::atanh),
        Unary::Erf => map(x, erf::<S>),
        Unary::Not => map(x, |v| f32::from(u8::from(v == 0.0))),
        Unary::IsNaN => map(x, |v| f32::from(u8::from(v.is_nan()))),
        Unary::IsInf => map(x, |v| f32::from(u8::from(v.is_infinite()))),
        Unary::Relu => map(x, |v| if v < 0.0 { 0.0 } else { v }),
        Unary::LeakyRelu { alpha } => map(x, |v| if v < 0.0 { alpha * v } else { v }),
        Unary::ThresholdedRelu { alpha } => map(x, |v| if v > alpha { v } else { 0.0 }),
        Unary::Elu { alpha } => map(x, |v| {
            let low = alpha * exp_minus_one_negative::<S>(if v > 0.0 { 0.0 } else { v });
            if v > 0.0 { v } else { low }
        }),
        Unary::Selu { alpha, gamma } => map(x, |v| {
            let low = alpha * exp_minus_one_negative::<S>(if v > 0.0 { 0.0 } else { v });
            gamma * if v > 0.0 { v } else { low }
        }),
        Unary::Celu { alpha } => map(x, |v| {
            let t = if v > 0.0 { 0.0 } else { v };
            let low = alpha * exp_minus_one_negative::<S>(t / alpha);
            if v > 0.0 { v } else { low }
        }),
        Unary::Sigmoid => map(x, sigmoid::<S>),
        Unary::HardSigmoid { alpha, beta } => map(x, |v| clamp(alpha * v + beta, 0.0, 1.0)),
        Unary::HardSwish => map(x, |v| v * clamp(v / 6.0 + 0.5, 0.0, 1.0)),
        Unary::Tanh => map(x, tanh::<S>),
        Unary::Softplus => map(x, softplus::<S>),
        Unary::Softsign => map(x, |v| v / (1.0 + v.abs())),
        Unary::Mish => map(x, |v| v * tanh::<S>(softplus::<S>(v))),
        Unary::Gelu { tanh: false } => map(x, gelu::<S>),
        Unary::Gelu { tanh: true } => map(x, gelu_tanh::<S>),
        Unary::Swish { alpha } => map(x, |v| v * sigmoid::<S>(alpha * v)),
        Unary::Shrink { lambda, bias } => map(x, |v| {
            let high = if v > lambda { v - bias } else { 0.0 };
            if v < -lambda { v + bias } else { high }
        }),
    }
}

/// `min(max(x, low), high)`; NaN stays.
#[inline(always)]
pub(crate) fn clamp(x: f32, low: f32, high: f32) -> f32 {
    let x = if x < low { low } else { x };
    if x > high { high } else { x }
}

/// Replaces every element of `x` by the function of it.
pub(crate) fn apply(isa: Isa, op: Unary, x: &mut [f32]) {
    // SAFETY: `isa` names a set this processor has.
    unsafe { dispatch!(isa, apply_kernel(op: Unary, x: &mut [f32]) => (op, x)) }
}

#[cfg(test)]
mod tests;
