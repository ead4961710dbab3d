//! One number of any format of `cvt` into one of any other.
//!
//! ```text
//! code --value--> whole number | exact float --rounded once--> code
//! ```
//!
//! A power-of-two scale (`ue8m0`) is `2^(code - 127)`, 255 is NaN; it has no zero and no sign.
//!
//! Sources: PTX ISA 9.1, 9.7.9.21 and 5.2.3; CUDA 13.0 `cuda_fp8.hpp` (`__nv_cvt_float_to_e8m0`).

use crate::float::Rounding;
use crate::float::format::{Exact, F32, F64, FloatFormat, TF32, Value};

/// The format of one number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    Unsigned(u32),
    Signed(u32),
    Float(FloatFormat),
    /// f32 with ten bits of mantissa; the low 13 bits are zero.
    Tf32,
    /// A power of two.
    Scale,
}

impl Format {
    pub(super) const fn is_integer(self) -> bool {
        matches!(self, Format::Unsigned(_) | Format::Signed(_))
    }

    const fn is_f32(self) -> bool {
        matches!(
            self,
            Format::Float(FloatFormat {
                exponent_bits: 8,
                mantissa_bits: 23,
                ..
            })
        )
    }

    /// Bits that a code has.
    pub(super) const fn bits(self) -> u32 {
        match self {
            Format::Unsigned(bits) | Format::Signed(bits) => bits,
            Format::Float(format) => format.bits(),
            Format::Tf32 => 32,
            Format::Scale => 8,
        }
    }
}

/// What the modifiers say about the conversion of one number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rules {
    pub(super) source: Format,
    pub(super) destination: Format,
    pub(super) rounding: Rounding,
    /// `.rni` and its kin between floats: the result is a whole number.
    pub(super) to_whole: bool,
    pub(super) flush: bool,
    pub(super) saturate: bool,
    pub(super) finite: bool,
    pub(super) relu: bool,
}

impl Rules {
    pub(super) fn apply(self, code: u64) -> u64 {
        match self.source {
            Format::Unsigned(bits) => self.convert_integer(i128::from(code & low_bits(bits))),
            Format::Signed(bits) => {
                let shift = 64 - bits;
                self.convert_integer(i128::from((code << shift) as i64 >> shift))
            }
            Format::Tf32 => self.convert_value(F32.decode(code)),
            Format::Scale => self.convert_value(decode_scale(code)),
            Format::Float(format) => {
                let code = if self.flush && self.source.is_f32() {
                    format.flush(code)
                } else {
                    code
                };
                if format.is_nan(code) && self.keeps_nan() {
                    return self.kept_nan(code);
                }
                self.convert_value(format.decode(code))
            }
        }
    }

    /// A move within one format, `.rna` to tf32, and f32 from f64 keep what a NaN holds.
    fn keeps_nan(self) -> bool {
        let is_move = self.source == self.destination && !self.to_whole;
        let is_away = self.destination == Format::Tf32 && self.rounding == Rounding::NearestAway;
        let is_cut = self.destination.is_f32() && self.source == Format::Float(F64);
        (is_move || is_away || is_cut) && !self.saturate && !self.finite && !self.relu
    }

    fn kept_nan(self, code: u64) -> u64 {
        match self.destination {
            // As an H100 has it: a NaN that says so in its low bits alone becomes an infinity.
            Format::Tf32 => code & 0xFFFF_E000,
            // The highest bits of what it holds, and quiet.
            _ if self.source == Format::Float(F64) && self.destination.is_f32() => {
                code >> 32 & 0x8000_0000 | 0x7FC0_0000 | code >> 29 & 0x3F_FFFF
            }
            _ => code & low_bits(self.destination.bits()),
        }
    }

    fn convert_integer(self, value: i128) -> u64 {
        match self.destination {
            Format::Unsigned(_) | Format::Signed(_) => {
                let (low, high) = range(self.destination);
                let value = if self.saturate {
                    value.clamp(low, high)
                } else {
                    value
                };
                extended(self.destination, value as u64)
            }
            _ => self.convert_value(Value::Finite(Exact {
                negative: value < 0,
                significand: value.unsigned_abs(),
                exponent: 0,
            })),
        }
    }

