//! Element functions of whole vectors, with stated errors.
//!
//! ```text
//! exp(x) = 2^n * e^r,  n = round(x / ln 2),  |r| <= ln 2 / 2
//! ```
//!
//! They have no branches, but for the logarithm, which goes lane by lane. Errors are measured in the
//! tests against f64 libm over dense samples and stated at each function; a unit (ulp) is that of the
//! f32 result. Lanes do not see each other, so a result does not depend on where in a row it stands.
//!
//! Coefficients: `e^r` by a Remez exchange for the relative error; `e^r - 1`, log and tanh after
//! Cephes (S. Moshier, single precision); erf after the rational approximation used by Eigen
//! (`erf(x) = x P(x^2) / Q(x^2)`, |x| < 4); GELU as said there.

#![allow(
    unsafe_code,
    reason = "vectors of an instruction set that the caller's processor has"
)]

use crate::vector::Simd;

/// `c[0] z^(n-1) + ... + c[n-1]`.
///
/// # Safety
///
/// The processor must have the instruction set.
#[inline(always)]
pub unsafe fn polynomial<S: Simd, const N: usize>(z: S::V, c: [f32; N]) -> S::V {
    // SAFETY: the caller's processor has the instruction set.
    unsafe {
        let mut p = S::splat(c[0]);
        for &next in &c[1..] {
            p = S::fma(p, z, S::splat(next));
        }
        p
    }
}

/// `-v`, also of zero.
///
/// # Safety
///
/// The processor must have the instruction set.
#[inline(always)]
pub unsafe fn negate<S: Simd>(v: S::V) -> S::V {
    // SAFETY: guaranteed by the caller.
    unsafe { S::mul(v, S::splat(-1.0)) }
}

/// `max(v, 0)`; NaN stays.
///
/// # Safety
///
/// The processor must have the instruction set.
#[inline(always)]
pub unsafe fn positive<S: Simd>(v: S::V) -> S::V {
    // SAFETY: guaranteed by the caller.
    unsafe { S::max(S::splat(0.0), v) }
}

/// `min(max(v, low), high)`; NaN stays.
///
/// # Safety
///
/// The processor must have the instruction set.
#[inline(always)]
pub unsafe fn within<S: Simd>(v: S::V, low: f32, high: f32) -> S::V {
    // The bound first: `max` and `min` give the second operand for NaN.
    // SAFETY: guaranteed by the caller.
    unsafe { S::min(S::splat(high), S::max(S::splat(low), v)) }
}

/// Adding 1.5 * 2^23 leaves the nearest integer in the low bits.
const MAGIC: f32 = 12_582_912.0;

/// The `n` of `x = n ln 2 + r` with the smallest `r`.
#[inline(always)]
unsafe fn nearest_power<S: Simd>(x: S::V) -> S::V {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let magic = S::splat(MAGIC);
        S::sub(S::fma(x, S::splat(std::f32::consts::LOG2_E), magic), magic)
    }
}

/// `e^r - 1` for |r| <= ln 2 / 2, within 2 ulp.
#[inline(always)]
unsafe fn exp_minus_one_small<S: Simd>(r: S::V) -> S::V {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let p = polynomial::<S, 6>(
            r,
            [
                1.987_569_1e-4,
                1.398_199_9e-3,
                8.333_452e-3,
                4.166_579_6e-2,
                1.666_666_5e-1,
                5.0e-1,
            ],
        );
        S::fma(S::mul(p, r), r, r)
    }
}

/// [`exp`] of what is known to lie in -104..=89, or to be NaN.
///
/// # Safety
///
/// The processor must have the instruction set.
#[inline(always)]
pub unsafe fn exp_bounded<S: Simd>(x: S::V) -> S::V {
    // SAFETY: guaranteed by the caller; the bounds keep `n` in the range of `scale`.
    unsafe {
        let n = nearest_power::<S>(x);
        let r = S::fma(n, S::splat(-0.693_359_4), x);
        let r = S::fma(n, S::splat(2.121_944_4e-4), r);
        // Relative error of the polynomial itself: 2.6e-9.
        let p = polynomial::<S, 7>(
            r,
            [
                1.406_127_6e-3,
                8.379_021e-3,
                4.166_477_5e-2,
                1.666_636_5e-1,
                5.000_000_6e-1,
                1.0,
                1.0,
            ],
        );
        S::scale(p, n)
    }
}

