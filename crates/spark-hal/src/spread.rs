//! Several values of one figure in short: how many, and the smallest, middle and largest.

/// Several values of one figure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// How many.
    pub n: u64,
    /// The smallest.
    pub min: f64,
    /// The middle one; of an even number the lower of two.
    pub median: f64,
    /// The largest.
    pub max: f64,
}

impl Spread {
    /// Of these values; `None` of none, or where one is no number.
    #[must_use]
    pub fn of(values: &[f64]) -> Option<Self> {
        let mut sorted = values.to_vec();
        sorted.sort_unstable_by(f64::total_cmp);
        let is_number = sorted.iter().all(|value| value.is_finite());
        let (Some(min), Some(max), true) = (sorted.first(), sorted.last(), is_number) else {
            return None;
        };
        Some(Self {
            n: sorted.len() as u64,
            min: *min,
            median: sorted[(sorted.len() - 1) / 2],
            max: *max,
        })
    }
}
