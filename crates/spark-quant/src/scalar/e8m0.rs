//! E8M0: a power of two in eight bits, the scale of every MX block.
//!
//! ```text
//! value(code) = 2^(code - 127)      code 0..=254        code 255 = NaN
//! ```
//!
//! No sign, no zero, no infinity. Source: OCP Microscaling Formats (MX) Specification 1.0, 5.4.1.

/// The one code that is no power of two but NaN.
pub const NAN: u8 = 0xFF;

/// How a magnitude that is no power of two becomes one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Rounding {
    /// The next power of two at or above (`cvt.rp.satfinite.ue8m0x2.f32`).
    Up,
    /// The next power of two at or below (`cvt.rz.satfinite.ue8m0x2.f32`).
    Down,
    /// The nearest power of two, ties up: what ml_dtypes and torch casts do.
    Nearest,
}

/// Value of a code; exact (`2^-127` is an f32 subnormal).
pub const fn decode(code: u8) -> f32 {
    f32::from_bits(match code {
        0 => 0x0040_0000,
        255 => 0x7FC0_0000,
        exponent => (exponent as u32) << 23,
    })
}

/// Code of the power of two for `|value|`.
///
/// # Conversion
///
/// The sign is ignored. Zero and magnitudes below `2^-127` give code 0, infinity and results above
/// `2^127` give 254, NaN gives [`NAN`].
pub const fn encode(value: f32, rounding: Rounding) -> u8 {
    let magnitude = value.to_bits() & 0x7FFF_FFFF;
    let field = magnitude >> 23;
    let mantissa = magnitude & 0x007F_FFFF;
    if magnitude > 0x7F80_0000 {
        return NAN;
    }
    if magnitude == 0x7F80_0000 {
        return 254;
    }
    let up = match rounding {
        Rounding::Down => false,
        Rounding::Up if field == 0 => mantissa > 0x0040_0000,
        Rounding::Up => mantissa > 0,
        // Half way from 2^-127 to 2^-126 is mantissa 0x60_0000 of the subnormal range.
        Rounding::Nearest if field == 0 => mantissa >= 0x0060_0000,
        Rounding::Nearest => mantissa >= 0x0040_0000,
    };
    let code = field + up as u32;
    if code > 254 { 254 } else { code as u8 }
}
