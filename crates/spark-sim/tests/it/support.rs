//! Finding outside truth, and comparing with it.

use serde_json::Value;
use spark_testing::test_data;

/// Reads `truth/sim/<name>` of the test data.
pub(crate) fn truth(name: &str) -> Option<Value> {
    let path = test_data(&format!("truth/sim/{name}"))?;
    let text = std::fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("cannot read {}: {error}", path.display()));
    Some(serde_json::from_str(&text).expect("truth files are JSON"))
}

/// The numbers of a JSON array.
#[track_caller]
pub(crate) fn numbers(value: &Value) -> Vec<f64> {
    value
        .as_array()
        .expect("an array")
        .iter()
        .map(|v| v.as_f64().expect("a number"))
        .collect()
}

/// Fails unless `got` is within `abs + rel |want|` of `want`; NaN never is.
#[track_caller]
pub(crate) fn assert_close(context: &str, got: f64, want: f64, abs: f64, rel: f64) {
    let inside = (got - want).abs() <= abs + rel * want.abs();
    assert!(
        inside,
        "{context}: got {got}, expected {want} within {abs} + {rel} relative"
    );
}

/// The larger figure; NaN stays, which `f64::max` would drop.
pub(crate) fn worse(a: f64, b: f64) -> f64 {
    if b > a || b.is_nan() { b } else { a }
}