/// `e^x`, within 2 ulp; 0 below -104, infinity above 88.73, subnormals kept, NaN stays NaN.
///
/// # Safety
///
/// The processor must have the instruction set.
#[inline(always)]
pub unsafe fn exp<S: Simd>(x: S::V) -> S::V {
    // SAFETY: guaranteed by the caller.
    unsafe { exp_bounded::<S>(within::<S>(x, -104.0, 89.0)) }
}

/// Natural logarithm, within 2 ulp; -infinity at 0, NaN below, infinity stays.
///
/// # Safety
///
/// The processor must have the instruction set.
#[inline(always)]
pub unsafe fn log<S: Simd>(v: S::V) -> S::V {
    let mut lanes = [0.0f32; 16];
    // SAFETY: guaranteed by the caller; no vector has more than 16 lanes.
    unsafe {
        S::store(lanes.as_mut_ptr(), v);
        for lane in &mut lanes[..S::LANES] {
            *lane = log_one::<S>(*lane);
        }
        S::load(lanes.as_ptr())
    }
}

/// [`log`] of one element.
#[inline(always)]
fn log_one<S: Simd>(x: f32) -> f32 {
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
///
/// # Safety
///
/// The processor must have the instruction set.
#[inline(always)]
pub unsafe fn erf<S: Simd>(x: S::V) -> S::V {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let c = within::<S>(x, -4.0, 4.0);
        let z = S::mul(c, c);
        let p = polynomial::<S, 7>(
            z,
            [
                -2.726_142_3e-10,
                2.770_681_4e-8,
                -2.101_024e-6,
                -5.692_506_5e-5,
                -7.349_906e-4,
                -2.954_6e-3,
                -1.609_603_3e-2,
            ],
        );
        let q = polynomial::<S, 5>(
            z,
            [
                -1.456_607_2e-5,
                -2.133_740_6e-4,
                -1.682_827e-3,
                -7.373_329e-3,
                -1.426_473_9e-2,
            ],
        );
        S::mul(S::mul(c, p), S::reciprocal(q))
    }
}

/// Hyperbolic tangent, within 3 ulp.
///
/// # Safety
///
/// The processor must have the instruction set.
#[inline(always)]
pub unsafe fn tanh<S: Simd>(x: S::V) -> S::V {
    // SAFETY: guaranteed by the caller. Beyond 10 the result is 1 to the last bit.
    unsafe {
        let one = S::splat(1.0);
        let z = S::mul(x, x);
        let p = polynomial::<S, 5>(
            z,
            [
                -5.704_988_7e-3,
                2.063_909e-2,
                -5.373_971_6e-2,
                1.333_144_2e-1,
                -3.333_328e-1,
            ],
        );
        let small = S::fma(S::mul(p, z), x, x);
        let a = S::max(x, negate::<S>(x));
        let e = exp::<S>(S::mul(S::splat(2.0), within::<S>(a, 0.0, 10.0)));
        let large = S::fma(S::splat(-2.0), S::reciprocal(S::add(e, one)), one);
        let large = S::select_less(x, S::splat(0.0), negate::<S>(large), large);
        S::select_less(a, S::splat(0.625), small, large)
    }
}

/// `1 / (1 + e^-x)`, within 4 ulp; below -87 it stays at 1.6e-38.
///
/// `e^-x = 2^-n e^-r` with `x = n ln 2 + r`. The power is added to 1 or more than that, so that a shorter polynomial than that
/// of [`exp`] will do: its relative error is 9.2e-8.
///
/// # Safety
///
/// The processor must have the instruction set.
#[inline(always)]
pub unsafe fn sigmoid<S: Simd>(x: S::V) -> S::V {
    // SAFETY: guaranteed by the caller.
    unsafe { sigmoid_bounded::<S>(within::<S>(x, -87.0, 87.0)) }
}

/// `x / (1 + e^-x)`, within 4 ulp; below -87 it stays at -1.4e-36.
///
/// # Safety
///
/// The processor must have the instruction set.
#[inline(always)]
pub unsafe fn swish<S: Simd>(x: S::V) -> S::V {
    // SAFETY: guaranteed by the caller.
    unsafe {
        // The bound first, as in `within`.
        let x = S::max(S::splat(-87.0), x);
        S::mul(x, sigmoid_bounded::<S>(S::min(S::splat(87.0), x)))
    }
}

