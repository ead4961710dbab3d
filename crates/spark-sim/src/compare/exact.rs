//! Exact binomial answers: is one side of the pairs hit more often, and how large can a share be?
//!
//! ```text
//! McNemar    new = only the candidate has it, fixed = only the baseline has it
//!            p = P(Bin(new + fixed, 1/2) >= new)              pairs that agree say nothing
//! share      upper limit = the rate at which P(Bin(n, rate) <= k) = alpha
//! ```
//!
//! Sources: McNemar, Psychometrika 12 (1947), in its exact form; Clopper, Pearson, Biometrika 26
//! (1934), one-sided. Both hold for any number of independent families.

/// ln of n over k, for k = 0..=n.
fn ln_binomials(n: usize) -> impl Iterator<Item = f64> {
    (0..=n).scan(0.0, move |ln, k| {
        if k > 0 {
            *ln += ((n - k + 1) as f64 / k as f64).ln();
        }
        Some(*ln)
    })
}

/// One-sided p-value of at least `n_new` new among `n_new + n_fixed` events, if both kinds are
/// equally likely.
pub(super) fn mcnemar(n_new: usize, n_fixed: usize) -> f64 {
    let n = n_new + n_fixed;
    let ln_half = n as f64 * 0.5_f64.ln();
    let terms = ln_binomials(n).skip(n_new).map(|ln| (ln + ln_half).exp());
    terms.sum::<f64>().min(1.0)
}

/// Largest rate that `k` hits among `n` independent trials leave possible at level `alpha`.
pub(super) fn upper_share(k: usize, n: usize, alpha: f64) -> f64 {
    if k >= n {
        return 1.0;
    }
    let ln_choose: Vec<f64> = ln_binomials(n).take(k + 1).collect();
    let at_most_k = |rate: f64| -> f64 {
        let (hit, miss) = (rate.ln(), (-rate).ln_1p());
        let terms = ln_choose.iter().enumerate();
        let ln_term = |(i, ln): (usize, &f64)| ln + i as f64 * hit + (n - i) as f64 * miss;
        terms.map(|term| ln_term(term).exp()).sum()
    };
    let [mut low, mut high] = [k as f64 / n as f64, 1.0];
    for _ in 0..60 {
        let middle = 0.5 * (low + high);
        if at_most_k(middle) > alpha {
            low = middle;
        } else {
            high = middle;
        }
    }
    high
}
