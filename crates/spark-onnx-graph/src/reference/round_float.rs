//! Rounding to floats of 8 bits and fewer.

use super::numbers::from_floats;
use super::operator::{Evaluate, Evaluated, Inputs, Working, one};
use crate::graph::{RoundFloat, SmallFloat, TensorType};

impl Evaluate for RoundFloat {
    fn evaluate(&self, inputs: Inputs<'_>, types: &[TensorType]) -> Evaluated {
        one(types, |ty| {
            let values = inputs.get(0)?.to_f64().into_iter();
            from_floats(ty, values.map(|x| rounded(x, *self)).collect())
        })
    }

    fn working_bytes(&self, working: &Working<'_>) -> usize {
        working.computed()
    }
}

/// Digits of the fraction, least exponent of a normal number, largest number.
fn limits(format: SmallFloat) -> (i32, i32, f64) {
    match format {
        SmallFloat::E4M3FN => (3, -6, 448.0),
        SmallFloat::E4M3FNUZ => (3, -7, 240.0),
        SmallFloat::E5M2 => (2, -14, 57344.0),
        SmallFloat::E5M2FNUZ => (2, -15, 57344.0),
        SmallFloat::E2M1 => (1, 0, 6.0),
    }
}

/// The multiple of the format's steps that is nearest to `x`, which may be beyond its largest number.
fn nearest_multiple(x: f64, format: SmallFloat) -> f64 {
    let (digits, least_exponent, _) = limits(format);
    let exponent = (x.to_bits() >> 52 & 0x7ff) as i32 - 1023;
    let step = 2f64.powi(exponent.clamp(least_exponent, 1000) - digits);
    (x / step).round_ties_even() * step
}

/// The bound of what rounds to a number of the format, and whether it is within itself: half a step beyond the largest
/// number lies a tie, which goes to that number if its last bit is even.
pub(crate) fn rounds_within(format: SmallFloat) -> (f64, bool) {
    let (digits, _, largest) = limits(format);
    let step = 2f64.powi(largest.log2().floor() as i32 - digits);
    (largest + step / 2.0, largest / step % 2.0 == 0.0)
}

/// Whether `x` rounds to a number of the format.
pub(super) fn is_within(x: f64, format: SmallFloat) -> bool {
    nearest_multiple(x, format).abs() <= limits(format).2
}

/// `x` rounded to the format, from its definition: the numbers of an exponent `e` are multiples of
/// `2^(e - digits of the fraction)`.
pub(super) fn rounded(x: f64, RoundFloat { format, saturate }: RoundFloat) -> f64 {
    let (_, _, largest) = limits(format);
    let keeps_sign = !matches!(format, SmallFloat::E4M3FNUZ | SmallFloat::E5M2FNUZ);
    if x.is_nan() {
        return if format == SmallFloat::E2M1 {
            largest
        } else {
            x
        };
    }
    let nearest = nearest_multiple(x, format);
    if nearest.abs() > largest {
        return match format {
            _ if saturate || format == SmallFloat::E2M1 => largest.copysign(x),
            SmallFloat::E5M2 => f64::INFINITY.copysign(x),
            _ => f64::NAN,
        };
    }
    if nearest == 0.0 && !keeps_sign {
        0.0
    } else {
        nearest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORMATS: [SmallFloat; 5] = [
        SmallFloat::E4M3FN,
        SmallFloat::E4M3FNUZ,
        SmallFloat::E5M2,
        SmallFloat::E5M2FNUZ,
        SmallFloat::E2M1,
    ];

    fn to(format: SmallFloat, saturate: bool, x: f64) -> f64 {
        rounded(x, RoundFloat { format, saturate })
    }

    /// Every number of a format at or above 0, in order.
    fn numbers(format: SmallFloat) -> Vec<f64> {
        let (digits, least, largest) = match format {
            SmallFloat::E4M3FN => (3, -6, 448.0),
            SmallFloat::E4M3FNUZ => (3, -7, 240.0),
            SmallFloat::E5M2 => (2, -14, 57344.0),
            SmallFloat::E5M2FNUZ => (2, -15, 57344.0),
            SmallFloat::E2M1 => (1, 0, 6.0),
        };
        let n = 1 << digits;
        let of = |exponent: i32, i: i32| f64::from(i) * 2f64.powi(exponent - digits);
        let subnormal = (0..n).map(|i| of(least, i));
        let normal = (least..16).flat_map(|e| (n..2 * n).map(move |i| of(e, i)));
        subnormal.chain(normal).filter(|&v| v <= largest).collect()
    }

    #[test]
    fn every_number_stays_and_every_tie_goes_to_the_even_one() {
        for format in FORMATS {
            let numbers = numbers(format);
            for (i, pair) in numbers.windows(2).enumerate() {
                let tie = (pair[0] + pair[1]) / 2.0;
                let even = pair[i % 2];
                for sign in [1.0, -1.0] {
                    assert_eq!(
                        to(format, true, sign * pair[0]),
                        sign * pair[0],
                        "{format:?}"
                    );
                    assert_eq!(
                        to(format, true, sign * tie),
                        sign * even,
                        "{format:?} {tie}"
                    );
                    let (below, above) = (tie * (1.0 - 1e-12), tie * (1.0 + 1e-12));
                    assert_eq!(to(format, true, sign * below), sign * pair[0], "{format:?}");
                    assert_eq!(to(format, true, sign * above), sign * pair[1], "{format:?}");
                }
            }
        }
    }

    #[test]
    fn what_is_too_large_is_the_largest_or_what_the_format_has_for_it() {
        for x in [f64::INFINITY, 1e300, 1e6] {
            assert_eq!(to(SmallFloat::E4M3FN, true, x), 448.0);
            assert_eq!(to(SmallFloat::E5M2, true, -x), -57344.0);
            assert!(to(SmallFloat::E4M3FN, false, x).is_nan());
            assert!(to(SmallFloat::E5M2FNUZ, false, x).is_nan());
            assert_eq!(to(SmallFloat::E5M2, false, -x), f64::NEG_INFINITY);
            assert_eq!(to(SmallFloat::E2M1, false, -x), -6.0);
        }
        // 464 is halfway to 480, which the format does not have.
        assert_eq!(to(SmallFloat::E4M3FN, false, 464.0), 448.0);
        assert!(to(SmallFloat::E4M3FN, false, 465.0).is_nan());
    }

    #[test]
    fn zeros_keep_their_sign_where_there_are_two() {
        for format in FORMATS {
            let one_zero = matches!(format, SmallFloat::E4M3FNUZ | SmallFloat::E5M2FNUZ);
            for x in [-0.0, -1e-30] {
                let zero = to(format, true, x);
                assert_eq!(
                    (zero, zero.is_sign_negative()),
                    (0.0, !one_zero),
                    "{format:?}"
                );
            }
            let nan = to(format, true, f64::NAN);
            assert!(nan.is_nan() || format == SmallFloat::E2M1);
        }
    }
}