/// [`sigmoid`] of what is known to lie in -87..=87, or to be NaN.
#[inline(always)]
unsafe fn sigmoid_bounded<S: Simd>(x: S::V) -> S::V {
    // SAFETY: guaranteed by the caller. The bounds keep the reciprocal a normal number.
    unsafe {
        let magic = S::splat(MAGIC);
        let shifted = S::fma(x, S::splat(std::f32::consts::LOG2_E), magic);
        let n = S::sub(shifted, magic);
        let r = S::fma(n, S::splat(-0.693_359_4), x);
        let r = S::fma(n, S::splat(2.121_944_4e-4), r);
        let p = polynomial::<S, 6>(
            r,
            [
                -8.290_307e-3,
                4.189_797_5e-2,
                -1.666_763_7e-1,
                4.999_915e-1,
                -9.999_997e-1,
                1.0,
            ],
        );
        let power = S::scale(p, S::sub(magic, shifted));
        S::reciprocal(S::add(S::splat(1.0), power))
    }
}

/// `e^x - 1` for x <= 0, within 2 ulp; NaN stays.
///
/// `e^x - 1 = 2^n (e^r - 1) + (2^n - 1)`: nothing cancels, as `e^r - 1` keeps its relative
/// precision and stands alone where `n` is zero.
///
/// # Safety
///
/// The processor must have the instruction set.
#[inline(always)]
pub unsafe fn exp_minus_one_negative<S: Simd>(x: S::V) -> S::V {
    // SAFETY: guaranteed by the caller; the bound keeps `n` in the range of `scale`, and gives -1 to the last bit.
    unsafe {
        let x = S::max(S::splat(-18.0), x);
        let n = nearest_power::<S>(x);
        // With |n| <= 26 one constant for ln 2 is near enough: it errs by 2e-9.
        let r = S::fma(n, S::splat(-std::f32::consts::LN_2), x);
        let power = S::scale(S::splat(1.0), n);
        let small = exp_minus_one_small::<S>(r);
        S::fma(power, small, S::sub(power, S::splat(1.0)))
    }
}

/// `alpha (e^x - 1)` below zero, `x` above; NaN stays.
///
/// # Safety
///
/// The processor must have the instruction set.
#[inline(always)]
pub unsafe fn elu<S: Simd>(x: S::V, alpha: f32) -> S::V {
    // SAFETY: guaranteed by the caller.
    unsafe { elu_of::<S>(x, S::min(S::splat(0.0), x), alpha) }
}

/// `e^x - 1` below zero, `x` above; NaN stays.
///
/// # Safety
///
/// The processor must have the instruction set.
#[inline(always)]
pub unsafe fn elu_one<S: Simd>(x: S::V) -> S::V {
    // SAFETY: guaranteed by the caller.
    unsafe {
        // `e^x - 1` is nowhere below `x`, and 0 where `x` is above.
        let low = exp_minus_one_negative::<S>(S::min(S::splat(0.0), x));
        S::max(low, x)
    }
}

/// `alpha (e^below - 1)` where `x` is below zero, `x` above; NaN stays.
#[inline(always)]
unsafe fn elu_of<S: Simd>(x: S::V, below: S::V, alpha: f32) -> S::V {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let low = S::mul(S::splat(alpha), exp_minus_one_negative::<S>(below));
        S::select_less(S::splat(0.0), x, x, low)
    }
}

/// `alpha (e^(x / alpha) - 1)` below zero, `x` above; NaN stays.
///
/// # Safety
///
/// The processor must have the instruction set.
#[inline(always)]
pub unsafe fn celu<S: Simd>(x: S::V, alpha: f32) -> S::V {
    // SAFETY: guaranteed by the caller.
    unsafe {
        // One reciprocal for all vectors rather than a division for each.
        let below = S::mul(S::min(S::splat(0.0), x), S::reciprocal(S::splat(alpha)));
        elu_of::<S>(x, below, alpha)
    }
}

/// `log(1 + e^x)`, within 4 ulp.
///
/// # Safety
///
/// The processor must have the instruction set.
#[inline(always)]
pub unsafe fn softplus<S: Simd>(x: S::V) -> S::V {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let one = S::splat(1.0);
        let t = exp::<S>(S::min(x, negate::<S>(x)));
        // log1p(t): the rounding of 1 + t is put back to first order.
        let u = S::add(one, t);
        let lost = S::sub(t, S::sub(u, one));
        let log1p = S::fma(lost, S::reciprocal(u), log::<S>(u));
        S::add(positive::<S>(x), log1p)
    }
}

