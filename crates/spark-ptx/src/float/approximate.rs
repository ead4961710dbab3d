//! The `.approx` instructions, as nearly correct as f64 makes them.
//!
//! ```text
//! bound that the manual states     (what a test of a kernel has to allow)
//! rcp      1 ulp                   rsqrt  relative 2^-22.9     sqrt  relative 2^-23
//! div      2 ulp for divisors of 2^-126 to 2^126, zero for larger ones; full: 2 ulp
//! ex2      2 ulp                   lg2    absolute 2^-22 in (0.5, 2), else relative 2^-22
//! sin cos  absolute 2^-20.5 in [-2 pi, 2 pi], 2^-14.7 in [-100 pi, 100 pi]
//! tanh     f32: relative 2^-11; f16, bf16: absolute 2^-10.987, 2^-8
//! ex2      f16, bf16: relative 2^-9.9, 2^-7
//! ```
//!
//! `div` is a rounded reciprocal and a rounded product, as the manual writes it. Other results are
//! the f64 results rounded once more. Hardware differs within the bounds, so
//! nothing that is compared bit by bit may rest on them. ptxas folds constants to the same
//! values, except that `sin` of a subnormal number is zero there.
//!
//! `rcp.approx.ftz.f64` and `rsqrt.approx.ftz.f64` read and write the upper 32 bits alone.
//!
//! Source: PTX ISA 9.1, 9.7.3.8 and 9.7.3.13 to 9.7.3.22, 9.7.4.9, 9.7.4.10.

use super::format::{F64, FloatFormat, Rounding, Specials};

/// A function with an approximate instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Function {
    Reciprocal,
    SquareRoot,
    ReciprocalSquareRoot,
    Exp2,
    Log2,
    Sine,
    Cosine,
    Tanh,
}

/// Value in f64; special operands give what IEEE 754 and the manual's tables say.
pub(super) fn evaluate(function: Function, x: f64) -> f64 {
    match function {
        Function::Reciprocal => 1.0 / x,
        Function::SquareRoot => x.sqrt(),
        Function::ReciprocalSquareRoot => 1.0 / x.sqrt(),
        Function::Exp2 => x.exp2(),
        Function::Log2 => x.log2(),
        Function::Sine => x.sin(),
        Function::Cosine => x.cos(),
        Function::Tanh => x.tanh(),
    }
}

/// `div.approx.f32`: the rounded reciprocal, times `a`, rounded.
///
/// A reciprocal below 2^-126 is zero, which is what the manual says of divisors beyond 2^126. Subnormal
/// divisors are brought into the range first, as an H100 does.
pub(super) fn divide(a: f32, b: f32) -> f32 {
    if b.is_subnormal() {
        return divide(a * 16_777_216.0, b * 16_777_216.0);
    }
    let reciprocal = 1.0 / b;
    let reciprocal = if reciprocal.is_subnormal() {
        0.0_f32.copysign(reciprocal)
    } else {
        reciprocal
    };
    a * reciprocal
}

/// `div.full.f32`: the same, with divisors at the ends of the range brought nearer to one.
pub(super) fn divide_in_full(a: f32, b: f32) -> f32 {
    const LARGE: f32 = f32::from_bits(0x7E80_0000);
    let scale = match b.abs() {
        b if b > LARGE => 0.25,
        b if b < f32::MIN_POSITIVE => 16_777_216.0,
        _ => 1.0,
    };
    divide(a * scale, b * scale)
}

/// f64 with the lower 32 bits of its mantissa cut off.
const UPPER_HALF: FloatFormat = FloatFormat {
    exponent_bits: 11,
    mantissa_bits: 20,
    specials: Specials::Ieee,
};

/// `rcp.approx.ftz.f64` and `rsqrt.approx.ftz.f64`.
pub(super) fn upper_half(function: Function, code: u64) -> u64 {
    let upper = UPPER_HALF.flush(code >> 32);
    if UPPER_HALF.is_nan(upper) {
        return UPPER_HALF.nan_code() << 32;
    }
    let value = evaluate(function, f64::from_bits(upper << 32));
    let result = UPPER_HALF.encode(F64.decode(value.to_bits()), Rounding::NearestEven);
    UPPER_HALF.flush(result) << 32
}
