//! The sum that a tensor core takes at once: aligned, truncated, added, rounded once.
//!
//! ```text
//! term i     a_i b_i, exact;   its exponent e_i = e(a_i) + e(b_i), not normalized
//! e_max    = max over e_i and the exponent of c
//! unit     = 2^(e_max - F)
//! sum      = trunc(c / unit) + sum over i of trunc(a_i b_i / unit)        truncated toward zero
//! result   = sum * unit, rounded to f32 toward zero (beyond its range: infinity),
//!            or to f16 to the nearest even;   a sum of zero is +0
//! ```
//!
//! NaN and infinity are what IEEE 754 makes of the terms; NaN is 7FFFFFFF, 7FFF.
//!
//! A term is computed as `x = (a b) 2^(F - e_max)` in f64, exact because the product has at most
//! 22 bits, and truncated by two additions that the processor rounds to nearest:
//!
//! ```text
//! trunc(x) = (x - h) + M - M      x >= 0, h = 1/2 - 2^-30, M = 3 * 2^51, whose last bit counts one
//! ```
//!
//! With x = n + f, n whole and f < 1: f is at most 1 - 2^-22, since x has 22 bits, so x - h is
//! above n - 1/2 and below n + 1/2, by 2^-31 at least, more than the rounding of x - h, and n is
//! the nearest whole number. From 2^22 on x is even, and where x - h becomes the tie x - 1/2 it
//! goes to x. Negative x likewise. Terms stay below 2^27, so sums are exact too.
//!
//! The four-bit kinds take groups of 16: the sum of a group's products is exact, times the two
//! scales' significands; its exponent is the sum of the scales' exponents alone; F = 35.
//!
//! Source: microsoft/MMA-Sim (arXiv 2511.10909), validated there bit by bit on hardware up to
//! sm_120; the family of behaviour also in arXiv 2512.07004 and 2510.15884. Nobody published a
//! check on sm_121. That an infinite C gives itself in the four-bit kinds is this crate's choice.

use super::element::{Number, ZERO_EXPONENT, power_of_two};
use super::fragment::{MAX_DEPTH, N_COLUMNS, N_ROWS, for_each_a, for_each_b};
use super::scale::Scales;
use crate::float::Rounding;
use crate::float::format::{Exact, F16, Value};
use crate::lanes::Lanes;

/// A little less than a half, see the module.
const ALMOST_HALF: f64 = 0.5 - 1.0 / (1 << 30) as f64;
/// Its last bit counts one, so adding it rounds to a whole number.
const ROUNDER: f64 = 3.0 * (1_u64 << 51) as f64;

/// Largest depth of a float `mma` outside the four-bit kinds.
pub(super) const MAX_FLOAT_DEPTH: usize = 32;

/// Bits kept below the largest exponent, in the four-bit kinds.
const GROUP_FRACTION_BITS: i32 = 35;
pub(super) const GROUP: usize = 16;

/// How a sum is aligned and what becomes of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Model {
    /// `F`: bits kept below the largest exponent; at most 25.
    pub(super) fraction_bits: i32,
    pub(super) output: Output,
}

/// What a sum is rounded to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Output {
    /// f32, toward zero, with so many mantissa bits: 23, or 13 of Ada's fp8.
    F32 { mantissa_bits: i32 },
    /// f16, to the nearest even.
    F16,
}

pub(super) const NAN_F32: u32 = 0x7FFF_FFFF;
pub(super) const NAN_F16: u32 = 0x7FFF;

/// A and B as numbers: k runs within a row of A, and over rows of B.
pub(super) struct FloatTiles {
    pub(super) a: [[f64; MAX_FLOAT_DEPTH]; N_ROWS],
    pub(super) a_exponents: [[i16; MAX_FLOAT_DEPTH]; N_ROWS],
    pub(super) b: [[f64; N_COLUMNS]; MAX_FLOAT_DEPTH],
    pub(super) b_exponents: [[i16; N_COLUMNS]; MAX_FLOAT_DEPTH],
    pub(super) is_finite: bool,
}

impl FloatTiles {
    pub(super) fn zero() -> FloatTiles {
        FloatTiles {
            a: [[0.0; MAX_FLOAT_DEPTH]; N_ROWS],
            a_exponents: [[ZERO_EXPONENT; MAX_FLOAT_DEPTH]; N_ROWS],
            b: [[0.0; N_COLUMNS]; MAX_FLOAT_DEPTH],
            b_exponents: [[ZERO_EXPONENT; N_COLUMNS]; MAX_FLOAT_DEPTH],
            is_finite: true,
        }
    }

