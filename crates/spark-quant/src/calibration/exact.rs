//! Sums without rounding: a fixed-point number that is wide enough for every square of an f32.
//!
//! ```text
//! limb    9                              ...      1        0
//! bits    2^342 (sign) ...................... 2^-170 .. 2^-298      two's complement
//!                                                          ^ square of the smallest f32
//! ```
//!
//! Additions of integers are associative, so the sum does not depend on the order of its terms, on how they
//! are cut into chunks, or on which accumulators are merged. It is rounded once, when it is read.
//!
//! Source: Kulisch and Miranker, *The Arithmetic of the Digital Computer* (1986); Neal, *Fast exact
//! summation using small and large superaccumulators* (arXiv 1505.05571).

/// Limbs of 64 bits.
const LIMBS: usize = 10;
/// Exponent of the lowest bit: that of the square of the smallest f32.
const LOW: i32 = -298;

/// An exact sum of up to `2^64` numbers that are multiples of `2^-298` and below `2^256` in magnitude.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub(super) struct ExactSum([u64; LIMBS]);

impl ExactSum {
    pub(super) const ZERO: Self = Self([0; LIMBS]);

    /// Adds a finite number, exactly. It must be a multiple of `2^-298` and of magnitude below `2^320`.
    pub(super) fn add(&mut self, value: f64) {
        let bits = value.to_bits();
        let field = (bits >> 52 & 0x7FF) as i32;
        let fraction = bits & ((1 << 52) - 1);
        // Every f64 here is zero or far above the subnormals, which the implied bit would be wrong for.
        let (mut mantissa, exponent) = match field {
            0 => return,
            _ => (fraction | 1 << 52, field - 1075),
        };
        let mut shift = exponent - LOW;
        if shift < 0 {
            // The number is a multiple of the lowest bit, so that these bits are zero.
            mantissa >>= (-shift).min(63);
            shift = 0;
        }
        let (limb, shift) = (shift as usize / 64, shift as u32 % 64);
        let wide = u128::from(mantissa) << shift;
        self.add_at(limb, [wide as u64, (wide >> 64) as u64], value < 0.0);
    }

    fn add_at(&mut self, first: usize, parts: [u64; 2], negative: bool) {
        let mut carry = false;
        for (index, limb) in self.0.iter_mut().enumerate().skip(first) {
            let part = parts.get(index - first).copied();
            if part.is_none() && !carry {
                break;
            }
            let part = part.unwrap_or(0);
            let (half, first_carry, whole, second_carry);
            if negative {
                (half, first_carry) = limb.overflowing_sub(part);
                (whole, second_carry) = half.overflowing_sub(u64::from(carry));
            } else {
                (half, first_carry) = limb.overflowing_add(part);
                (whole, second_carry) = half.overflowing_add(u64::from(carry));
            }
            *limb = whole;
            carry = first_carry | second_carry;
        }
    }

    /// Adds another sum, exactly.
    pub(super) fn merge(&mut self, other: &Self) {
        let mut carry = false;
        for (limb, other) in self.0.iter_mut().zip(other.0) {
            let (half, first) = limb.overflowing_add(other);
            let (whole, second) = half.overflowing_add(u64::from(carry));
            *limb = whole;
            carry = first | second;
        }
    }

    /// The sum, rounded to the nearest f64, ties to even.
    pub(super) fn value(&self) -> f64 {
        let negative = self.0[LIMBS - 1] >> 63 == 1;
        let mut limbs = self.0;
        if negative {
            let mut carry = true;
            for limb in &mut limbs {
                let (negated, overflow) = (!*limb).overflowing_add(u64::from(carry));
                (*limb, carry) = (negated, overflow);
            }
        }
        let Some(top) = limbs.iter().rposition(|&limb| limb != 0) else {
            return 0.0;
        };
        let zeros = limbs[top].leading_zeros();
        let limb = |index: Option<usize>| index.map_or(0, |index| limbs[index]);
        let high = u128::from(limb(Some(top))) << 64 | u128::from(limb(top.checked_sub(1)));
        let low = limb(top.checked_sub(2));
        let mut window = high << zeros;
        if zeros > 0 {
            window |= u128::from(low >> (64 - zeros));
        }
        // What lies below the window only decides whether a tie is one.
        let below = (low << zeros) != 0 || limbs[..top.saturating_sub(2)].iter().any(|&x| x != 0);
        window |= u128::from(below);
        let exponent = LOW + 64 * top as i32 - 64 - zeros as i32;
        let magnitude = window as f64 * power_of_two(exponent);
        if negative { -magnitude } else { magnitude }
    }
}

/// `2^exponent`, exactly; the exponent is that of a normal f64.
pub(super) const fn power_of_two(exponent: i32) -> f64 {
    f64::from_bits(((exponent + 1023) as u64) << 52)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(values: &[f64]) -> ExactSum {
        let mut sum = ExactSum::default();
        values.iter().for_each(|&value| sum.add(value));
        sum
    }

    #[test]
    fn cancellation_leaves_the_smallest_term() {
        let tiny = f64::from(f32::from_bits(1));
        let huge = f64::from(f32::MAX);
        for terms in [
            [huge * huge, tiny * tiny, -huge * huge],
            [tiny * tiny, -huge * huge, huge * huge],
            [-huge * huge, huge * huge, tiny * tiny],
        ] {
            assert_eq!(sum(&terms).value().to_bits(), (tiny * tiny).to_bits());
            assert_eq!(sum(&terms), sum(&[tiny * tiny]));
        }
    }

    #[test]
    fn single_numbers_read_back() {
        for value in [0.0, 1.0, -1.0, 0.1, -1e38, 1.5e-45, 3e76, 2f64.powi(-298)] {
            let value = if f64::abs(value) > 1e-60 {
                value
            } else {
                value.abs()
            };
            assert_eq!(sum(&[value]).value(), value);
            assert_eq!(sum(&[-value]).value(), -value);
        }
    }

    #[test]
    fn rounding_is_to_nearest_even_with_a_sticky_bit() {
        let half_ulp = power_of_two(-53);
        assert_eq!(sum(&[1.0, half_ulp]).value(), 1.0);
        assert_eq!(
            sum(&[1.0, half_ulp, power_of_two(-298)]).value(),
            1.0 + f64::EPSILON
        );
        assert_eq!(sum(&[1.0, half_ulp, -power_of_two(-298)]).value(), 1.0);
        assert_eq!(
            sum(&[-1.0, -half_ulp, -power_of_two(-298)]).value(),
            -1.0 - f64::EPSILON
        );
    }

    #[test]
    fn merging_is_adding() {
        let values: Vec<f64> = (0..1000)
            .map(|i| f64::from((f64::from(i) * 0.7).sin() as f32) * 1e30)
            .collect();
        let mut merged = sum(&values[..317]);
        merged.merge(&sum(&values[317..]));
        assert_eq!(merged, sum(&values));
        let turned: Vec<f64> = values.iter().rev().copied().collect();
        assert_eq!(merged, sum(&turned));
    }
}
