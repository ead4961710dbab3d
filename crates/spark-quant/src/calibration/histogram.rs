//! How often each magnitude occurs: equal bins up to a power of two that doubles when a larger value comes.
//!
//! ```text
//! range  2^top, the smallest power of two above every magnitude     4096 bins of width 2^(top - 12) per sign
//! bin    floor(|x| / width) = significand >> (top + 138 - exponent field)
//!
//! |--|--|--|--|--|--|--|--|         a value beyond the range comes:
//! |-----|-----|-----|-----|-----|-----|-----|-----|       neighbours are added, the width doubles
//! ```
//!
//! `floor(floor(x / w) / 2) = floor(x / 2w)`: the counts after a doubling are those that the wide bins
//! would have had from the start. So they depend on the values alone, not on their order, chunks or merges.
//! The largest magnitude lies in the upper half of its sign's bins, so that at least 2048 of them are in
//! use, as many as TensorRT's calibrator has. Exact zeros are counted on their own: half of what a ReLU
//! gives is no evidence about the first bin.
//!
//! Source: PyTorch's `HistogramObserver` and TensorRT's calibrators, which grow their ranges too, but not
//! to powers of two.

use crate::error::QuantError;
use crate::simd::{ExecutionPolicy, Kernel, Simd};

use super::exact::power_of_two;

/// Bins of one sign.
pub(super) const N_BINS: usize = 1 << BINS_LOG2;
const BINS_LOG2: i32 = 12;
/// Slot of exact zeros, after the bins of both signs.
const ZEROS: usize = 2 * N_BINS;
/// Smallest exponent of the range: that of the smallest normal f32.
const MIN_TOP: i32 = -126;
const MAX_TOP: i32 = 128;

/// Counts of values by sign and magnitude.
///
/// Bins of one sign are `[i, i + 1) * width`; see the module's picture for the width.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Histogram {
    top: i32,
    /// Positive values, negative values, zeros.
    counts: Vec<u64>,
}

impl Histogram {
    pub(super) fn new() -> Self {
        Self {
            top: MIN_TOP,
            counts: vec![0; ZEROS + 1],
        }
    }

    /// A histogram from its parts, as a file has them.
    pub(super) fn from_parts(top: i32, counts: Vec<u64>) -> Result<Self, QuantError> {
        QuantError::check_length("histogram", counts.len(), ZEROS + 1)?;
        if !(MIN_TOP..=MAX_TOP).contains(&top) {
            return Err(QuantError::Calibration {
                what: "exponent of the histogram's range",
                got: f64::from(top),
                want: "a number from -126 to 128",
            });
        }
        Ok(Self { top, counts })
    }

    pub(super) fn parts(&self) -> (i32, &[u64]) {
        (self.top, &self.counts)
    }

    /// Exclusive upper end of all bins, a power of two.
    pub fn range(&self) -> f64 {
        power_of_two(self.top)
    }

    /// Width of a bin, a power of two.
    pub fn width(&self) -> f64 {
        power_of_two(self.top - BINS_LOG2)
    }

    /// Counts of values above zero; 4096 bins.
    pub fn positive(&self) -> &[u64] {
        &self.counts[..N_BINS]
    }

    /// Counts of values below zero, by magnitude; 4096 bins.
    pub fn negative(&self) -> &[u64] {
        &self.counts[N_BINS..ZEROS]
    }

    /// Number of zeros of both signs, which are in no bin.
    pub fn zeros(&self) -> u64 {
        self.counts[ZEROS]
    }

    /// Makes room for magnitudes up to that of the f32 bits `largest`, sign clear and finite.
    pub(super) fn make_room(&mut self, largest: u32) {
        self.grow_to(top_of(largest));
    }

    fn grow_to(&mut self, top: i32) {
        let factor_log2 = top - self.top;
        if factor_log2 <= 0 {
            return;
        }
        let (bins, _) = self.counts.split_at_mut(ZEROS);
        for bins in bins.chunks_exact_mut(N_BINS) {
            fold(bins, factor_log2);
        }
        self.top = top;
    }

    /// Counts finite values, for whose magnitudes there is room.
    pub(super) fn count(&mut self, policy: ExecutionPolicy, values: &[f32]) {
        policy.run(Count {
            values,
            histogram: self,
        });
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.grow_to(other.top);
        let mut other = other.clone();
        other.grow_to(self.top);
        for (count, other) in self.counts.iter_mut().zip(other.counts) {
            *count = count.saturating_add(other);
        }
    }

