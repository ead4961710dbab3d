//! E4M3, E5M2, E2M3, E3M2, E2M1: one description, one encoder, one decoder.
//!
//! ```text
//! code  = sign | exponent field (E bits) | mantissa field (M bits)
//! value = (-1)^sign * 2^(field - bias) * (1 + m/2^M)      field > 0
//!       = (-1)^sign * 2^(1 - bias)     *      m/2^M       field = 0 (subnormal, zero)
//!
//!        bits  bias  max    min normal  min subnormal  special codes
//! E4M3   8     7     448    2^-6        2^-9           0x7F NaN, no infinity
//! E5M2   8     15    57344  2^-14       2^-16          0x7C infinity, 0x7D..0x7F NaN
//! E2M3   6     1     7.5    1           0.125          none
//! E3M2   6     3     28     0.25        0.0625         none
//! E2M1   4     1     6      1           0.5            none
//! ```
//!
//! Encoding rounds to nearest, ties to the even code. The encoder lets the hardware's own f32
//! addition do that rounding: adding `2^(e + 23 - M)` to a value in `[2^e, 2^(e+1))` leaves
//! exactly `M` mantissa bits, and the low bits of the sum are the code.
//!
//! Source: OCP 8-bit Floating Point Specification 1.0; OCP Microscaling Formats 1.0.

/// What encoding does with magnitudes beyond the largest finite value, infinity included.
///
/// The six- and four-bit formats have no code for infinity or NaN, so they always saturate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Overflow {
    /// The largest finite value of the same sign (`cvt.rn.satfinite`).
    #[default]
    Saturate,
    /// E4M3 gives NaN of the same sign above 464, E5M2 infinity from 61440 on.
    NonFinite,
}

/// What NaN becomes in a format that has no NaN. FP8 formats give code `0x7F`, sign dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum NanCode {
    /// The largest positive value: NVIDIA's `cvt`, and what ONNX documents for FP4.
    #[default]
    LargestPositive,
    /// Positive zero, code 0.
    Zero,
    /// Zero of the opposite sign, as ml_dtypes does.
    OppositeZero,
}

/// Which codes of a format are not numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Specials {
    /// Every code is a finite number.
    None,
    /// Only the code with all bits set (either sign) is special: NaN.
    NanOnly,
    /// The top exponent field holds infinity and NaN, as in IEEE 754.
    Ieee,
}

/// The numbers that define a small float format.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MiniSpec {
    /// Name as written in papers.
    pub name: &'static str,
    /// Bits of the exponent field.
    pub exponent_bits: u32,
    /// Bits of the mantissa field.
    pub mantissa_bits: u32,
    /// What is subtracted from the exponent field to give the exponent.
    pub bias: i32,
    /// Code of the largest finite value.
    pub max_code: u8,
    /// Codes that are not numbers.
    pub specials: Specials,
    /// Largest f32 that still rounds to the largest finite value.
    pub last_in_range: f32,
}

impl MiniSpec {
    /// Bits of a code, sign included.
    pub const fn bits(self) -> u32 {
        1 + self.exponent_bits + self.mantissa_bits
    }

    /// Mask of the bits below the sign.
    pub const fn magnitude_mask(self) -> u32 {
        (1 << (self.bits() - 1)) - 1
    }

    /// Exponent of the smallest normal value.
    pub const fn min_exponent(self) -> i32 {
        1 - self.bias
    }

    /// Largest finite value of the format, as an exact f32.
    pub const fn max(self) -> f32 {
        self.decode(self.max_code)
    }

    /// Exponent of the largest finite value (`emax` of the MX specification).
    pub const fn max_exponent(self) -> i32 {
        (self.max_code >> self.mantissa_bits) as i32 - self.bias
    }

