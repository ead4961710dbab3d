//! P-values of many questions at once.
//!
//! ```text
//! Holm                adjusted p of the i-th smallest of m = max over j <= i of (m - j + 1) p_j
//!                     P(any false finding) <= alpha, whatever the dependence
//! Benjamini-Hochberg  adjusted p of the i-th smallest of m = min over j >= i of m p_j / j
//!                     expected share of false findings <= alpha, under positive dependence
//! ```
//!
//! Sources: Holm, Scandinavian Journal of Statistics 6 (1979); Benjamini, Hochberg, Journal of
//! the Royal Statistical Society B 57 (1995).

fn ascending(p: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|&a, &b| p[a].total_cmp(&p[b]).then(a.cmp(&b)));
    order
}

/// Adjusted p-values, in the order of the input.
pub(super) fn holm(p: &[f64]) -> Vec<f64> {
    let mut adjusted = vec![1.0; p.len()];
    let mut largest = 0.0_f64;
    for (rank, i) in ascending(p).into_iter().enumerate() {
        largest = largest.max((p.len() - rank) as f64 * p[i]).min(1.0);
        adjusted[i] = largest;
    }
    adjusted
}

/// Adjusted p-values, in the order of the input.
pub(super) fn benjamini_hochberg(p: &[f64]) -> Vec<f64> {
    let mut adjusted = vec![1.0; p.len()];
    let mut smallest = 1.0_f64;
    for (rank, i) in ascending(p).into_iter().enumerate().rev() {
        smallest = smallest.min(p.len() as f64 * p[i] / (rank + 1) as f64);
        adjusted[i] = smallest;
    }
    adjusted
}
