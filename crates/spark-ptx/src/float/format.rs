//! Binary float formats: bits to exact values, and exact values rounded to bits.
//!
//! ```text
//! code  = sign | exponent field (E bits) | mantissa field (M bits)      bias = 2^(E-1) - 1
//! value = ± significand * 2^exponent, the significand a whole number
//!
//!         E   M   specials
//! f64     11  52  infinity, NaN
//! f32      8  23  infinity, NaN
//! tf32     8  10  infinity, NaN         stored in the upper 19 bits of 32
//! bf16     8   7  infinity, NaN
//! f16      5  10  infinity, NaN
//! e5m2     5   2  infinity, NaN
//! e4m3     4   3  NaN: all bits set
//! e3m2     3   2  none
//! e2m3     2   3  none
//! e2m1     2   1  none
//! ```
//!
//! Rounding happens once, from a whole number and what is below it, so no result is rounded twice.
//!
//! Sources: IEEE 754-2019; OCP 8-bit Floating Point Specification 1.0; OCP Microscaling Formats
//! 1.0; PTX ISA 9.1, 5.2.3. Deliberately absent: `ue8m0`, which has no mantissa and no zero.

use std::cmp::Ordering;

/// Which codes of a format are no numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Specials {
    /// The top exponent field holds infinity and NaN.
    Ieee,
    /// The code with all bits set is NaN; there is no infinity.
    NanOnly,
    /// Every code is a number.
    None,
}

/// How a value between two neighbours of a format is rounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Rounding {
    /// `.rn`: to the nearest, ties to the even mantissa.
    NearestEven,
    /// `.rna`: to the nearest, ties away from zero.
    NearestAway,
    /// `.rz`: toward zero.
    TowardZero,
    /// `.rm`: toward negative infinity.
    Down,
    /// `.rp`: toward positive infinity.
    Up,
}

/// A finite number: `± significand * 2^exponent`. Zero has significand 0 and keeps its sign.
///
/// Where bits below the significand were lost, its lowest bit is set instead: the number then
/// stands for the open interval around it. This is exact as long as rounding drops two bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Exact {
    pub(crate) negative: bool,
    pub(crate) significand: u128,
    pub(crate) exponent: i32,
}

/// What a code stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Value {
    Nan,
    Infinite { negative: bool },
    Finite(Exact),
}

impl Value {
    pub(crate) const fn zero(negative: bool) -> Value {
        Value::Finite(Exact {
            negative,
            significand: 0,
            exponent: 0,
        })
    }

    pub(crate) const fn is_zero(self) -> bool {
        matches!(self, Value::Finite(Exact { significand: 0, .. }))
    }
}

/// The numbers that define a float format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FloatFormat {
    pub(crate) exponent_bits: u32,
    pub(crate) mantissa_bits: u32,
    pub(crate) specials: Specials,
}

const fn ieee(exponent_bits: u32, mantissa_bits: u32) -> FloatFormat {
    FloatFormat {
        exponent_bits,
        mantissa_bits,
        specials: Specials::Ieee,
    }
}

pub(crate) const F64: FloatFormat = ieee(11, 52);
pub(crate) const F32: FloatFormat = ieee(8, 23);
pub(crate) const TF32: FloatFormat = ieee(8, 10);
pub(crate) const BF16: FloatFormat = ieee(8, 7);
pub(crate) const F16: FloatFormat = ieee(5, 10);
pub(crate) const E5M2: FloatFormat = ieee(5, 2);
pub(crate) const E4M3: FloatFormat = FloatFormat {
    exponent_bits: 4,
    mantissa_bits: 3,
    specials: Specials::NanOnly,
};
pub(crate) const E3M2: FloatFormat = finite_only(3, 2);
pub(crate) const E2M3: FloatFormat = finite_only(2, 3);
pub(crate) const E2M1: FloatFormat = finite_only(2, 1);

const fn finite_only(exponent_bits: u32, mantissa_bits: u32) -> FloatFormat {
    FloatFormat {
        exponent_bits,
        mantissa_bits,
        specials: Specials::None,
    }
}