    /// Value of a code; exact. Bits above the format's width are ignored.
    pub const fn decode(self, code: u8) -> f32 {
        let magnitude = code as u32 & self.magnitude_mask();
        let sign_bit = (code as u32 >> (self.bits() - 1) & 1) << 31;
        let field = magnitude >> self.mantissa_bits;
        let mantissa = magnitude & ((1 << self.mantissa_bits) - 1);
        let top_field = (1 << self.exponent_bits) - 1;
        let bits = match self.specials {
            Specials::NanOnly if magnitude == self.magnitude_mask() => 0x7FC0_0000,
            Specials::Ieee if field == top_field && mantissa == 0 => 0x7F80_0000,
            Specials::Ieee if field == top_field => {
                0x7FC0_0000 | mantissa << (23 - self.mantissa_bits)
            }
            _ => {
                let significand = if field == 0 {
                    mantissa
                } else {
                    mantissa | 1 << self.mantissa_bits
                };
                let exponent = if field == 0 { 1 } else { field as i32 }
                    - self.bias
                    - self.mantissa_bits as i32;
                let power = f32::from_bits(((exponent + 127) as u32) << 23);
                (significand as f32 * power).to_bits()
            }
        };
        f32::from_bits(bits | sign_bit)
    }

    /// Code for NaN of the given sign.
    pub const fn nan_code(self, negative: bool, policy: NanCode) -> u8 {
        match (self.specials, policy) {
            (Specials::NanOnly | Specials::Ieee, _) => 0x7F,
            (Specials::None, NanCode::LargestPositive) => self.max_code,
            (Specials::None, NanCode::Zero) => 0,
            (Specials::None, NanCode::OppositeZero) => {
                if negative {
                    0
                } else {
                    1 << (self.bits() - 1)
                }
            }
        }
    }

    /// Code (without sign) of magnitudes out of range.
    pub const fn overflow_code(self, overflow: Overflow) -> u8 {
        match (overflow, self.specials) {
            (Overflow::Saturate, _) | (_, Specials::None) => self.max_code,
            (Overflow::NonFinite, Specials::NanOnly | Specials::Ieee) => self.max_code + 1,
        }
    }

    /// Code of the value nearest to `value`, ties to the even code.
    ///
    /// # Conversion
    ///
    /// Magnitudes beyond the largest value follow `overflow`, NaN follows `nan`, the sign of zero
    /// is kept, subnormal results round like all others (never flushed), f32 subnormals give zero.
    pub const fn encode(self, value: f32, overflow: Overflow, nan: NanCode) -> u8 {
        let bits = value.to_bits();
        let magnitude = bits & 0x7FFF_FFFF;
        let negative = bits >> 31 == 1;
        if magnitude > 0x7F80_0000 {
            return self.nan_code(negative, nan);
        }
        let sign = (negative as u8) << (self.bits() - 1);
        if magnitude > self.last_in_range.to_bits() {
            return self.overflow_code(overflow) | sign;
        }
        let max = self.max().to_bits();
        let clamped = if magnitude < max { magnitude } else { max };
        let min_normal = ((self.min_exponent() + 127) as u32) << 23;
        let octave = if clamped > min_normal {
            clamped
        } else {
            min_normal
        } & 0x7F80_0000;
        let rounder = f32::from_bits(octave + ((23 - self.mantissa_bits) << 23));
        let sum = (f32::from_bits(clamped) + rounder).to_bits();
        let code = sum
            .wrapping_add(sum >> (23 - self.mantissa_bits))
            .wrapping_sub(self.code_offset());
        (code & self.magnitude_mask()) as u8 | sign
    }

    /// What the exponent field of `value + rounder` adds to a code of the lowest octave.
    pub(crate) const fn code_offset(self) -> u32 {
        ((self.min_exponent() + 150 - self.mantissa_bits as i32) as u32) << self.mantissa_bits
    }

    /// The values of all codes; codes wider than the format repeat.
    pub(crate) const fn table(self) -> [f32; 256] {
        let mut values = [0.0; 256];
        let mut code = 0;
        while code < 256 {
            values[code] = self.decode(code as u8);
            code += 1;
        }
        values
    }
}

