//! f16 and bf16 in software, one value at a time.
//!
//! ```text
//! f16   1 sign, 5 exponent, 10 mantissa   max 65504     min subnormal 2^-24
//! bf16  1 sign, 8 exponent,  7 mantissa   max 3.39e38   min subnormal 2^-133
//! ```
//!
//! Both round to nearest even, overflow to infinity, keep subnormals and the sign of zero. NaN keeps
//! its sign and the top mantissa bits and becomes quiet, as `vcvtps2ph` and `fcvtn` do. The values
//! themselves are the `half` crate's types; this module exists so that the vector paths have a plain
//! definition to be compared with.

/// IEEE binary16 bits of `value`.
pub const fn f32_to_f16_bits(value: f32) -> u16 {
    let bits = value.to_bits();
    let sign = (bits >> 16 & 0x8000) as u16;
    let magnitude = bits & 0x7FFF_FFFF;
    if magnitude > 0x7F80_0000 {
        return sign | 0x7E00 | (magnitude >> 13 & 0x3FF) as u16;
    }
    // 65520 is half way from the largest finite value to the next power of two.
    if magnitude >= 0x477F_F000 {
        return sign | 0x7C00;
    }
    let min_normal = 113 << 23;
    let octave = if magnitude > min_normal {
        magnitude
    } else {
        min_normal
    } & 0x7F80_0000;
    let rounder = f32::from_bits(octave + (13 << 23));
    let sum = (f32::from_bits(magnitude) + rounder).to_bits();
    let code = sum.wrapping_add(sum >> 13).wrapping_sub((113 + 13) << 10);
    sign | (code & 0x7FFF) as u16
}

/// Value of IEEE binary16 bits; exact.
pub const fn f16_bits_to_f32(bits: u16) -> f32 {
    let sign = (bits as u32 & 0x8000) << 16;
    let field = bits as u32 >> 10 & 0x1F;
    let mantissa = bits as u32 & 0x3FF;
    let magnitude = match (field, mantissa) {
        (0x1F, 0) => 0x7F80_0000,
        (0x1F, payload) => 0x7FC0_0000 | payload << 13,
        (0, small) => (small as f32 * (1.0 / 16_777_216.0)).to_bits(),
        (field, mantissa) => (field + 112) << 23 | mantissa << 13,
    };
    f32::from_bits(sign | magnitude)
}

/// bfloat16 bits of `value`.
pub const fn f32_to_bf16_bits(value: f32) -> u16 {
    let bits = value.to_bits();
    if bits & 0x7FFF_FFFF > 0x7F80_0000 {
        return (bits >> 16) as u16 | 0x40;
    }
    let half_minus_one_plus_odd = 0x7FFF + (bits >> 16 & 1);
    ((bits + half_minus_one_plus_odd) >> 16) as u16
}

/// Value of bfloat16 bits; exact.
pub const fn bf16_bits_to_f32(bits: u16) -> f32 {
    f32::from_bits((bits as u32) << 16)
}
