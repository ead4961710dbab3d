//! Arithmetic of one number: special operands, then the exact result, then one rounding.
//!
//! ```text
//! NaN operand or invalid operation   NaN: 7FFF, 7FFFFFFF; f64 keeps the first operand's payload
//! inf - inf, 0 * inf, 0/0, inf/inf,
//! sqrt of a negative number          invalid
//! x / 0                              infinity
//! min, max                           the other operand if one is NaN; -0 is below +0
//! ```
//!
//! Which NaN an invalid f64 operation gives no document says; FFF8000000000000 is this crate's
//! choice, as on x86. Compare NaN-ness, not bits.
//!
//! Source: IEEE 754-2019; PTX ISA 9.1, 9.7.3 ("Single-precision instructions return an
//! unspecified NaN", "NaN payloads are supported for double-precision instructions").

use super::exact;
use super::format::{Exact, F32, F64, FloatFormat, Rounding, Value};
use super::kind::FloatKind;

const QUIET_BIT_F64: u64 = 1 << 51;
const INVALID_F64: u64 = 0xFFF8_0000_0000_0000;

/// NaN of an operation whose operands are these.
pub(super) fn nan_of(kind: FloatKind, operands: &[u64]) -> u64 {
    let format = kind.format();
    if kind != FloatKind::F64 {
        return format.nan_code();
    }
    let payload = operands.iter().find(|code| format.is_nan(**code));
    payload.map_or(INVALID_F64, |code| code | QUIET_BIT_F64)
}

fn finish(kind: FloatKind, value: Value, operands: &[u64], rounding: Rounding) -> u64 {
    if value == Value::Nan {
        return nan_of(kind, operands);
    }
    kind.format().encode(value, rounding)
}

/// Sum of two codes.
pub(super) fn add(kind: FloatKind, a: u64, b: u64, rounding: Rounding) -> u64 {
    if rounding == Rounding::NearestEven {
        match kind {
            FloatKind::F32 => return native_f32(f32_of(a) + f32_of(b)),
            FloatKind::F64 => {
                let sum = f64::from_bits(a) + f64::from_bits(b);
                return native_f64(sum, &[a, b]);
            }
            FloatKind::F16 | FloatKind::Bf16 => {}
        }
    }
    add_exactly(kind, a, b, rounding)
}

/// The same without the processor's own arithmetic.
pub(super) fn add_exactly(kind: FloatKind, a: u64, b: u64, rounding: Rounding) -> u64 {
    let format = kind.format();
    let sum = sum_of(format.decode(a), format.decode(b), rounding);
    finish(kind, sum, &[a, b], rounding)
}

/// Product of two codes.
pub(super) fn multiply(kind: FloatKind, a: u64, b: u64, rounding: Rounding) -> u64 {
    if rounding == Rounding::NearestEven {
        match kind {
            FloatKind::F32 => return native_f32(f32_of(a) * f32_of(b)),
            FloatKind::F64 => {
                let product = f64::from_bits(a) * f64::from_bits(b);
                return native_f64(product, &[a, b]);
            }
            FloatKind::F16 | FloatKind::Bf16 => {}
        }
    }
    multiply_exactly(kind, a, b, rounding)
}

/// The same without the processor's own arithmetic.
pub(super) fn multiply_exactly(kind: FloatKind, a: u64, b: u64, rounding: Rounding) -> u64 {
    let format = kind.format();
    let product = product_of(format.decode(a), format.decode(b));
    finish(kind, product, &[a, b], rounding)
}

/// `a * b + c`, rounded once.
pub(super) fn fused_multiply_add(kind: FloatKind, codes: [u64; 3], rounding: Rounding) -> u64 {
    let [a, b, c] = codes;
    if rounding == Rounding::NearestEven {
        match kind {
            FloatKind::F32 => return native_f32(f32_of(a).mul_add(f32_of(b), f32_of(c))),
            FloatKind::F64 => {
                let [x, y, z] = codes.map(f64::from_bits);
                return native_f64(x.mul_add(y, z), &codes);
            }
            FloatKind::F16 | FloatKind::Bf16 => {}
        }
    }
    fused_multiply_add_exactly(kind, codes, rounding)
}

/// The same without the processor's own arithmetic.
pub(super) fn fused_multiply_add_exactly(
    kind: FloatKind,
    codes: [u64; 3],
    rounding: Rounding,
) -> u64 {
    let [a, b, c] = codes.map(|code| kind.format().decode(code));
    let sum = sum_of(product_of(a, b), c, rounding);
    finish(kind, sum, &codes, rounding)
}

/// Quotient of two codes.
pub(super) fn divide(kind: FloatKind, a: u64, b: u64, rounding: Rounding) -> u64 {
    if rounding == Rounding::NearestEven {
        match kind {
            FloatKind::F32 => return native_f32(f32_of(a) / f32_of(b)),
            FloatKind::F64 => {
                let quotient = f64::from_bits(a) / f64::from_bits(b);
                return native_f64(quotient, &[a, b]);
            }
            FloatKind::F16 | FloatKind::Bf16 => {}
        }
    }
    divide_exactly(kind, a, b, rounding)
}