impl FloatFormat {
    /// Bits of a code, sign included.
    pub(crate) const fn bits(self) -> u32 {
        1 + self.exponent_bits + self.mantissa_bits
    }

    pub(crate) const fn bias(self) -> i32 {
        (1 << (self.exponent_bits - 1)) - 1
    }

    /// Exponent of the smallest normal number.
    pub(crate) const fn min_exponent(self) -> i32 {
        1 - self.bias()
    }

    pub(crate) const fn sign_bit(self) -> u64 {
        1 << (self.bits() - 1)
    }

    pub(crate) const fn magnitude_mask(self) -> u64 {
        self.sign_bit() - 1
    }

    /// Code of the largest finite number.
    pub(crate) const fn max_code(self) -> u64 {
        match self.specials {
            Specials::Ieee => self.infinity_code() - 1,
            Specials::NanOnly => self.magnitude_mask() - 1,
            Specials::None => self.magnitude_mask(),
        }
    }

    /// Code of infinity, where the format has one.
    const fn infinity_code(self) -> u64 {
        self.magnitude_mask() >> self.mantissa_bits << self.mantissa_bits
    }

    /// The NaN that conversions give, and arithmetic up to f32: every bit below the sign set.
    /// A format without NaN gives its largest number, as `cvt` does.
    pub(crate) const fn nan_code(self) -> u64 {
        self.magnitude_mask()
    }

    const fn field_and_mantissa(self, code: u64) -> (u64, u64) {
        let magnitude = code & self.magnitude_mask();
        (
            magnitude >> self.mantissa_bits,
            magnitude & ((1 << self.mantissa_bits) - 1),
        )
    }

    pub(crate) const fn is_negative(self, code: u64) -> bool {
        code & self.sign_bit() != 0
    }

    pub(crate) const fn is_nan(self, code: u64) -> bool {
        let magnitude = code & self.magnitude_mask();
        match self.specials {
            Specials::Ieee => magnitude > self.infinity_code(),
            Specials::NanOnly => magnitude == self.magnitude_mask(),
            Specials::None => false,
        }
    }

    pub(crate) const fn is_infinite(self, code: u64) -> bool {
        matches!(self.specials, Specials::Ieee)
            && code & self.magnitude_mask() == self.infinity_code()
    }

    /// Neither zero nor normal nor special.
    pub(crate) const fn is_subnormal(self, code: u64) -> bool {
        let (field, mantissa) = self.field_and_mantissa(code);
        field == 0 && mantissa != 0
    }

    /// A subnormal code becomes the zero of its sign.
    pub(crate) const fn flush(self, code: u64) -> u64 {
        if self.is_subnormal(code) {
            code & self.sign_bit()
        } else {
            code
        }
    }

    /// What a code stands for; exact. Bits above the format's width are ignored.
    pub(crate) const fn decode(self, code: u64) -> Value {
        let negative = self.is_negative(code);
        if self.is_nan(code) {
            return Value::Nan;
        }
        if self.is_infinite(code) {
            return Value::Infinite { negative };
        }
        let (field, mantissa) = self.field_and_mantissa(code);
        let (significand, field) = if field == 0 {
            (mantissa, 1)
        } else {
            (mantissa | 1 << self.mantissa_bits, field)
        };
        Value::Finite(Exact {
            negative,
            significand: significand as u128,
            exponent: field as i32 - self.bias() - self.mantissa_bits as i32,
        })
    }

    /// The code of a value, rounded once. NaN gives [`FloatFormat::nan_code`].
    ///
    /// Beyond the largest number IEEE 754 decides: infinity, or the largest number where the
    /// rounding goes toward zero. E4M3 then gives NaN and formats without specials their largest.
    pub(crate) fn encode(self, value: Value, rounding: Rounding) -> u64 {
        match value {
            Value::Nan => self.nan_code(),
            Value::Infinite { negative } => self.with_sign(self.overflow_code(), negative),
            Value::Finite(exact) => {
                let code = self.round(exact, rounding);
                let code = if code <= u128::from(self.max_code()) {
                    code as u64
                } else if rounds_away(rounding, exact.negative, Some(Ordering::Greater), true) {
                    self.overflow_code()
                } else {
                    self.max_code()
                };
                self.with_sign(code, exact.negative)
            }
        }
    }

