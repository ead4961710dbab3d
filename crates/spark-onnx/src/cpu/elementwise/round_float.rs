//! Rounding of f32 to floats of 8 bits and fewer.
//!
//! ```text
//! normal      the bits behind the fraction are rounded off as an integer, carries going into the exponent
//! subnormal   the sum with a number whose last bit is worth what the format's is, rounded by the hardware
//! ```

use crate::graph::{RoundFloat, SmallFloat};

/// `x` rounded to the nearest number of a format, ties to even.
#[inline]
pub(super) fn round_float(x: f32, RoundFloat { format, saturate }: RoundFloat) -> f32 {
    let (digits, least_exponent, largest) = match format {
        SmallFloat::E4M3FN => (3, -6, 448.0),
        SmallFloat::E4M3FNUZ => (3, -7, 240.0),
        SmallFloat::E5M2 => (2, -14, 57344.0),
        SmallFloat::E5M2FNUZ => (2, -15, 57344.0),
        SmallFloat::E2M1 => (1, 0, 6.0),
    };
    if x.is_nan() {
        return if format == SmallFloat::E2M1 {
            largest
        } else {
            x
        };
    }
    let magnitude = x.abs();
    let least_normal = f32::from_bits(((127 + least_exponent) as u32) << 23);
    let nearest = if magnitude < least_normal {
        // 2^23 of the format's smallest numbers, between which f32 has no others.
        let step = f32::from_bits(((127 + least_exponent - digits + 23) as u32) << 23);
        (magnitude + step) - step
    } else {
        let bits = magnitude.to_bits();
        let off = 23 - digits as u32;
        let is_odd = bits >> off & 1;
        let rounded = bits.saturating_add((1 << (off - 1)) - 1 + is_odd) >> off << off;
        f32::from_bits(rounded)
    };
    if nearest.is_nan() || nearest > largest {
        return match format {
            _ if saturate || format == SmallFloat::E2M1 => largest.copysign(x),
            SmallFloat::E5M2 => f32::INFINITY.copysign(x),
            _ => f32::NAN,
        };
    }
    match format {
        SmallFloat::E4M3FNUZ | SmallFloat::E5M2FNUZ if nearest == 0.0 => 0.0,
        _ => nearest.copysign(x),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::Op;
    use crate::{Tensor, reference};

    #[test]
    fn the_reference_rounds_alike() {
        // Every exponent and the ends of the fraction where the formats differ, both signs, and what is no number.
        let fractions =
            (0..256u32).flat_map(|i| [i << 15, i << 15 | 1, (i << 15).wrapping_sub(1) & 0x7f_ffff]);
        let fractions: Vec<u32> = fractions.collect();
        let values = (0..256u32).flat_map(|exponent| {
            let of = move |fraction: &u32| f32::from_bits(exponent << 23 | fraction);
            fractions
                .iter()
                .map(of)
                .flat_map(|v| [v, -v])
                .collect::<Vec<f32>>()
        });
        let values: Vec<f32> = values.collect();
        let x = Tensor::from_f32([values.len()], values.clone()).expect("a list");
        for format in [
            SmallFloat::E4M3FN,
            SmallFloat::E4M3FNUZ,
            SmallFloat::E5M2,
            SmallFloat::E5M2FNUZ,
            SmallFloat::E2M1,
        ] {
            for saturate in [true, false] {
                let op = RoundFloat { format, saturate };
                let want = reference::evaluate(&Op::RoundFloat(op), &[Some(&x)], 1);
                let want = want.expect("rounds").remove(0).to_f32();
                for (&x, want) in values.iter().zip(want) {
                    let got = round_float(x, op);
                    let same = got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan();
                    assert!(same, "{op:?} of {x:e}: {got:e}, wanted {want:e}");
                }
            }
        }
    }
}
