//! Nearest code by search.
//!
//! ```text
//! encode(x) = the code whose value is nearest to x, found by comparing |x| with every midpoint
//! ```
//!
//! Nothing here shares code with the fast paths beyond the decode tables, which are themselves
//! checked against outside truth. Slow on purpose: loops, f64, no tricks.

use crate::scalar::{MiniFormat, NanCode, Overflow, Specials};

/// Nearest code by search, ties to the even code.
///
/// Midpoints of adjacent values have at most five significant bits, so they are exact in f64 and
/// the comparison decides every case.
pub fn encode(format: MiniFormat, value: f32, overflow: Overflow, nan: NanCode) -> u8 {
    let spec = format.spec();
    let sign_bit = 1u8 << (spec.bits() - 1);
    if value.is_nan() {
        return match (spec.specials, nan) {
            (Specials::NanOnly | Specials::Ieee, _) => 0x7F,
            (Specials::None, NanCode::LargestPositive) => spec.max_code,
            (Specials::None, NanCode::Zero) => 0,
            (Specials::None, NanCode::OppositeZero) if value.is_sign_negative() => 0,
            (Specials::None, NanCode::OppositeZero) => sign_bit,
        };
    }
    let magnitude = f64::from(value.abs());
    let mut code = 0;
    while code < spec.max_code {
        let low = f64::from(format.decode(code));
        let high = f64::from(format.decode(code + 1));
        let middle = (low + high) / 2.0;
        let stays = if code % 2 == 0 {
            magnitude <= middle
        } else {
            magnitude < middle
        };
        if stays {
            break;
        }
        code += 1;
    }
    if code == spec.max_code && overflow == Overflow::NonFinite && spec.specials != Specials::None {
        // The value after the largest, had the format one, decides what is out of range.
        let step = f64::from(format.decode(code)) - f64::from(format.decode(code - 1));
        let middle = f64::from(format.decode(code)) + step / 2.0;
        let stays = if code % 2 == 0 {
            magnitude <= middle
        } else {
            magnitude < middle
        };
        if !stays {
            code += 1;
        }
    }
    if value.is_sign_negative() {
        code | sign_bit
    } else {
        code
    }
}