/// The same without the processor's own arithmetic.
pub(super) fn divide_exactly(kind: FloatKind, a: u64, b: u64, rounding: Rounding) -> u64 {
    let format = kind.format();
    let quotient = match (format.decode(a), format.decode(b)) {
        (Value::Nan, _) | (_, Value::Nan) => Value::Nan,
        (Value::Infinite { .. }, Value::Infinite { .. }) => Value::Nan,
        (Value::Infinite { negative }, Value::Finite(y)) => Value::Infinite {
            negative: negative != y.negative,
        },
        (Value::Finite(x), Value::Infinite { negative }) => Value::zero(x.negative != negative),
        (Value::Finite(x), Value::Finite(y)) => match (x.significand, y.significand) {
            (0, 0) => Value::Nan,
            (0, _) => Value::zero(x.negative != y.negative),
            (_, 0) => Value::Infinite {
                negative: x.negative != y.negative,
            },
            _ => Value::Finite(exact::divide(x, y)),
        },
    };
    finish(kind, quotient, &[a, b], rounding)
}

/// Square root of a code.
pub(super) fn square_root(kind: FloatKind, a: u64, rounding: Rounding) -> u64 {
    if rounding == Rounding::NearestEven {
        match kind {
            FloatKind::F32 => return native_f32(f32_of(a).sqrt()),
            FloatKind::F64 => return native_f64(f64::from_bits(a).sqrt(), &[a]),
            FloatKind::F16 | FloatKind::Bf16 => {}
        }
    }
    square_root_exactly(kind, a, rounding)
}

/// The same without the processor's own arithmetic.
pub(super) fn square_root_exactly(kind: FloatKind, a: u64, rounding: Rounding) -> u64 {
    let root = match kind.format().decode(a) {
        Value::Nan | Value::Infinite { negative: true } => Value::Nan,
        Value::Finite(x) if x.significand == 0 => Value::zero(x.negative),
        Value::Finite(Exact { negative: true, .. }) => Value::Nan,
        Value::Finite(x) => Value::Finite(exact::square_root(x)),
        infinity @ Value::Infinite { .. } => infinity,
    };
    finish(kind, root, &[a], rounding)
}

fn sum_of(a: Value, b: Value, rounding: Rounding) -> Value {
    match (a, b) {
        (Value::Nan, _) | (_, Value::Nan) => Value::Nan,
        (Value::Infinite { negative: x }, Value::Infinite { negative: y }) if x != y => Value::Nan,
        (infinity @ Value::Infinite { .. }, _) | (_, infinity @ Value::Infinite { .. }) => infinity,
        (Value::Finite(x), Value::Finite(y)) => Value::Finite(exact::add(x, y, rounding)),
    }
}

fn product_of(a: Value, b: Value) -> Value {
    let negative = |value: Value| match value {
        Value::Nan => false,
        Value::Infinite { negative } => negative,
        Value::Finite(exact) => exact.negative,
    };
    match (a, b) {
        (Value::Nan, _) | (_, Value::Nan) => Value::Nan,
        (Value::Finite(x), Value::Finite(y)) => Value::Finite(exact::multiply(x, y)),
        (a, b) if a.is_zero() || b.is_zero() => Value::Nan,
        (a, b) => Value::Infinite {
            negative: negative(a) != negative(b),
        },
    }
}

fn f32_of(code: u64) -> f32 {
    f32::from_bits(code as u32)
}

/// Bits of a result of the processor, whose NaN differs. IEEE 754 leaves nothing else open.
fn native_f32(result: f32) -> u64 {
    if result.is_nan() {
        F32.nan_code()
    } else {
        u64::from(result.to_bits())
    }
}

fn native_f64(result: f64, operands: &[u64]) -> u64 {
    if result.is_nan() {
        nan_of(FloatKind::F64, operands)
    } else {
        result.to_bits()
    }
}

/// The code, sign reversed. NaN too, which the manual leaves unspecified.
pub(super) const fn negate(format: FloatFormat, code: u64) -> u64 {
    code ^ format.sign_bit()
}

/// Whether `min` (or `max`) takes `a` of two codes that are no NaN.
pub(super) fn is_first(format: FloatFormat, a: u64, b: u64, largest: bool) -> bool {
    // Codes without their sign are ordered as their values are, and -0 comes below +0.
    let key = |code: u64| {
        let magnitude = (code & format.magnitude_mask()) as i64;
        if format.is_negative(code) {
            -magnitude - 1
        } else {
            magnitude
        }
    };
    if largest {
        key(a) > key(b)
    } else {
        key(a) < key(b)
    }
}

/// The f64 value rounded to a type; NaN gives the type's NaN.
pub(super) fn from_f64(kind: FloatKind, value: f64) -> u64 {
    finish(
        kind,
        F64.decode(value.to_bits()),
        &[value.to_bits()],
        Rounding::NearestEven,
    )
}