    /// Number of values; nothing if they are more than `u64` holds.
    pub(super) fn total(&self) -> Option<u64> {
        self.counts
            .iter()
            .try_fold(0u64, |sum, &count| sum.checked_add(count))
    }
}

struct Count<'a> {
    values: &'a [f32],
    histogram: &'a mut Histogram,
}

impl Kernel for Count<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let (vectors, rest) = self.values.as_chunks::<16>();
        let top = (self.histogram.top + 138) as u32;
        let counts = self
            .histogram
            .counts
            .first_chunk_mut::<{ ZEROS + 1 }>()
            .expect("all bins");
        for vector in vectors {
            let mut slots = [0u32; 16];
            for (slot, value) in slots.iter_mut().zip(vector) {
                *slot = slot_of(value.to_bits(), top);
            }
            for slot in slots {
                counts[(slot as usize).min(ZEROS)] += 1;
            }
        }
        for value in rest {
            counts[(slot_of(value.to_bits(), top) as usize).min(ZEROS)] += 1;
        }
    }
}

/// Adds `2^factor_log2` neighbours each; what is then beyond the last bin is empty.
fn fold(bins: &mut [u64], factor_log2: i32) {
    if factor_log2 >= BINS_LOG2 {
        let all = bins
            .iter()
            .fold(0u64, |sum, &count| sum.saturating_add(count));
        bins.fill(0);
        bins[0] = all;
        return;
    }
    let factor = 1usize << factor_log2;
    for to in 0..bins.len() {
        let from = (to * factor).min(bins.len())..((to + 1) * factor).min(bins.len());
        let sum = bins[from]
            .iter()
            .fold(0u64, |sum, &count| sum.saturating_add(count));
        bins[to] = sum;
    }
}

/// Exponent of the smallest power of two above a magnitude, not below [`MIN_TOP`].
pub(super) fn top_of(magnitude: u32) -> i32 {
    (magnitude >> 23) as i32 - 126
}

/// Where a finite value is counted; `top` is the exponent of the range plus 138.
#[inline(always)]
fn slot_of(bits: u32, top: u32) -> u32 {
    let magnitude = bits & 0x7FFF_FFFF;
    let field = magnitude >> 23;
    let implied = if field == 0 { 0 } else { 1 << 23 };
    let significand = magnitude & 0x007F_FFFF | implied;
    let bin = significand >> (top - field.max(1)).min(31);
    let slot = bin | bits >> 31 << BINS_LOG2;
    if magnitude == 0 { ZEROS as u32 } else { slot }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_magnitude_lies_in_the_bin_that_the_definition_names() {
        let bits =
            (0..0x7F80_0000u32)
                .step_by(77_773)
                .chain([1, 0x7F_FFFF, 0x80_0000, 0x7F7F_FFFF]);
        for bits in bits {
            let value = f32::from_bits(bits);
            if value == 0.0 {
                continue;
            }
            for extra in [0, 1, 5, 40] {
                let top = (top_of(bits) + extra).min(MAX_TOP);
                let want = (f64::from(value) / power_of_two(top - BINS_LOG2)).floor();
                let got = slot_of(bits, (top + 138) as u32);
                assert_eq!(f64::from(got), want, "{value:e} below 2^{top}");
                assert_eq!(
                    slot_of(bits | 1 << 31, (top + 138) as u32),
                    got + N_BINS as u32
                );
            }
        }
    }

    #[test]
    fn the_range_is_the_smallest_power_of_two_above() {
        for (value, top) in [
            (1.0f32, 1),
            (0.99, 0),
            (2.0, 2),
            (f32::MAX, 128),
            (1.2e-38, -125),
            (1e-45, -126),
        ] {
            assert_eq!(top_of(value.to_bits()), top, "{value:e}");
        }
    }

    #[test]
    fn growing_gives_the_counts_of_the_wide_bins() {
        let values: Vec<f32> = (0..5000).map(|i| (i as f32 * 0.37).sin() * 0.9).collect();
        let mut grown = Histogram::new();
        grown.make_room(0.9f32.to_bits());
        grown.count(ExecutionPolicy::detect(), &values);
        for large in [1.5f32, 100.0, 1e30] {
            grown.make_room(large.to_bits());
            let mut wide = Histogram::new();
            wide.make_room(large.to_bits());
            wide.count(ExecutionPolicy::detect(), &values);
            assert_eq!(grown, wide);
        }
    }
}
