//! Execution of one `mma`: registers to tiles, the sums, and back.
//!
//! ```text
//! compute capability   float sums          F    k is summed
//! 8.0, 8.6, 8.7        f16, bf16, tf32     24   in two halves one after the other (m16n8k16,
//!                                               m16n8k8 of tf32), else at once
//! 8.9                  the same            24   likewise
//!                      fp8                 13   two halves for k = 32; f32 results keep 13
//!                                               mantissa bits
//! 9.0                  f16, bf16, tf32     25   at once
//!                      fp8                 25   places 0, 1 of each four, then 2, 3, starting at
//!                                               zero; then C is added, rounded to nearest
//! 12.x                 all                 25   at once
//!                      four-bit kinds      35   groups of 16
//! ```
//!
//! Source: [`fused_sum`](super::fused_sum). 9.0 has no fp8 `mma`: ptxas 13.0 makes of it a
//! conversion to f16, two `HMMA` and an addition, which is what is done here.

use std::ops::Range;

use super::element::{Element, Number, number};
use super::error::TensorError;
use super::fragment::{
    Accumulators, MAX_DEPTH, N_COLUMNS, N_ROWS, for_each_a, for_each_b, read_c, write_d,
};
use super::fused_sum::{
    self, FloatTiles, Model, NAN_F32, NumberTile, Output, ScaleExponents, add_groups, add_products,
};
use super::integer::{self, IntegerTiles};
use super::mma_form::{Accumulator, Kind, MmaForm};
use super::scale::{self, BlockScales, Scales};
use crate::float::format::{BF16, E2M1, E2M3, E3M2, E4M3, E5M2, F16, F32, FloatFormat, TF32};
use crate::float::{FloatForm, FloatKind, Rounding};
use crate::lanes::Lanes;
use crate::target::Target;

type RowScales = ([Scales; N_ROWS], [Scales; N_COLUMNS]);

impl MmaForm {
    /// D of a whole warp, from registers laid out as the manual's figures say.
    ///
    /// # Numerics
    ///
    /// Integers are exact. Floats follow a model of the tensor cores of `target`: products are
    /// exact, terms are truncated toward zero at a fixed distance below the largest exponent, f32
    /// results are rounded toward zero, f16 results to nearest even; NaN is 7FFFFFFF and 7FFF,
    /// subnormal operands count, the low 13 bits of tf32 do not. The manual specifies none of this
    /// ("at least single precision"). Others validated the model on hardware up to sm_120, nobody
    /// on sm_121. Whole numbers whose sums stay below 2^24 are exact in any model.
    ///
    /// # Errors
    ///
    /// [`TensorError`] if the registers are not as many as [`MmaForm::registers`] says, padding
    /// bits are set, a selector is none of the manual's, or scales are missing or too many. `d` is
    /// untouched on error.
    pub fn execute(
        &self,
        a: &[Lanes],
        b: &[Lanes],
        c: &[Lanes],
        scales: Option<&BlockScales>,
        target: Target,
        d: &mut [Lanes],
    ) -> Result<(), TensorError> {
        let registers = self.registers();
        for (operand, got, want) in [
            ("a", a.len(), registers.a),
            ("b", b.len(), registers.b),
            ("c", c.len(), registers.c),
            ("d", d.len(), registers.d),
        ] {
            if got != want {
                return Err(TensorError::RegisterCount { operand, got, want });
            }
        }
        let row_scales = match (self.scales, scales) {
            (Some((scale_type, n)), Some(scales)) => Some(scale::read(scales, scale_type, n)?),
            (None, None) => None,
            (Some(_), None) => return Err(TensorError::NoScales),
            (None, Some(_)) => return Err(TensorError::UnexpectedScales),
        };
        if matches!(self.kind, Kind::F8f6f4 | Kind::Mxf8f6f4) {
            check_padding("a", a, self.a.padding())?;
            check_padding("b", b, self.b.padding())?;
        }
        let bits = match self.accumulator {
            Accumulator::F16 => 16,
            Accumulator::F32 | Accumulator::S32 => 32,
        };
        let start = read_c(c, bits);
        let result = match (self.kind, row_scales) {
            (Kind::Mxf4 | Kind::Mxf4nvf4, Some(row_scales)) => {
                self.multiply_groups(a, b, &start, &row_scales)
            }
            _ if self.accumulator == Accumulator::S32 => self.multiply_integers(a, b, &start),
            (_, row_scales) => {
                let tiles = self.float_tiles(a, b, target);
                self.multiply_floats(&tiles, &start, row_scales.as_ref(), target)
            }
        };
        write_d(&result, bits, d);
        Ok(())
    }

    fn multiply_integers(&self, a: &[Lanes], b: &[Lanes], c: &Accumulators) -> Accumulators {
        let mut tiles = IntegerTiles {
            a: [[0; MAX_DEPTH]; N_ROWS],
            b: [[0; N_COLUMNS]; MAX_DEPTH],
        };
        for_each_a(a, self.container_bits(self.a), |row, k, code| {
            tiles.a[row][k] = self.a.integer(code);
        });
        for_each_b(b, self.container_bits(self.b), |k, column, code| {
            tiles.b[k][column] = self.b.integer(code);
        });
        integer::multiply(&tiles, self.depth, c, self.saturate)
    }

