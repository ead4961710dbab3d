//! What a comparison's numbers say, in words of a table.

use spark_drawing::number::signed;

/// A change in percent; "n/a" where there is nothing to divide by.
pub(super) fn percent(change: Option<f64>) -> String {
    change.map_or_else(|| "n/a".to_owned(), |p| format!("{} %", signed(p)))
}

/// A p-value with as many digits as matter, or that it is below 0.0001.
pub(super) fn p_value(p: f64) -> String {
    if p < 1e-4 {
        "<0.0001".to_owned()
    } else if p < 1e-3 {
        format!("{p:.4}")
    } else {
        format!("{p:.3}")
    }
}

/// An interval of a change; too few families leave none.
pub(super) fn interval(ends: Option<[f64; 2]>) -> String {
    ends.map_or_else(
        || "none".to_owned(),
        |[low, high]| format!("{} … {}", signed(low), signed(high)),
    )
}

/// Families beyond the margin, with the largest share that this leaves possible.
pub(super) fn beyond(n: usize, share_at_most: f64) -> String {
    format!("{n} (≤ {:.0} %)", (100.0 * share_at_most).ceil())
}
