//! What tests compare with: rounding by the definition, on exact f64 values.
//!
//! ```text
//! step     = distance of neighbours at |value|
//! rounded  = round(value / step) * step       value / step is exact, its rounding is std's
//! ```
//!
//! Shares no code with `float::format`; formats are a pair of widths here.

use crate::float::Rounding;

/// Numbers that look random and are the same in every run (splitmix64).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ z >> 31
    }

    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}

/// Exponent and mantissa bits of an IEEE 754 format.
pub(crate) type Widths = (u32, u32);
pub(crate) const F16: Widths = (5, 10);
pub(crate) const BF16: Widths = (8, 7);
pub(crate) const F32: Widths = (8, 23);

/// Value of a code; NaN and infinity included.
pub(crate) fn decode((exponent_bits, mantissa_bits): Widths, code: u64) -> f64 {
    let top = (1_u64 << exponent_bits) - 1;
    let field = code >> mantissa_bits & top;
    let mantissa = (code & ((1 << mantissa_bits) - 1)) as f64 / (1_u64 << mantissa_bits) as f64;
    let bias = (1_i32 << (exponent_bits - 1)) - 1;
    let magnitude = match field {
        0 => mantissa * 2.0_f64.powi(1 - bias),
        field if field == top && mantissa == 0.0 => f64::INFINITY,
        field if field == top => f64::NAN,
        field => (1.0 + mantissa) * 2.0_f64.powi(field as i32 - bias),
    };
    if code >> (exponent_bits + mantissa_bits) & 1 == 1 {
        -magnitude
    } else {
        magnitude
    }
}

/// A whole number near the value, by a rounding.
pub(crate) fn to_whole(value: f64, rounding: Rounding) -> f64 {
    match rounding {
        Rounding::NearestEven => value.round_ties_even(),
        Rounding::NearestAway => value.round(),
        Rounding::TowardZero => value.trunc(),
        Rounding::Down => value.floor(),
        Rounding::Up => value.ceil(),
    }
}

/// Code of an exact finite value, or of infinity. Of formats up to f32.
pub(crate) fn encode(
    (exponent_bits, mantissa_bits): Widths,
    value: f64,
    rounding: Rounding,
) -> u64 {
    let bias = (1_i32 << (exponent_bits - 1)) - 1;
    let sign = u64::from(value.is_sign_negative()) << (exponent_bits + mantissa_bits);
    let infinity = ((1_u64 << exponent_bits) - 1) << mantissa_bits;
    if value.is_infinite() {
        return sign | infinity;
    }
    let octave = ((value.to_bits() >> 52 & 0x7FF) as i32 - 1023).max(1 - bias);
    let step = 2.0_f64.powi(octave - mantissa_bits as i32);
    let n_steps = to_whole(value / step, rounding).abs() as u64;
    let code = ((octave - 1 + bias) as u64) << mantissa_bits;
    let code = code + n_steps;
    let toward_zero = matches!(
        (rounding, value < 0.0),
        (Rounding::TowardZero, _) | (Rounding::Down, false) | (Rounding::Up, true)
    );
    let largest = if toward_zero { infinity - 1 } else { infinity };
    sign | code.min(largest)
}

#[test]
fn the_oracle_agrees_with_the_processor() {
    let mut random = Random(11);
    for _ in 0..200_000 {
        let code = random.next() as u32;
        let value = f32::from_bits(code);
        let decoded = decode(F32, u64::from(code));
        assert!(decoded == f64::from(value) || decoded.is_nan() && value.is_nan());
        let wide =
            f64::from_bits(random.next() & 0x800F_FFFF_FFFF_FFFF | (random.below(280) + 880) << 52);
        let want = u64::from((wide as f32).to_bits());
        assert_eq!(encode(F32, wide, Rounding::NearestEven), want, "{wide:e}");
    }
}
