//! Elementary functions for 24-bit precision, from basic operations only.
//!
//! ```text
//! sin, cos  x = q pi/2 + r, |r| <= pi/4; minimax polynomials in r^2; quadrant q mod 4 picks and signs
//! atan      reduced to |x| <= tan(pi/8) by atan x = pi/2 - atan 1/x and pi/4 + atan((x-1)/(x+1))
//! exp       x = n ln 2 + r; polynomial in r; times 2^n
//! ```
//!
//! Coefficients: Moshier, Cephes Mathematical Library 2.2, single precision.

use super::number::Real;

/// What takes the bits of a number apart.
pub(super) trait FloatBits: Real {
    /// `2^self`, exact, for an integral `self` in [-126, 127].
    fn power_of_two(self) -> Self;
    /// Sine and cosine of `r + q pi/2` from those of `r`. `self` is `q + 1.5 * 2^23`, whose
    /// lowest bits are those of `q`.
    fn rotate_quarter_turns(self, sin: Self, cos: Self) -> (Self, Self);
}

/// Nearest integer for magnitudes below 2^22: adding 1.5 * 2^23 leaves no fraction bits.
#[inline(always)]
pub(super) fn round<R: Real>(x: R) -> R {
    let magic = R::splat(12_582_912.0);
    (x + magic) - magic
}

#[inline(always)]
pub(super) fn sin_cos<R: FloatBits>(x: R) -> (R, R) {
    let magic = R::splat(12_582_912.0);
    let shifted = x * R::splat(std::f64::consts::FRAC_2_PI) + magic;
    let quarter_turns = shifted - magic;
    // pi/2 in three parts; the first two have so few bits that their products are exact.
    let r = x - quarter_turns * R::splat(1.570_312_5);
    let r = r - quarter_turns * R::splat(4.837_512_969_970_703e-4);
    let r = r - quarter_turns * R::splat(7.549_789_954_891_882e-8);

    let z = r * r;
    let sin = ((R::splat(-1.951_529_589_1e-4) * z + R::splat(8.332_160_873_6e-3)) * z
        + R::splat(-1.666_665_461_1e-1))
        * z
        * r
        + r;
    let cos = ((R::splat(2.443_315_711_809_948e-5) * z + R::splat(-1.388_731_625_493_765e-3)) * z
        + R::splat(4.166_664_568_298_827e-2))
        * z
        * z
        - R::splat(0.5) * z
        + R::one();

    shifted.rotate_quarter_turns(sin, cos)
}

#[inline(always)]
pub(super) fn atan<R: Real>(x: R) -> R {
    let size = x.abs();
    let large = size.gt(R::splat(2.414_213_562_373_095));
    let medium = size.gt(R::splat(0.414_213_562_373_095));
    // One division serves both reductions.
    let numerator = R::select(large, -R::one(), R::select(medium, size - R::one(), size));
    let denominator = R::select(large, size, R::select(medium, size + R::one(), R::one()));
    let offset = R::select(
        large,
        R::splat(std::f64::consts::FRAC_PI_2),
        R::select(medium, R::splat(std::f64::consts::FRAC_PI_4), R::zero()),
    );
    let r = numerator / denominator;
    let z = r * r;
    let positive = offset
        + ((((R::splat(8.053_744_495_38e-2) * z + R::splat(-1.387_768_560_32e-1)) * z
            + R::splat(1.997_771_064_78e-1))
            * z
            + R::splat(-3.333_294_915_39e-1))
            * z
            * r
            + r);
    R::select(x.lt(R::zero()), -positive, positive)
}

#[inline(always)]
pub(super) fn exp<R: FloatBits>(x: R) -> R {
    // NaN stays NaN: clamp() would turn it into the lower bound.
    let limited = R::select(x.lt(R::splat(-87.0)), R::splat(-87.0), x);
    let limited = R::select(limited.gt(R::splat(88.0)), R::splat(88.0), limited);
    let n = round(limited * R::splat(std::f64::consts::LOG2_E));
    let r = limited - n * R::splat(0.693_359_375);
    let r = r - n * R::splat(-2.121_944_40e-4);
    let p = R::splat(1.987_569_150_0e-4);
    let p = p * r + R::splat(1.398_199_950_7e-3);
    let p = p * r + R::splat(8.333_451_907_3e-3);
    let p = p * r + R::splat(4.166_579_589_4e-2);
    let p = p * r + R::splat(1.666_666_545_9e-1);
    let p = p * r + R::splat(5.000_000_120_1e-1);
    (p * r * r + r + R::one()) * n.power_of_two()
}
