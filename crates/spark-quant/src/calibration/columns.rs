//! Sums of the columns of a matrix, exact, at nearly the speed of sums that round.
//!
//! ```text
//! 2^top > every magnitude              h = log2(rows), rounded up;  S = 30 - h octaves of magnitudes at a time
//! sum      += x                        |x| >= 2^(top - S): every x is a multiple of 2^(top - S - 23)
//! absolute += |x|                      and every sum below 2^(top + h): 53 bits, nothing rounds
//! p = x x                              exact, 48 bits
//! high     += (p + M) - M              M = 1.5 * 2^(2 top + h - 1) cuts p at 2^(2 top + h - 53): 53 bits again
//! low      += p - ((p + M) - M)        below 2^(2 top + 2 h - 54), in multiples of 2^(2 top - 2 S - 46): 53 bits
//! ```
//!
//! Values below `2^(top - S)` are left to a further pass with `top - S`, which most matrices do not need.
//! The sums are plain f64 for at most 256 rows; then they are added to the exact ones.

use crate::simd::{Kernel, Simd};

use super::exact::{ExactSum, power_of_two};
use super::histogram::top_of;

/// Columns that are summed together.
pub(super) const LANES: usize = 16;
/// Most rows of a pass.
pub(super) const MAX_ROWS: usize = 256;

/// What is known about one column.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Column {
    pub(super) sum: ExactSum,
    pub(super) absolute: ExactSum,
    pub(super) square: ExactSum,
    pub(super) min: f32,
    pub(super) max: f32,
}

impl Column {
    pub(super) const EMPTY: Self = Self {
        sum: ExactSum::ZERO,
        absolute: ExactSum::ZERO,
        square: ExactSum::ZERO,
        min: f32::INFINITY,
        max: f32::NEG_INFINITY,
    };

    /// Adds one finite value: the definition of all that follows.
    pub(super) fn add(&mut self, value: f32) {
        let wide = f64::from(value);
        self.sum.add(wide);
        self.absolute.add(wide.abs());
        self.square.add(wide * wide);
        // Zero is added so that zeros of both signs are one.
        self.min = self.min.min(value) + 0.0;
        self.max = self.max.max(value) + 0.0;
    }

    /// Adds what another column holds.
    pub(super) fn merge(&mut self, other: &Self) {
        self.sum.merge(&other.sum);
        self.absolute.merge(&other.absolute);
        self.square.merge(&other.square);
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }
}

/// Largest magnitude and smallest one that is not zero less one, as f32 bits.
pub(super) struct Extremes<'a>(pub(super) &'a [f32]);

impl Kernel for Extremes<'_> {
    type Output = [u32; 2];

    #[inline(always)]
    fn run<S: Simd>(self, _: S) -> [u32; 2] {
        let (mut largest, mut smallest) = ([0u32; LANES], [u32::MAX; LANES]);
        let (vectors, rest) = self.0.as_chunks::<LANES>();
        for vector in vectors {
            for i in 0..LANES {
                let magnitude = vector[i].to_bits() & 0x7FFF_FFFF;
                largest[i] = largest[i].max(magnitude);
                smallest[i] = smallest[i].min(magnitude.wrapping_sub(1));
            }
        }
        for value in rest {
            let magnitude = value.to_bits() & 0x7FFF_FFFF;
            largest[0] = largest[0].max(magnitude);
            smallest[0] = smallest[0].min(magnitude.wrapping_sub(1));
        }
        let all = |values: [u32; LANES], pick: fn(u32, u32) -> u32| {
            values.into_iter().reduce(pick).unwrap_or_default()
        };
        [all(largest, u32::max), all(smallest, u32::min)]
    }
}

/// Adds the columns of at most [`MAX_ROWS`] rows of `columns.len()` finite values, a multiple of [`LANES`].
pub(super) struct AddRows<'a> {
    pub(super) rows: &'a [f32],
    pub(super) extremes: [u32; 2],
    pub(super) columns: &'a mut [Column],
}

impl Kernel for AddRows<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let width = self.columns.len();
        let n_rows = self.rows.len() / width;
        debug_assert!(n_rows <= MAX_ROWS && width.is_multiple_of(LANES));
        // At least two, so that the cut constant is above every square.
        let rows_log2 = (n_rows.next_power_of_two().trailing_zeros() as i32).max(2);
        let octaves = 30 - rows_log2;
        let [largest, smallest] = self.extremes;
        let mut top = top_of(largest);
        let mut upper = u32::MAX;
        loop {
            let lower = bits_of_power(top - octaves);
            let cut = 1.5 * power_of_two(2 * top + rows_log2 - 1);
            let is_last = lower <= smallest.saturating_add(1);
            for (block, columns) in self.columns.chunks_exact_mut(LANES).enumerate() {
                let rows = self.rows.get(block * LANES..).unwrap_or(&[]);
                let partial = if is_last && upper == u32::MAX {
                    pass::<false>(rows, width, [0, upper], cut)
                } else {
                    pass::<true>(rows, width, [lower, upper], cut)
                };
                partial.add_to(columns);
            }
            if is_last {
                return;
            }
            upper = lower;
            top -= octaves;
        }
    }
}

/// Sums of sixteen columns in f64, none of which rounds.
struct Partial {
    sum: [f64; LANES],
    absolute: [f64; LANES],
    high: [f64; LANES],
    low: [f64; LANES],
    min: [f32; LANES],
    max: [f32; LANES],
}

impl Partial {
    #[inline(never)]
    fn add_to(&self, columns: &mut [Column]) {
        for (i, column) in columns.iter_mut().enumerate() {
            column.sum.add(self.sum[i]);
            column.absolute.add(self.absolute[i]);
            column.square.add(self.high[i]);
            column.square.add(self.low[i]);
            column.min = column.min.min(self.min[i]) + 0.0;
            column.max = column.max.max(self.max[i]) + 0.0;
        }
    }
}

/// Sums the first sixteen columns of `rows`, every `width` values; if `MASKED`, of magnitudes in `[lower,
/// upper)` only.
#[inline(always)]
fn pass<const MASKED: bool>(
    rows: &[f32],
    width: usize,
    [lower, upper]: [u32; 2],
    cut: f64,
) -> Partial {
    let mut partial = Partial {
        sum: [0.0; LANES],
        absolute: [0.0; LANES],
        high: [0.0; LANES],
        low: [0.0; LANES],
        min: [f32::INFINITY; LANES],
        max: [f32::NEG_INFINITY; LANES],
    };
    for row in rows.chunks(width) {
        let Some(values) = row.first_chunk::<LANES>() else {
            break;
        };
        for (i, &value) in values.iter().enumerate() {
            partial.min[i] = if value < partial.min[i] {
                value
            } else {
                partial.min[i]
            };
            partial.max[i] = if value > partial.max[i] {
                value
            } else {
                partial.max[i]
            };
            let magnitude = value.to_bits() & 0x7FFF_FFFF;
            let taken = if !MASKED || (lower..upper).contains(&magnitude) {
                value
            } else {
                0.0
            };
            let wide = f64::from(taken);
            partial.sum[i] += wide;
            partial.absolute[i] += wide.abs();
            let square = wide * wide;
            let high = (square + cut) - cut;
            partial.high[i] += high;
            partial.low[i] += square - high;
        }
    }
    partial
}

/// Bits of the f32 `2^exponent`, or of the smallest f32 above zero if that is larger.
fn bits_of_power(exponent: i32) -> u32 {
    match exponent {
        -126.. => ((exponent + 127) as u32) << 23,
        -149..=-127 => 1 << (exponent + 149),
        _ => 1,
    }
}