    /// Four-bit kinds: e2m1 in halves, which are whole numbers.
    fn multiply_groups(
        &self,
        a: &[Lanes],
        b: &[Lanes],
        c: &Accumulators,
        (scales_a, scales_b): &RowScales,
    ) -> Accumulators {
        let halves = |code| (number(E2M1, code).value * 2.0) as i32;
        let mut rows = [[0; MAX_DEPTH]; N_ROWS];
        let mut columns = [[0; MAX_DEPTH]; N_COLUMNS];
        for_each_a(a, 4, |row, k, code| rows[row][k] = halves(code));
        for_each_b(b, 4, |k, column, code| columns[column][k] = halves(code));
        let n_scales = self.scales.map_or(1, |(_, n)| n);
        let has_nan = |scales: &Scales| scales[..n_scales].iter().any(|scale| scale.is_nan);
        let mut d = [[0; N_COLUMNS]; N_ROWS];
        for row in 0..N_ROWS {
            for column in 0..N_COLUMNS {
                let start = number(F32, c[row][column]);
                let (scales_a, scales_b) = (&scales_a[row], &scales_b[column]);
                d[row][column] = if has_nan(scales_a) || has_nan(scales_b) || start.value.is_nan() {
                    NAN_F32
                } else if start.value.is_infinite() {
                    c[row][column]
                } else {
                    let (a, b) = (&rows[row], &columns[column]);
                    add_groups(a, b, start, scales_a, scales_b, n_scales)
                };
            }
        }
        d
    }

    /// A and B as numbers, k in the order in which it is summed.
    fn float_tiles(&self, a: &[Lanes], b: &[Lanes], target: Target) -> FloatTiles {
        let mut tiles = FloatTiles::zero();
        if self.is_emulated_fp8(target) {
            // Of each four, the first two come in the first half.
            let place = |k: usize| k % 4 / 2 * (self.depth / 2) + k / 4 * 2 + k % 2;
            let format_of = |element| if element == Element::E4m3 { E4M3 } else { E5M2 };
            let (format_a, format_b) = (format_of(self.a), format_of(self.b));
            tiles.fill_a(a, 8, place, |code| as_f16(number(format_a, code)));
            tiles.fill_b(b, 8, place, |code| as_f16(number(format_b, code)));
            return tiles;
        }
        let place = |k| k;
        match self.a {
            Element::F16 => tiles.fill_a(a, 16, place, |code| number(F16, code)),
            Element::Bf16 => tiles.fill_a(a, 16, place, |code| number(BF16, code)),
            // The low 13 bits are dropped.
            Element::Tf32 => tiles.fill_a(a, 32, place, |code| number(TF32, code >> 13)),
            Element::E4m3 => tiles.fill_a(a, 8, place, |code| number(E4M3, code)),
            Element::E5m2 => tiles.fill_a(a, 8, place, |code| number(E5M2, code)),
            Element::E3m2 => tiles.fill_a(a, 8, place, |code| number(E3M2, code)),
            Element::E2m3 => tiles.fill_a(a, 8, place, |code| number(E2M3, code)),
            Element::E2m1 => tiles.fill_a(a, 8, place, |code| number(E2M1, code >> 2)),
            Element::S8 | Element::U8 | Element::S4 | Element::U4 => {}
        }
        match self.b {
            Element::F16 => tiles.fill_b(b, 16, place, |code| number(F16, code)),
            Element::Bf16 => tiles.fill_b(b, 16, place, |code| number(BF16, code)),
            Element::Tf32 => tiles.fill_b(b, 32, place, |code| number(TF32, code >> 13)),
            Element::E4m3 => tiles.fill_b(b, 8, place, |code| number(E4M3, code)),
            Element::E5m2 => tiles.fill_b(b, 8, place, |code| number(E5M2, code)),
            Element::E3m2 => tiles.fill_b(b, 8, place, |code| number(E3M2, code)),
            Element::E2m3 => tiles.fill_b(b, 8, place, |code| number(E2M3, code)),
            Element::E2m1 => tiles.fill_b(b, 8, place, |code| number(E2M1, code >> 2)),
            Element::S8 | Element::U8 | Element::S4 | Element::U4 => {}
        }
        tiles
    }

    fn multiply_floats(
        &self,
        tiles: &FloatTiles,
        c: &Accumulators,
        scales: Option<&RowScales>,
        target: Target,
    ) -> Accumulators {
        let model = self.model(target);
        let format = match self.accumulator {
            Accumulator::F16 => F16,
            _ => F32,
        };
        let exponents = scales.map(|(rows, columns)| ScaleExponents {
            rows: rows.map(|scales| scales[0].exponent),
            columns: columns.map(|scales| scales[0].exponent),
        });
        let emulated = self.is_emulated_fp8(target);
        let first = if emulated {
            &[[0; N_COLUMNS]; N_ROWS]
        } else {
            c
        };
        let mut result = if self.is_in_halves(target) {
            let middle = self.depth / 2;
            let half = self.add_part(
                tiles,
                0..middle,
                first,
                (scales, exponents.as_ref()),
                format,
                model,
            );
            let rest = middle..self.depth;
            self.add_part(
                tiles,
                rest,
                &half,
                (scales, exponents.as_ref()),
                format,
                model,
            )
        } else {
            let all = 0..self.depth;
            self.add_part(
                tiles,
                all,
                first,
                (scales, exponents.as_ref()),
                format,
                model,
            )
        };
        if emulated {
            for (result, c) in result.iter_mut().flatten().zip(c.iter().flatten()) {
                *result = self.add_to_emulated(*result, *c);
            }
        }
        result
    }

