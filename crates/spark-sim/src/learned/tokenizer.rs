//! Lateral acceleration as one of 1024 bins from -5 to 5 m/s^2.
//!
//! The bins are in f64: rounding them to f32 is known to change the score of a good
//! controller by a fifth.

/// Bins, and the vocabulary of the model.
pub const N_BINS: usize = 1024;
const RANGE: f64 = 5.0;

/// The value of a bin, m/s^2: `linspace(-5, 5, 1024)[token]`. Tokens beyond the last bin are it.
pub fn decode(token: usize) -> f64 {
    let step = 2.0 * RANGE / (N_BINS - 1) as f64;
    let token = token.min(N_BINS - 1);
    if token == N_BINS - 1 {
        RANGE
    } else {
        token as f64 * step - RANGE
    }
}

/// The first bin that is not below a value: `digitize(clip(value), bins, right=True)`. NaN is bin 0.
pub fn encode(value: f64) -> usize {
    let clipped = value.clamp(-RANGE, RANGE);
    if clipped.is_nan() {
        return 0;
    }
    let step = 2.0 * RANGE / (N_BINS - 1) as f64;
    // The division may be off by one bin either way; the comparison decides.
    let guess = ((clipped + RANGE) / step).round() as usize;
    let first = guess.saturating_sub(2);
    (first..N_BINS)
        .find(|&token| decode(token) >= clipped)
        .unwrap_or(N_BINS - 1)
}