/// A format as a type, so that kernels are compiled for its constants.
pub(crate) trait MiniFloat: Copy + 'static {
    const SPEC: MiniSpec;
}

macro_rules! mini_floats {
    ($($type:ident, $table:ident, $doc:literal: $spec:expr;)*) => {
        $(
            #[doc = $doc]
            #[derive(Debug, Clone, Copy)]
            pub(crate) struct $type;

            impl MiniFloat for $type {
                const SPEC: MiniSpec = $spec;
            }

            static $table: [f32; 256] = <$type as MiniFloat>::SPEC.table();
        )*

        /// The formats with a sign, an exponent and a mantissa in at most eight bits.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum MiniFormat {
            $(#[doc = $doc] $type,)*
        }

        impl MiniFormat {
            /// All formats, in the order in which they are declared.
            pub const ALL: [Self; 5] = [$(Self::$type,)*];

            /// The format's defining numbers.
            pub const fn spec(self) -> MiniSpec {
                match self {
                    $(Self::$type => <$type as MiniFloat>::SPEC,)*
                }
            }

            /// Values of all codes. Codes wider than the format repeat those below.
            pub fn table(self) -> &'static [f32; 256] {
                match self {
                    $(Self::$type => &$table,)*
                }
            }
        }
    };
}

mini_floats! {
    E4m3, E4M3_TABLE, "FP8 with 4 exponent and 3 mantissa bits, no infinity (E4M3FN).": MiniSpec {
        name: "E4M3", exponent_bits: 4, mantissa_bits: 3, bias: 7, max_code: 0x7E,
        specials: Specials::NanOnly, last_in_range: 464.0,
    };
    E5m2, E5M2_TABLE, "FP8 with 5 exponent and 2 mantissa bits, IEEE infinity and NaN.": MiniSpec {
        name: "E5M2", exponent_bits: 5, mantissa_bits: 2, bias: 15, max_code: 0x7B,
        specials: Specials::Ieee, last_in_range: f32::from_bits(61440f32.to_bits() - 1),
    };
    E2m3, E2M3_TABLE, "FP6 with 2 exponent and 3 mantissa bits.": MiniSpec {
        name: "E2M3", exponent_bits: 2, mantissa_bits: 3, bias: 1, max_code: 0x1F,
        specials: Specials::None, last_in_range: 7.5,
    };
    E3m2, E3M2_TABLE, "FP6 with 3 exponent and 2 mantissa bits.": MiniSpec {
        name: "E3M2", exponent_bits: 3, mantissa_bits: 2, bias: 3, max_code: 0x1F,
        specials: Specials::None, last_in_range: 28.0,
    };
    E2m1, E2M1_TABLE, "FP4 with 2 exponent bits and 1 mantissa bit.": MiniSpec {
        name: "E2M1", exponent_bits: 2, mantissa_bits: 1, bias: 1, max_code: 0x7,
        specials: Specials::None, last_in_range: 6.0,
    };
}

impl MiniFormat {
    /// Code of the value nearest to `value`; see [`MiniSpec::encode`] for every rule.
    ///
    /// # Examples
    ///
    /// ```
    /// use spark_quant::scalar::{MiniFormat, NanCode, Overflow};
    /// let code = MiniFormat::E2m1.encode(2.5, Overflow::Saturate, NanCode::default());
    /// assert_eq!((code, MiniFormat::E2m1.decode(code)), (4, 2.0)); // tie to the even code
    /// ```
    pub const fn encode(self, value: f32, overflow: Overflow, nan: NanCode) -> u8 {
        self.spec().encode(value, overflow, nan)
    }

    /// Value of a code; exact.
    pub const fn decode(self, code: u8) -> f32 {
        self.spec().decode(code)
    }
}

impl std::fmt::Display for MiniFormat {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.spec().name)
    }
}
