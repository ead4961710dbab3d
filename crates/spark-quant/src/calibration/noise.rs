//! Expected squared error of a format with a static scale, from a histogram alone.
//!
//! ```text
//! n(x) s(x) q(x)  count, sum and sum of squares of magnitudes below x; inside a bin they are evenly spread
//! level v_i       stands for magnitudes from (v_{i-1} + v_i) / 2 to (v_i + v_{i+1}) / 2, the last for all above
//! error           sum over i of  dq - 2 v_i ds + v_i^2 dn
//! ```
//!
//! That is the error at the centres of ever finer bins, without their aliasing where a format's steps are
//! narrower than a bin. Which way ties round changes nothing, as no value counts for itself.
//!
//! NVFP4 has a scale per block of 16 besides that of the tensor. Its error is the expectation over blocks
//! whose values are drawn independently: for each bin, the probability that a block's largest magnitude
//! lies there, the scale that E4M3 then gives the block, the error of the largest, and fifteen times the
//! mean error of what is below. Values of real tensors that lie side by side are alike, which makes their
//! blocks narrower and the error smaller than this.

use crate::block::Nvfp4Formula;
use crate::block::nvfp4::{BLOCK, scale_limits};
use crate::scalar::{MiniFormat, NanCode, Overflow};

use super::histogram::N_BINS;

/// Bins that are sampled more finely as the place of a block's largest value, and at how many places.
const FINE_BINS: usize = 32;
const FINE_STEPS: usize = 8;

/// Count, sum and sum of squares of the magnitudes below each edge of a histogram; the width of a bin is 1.
#[derive(Debug, Clone)]
pub(super) struct Cumulative {
    prefix: Vec<[f64; 3]>,
    zeros: f64,
}

impl Cumulative {
    /// Of counts per bin and exact zeros.
    pub(super) fn new(counts: impl Iterator<Item = u64>, zeros: u64) -> Self {
        let mut sums = [0.0; 3];
        let mut prefix = vec![sums];
        for (bin, count) in counts.enumerate() {
            let (low, count) = (bin as f64, count as f64);
            sums[0] += count;
            sums[1] += count * (low + 0.5);
            sums[2] += count * (low * low + low + 1.0 / 3.0);
            prefix.push(sums);
        }
        prefix.resize(N_BINS + 1, sums);
        Self {
            prefix,
            zeros: zeros as f64,
        }
    }

    /// Number of values, zeros included.
    pub(super) fn total(&self) -> f64 {
        self.zeros + self.prefix[N_BINS][0]
    }

    /// Count, sum and sum of squares of what lies below a magnitude, without the zeros.
    fn below(&self, magnitude: f64) -> [f64; 3] {
        let magnitude = magnitude.clamp(0.0, N_BINS as f64);
        let bin = (magnitude as usize).min(N_BINS - 1);
        let (low, start) = (bin as f64, self.prefix[bin]);
        let count = self.prefix[bin + 1][0] - start[0];
        let (low_square, square) = (low * low, magnitude * magnitude);
        [
            start[0] + count * (magnitude - low),
            start[1] + count * (square - low_square) / 2.0,
            start[2] + count * (square * magnitude - low_square * low) / 3.0,
        ]
    }

    /// Number of values above a magnitude.
    pub(super) fn above(&self, magnitude: f64) -> f64 {
        (self.prefix[N_BINS][0] - self.below(magnitude)[0]).max(0.0)
    }

    /// The magnitude below which `count` values lie, zeros included.
    pub(super) fn quantile(&self, count: f64) -> f64 {
        let count = count - self.zeros;
        if count <= 0.0 {
            return 0.0;
        }
        let bin = self.prefix.partition_point(|sums| sums[0] < count).max(1) - 1;
        if bin >= N_BINS {
            return N_BINS as f64;
        }
        let [low, high] = [self.prefix[bin][0], self.prefix[bin + 1][0]];
        bin as f64 + ((count - low) / (high - low)).clamp(0.0, 1.0)
    }

    /// Sum of the squared errors of magnitudes up to `limit`, each of which becomes the nearest of rising
    /// levels from 0 on.
    fn error(&self, levels: impl Iterator<Item = f64>, limit: f64) -> f64 {
        let mut levels = levels.peekable();
        let (mut start, mut sum) = (self.below(0.0), 0.0);
        while let Some(level) = levels.next() {
            let end = match levels.peek() {
                Some(next) => self.below(((level + next) / 2.0).min(limit)),
                None => self.below(limit),
            };
            let [n, s, q] = [0, 1, 2].map(|i| end[i] - start[i]);
            sum += (q - 2.0 * level * s + level * level * n).max(0.0);
            start = end;
        }
        sum
    }

    /// Sum of the squared errors of all magnitudes.
    pub(super) fn error_of_levels(&self, levels: impl Iterator<Item = f64>) -> f64 {
        self.error(levels, N_BINS as f64)
    }

    /// Sum of the squared errors under NVFP4 with a tensor scale.
    pub(super) fn error_of_nvfp4(&self, tensor_scale: f64) -> f64 {
        let total = self.total();
        let share_of_blocks =
            |magnitude: f64| ((self.zeros + self.below(magnitude)[0]) / total).powi(BLOCK as i32);
        let mut error = 0.0;
        for bin in 0..N_BINS {
            if self.prefix[bin][0] == self.prefix[bin + 1][0] {
                continue;
            }
            let steps = if bin < FINE_BINS { FINE_STEPS } else { 1 };
            for step in 0..steps {
                let edge = |step: usize| bin as f64 + step as f64 / steps as f64;
                let share = share_of_blocks(edge(step + 1)) - share_of_blocks(edge(step));
                let largest = (edge(step) + edge(step + 1)) / 2.0;
                error += share * self.error_of_block(largest, tensor_scale);
            }
        }
        error * total / BLOCK as f64
    }

    /// Expected squared error of a block with this largest magnitude.
    fn error_of_block(&self, largest: f64, tensor_scale: f64) -> f64 {
        let scale = block_scale(largest / tensor_scale) * tensor_scale;
        let levels = || e2m1_levels().map(|level| level * scale);
        let n_below = self.zeros + self.below(largest)[0];
        let nearest = levels()
            .map(|level| (largest - level).abs())
            .fold(f64::INFINITY, f64::min);
        let below = if n_below > 0.0 {
            self.error(levels(), largest) / n_below
        } else {
            0.0
        };
        nearest * nearest + (BLOCK - 1) as f64 * below
    }
}

fn e2m1_levels() -> impl Iterator<Item = f64> {
    positive_levels(MiniFormat::E2m1)
}

/// The finite values of a format from zero on.
pub(super) fn positive_levels(format: MiniFormat) -> impl Iterator<Item = f64> {
    let table = format.table();
    (0..=format.spec().max_code).map(|code| f64::from(table[usize::from(code)]))
}

/// Scale of an NVFP4 block whose largest magnitude is that many times the tensor scale.
fn block_scale(largest: f64) -> f64 {
    let (smallest, _) = scale_limits(Nvfp4Formula::ModelOpt);
    let scale = ((largest / 6.0) as f32).clamp(smallest, 448.0);
    let code = MiniFormat::E4m3.encode(scale, Overflow::Saturate, NanCode::default());
    f64::from(MiniFormat::E4m3.decode(code))
}
