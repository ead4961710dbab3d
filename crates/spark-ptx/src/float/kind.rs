//! The float types that arithmetic instructions name.
//!
//! ```text
//! f16  bf16  f32  f64          one number in a register
//! f16x2  bf16x2  f32x2         two, the lower bits first
//! ```
//!
//! Source: PTX ISA 9.1, 5.2.1 and 5.2.5.1.

use super::format::{BF16, F16, F32, F64, FloatFormat};

/// A float type of arithmetic instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FloatKind {
    /// IEEE half precision.
    F16,
    /// The upper half of f32.
    Bf16,
    /// IEEE single precision.
    F32,
    /// IEEE double precision.
    F64,
}

impl FloatKind {
    pub(crate) const fn format(self) -> FloatFormat {
        match self {
            FloatKind::F16 => F16,
            FloatKind::Bf16 => BF16,
            FloatKind::F32 => F32,
            FloatKind::F64 => F64,
        }
    }

    /// Bits of one number.
    pub const fn bits(self) -> u32 {
        match self {
            FloatKind::F16 | FloatKind::Bf16 => 16,
            FloatKind::F32 => 32,
            FloatKind::F64 => 64,
        }
    }

    /// The type of that name and how many numbers of it stand in one operand.
    pub fn parse(name: &str) -> Option<(FloatKind, u32)> {
        Some(match name {
            "f16" => (FloatKind::F16, 1),
            "bf16" => (FloatKind::Bf16, 1),
            "f32" => (FloatKind::F32, 1),
            "f64" => (FloatKind::F64, 1),
            "f16x2" => (FloatKind::F16, 2),
            "bf16x2" => (FloatKind::Bf16, 2),
            "f32x2" => (FloatKind::F32, 2),
            _ => return None,
        })
    }

    /// The code's value as f64; exact, except that every NaN becomes one NaN.
    pub(crate) fn to_f64(self, code: u64) -> f64 {
        match self {
            FloatKind::F64 => f64::from_bits(code),
            FloatKind::F32 => f64::from(f32::from_bits(code as u32)),
            FloatKind::Bf16 => f64::from(f32::from_bits((code as u32) << 16)),
            FloatKind::F16 => {
                f64::from_bits(F64.encode(F16.decode(code), super::format::Rounding::TowardZero))
            }
        }
    }
}
