//! Element types of A and B, and the numbers that their codes stand for.
//!
//! ```text
//! value    = ± significand * 2^(exponent - mantissa bits)      exact in f64
//! exponent   of the field, of the smallest normal number for subnormal ones; zero: -126
//! ```
//!
//! Sub-byte floats stand alone in a byte in the eight-bit kinds (e2m1 in bits 5:2, e3m2 and e2m3
//! in bits 5:0) and two in a byte in the four-bit kinds.
//!
//! Source: PTX ISA 9.1, 9.7.14.2 and 9.7.14.5.14. That zero counts as 2^-126 in an alignment is of
//! microsoft/MMA-Sim; it matters only where every other term is smaller still.

use crate::float::format::{FloatFormat, Specials};

/// Type of an element of A or B.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Element {
    F16,
    Bf16,
    Tf32,
    E4m3,
    E5m2,
    E3m2,
    E2m3,
    E2m1,
    S8,
    U8,
    S4,
    U4,
}

/// Exponent of zero in an alignment.
pub(super) const ZERO_EXPONENT: i16 = -126;

/// A number and its exponent as the alignment sees it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Number {
    pub(super) value: f64,
    pub(super) exponent: i16,
}

impl Number {
    /// The number, or zero for what is none.
    pub(super) fn finite_or_zero(self) -> Number {
        if self.value.is_finite() {
            self
        } else {
            Number {
                value: 0.0,
                exponent: ZERO_EXPONENT,
            }
        }
    }
}

impl Element {
    pub(super) fn parse(name: &str) -> Option<Element> {
        Some(match name {
            "f16" => Element::F16,
            "bf16" => Element::Bf16,
            "tf32" => Element::Tf32,
            "e4m3" => Element::E4m3,
            "e5m2" => Element::E5m2,
            "e3m2" => Element::E3m2,
            "e2m3" => Element::E2m3,
            "e2m1" => Element::E2m1,
            "s8" => Element::S8,
            "u8" => Element::U8,
            "s4" => Element::S4,
            "u4" => Element::U4,
            _ => return None,
        })
    }

    pub(super) const fn is_fp8(self) -> bool {
        matches!(self, Element::E4m3 | Element::E5m2)
    }

    pub(super) const fn is_sub_byte_float(self) -> bool {
        matches!(self, Element::E3m2 | Element::E2m3 | Element::E2m1)
    }

    /// Bits of a register that one element takes, where sub-byte floats have a byte each.
    pub(super) const fn container_bits(self) -> u32 {
        match self {
            Element::Tf32 => 32,
            Element::F16 | Element::Bf16 => 16,
            Element::S4 | Element::U4 => 4,
            _ => 8,
        }
    }

    /// Bits of a byte that hold no bit of the element, in the kinds with one element a byte.
    pub(super) const fn padding(self) -> u32 {
        match self {
            Element::E2m1 => 0b1100_0011,
            Element::E3m2 | Element::E2m3 => 0b1100_0000,
            _ => 0,
        }
    }

    /// The whole number of an integer code.
    pub(super) const fn integer(self, code: u32) -> i32 {
        match self {
            Element::S8 => code as u8 as i8 as i32,
            Element::S4 => ((code << 28) as i32) >> 28,
            Element::U4 => (code & 0xF) as i32,
            _ => (code & 0xFF) as i32,
        }
    }
}

/// A float code as a number. Infinity and NaN come as f64's.
#[inline(always)]
pub(super) fn number(format: FloatFormat, code: u32) -> Number {
    let mantissa_bits = format.mantissa_bits;
    let magnitude = code & format.magnitude_mask() as u32;
    let field = (magnitude >> mantissa_bits) as i32;
    let mantissa = magnitude & ((1 << mantissa_bits) - 1);
    let is_normal = u32::from(field != 0);
    let significand = mantissa | is_normal << mantissa_bits;
    let exponent = field.max(1) - format.bias();
    let unit = power_of_two(exponent - mantissa_bits as i32);
    let mut value = f64::from(significand) * unit;
    match format.specials {
        Specials::Ieee if field == (1 << format.exponent_bits) - 1 => {
            value = if mantissa == 0 {
                f64::INFINITY
            } else {
                f64::NAN
            };
        }
        Specials::NanOnly if u64::from(magnitude) == format.magnitude_mask() => value = f64::NAN,
        _ => {}
    }
    let sign = u64::from(code >> (format.bits() - 1) & 1) << 63;
    Number {
        value: f64::from_bits(value.to_bits() | sign),
        exponent: if significand == 0 {
            ZERO_EXPONENT
        } else {
            exponent as i16
        },
    }
}

/// `2^exponent` for exponents of normal f64 numbers.
pub(super) const fn power_of_two(exponent: i32) -> f64 {
    f64::from_bits(((exponent + 1023) as u64) << 52)
}
