//! The sign-flip test of a mean, and the interval that it leaves, from one table of subset means.
//!
//! ```text
//! H0: the worsenings y of the families are symmetric around t (or: their mean is t)
//! T(y - t) = mean / standard error; compare with T after flipping signs at random
//!
//! flips leave the sum of squares as it is, so T orders them as their sums do:
//!   T* <= T   <=>   sum of s_i (y_i - t) <= sum of (y_i - t)
//!             <=>   mean of the flipped y's >= t
//! ```
//!
//! So the test needs the mean of every flipped subset, once, whatever t is:
//!
//! ```text
//! B subsets: all 2^F - 1 for F <= 14 families, else 9999 drawn from a fixed seed
//! p(mean >= t) = (1 + #{subset means >= t}) / (1 + B)        "below t" if small
//! p(mean <= t) = (1 + #{subset means <= t}) / (1 + B)        "above t" if small
//! interval     = all t that neither side rejects = order statistics of the subset means
//! ```
//!
//! The least p of F families is 2^-F, and with B flips drawn 1 / (1 + B). Exact at any F if the worsenings are symmetric, which the
//! difference of two runs of the same controller is by construction. Otherwise right for many
//! families only: where a few families worsen much and most a little better, "not worse than the
//! margin" is said too often (at the margin, nominal 5 %: 13 % for exponential worsenings of 8
//! families, 8 % of 40; 23 % and 17 % for lognormal ones). Caps and the share of families beyond
//! the margin are the answer, not this test.
//!
//! Sources: Hartigan, *Using subsample values as typical values*, JASA 64 (1969), for the
//! interval; doi 10.1007/s11222-012-9370-4 for flips of a studentised mean with unequal shapes.

use crate::random::Philox;

/// Families up to which every subset is taken.
const MOST_ENUMERATED: usize = 14;
/// Differences of subset means below this share of the largest value are rounding.
const ROUNDING: f64 = 1e-12;
/// Stream of the draws.
const STREAM: u64 = 0xF11B;

/// The smallest p-value that so many families reach, with so many flips where not all are taken.
/// Of flips that are drawn, a share of 2^-F is expected to turn nothing round.
pub(super) fn least_p(n_families: usize, n_draws: usize) -> f64 {
    let all = 0.5_f64.powi(n_families as i32);
    if n_families <= MOST_ENUMERATED {
        all
    } else {
        all + 1.0 / (1.0 + n_draws as f64)
    }
}

/// Means of subsets of some families' worsenings.
#[derive(Debug, Clone)]
pub(super) struct SubsetMeans {
    /// Ascending, of the subsets that hold a family.
    means: Vec<f64>,
    /// Draws that held none: ties with every hypothesis.
    n_empty: usize,
    /// Largest size of a worsening.
    scale: f64,
}

impl SubsetMeans {
    /// Draws the subsets for one metric.
    pub(super) fn of(values: &[f64], n_draws: usize, seed: u64) -> Self {
        let n = values.len();
        let enumerate = n <= MOST_ENUMERATED;
        let n_draws = if enumerate { (1 << n) - 1 } else { n_draws };
        let mut sums = vec![0.0_f64; n_draws];
        let mut sizes = vec![0_u32; n_draws];
        // Eight families at a time: the sums of their 256 subsets, then one look-up per draw.
        let mut masks = vec![0_u8; n_draws];
        for (group, eight) in values.chunks(8).enumerate() {
            if enumerate {
                for (draw, mask) in masks.iter_mut().enumerate() {
                    *mask = ((draw + 1) >> (8 * group)) as u8;
                }
            } else {
                fill_random(&mut masks, Philox::new(seed, STREAM ^ (group as u64) << 16));
            }
            let used = ((1_u16 << eight.len()) - 1) as u8;
            let mut subset_sums = [0.0; 256];
            for subset in 1..256_usize {
                let lowest = subset & subset.wrapping_neg();
                let place = lowest.trailing_zeros() as usize;
                let value = eight.get(place).copied().unwrap_or(0.0);
                subset_sums[subset] = subset_sums[subset - lowest] + value;
            }
            for ((sum, size), mask) in sums.iter_mut().zip(&mut sizes).zip(&masks) {
                let subset = mask & used;
                *sum += subset_sums[usize::from(subset)];
                *size += subset.count_ones();
            }
        }
        let drawn = sums.into_iter().zip(sizes);
        let mut means: Vec<f64> = drawn
            .filter(|(_, size)| *size > 0)
            .map(|(sum, size)| sum / f64::from(size))
            .collect();
        means.sort_unstable_by(f64::total_cmp);
        Self {
            n_empty: n_draws - means.len(),
            means,
            scale: values.iter().fold(0.0, |most, x| x.abs().max(most)),
        }
    }

    fn n_draws(&self) -> usize {
        self.means.len() + self.n_empty
    }

    fn p(&self, n_ties_or_beyond: usize) -> f64 {
        (1 + self.n_empty + n_ties_or_beyond) as f64 / (1 + self.n_draws()) as f64
    }

    fn rounding(&self, t: f64) -> f64 {
        ROUNDING * (self.scale + t.abs())
    }

    /// One-sided p-value against "the mean is `t` or more".
    pub(super) fn p_below(&self, t: f64) -> f64 {
        let edge = t - self.rounding(t);
        self.p(self.means.len() - self.means.partition_point(|&mean| mean < edge))
    }

    /// One-sided p-value against "the mean is `t` or less".
    pub(super) fn p_above(&self, t: f64) -> f64 {
        let edge = t + self.rounding(t);
        self.p(self.means.partition_point(|&mean| mean <= edge))
    }

    /// The smallest mean that is not rejected from below at one-sided level `alpha`; absent if
    /// so few families reject none.
    pub(super) fn lower(&self, alpha: f64) -> Option<f64> {
        self.means.get(self.rank(alpha)?).copied()
    }

    /// The largest mean that is not rejected from above at one-sided level `alpha`.
    pub(super) fn upper(&self, alpha: f64) -> Option<f64> {
        let from_top = self.rank(alpha)?;
        let place = self.means.len().checked_sub(1 + from_top)?;
        self.means.get(place).copied()
    }

    /// Subset means beyond the end of an interval.
    fn rank(&self, alpha: f64) -> Option<usize> {
        let rejected = (alpha * (1 + self.n_draws()) as f64).floor() as usize;
        rejected.checked_sub(1 + self.n_empty)
    }
}

fn fill_random(masks: &mut [u8], random: Philox) {
    for (block_idx, sixteen) in masks.chunks_mut(16).enumerate() {
        let words = random.at(block_idx as u64).block();
        let bytes = words.iter().flat_map(|word| word.to_le_bytes());
        for (mask, byte) in sixteen.iter_mut().zip(bytes) {
            *mask = byte;
        }
    }
}