    #[inline(always)]
    fn set_a(&mut self, row: usize, k: usize, number: Number) {
        self.a[row][k] = number.value;
        self.a_exponents[row][k] = number.exponent;
        self.is_finite &= number.value.is_finite();
    }

    #[inline(always)]
    fn set_b(&mut self, k: usize, column: usize, number: Number) {
        self.b[k][column] = number.value;
        self.b_exponents[k][column] = number.exponent;
        self.is_finite &= number.value.is_finite();
    }

    /// Fills in A from its registers. `place` says where a k stands in the order of the sum.
    ///
    /// Inlined, so that the widths of the format are constants in each of its uses.
    #[inline(always)]
    pub(super) fn fill_a(
        &mut self,
        registers: &[Lanes],
        bits: u32,
        place: impl Fn(usize) -> usize,
        decode: impl Fn(u32) -> Number,
    ) {
        for_each_a(registers, bits, |row, k, code| {
            self.set_a(row, place(k), decode(code));
        });
    }

    /// Fills in B likewise.
    #[inline(always)]
    pub(super) fn fill_b(
        &mut self,
        registers: &[Lanes],
        bits: u32,
        place: impl Fn(usize) -> usize,
        decode: impl Fn(u32) -> Number,
    ) {
        for_each_b(registers, bits, |k, column, code| {
            self.set_b(place(k), column, decode(code));
        });
    }

    /// The same with zeros for what is no number.
    pub(super) fn finite_part(&self) -> FloatTiles {
        let mut part = FloatTiles::zero();
        for k in 0..MAX_FLOAT_DEPTH {
            for row in 0..N_ROWS {
                let number = Number {
                    value: self.a[row][k],
                    exponent: self.a_exponents[row][k],
                };
                part.set_a(row, k, number.finite_or_zero());
            }
            for column in 0..N_COLUMNS {
                let number = Number {
                    value: self.b[k][column],
                    exponent: self.b_exponents[k][column],
                };
                part.set_b(k, column, number.finite_or_zero());
            }
        }
        part
    }
}

/// C, or a sum on its way: numbers with their exponents.
pub(super) type NumberTile = [[Number; N_COLUMNS]; N_ROWS];

/// Exponents of the scales of each row and column, of the eight-bit kinds.
pub(super) struct ScaleExponents {
    pub(super) rows: [i32; N_ROWS],
    pub(super) columns: [i32; N_COLUMNS],
}

/// Bits of one result. The sum is a whole number below 2^34.
#[inline(always)]
fn round(sum: f64, unit_exponent: i32, output: Output) -> u32 {
    // Exact: few bits, and far from the ends of f64.
    let bits = (sum * power_of_two(unit_exponent)).to_bits();
    let field = (bits >> 52 & 0x7FF) as i32 - 1023;
    if (-126..128).contains(&field) && output == (Output::F32 { mantissa_bits: 23 }) {
        // A normal number of f32: f64's mantissa cut after 23 bits is toward zero.
        let sign = (bits >> 32) as u32 & 0x8000_0000;
        let mantissa = (bits >> 29) as u32 & 0x007F_FFFF;
        return sign | ((field + 127) as u32) << 23 | mantissa;
    }
    round_slowly(sum as i64, unit_exponent, output)
}

fn round_slowly(sum: i64, unit_exponent: i32, output: Output) -> u32 {
    match output {
        Output::F32 { mantissa_bits } => round_to_f32(sum, unit_exponent, mantissa_bits),
        Output::F16 => F16.encode(
            Value::Finite(Exact {
                // A sum of zero is positive.
                negative: sum < 0,
                significand: u128::from(sum.unsigned_abs()),
                exponent: unit_exponent,
            }),
            Rounding::NearestEven,
        ) as u32,
    }
}

fn round_to_f32(sum: i64, unit_exponent: i32, mantissa_bits: i32) -> u32 {
    const MIN_EXPONENT: i32 = -126;
    if sum == 0 {
        return 0;
    }
    let magnitude = sum.unsigned_abs();
    let sign = ((sum < 0) as u32) << 31;
    let leading_bit = 63 - magnitude.leading_zeros() as i32;
    let exponent = leading_bit + unit_exponent;
    if exponent > 127 {
        return sign | 0x7F80_0000;
    }
    let octave = exponent.max(MIN_EXPONENT);
    let n_dropped = octave - mantissa_bits - unit_exponent;
    let kept = match n_dropped {
        ..=0 => magnitude << -n_dropped,
        1..=63 => magnitude >> n_dropped,
        _ => 0,
    };
    // The leading one of a normal number adds one to the exponent field.
    let field = (octave - MIN_EXPONENT) as u32;
    sign | ((field << 23) + ((kept as u32) << (23 - mantissa_bits)))
}

