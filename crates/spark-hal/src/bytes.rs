//! Amounts of memory, written for people.

/// Binary gigabytes with one digit, as in `121.7 GiB`.
#[must_use]
pub(crate) fn gibibytes(bytes: u64) -> String {
    format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30))
}
