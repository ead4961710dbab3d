//! The clipping magnitude of TensorRT's entropy calibrator.
//!
//! ```text
//! P   counts of 2048 bins, cut off after i of them; what is beyond is added to the last
//! Q   the same i bins in 128 groups; every bin that is not empty gets the mean of those in its group
//! i   from 128 to all: the last with the smallest divergence  sum P ln(P / Q),  both normalised
//! ```
//!
//! The first bin is given the count of the second, and exact zeros do not count, so that a peak at zero
//! does not decide. 128 groups are the magnitudes of a signed byte: for FP8, whose steps grow with the
//! magnitude, this clips too early.
//!
//! Source: Migacz, *8-bit Inference with TensorRT* (GTC 2017); `_compute_amax_entropy` of NVIDIA ModelOpt,
//! which takes its bins up to the first batch's largest magnitude, where those here go up to a power of
//! two.

use super::histogram::N_BINS;

/// Bins of the calibrator.
const BINS: usize = N_BINS / 2;
/// Magnitudes of a signed byte.
const GROUPS: usize = 128;

/// Edge of the histogram, in its bins, beyond which values are to be clipped; nothing if all values are zero.
pub(super) fn clipping_edge(counts: &[u64]) -> Option<usize> {
    let pairs = counts.chunks(N_BINS / BINS);
    let mut bins: Vec<f64> = pairs
        .map(|pair| pair.iter().map(|&n| n as f64).sum())
        .collect();
    bins.resize(BINS, 0.0);
    let n_used = bins.iter().rposition(|&count| count > 0.0)? + 1;
    bins[0] = bins[1];
    let divergences = divergences(&bins[..n_used.max(GROUPS)]);
    let mut best = (f64::INFINITY, n_used);
    for (index, divergence) in divergences.into_iter().enumerate() {
        if divergence <= best.0 {
            best = (divergence, GROUPS + index);
        }
    }
    Some(best.1 * (N_BINS / BINS))
}

/// Divergence of every cut from [`GROUPS`] bins to all.
fn divergences(bins: &[f64]) -> Vec<f64> {
    let times_log = |x: f64| if x > 0.0 { x * x.ln() } else { 0.0 };
    // Sum, sum of x ln x, and number of bins that are not empty, below each edge.
    let mut prefix = vec![[0.0; 3]];
    let mut sums = [0.0; 3];
    for &count in bins {
        sums[0] += count;
        sums[1] += times_log(count);
        sums[2] += f64::from(u8::from(count > 0.0));
        prefix.push(sums);
    }
    let total = sums[0];
    let cut = |n: usize| {
        let inside = prefix[n][0];
        let last = bins[n - 1];
        let clipped = total - inside;
        if inside == 0.0 || (last == 0.0 && clipped > 0.0) {
            return f64::INFINITY;
        }
        // Sum of P ln P, with the last bin as it is after the clipping.
        let mut sum = prefix[n][1] - times_log(last) + times_log(last + clipped);
        for group in 0..GROUPS {
            let edge = |group: usize| (group * n).div_ceil(GROUPS);
            let [low, high] = [prefix[edge(group)], prefix[edge(group + 1)]];
            let (count, n_filled) = (high[0] - low[0], high[2] - low[2]);
            if count > 0.0 {
                sum -= count * (count / n_filled).ln();
            }
            if group == GROUPS - 1 && clipped > 0.0 {
                sum -= clipped * (count / n_filled).ln();
            }
        }
        sum / total - total.ln() + inside.ln()
    };
    (GROUPS..=bins.len()).map(cut).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The definition, bin by bin.
    fn naive(bins: &[f64], n: usize) -> f64 {
        let mut p = bins[..n].to_vec();
        p[n - 1] += bins[n..].iter().sum::<f64>();
        let mut q = vec![0.0; n];
        for group in 0..GROUPS {
            let members: Vec<usize> = (0..n)
                .filter(|k| k * GROUPS / n == group && bins[*k] > 0.0)
                .collect();
            let sum: f64 = members.iter().map(|&k| bins[k]).sum();
            for &k in &members {
                q[k] = sum / members.len() as f64;
            }
        }
        let (p_sum, q_sum): (f64, f64) = (p.iter().sum(), q.iter().sum());
        let terms = p.iter().zip(&q).filter(|(p, _)| **p > 0.0);
        terms
            .map(|(p, q)| p / p_sum * ((p / p_sum) / (q / q_sum)).ln())
            .sum()
    }

    #[test]
    fn divergences_are_those_of_the_definition() {
        let bins: Vec<f64> = (0..700)
            .map(|i| (1e5 * (-f64::from(i) / 60.0).exp() * (1.2 + f64::from(i).sin())).floor())
            .collect();
        let got = divergences(&bins);
        assert_eq!(got.len(), 700 - GROUPS + 1);
        for (index, &got) in got.iter().enumerate() {
            let want = naive(&bins, GROUPS + index);
            let same = got == want || (got - want).abs() < 1e-10;
            assert!(same, "{} bins: {got}, want {want}", GROUPS + index);
        }
        assert!(got.iter().any(|x| x.is_finite()));
    }
}
