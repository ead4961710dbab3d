//! Where the outside truth lies, and comparisons.

use std::path::PathBuf;

use candle_core::{DType, Tensor};
use spark_testing::test_data;

/// The file or folder `truth/peft/<name>` of the test data.
pub(crate) fn truth(name: &str) -> Option<PathBuf> {
    test_data(&format!("truth/peft/{name}"))
}

/// The values of a tensor.
pub(crate) fn values(tensor: &Tensor) -> Vec<f64> {
    let wide = tensor.to_dtype(DType::F64).expect("a float tensor");
    let flat = wide.flatten_all().expect("any shape");
    flat.to_vec1().expect("one axis")
}

/// Largest difference over the largest wanted value; NaN if anything is not finite.
pub(crate) fn relative(got: &[f64], want: &[f64]) -> f64 {
    assert_eq!(got.len(), want.len(), "as many values");
    let finite = got.iter().chain(want).all(|v| v.is_finite());
    let scale = want.iter().fold(0.0f64, |a, b| a.max(b.abs()));
    let error = got
        .iter()
        .zip(want)
        .fold(0.0f64, |a, (g, w)| a.max((g - w).abs()));
    match (finite, error == 0.0) {
        (false, _) => f64::NAN,
        (_, true) => 0.0,
        _ => error / scale,
    }
}

/// Fails unless the relative difference is inside `bound`.
#[track_caller]
pub(crate) fn assert_close(what: &str, got: &[f64], want: &[f64], bound: f64) {
    let error = relative(got, want);
    assert!(
        error <= bound,
        "{what}: relative error {error:e}, allowed {bound:e}"
    );
}

/// Values that look random and are the same in every run.
pub(crate) fn noise(len: usize, seed: u64) -> Vec<f64> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    };
    (0..len).map(|_| next()).collect()
}
