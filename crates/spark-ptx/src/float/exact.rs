//! Sums, products, quotients and square roots of exact numbers, before any rounding.
//!
//! ```text
//! x * y          whole numbers multiplied, exponents added: exact
//! x + y          both moved so that the larger fills 126 bits; what the smaller loses sets its
//!                lowest bit (`jam`), which is far below any bit that rounding keeps
//! x / y          the quotient's first 64 bits and more, a remainder sets one bit below
//! sqrt(x)        the root's first 60 bits and more, likewise
//! ```
//!
//! Operands have at most 106 significant bits (a product of two f64), quotients and roots at most
//! 53. A jammed bit is at least two below the last bit that f64 keeps, so one rounding of the
//! result is the rounding of the true value in every mode.
//!
//! Source: IEEE 754-2019, 5.4.1; the jamming is that of J. Hauser's SoftFloat, described there.

use super::format::{Exact, Rounding};

/// Bit that the larger of two operands is moved to.
const TOP: u32 = 125;

impl Exact {
    /// Floor of the binary logarithm, for numbers other than zero.
    const fn octave(self) -> i32 {
        127 - self.significand.leading_zeros() as i32 + self.exponent
    }

    /// The same number with its leading one at bit `TOP`.
    const fn normalized(self) -> Exact {
        let shift = TOP as i32 - (127 - self.significand.leading_zeros() as i32);
        Exact {
            negative: self.negative,
            significand: self.significand << shift,
            exponent: self.exponent - shift,
        }
    }
}

/// Sum. A sum of exactly zero is positive, negative with [`Rounding::Down`].
pub(crate) fn add(x: Exact, y: Exact, rounding: Rounding) -> Exact {
    if x.significand == 0 || y.significand == 0 {
        return match (x.significand, y.significand) {
            (0, 0) if x.negative == y.negative => x,
            (0, 0) => zero_of_cancellation(rounding),
            (0, _) => y,
            _ => x,
        };
    }
    let (large, small) = if x.octave() >= y.octave() {
        (x.normalized(), y.normalized())
    } else {
        (y.normalized(), x.normalized())
    };
    let small_part = shift_right_jam(small.significand, (large.exponent - small.exponent) as u32);
    if large.negative == small.negative {
        return Exact {
            significand: large.significand + small_part,
            ..large
        };
    }
    match large.significand.cmp(&small_part) {
        std::cmp::Ordering::Equal => zero_of_cancellation(rounding),
        std::cmp::Ordering::Greater => Exact {
            significand: large.significand - small_part,
            ..large
        },
        std::cmp::Ordering::Less => Exact {
            negative: small.negative,
            significand: small_part - large.significand,
            exponent: large.exponent,
        },
    }
}

fn zero_of_cancellation(rounding: Rounding) -> Exact {
    Exact {
        negative: rounding == Rounding::Down,
        significand: 0,
        exponent: 0,
    }
}

/// Shift to the right; the lowest bit tells that a one was lost.
fn shift_right_jam(significand: u128, n_bits: u32) -> u128 {
    if n_bits == 0 {
        return significand;
    }
    if n_bits > 127 {
        return u128::from(significand != 0);
    }
    let lost = significand & ((1 << n_bits) - 1);
    significand >> n_bits | u128::from(lost != 0)
}

/// Product; exact. Both significands have at most 64 bits.
pub(crate) const fn multiply(x: Exact, y: Exact) -> Exact {
    Exact {
        negative: x.negative != y.negative,
        significand: x.significand * y.significand,
        exponent: x.exponent + y.exponent,
    }
}

/// Quotient of two numbers other than zero, of at most 53 significant bits each.
pub(crate) fn divide(x: Exact, y: Exact) -> Exact {
    let x = x.normalized();
    let quotient = x.significand / y.significand;
    let remainder = x.significand % y.significand;
    Exact {
        negative: x.negative != y.negative,
        significand: quotient << 1 | u128::from(remainder != 0),
        exponent: x.exponent - y.exponent - 1,
    }
}

/// Square root of a positive number.
pub(crate) fn square_root(x: Exact) -> Exact {
    let mut x = x.normalized();
    if x.exponent % 2 != 0 {
        x.significand <<= 1;
        x.exponent -= 1;
    }
    let root = x.significand.isqrt();
    let inexact = root * root != x.significand;
    Exact {
        negative: false,
        significand: root << 1 | u128::from(inexact),
        exponent: x.exponent / 2 - 1,
    }
}
