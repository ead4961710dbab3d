//! The encoders and decoders over sixteen lanes.

use super::minifloat::{MiniFloat, NanCode, Overflow, Specials};
use crate::simd::Simd;

const MAGNITUDE: u32 = 0x7FFF_FFFF;
const INFINITY: u32 = 0x7F80_0000;

/// Codes of values known to be finite; saturates.
#[inline(always)]
pub(crate) fn encode_finite<F: MiniFloat, S: Simd>(s: S, value: S::F) -> S::U {
    let spec = const { F::SPEC };
    let bits = s.to_bits(value);
    let magnitude = s.min_i(
        s.and(bits, s.splat_u(MAGNITUDE)),
        s.splat_u(spec.max().to_bits()),
    );
    let sign = s.and(
        s.shr(bits, 32 - spec.bits()),
        s.splat_u(1 << (spec.bits() - 1)),
    );
    s.or(s.encode_magnitude::<F>(magnitude), sign)
}

/// Codes of any values; [`MiniSpec::encode`](super::MiniSpec::encode) lane by lane.
#[inline(always)]
pub(crate) fn encode<F: MiniFloat, S: Simd>(
    s: S,
    value: S::F,
    overflow: Overflow,
    nan: NanCode,
) -> S::U {
    let spec = const { F::SPEC };
    let bits = s.to_bits(value);
    let magnitude = s.and(bits, s.splat_u(MAGNITUDE));
    let sign = s.and(
        s.shr(bits, 32 - spec.bits()),
        s.splat_u(1 << (spec.bits() - 1)),
    );
    let clamped = s.min_i(magnitude, s.splat_u(spec.max().to_bits()));
    let mut code = s.encode_magnitude::<F>(clamped);
    if overflow == Overflow::NonFinite && spec.specials != Specials::None {
        let beyond = s.gt_i(magnitude, s.splat_u(spec.last_in_range.to_bits()));
        code = s.select(
            beyond,
            s.splat_u(u32::from(spec.overflow_code(overflow))),
            code,
        );
    }
    let code = s.or(code, sign);
    let positive_nan = s.splat_u(u32::from(spec.nan_code(false, nan)));
    let nan_code = if spec.specials == Specials::None {
        let negative_nan = s.splat_u(u32::from(spec.nan_code(true, nan)));
        s.select(s.gt_i(sign, s.splat_u(0)), negative_nan, positive_nan)
    } else {
        positive_nan
    };
    s.select(s.gt_i(magnitude, s.splat_u(INFINITY)), nan_code, code)
}

/// Values of codes in the low bits of each lane; the bits above the format must be zero.
#[inline(always)]
pub(crate) fn decode<F: MiniFloat, S: Simd>(s: S, code: S::U) -> S::F {
    let spec = const { F::SPEC };
    // The exponent and mantissa fields land on those of f16, whose bias is 15.
    let magnitude = s.and(code, s.splat_u(spec.magnitude_mask()));
    let sign = s.and(code, s.splat_u(1 << (spec.bits() - 1)));
    let half = s.or(
        s.shl(magnitude, 10 - spec.mantissa_bits),
        s.shl(sign, 16 - spec.bits()),
    );
    let rebias = f32::from_bits(((15 - spec.bias + 127) as u32) << 23);
    let value = s.f16_to_f32(half);
    let value = if spec.bias == 15 {
        value
    } else {
        s.mul(value, s.splat(rebias))
    };
    if spec.specials != Specials::NanOnly {
        return value;
    }
    let is_nan = s.gt_i(magnitude, s.splat_u(spec.magnitude_mask() - 1));
    let nan = s.or(s.shl(sign, 32 - spec.bits()), s.splat_u(0x7FC0_0000));
    s.bits_to_f32(s.select(is_nan, nan, s.to_bits(value)))
}

/// bf16 in the low half of each lane.
#[inline(always)]
pub(crate) fn f32_to_bf16<S: Simd>(s: S, value: S::F) -> S::U {
    let bits = s.to_bits(value);
    let top = s.shr(bits, 16);
    let half_minus_one_plus_odd = s.add_u(s.splat_u(0x7FFF), s.and(top, s.splat_u(1)));
    let rounded = s.shr(s.add_u(bits, half_minus_one_plus_odd), 16);
    let is_nan = s.gt_i(s.and(bits, s.splat_u(MAGNITUDE)), s.splat_u(INFINITY));
    s.select(is_nan, s.or(top, s.splat_u(0x40)), rounded)
}