    /// The same, with the largest number wherever a magnitude is beyond it (`.satfinite`).
    pub(crate) fn encode_saturated(self, value: Value, rounding: Rounding) -> u64 {
        match value {
            Value::Nan => self.nan_code(),
            Value::Infinite { negative } => self.with_sign(self.max_code(), negative),
            Value::Finite(exact) => {
                let code = self.round(exact, rounding);
                let code = code.min(u128::from(self.max_code())) as u64;
                self.with_sign(code, exact.negative)
            }
        }
    }

    const fn with_sign(self, magnitude: u64, negative: bool) -> u64 {
        if negative {
            magnitude | self.sign_bit()
        } else {
            magnitude
        }
    }

    const fn overflow_code(self) -> u64 {
        match self.specials {
            Specials::Ieee => self.infinity_code(),
            Specials::NanOnly | Specials::None => self.magnitude_mask(),
        }
    }

    /// Code of the magnitude as if the exponent field had no end.
    fn round(self, exact: Exact, rounding: Rounding) -> u128 {
        let Exact {
            negative,
            significand,
            exponent,
        } = exact;
        if significand == 0 {
            return 0;
        }
        let leading_bit = 127 - significand.leading_zeros() as i32;
        let octave = (leading_bit + exponent).max(self.min_exponent());
        let n_dropped = octave - self.mantissa_bits as i32 - exponent;
        let (kept, dropped) = split(significand, n_dropped);
        let odd = kept & 1 == 1;
        let up = rounds_away(rounding, negative, dropped, odd);
        // The leading one of a normal number adds one to the exponent field, and so does a carry.
        let field = (octave - self.min_exponent()) as u128;
        (field << self.mantissa_bits) + kept + u128::from(up)
    }
}

/// How what was dropped compares with half of the lowest bit that is kept; `None` where nothing was.
type Dropped = Option<Ordering>;

fn split(significand: u128, n_dropped: i32) -> (u128, Dropped) {
    match n_dropped {
        ..=0 => (significand << -n_dropped, None),
        1..=127 => {
            let rest = significand & ((1 << n_dropped) - 1);
            let half = 1_u128 << (n_dropped - 1);
            (
                significand >> n_dropped,
                (rest != 0).then(|| rest.cmp(&half)),
            )
        }
        128 => (0, Some(significand.cmp(&(1 << 127)))),
        _ => (0, Some(Ordering::Less)),
    }
}

/// Whether the magnitude is rounded up.
fn rounds_away(rounding: Rounding, negative: bool, dropped: Dropped, odd: bool) -> bool {
    let Some(against_half) = dropped else {
        return false;
    };
    match rounding {
        Rounding::NearestEven => {
            against_half == Ordering::Greater || against_half == Ordering::Equal && odd
        }
        Rounding::NearestAway => against_half != Ordering::Less,
        Rounding::TowardZero => false,
        Rounding::Down => negative,
        Rounding::Up => !negative,
    }
}

impl Exact {
    /// The nearest whole number's magnitude; a magnitude beyond 64 bits gives `u128::MAX`.
    pub(crate) fn round_to_integer(self, rounding: Rounding) -> u128 {
        if self.significand == 0 {
            return 0;
        }
        let leading_bit = 127 - self.significand.leading_zeros() as i32;
        if leading_bit + self.exponent > 64 {
            return u128::MAX;
        }
        let (kept, dropped) = split(self.significand, -self.exponent);
        kept + u128::from(rounds_away(rounding, self.negative, dropped, kept & 1 == 1))
    }

    /// Floor of the binary logarithm, and whether the number is more than that power of two.
    /// For numbers other than zero.
    pub(crate) fn floor_log2(self) -> (i32, bool) {
        let leading_bit = 127 - self.significand.leading_zeros();
        let more = self.significand & ((1 << leading_bit) - 1) != 0;
        (leading_bit as i32 + self.exponent, more)
    }
}