    fn convert_value(self, value: Value) -> u64 {
        match self.destination {
            Format::Unsigned(_) | Format::Signed(_) => self.to_integer(value),
            Format::Scale => self.to_scale(value),
            // As an H100 has it, the low 13 bits are zeros here too.
            Format::Tf32 if value == Value::Nan => F32.nan_code() & 0xFFFF_E000,
            Format::Tf32 => self.to_float(TF32, value) << 13,
            Format::Float(format) => self.to_float(format, value),
        }
    }

    fn to_float(self, format: FloatFormat, value: Value) -> u64 {
        let value = match value {
            Value::Finite(exact) if self.to_whole && exact.exponent < 0 => Value::Finite(Exact {
                negative: exact.negative,
                significand: exact.round_to_integer(self.rounding),
                exponent: 0,
            }),
            value => value,
        };
        let code = if self.finite {
            format.encode_saturated(value, self.rounding)
        } else {
            format.encode(value, self.rounding)
        };
        let code = if self.flush && self.destination.is_f32() {
            format.flush(code)
        } else {
            code
        };
        let is_nan = value == Value::Nan;
        let negative = format.is_negative(code) && !is_nan;
        if self.saturate {
            let one = (format.bias() as u64) << format.mantissa_bits;
            return if is_nan || negative { 0 } else { code.min(one) };
        }
        if self.relu && negative { 0 } else { code }
    }

    fn to_integer(self, value: Value) -> u64 {
        let (low, high) = range(self.destination);
        let bits = self.destination.bits();
        let result = match value {
            Value::Nan if self.source == Format::Float(F64) || bits == 64 => {
                return extended(self.destination, 1 << (bits - 1));
            }
            Value::Nan => 0,
            Value::Infinite { negative } => {
                if negative {
                    low
                } else {
                    high
                }
            }
            Value::Finite(exact) => {
                let magnitude = exact.round_to_integer(self.rounding).min(1 << 65) as i128;
                let signed = if exact.negative {
                    -magnitude
                } else {
                    magnitude
                };
                signed.clamp(low, high)
            }
        };
        extended(self.destination, result as u64)
    }

    fn to_scale(self, value: Value) -> u64 {
        const NAN: u64 = 0xFF;
        let largest = if self.finite { 0xFE } else { NAN };
        match value {
            Value::Nan => NAN,
            Value::Infinite { .. } => largest,
            Value::Finite(exact) if exact.significand == 0 => 0,
            Value::Finite(exact) => {
                let (exponent, more) = exact.floor_log2();
                let up = more && self.rounding == Rounding::Up;
                // 2^-127 and less are the smallest scale, whatever the rounding.
                let field = (exponent + i32::from(up) + 127).max(0) as u64;
                if field >= NAN { largest } else { field }
            }
        }
    }
}

fn decode_scale(code: u64) -> Value {
    match code & 0xFF {
        0xFF => Value::Nan,
        field => Value::Finite(Exact {
            negative: false,
            significand: 1,
            exponent: field as i32 - 127,
        }),
    }
}

const fn low_bits(bits: u32) -> u64 {
    u64::MAX >> (64 - bits)
}

/// Smallest and largest number of an integer format.
const fn range(format: Format) -> (i128, i128) {
    match format {
        Format::Signed(bits) => (-(1 << (bits - 1)), (1 << (bits - 1)) - 1),
        _ => (0, (1 << format.bits()) - 1),
    }
}

/// The code in 64 bits: a wider register gets the sign of a signed number.
const fn extended(format: Format, code: u64) -> u64 {
    match format {
        Format::Signed(bits) => {
            let shift = 64 - bits;
            ((code << shift) as i64 >> shift) as u64
        }
        _ => code & low_bits(format.bits()),
    }
}