/// Gaussian error linear unit, `x / 2 * (1 + erf(x / sqrt 2))`, within 5 ulp above zero, 2e-6
/// below, and -0 below -5.5.
///
/// The normal distribution is `1/2 + x P(x^2) / Q(x^2)`, with an error of 1.1e-7 for |x| < 5.5: without
/// the scales of the error function's argument and result. Coefficients by Lawson's iteration for
/// the absolute error.
///
/// # Safety
///
/// The processor must have the instruction set.
#[inline(always)]
pub unsafe fn gelu<S: Simd>(x: S::V) -> S::V {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let c = S::min(S::splat(5.5), x);
        let z = S::mul(c, c);
        let p = polynomial::<S, 5>(
            z,
            [
                7.350_394_3e-6,
                4.096_484_6e-4,
                6.145_558_3e-3,
                5.816_435e-2,
                3.989_415_8e-1,
            ],
        );
        let q = polynomial::<S, 6>(
            z,
            [
                6.037_467_4e-7,
                1.471_339_2e-4,
                3.258_651_4e-3,
                4.250_003_4e-2,
                3.124_518_5e-1,
                1.0,
            ],
        );
        let share = S::fma(S::mul(c, p), S::reciprocal(q), S::splat(0.5));
        // Below -5.5, where this share means nothing, the result is 0 but for 1.1e-7; of minus
        // infinity it is NaN, as ONNX defines it.
        S::mul(x, S::zero_below(x, S::splat(-5.5), share))
    }
}

/// The same with `tanh(sqrt(2 / pi) (x + 0.044715 x^3))` for the error function, within 4 ulp
/// above zero, 3e-7 below, and -0 below -16.
///
/// `(1 + tanh u) / 2 = 1 / (1 + e^(-2 u))` takes half the operations and cancels nothing, and `-2 u / ln 2` is the exponent of two.
///
/// # Safety
///
/// The processor must have the instruction set.
#[inline(always)]
pub unsafe fn gelu_tanh<S: Simd>(x: S::V) -> S::V {
    // -2 sqrt(2 / pi) / ln 2, and 0.044715 times that.
    const LINEAR: f32 = -2.302_208_2;
    const CUBIC: f32 = -0.102_943_24;
    // SAFETY: guaranteed by the caller; the bounds keep the power and the reciprocal normal numbers.
    unsafe {
        let factor = S::fma(S::mul(x, x), S::splat(CUBIC), S::splat(LINEAR));
        let exponent = within::<S>(S::mul(x, factor), -125.0, 125.0);
        let magic = S::splat(MAGIC);
        let n = S::sub(S::add(exponent, magic), magic);
        let power = S::scale(exp2_small::<S>(S::sub(exponent, n)), n);
        let share = S::reciprocal(S::add(S::splat(1.0), power));
        // Below, the result is 0 but for 3e-37; of minus infinity it is NaN, as ONNX defines it.
        S::mul(x, S::zero_below(x, S::splat(-16.0), share))
    }
}

/// `2^r` for |r| <= 1/2, within 1 ulp; 1 where `r` is 0.
///
/// Coefficients by a Remez exchange for the relative error: 9.7e-8.
///
/// # Safety
///
/// The processor must have the instruction set.
#[inline(always)]
pub unsafe fn exp2_small<S: Simd>(r: S::V) -> S::V {
    // SAFETY: guaranteed by the caller.
    unsafe {
        polynomial::<S, 6>(
            r,
            [
                1.327_948_9e-3,
                9.670_749e-3,
                5.550_661e-2,
                2.402_225_9e-1,
                6.931_470_6e-1,
                1.0,
            ],
        )
    }
}

/// `x` times `x / 6 + 1 / 2` within 0 and 1.
///
/// # Safety
///
/// The processor must have the instruction set.
#[inline(always)]
pub unsafe fn hard_swish<S: Simd>(x: S::V) -> S::V {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let gate = S::fma(x, S::splat(1.0 / 6.0), S::splat(0.5));
        S::mul(x, within::<S>(gate, 0.0, 1.0))
    }
}

#[cfg(test)]
mod tests;
