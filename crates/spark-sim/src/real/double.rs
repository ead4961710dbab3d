//! Sine, cosine and arc tangent in f64, from basic operations only.
//!
//! ```text
//! sin, cos  x = q pi/2 + r, |r| <= pi/4; minimax polynomials in r^2; quadrant q mod 4 picks and signs
//! atan      reduced to |x| <= 0.66 by atan x = pi/2 - atan 1/x and pi/4 + atan((x-1)/(x+1))
//! ```
//!
//! Other road users are computed in f64, and on a GPU as well as here: with these functions in place of the
//! platform's they have the same bits everywhere. Within 2 units in the last place of 1, for angles up to 1e7 rad.
//! Coefficients: Moshier, Cephes Mathematical Library 2.8, double precision. `kernels/doubles.cuh` has the
//! same operations. Deliberately absent: vectors; they are few cars.

/// 1.5 * 2^52: added to a number below 2^51 in size, it leaves no fraction bits.
const NO_FRACTION: f64 = 6_755_399_441_055_744.0;

/// pi/2 in three parts; the first two have so few bits that their products with quarter turns are exact.
const HALF_PI: [f64; 3] = [
    2.0 * 7.853_981_256_484_985e-1,
    2.0 * 3.774_894_707_930_798e-8,
    2.0 * 2.695_151_429_079_059_5e-15,
];

/// Sine and cosine of `x` rad; NaN for what is not finite.
#[inline]
pub(crate) fn sin_cos(x: f64) -> (f64, f64) {
    let quarter_turns = x * std::f64::consts::FRAC_2_PI + NO_FRACTION - NO_FRACTION;
    let r = x - quarter_turns * HALF_PI[0];
    let r = r - quarter_turns * HALF_PI[1];
    let r = r - quarter_turns * HALF_PI[2];
    let z = r * r;
    let p = 1.589_623_015_765_465_7e-10 * z - 2.505_074_776_285_780_7e-8;
    let p = p * z + 2.755_731_362_138_572_2e-6;
    let p = p * z - 1.984_126_982_958_954e-4;
    let p = p * z + 8.333_333_333_322_118e-3;
    let p = p * z - 1.666_666_666_666_663e-1;
    let sin = p * z * r + r;
    let p = -1.135_853_652_138_768_2e-11 * z + 2.087_570_084_197_473e-9;
    let p = p * z - 2.755_731_417_929_674e-7;
    let p = p * z + 2.480_158_728_885_170_5e-5;
    let p = p * z - 1.388_888_888_887_305_6e-3;
    let p = p * z + 4.166_666_666_666_659_5e-2;
    let cos = p * z * z - 0.5 * z + 1.0;

    let q = quarter_turns as i32;
    let (s, c) = if q & 1 != 0 { (cos, sin) } else { (sin, cos) };
    (
        if q & 2 != 0 { -s } else { s },
        if q.wrapping_add(1) & 2 != 0 { -c } else { c },
    )
}

/// Arc tangent, rad.
#[inline]
pub(crate) fn atan(x: f64) -> f64 {
    let size = x.abs();
    let large = size > 2.414_213_562_373_095;
    let medium = size > 0.66;
    // One division serves both reductions.
    let numerator = if large {
        -1.0
    } else if medium {
        size - 1.0
    } else {
        size
    };
    let denominator = if large {
        size
    } else if medium {
        size + 1.0
    } else {
        1.0
    };
    let r = numerator / denominator;
    let z = r * r;
    let p = -8.750_608_600_031_904e-1 * z - 1.615_753_718_733_365_2e1;
    let p = p * z - 7.500_855_792_314_705e1;
    let p = p * z - 1.228_866_684_490_136_1e2;
    let p = p * z - 6.485_021_904_942_025e1;
    let q = z + 2.485_846_490_142_306_3e1;
    let q = q * z + 1.650_270_098_316_988_6e2;
    let q = q * z + 4.328_810_604_912_902_7e2;
    let q = q * z + 4.853_903_996_359_137e2;
    let q = q * z + 1.945_506_571_482_614e2;
    // What pi/2 and pi/4 lack in f64.
    let rest = if large {
        6.123_233_995_736_766e-17
    } else if medium {
        3.061_616_997_868_383e-17
    } else {
        0.0
    };
    let offset = if large {
        std::f64::consts::FRAC_PI_2
    } else if medium {
        std::f64::consts::FRAC_PI_4
    } else {
        0.0
    };
    let positive = offset + (r * (z * p / q) + r + rest);
    if x < 0.0 { -positive } else { positive }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Philox;

    #[test]
    fn agrees_with_the_standard_library_to_two_units_in_the_last_place_of_one() {
        let mut random = Philox::new(11, 0);
        let close = |got: f64, want: f64| (got - want).abs() <= 2.0 * f64::EPSILON;
        for i in 0..200_000 {
            let reach = [0.1, 1.0, 10.0, 1e3, 1e7][i % 5];
            let x = random.next_in(-reach, reach);
            let (sin, cos) = sin_cos(x);
            assert!(close(sin, x.sin()) && close(cos, x.cos()), "{x}");
            assert!(close(atan(x), x.atan()), "{x}");
        }
    }

    #[test]
    fn small_angles_keep_their_relative_precision() {
        for exponent in 1..300 {
            let x = 0.3_f64.powi(exponent);
            for (got, want) in [(sin_cos(x).0, x.sin()), (atan(x), x.atan())] {
                assert!((got - want).abs() <= 2.0 * f64::EPSILON * want, "{x}");
            }
        }
    }

    #[test]
    fn quarter_turns_and_limits() {
        use std::f64::consts::{FRAC_PI_2, FRAC_PI_4, PI};
        assert_eq!(sin_cos(0.0), (0.0, 1.0));
        assert_eq!(sin_cos(PI).1, -1.0);
        assert_eq!(sin_cos(FRAC_PI_2).0, 1.0);
        assert_eq!(sin_cos(-FRAC_PI_2).0, -1.0);
        assert_eq!(atan(1.0), FRAC_PI_4);
        assert_eq!(atan(f64::INFINITY), FRAC_PI_2);
        assert_eq!(atan(f64::NEG_INFINITY), -FRAC_PI_2);
        for not_finite in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            let (sin, cos) = sin_cos(not_finite);
            assert!(sin.is_nan() && cos.is_nan());
        }
        assert!(atan(f64::NAN).is_nan());
    }
}