    /// One part of k onto the sum so far.
    fn add_part(
        &self,
        tiles: &FloatTiles,
        part: Range<usize>,
        c: &Accumulators,
        (scales, exponents): (Option<&RowScales>, Option<&ScaleExponents>),
        format: FloatFormat,
        model: Model,
    ) -> Accumulators {
        let start = c.map(|row| row.map(|code| number(format, code)));
        let has_nan_scale = scales.is_some_and(|(rows, columns)| {
            rows.iter().chain(columns).any(|scales| scales[0].is_nan)
        });
        let is_finite = !has_nan_scale
            && tiles.is_finite
            && start
                .iter()
                .flatten()
                .all(|number| number.value.is_finite());
        if is_finite {
            return add_products(tiles, part, &start, exponents, model);
        }
        let finite_start = start.map(|row| row.map(Number::finite_or_zero));
        let finite_tiles = tiles.finite_part();
        let finite = add_products(&finite_tiles, part.clone(), &finite_start, exponents, model);
        self.with_specials(finite, tiles, part, &start, scales, model.output)
    }

    /// Puts NaN and infinity where some term is one.
    fn with_specials(
        &self,
        mut result: Accumulators,
        tiles: &FloatTiles,
        part: Range<usize>,
        c: &NumberTile,
        scales: Option<&RowScales>,
        output: Output,
    ) -> Accumulators {
        for (row, results) in result.iter_mut().enumerate() {
            for (column, result) in results.iter_mut().enumerate() {
                let is_nan_scale = scales.is_some_and(|(rows, columns)| {
                    rows[row][0].is_nan || columns[column][0].is_nan
                });
                let ks = part.clone();
                let products = ks.map(|k| tiles.a[row][k] * tiles.b[k][column]);
                let scale_term = if is_nan_scale { f64::NAN } else { 0.0 };
                let terms = products.chain([c[row][column].value, scale_term]);
                if let Some(bits) = fused_sum::special(terms, output) {
                    *result = bits;
                }
            }
        }
        result
    }

    /// The last step of fp8 on 9.0, an ordinary addition.
    fn add_to_emulated(&self, sum: u32, c: u32) -> u32 {
        let kind = match self.accumulator {
            Accumulator::F16 => FloatKind::F16,
            _ => FloatKind::F32,
        };
        FloatForm::sum(kind, Rounding::NearestEven).apply(&[u64::from(c), u64::from(sum)]) as u32
    }

    /// 9.0 computes fp8 as f16.
    fn is_emulated_fp8(&self, target: Target) -> bool {
        self.a.is_fp8() && target.capability() == 90
    }

    fn is_in_halves(&self, target: Target) -> bool {
        let deepest = match self.a {
            Element::F16 | Element::Bf16 => 16,
            Element::Tf32 => 8,
            _ => 32,
        };
        self.is_emulated_fp8(target) || target.capability() < 90 && self.depth == deepest
    }

    fn model(&self, target: Target) -> Model {
        let is_ada_fp8 = self.a.is_fp8() && target.capability() == 89;
        let fraction_bits = match target.capability() {
            _ if is_ada_fp8 => 13,
            ..90 => 24,
            _ => 25,
        };
        let output = match self.accumulator {
            Accumulator::F16 => Output::F16,
            _ if is_ada_fp8 => Output::F32 { mantissa_bits: 13 },
            _ => Output::F32 { mantissa_bits: 23 },
        };
        Model {
            fraction_bits,
            output,
        }
    }
}

/// An fp8 number converted to f16, where small e4m3 numbers are no longer subnormal.
fn as_f16(number: Number) -> Number {
    if number.value == 0.0 || !number.value.is_finite() {
        return number;
    }
    let octave = (number.value.to_bits() >> 52 & 0x7FF) as i16 - 1023;
    Number {
        exponent: octave.max(F16.min_exponent() as i16),
        ..number
    }
}

fn check_padding(
    operand: &'static str,
    registers: &[Lanes],
    padding: u32,
) -> Result<(), TensorError> {
    let in_word = padding * 0x0101_0101;
    for (register, lanes) in registers.iter().enumerate() {
        for (lane, word) in lanes.iter().enumerate() {
            let wrong = word & in_word;
            if wrong != 0 {
                return Err(TensorError::Padding {
                    operand,
                    lane,
                    register,
                    byte: wrong.trailing_zeros() as usize / 8,
                });
            }
        }
    }
    Ok(())
}