/// What IEEE 754 makes of infinite and NaN terms: bits of the result, or `None` for a number.
pub(super) fn special(terms: impl Iterator<Item = f64>, output: Output) -> Option<u32> {
    let sum: f64 = terms.sum();
    let (nan, infinity, sign) = match output {
        Output::F32 { .. } => (NAN_F32, 0x7F80_0000, 0x8000_0000),
        Output::F16 => (NAN_F16, 0x7C00, 0x8000),
    };
    if sum.is_nan() {
        return Some(nan);
    }
    if sum.is_infinite() {
        return Some(if sum < 0.0 { infinity | sign } else { infinity });
    }
    None
}

/// The sums over `k` of a range, all of whose numbers are finite. Bits of the results.
pub(super) fn add_products(
    tiles: &FloatTiles,
    range: std::ops::Range<usize>,
    c: &NumberTile,
    scales: Option<&ScaleExponents>,
    model: Model,
) -> [[u32; N_COLUMNS]; N_ROWS] {
    let mut results = [[0; N_COLUMNS]; N_ROWS];
    for (row, results) in results.iter_mut().enumerate() {
        let a = &tiles.a[row][range.clone()];
        let a_exponents = &tiles.a_exponents[row][range.clone()];
        let b = &tiles.b[range.clone()];
        let b_exponents = &tiles.b_exponents[range.clone()];

        let mut term_exponents = [i16::MIN; N_COLUMNS];
        for (a, b) in a_exponents.iter().zip(b_exponents) {
            for (largest, b) in term_exponents.iter_mut().zip(b) {
                *largest = (*largest).max(a + b);
            }
        }
        let mut unit_exponents = [0; N_COLUMNS];
        let mut factors = [0.0; N_COLUMNS];
        let mut sums = [0.0; N_COLUMNS];
        for column in 0..N_COLUMNS {
            let scale = scales.map_or(0, |scales| scales.rows[row] + scales.columns[column]);
            let start = c[row][column];
            let largest =
                (i32::from(term_exponents[column]) + scale).max(i32::from(start.exponent));
            unit_exponents[column] = largest - model.fraction_bits;
            factors[column] = power_of_two(scale - unit_exponents[column]);
            // The cast truncates toward zero; the value is below 2^26.
            sums[column] = (start.value * power_of_two(-unit_exponents[column])) as i64 as f64;
        }
        for (a, b) in a.iter().zip(b) {
            for column in 0..N_COLUMNS {
                let term = a * b[column] * factors[column];
                let below = term - ALMOST_HALF.copysign(term);
                sums[column] += (below + ROUNDER) - ROUNDER;
            }
        }
        for column in 0..N_COLUMNS {
            results[column] = round(sums[column], unit_exponents[column], model.output);
        }
    }
    results
}

/// One result of the four-bit kinds. `a` and `b` are its row and column in halves; its scales are
/// finite, and so is `c`.
pub(super) fn add_groups(
    a: &[i32; MAX_DEPTH],
    b: &[i32; MAX_DEPTH],
    c: Number,
    scales_a: &Scales,
    scales_b: &Scales,
    n_scales: usize,
) -> u32 {
    const N_GROUPS: usize = MAX_DEPTH / GROUP;
    let mut groups = [(0_i64, 0_i32); N_GROUPS];
    let mut largest = i32::from(c.exponent);
    for (idx, group) in groups.iter_mut().enumerate() {
        let range = idx * GROUP..(idx + 1) * GROUP;
        let sum: i32 = a[range.clone()]
            .iter()
            .zip(&b[range])
            .map(|(a, b)| a * b)
            .sum();
        let (scale_a, scale_b) = (
            scales_a[idx * n_scales / N_GROUPS],
            scales_b[idx * n_scales / N_GROUPS],
        );
        *group = (
            i64::from(sum) * scale_a.eighths * scale_b.eighths,
            scale_a.exponent + scale_b.exponent,
        );
        largest = largest.max(group.1);
    }
    let unit_exponent = largest - GROUP_FRACTION_BITS;
    // Products count quarters, scales eighths each.
    const GROUP_POINT: i32 = 2 + 3 + 3;
    let mut total = (c.value * power_of_two(-unit_exponent)) as i64;
    for (sum, exponent) in groups {
        total += shift_toward_zero(sum, exponent - GROUP_POINT - unit_exponent);
    }
    round_to_f32(total, unit_exponent, 23)
}

fn shift_toward_zero(value: i64, n_bits: i32) -> i64 {
    if n_bits >= 0 {
        return value << n_bits;
    }
    let magnitude = value.unsigned_abs().checked_shr(-n_bits as u32);
    let magnitude = magnitude.unwrap_or(0) as i64;
    if value < 0 { -magnitude } else { magnitude }
}
