//! Finding outside truth, and comparing with it.

use serde_json::Value;
use std::path::PathBuf;

/// Reads `truth/sim/<name>` under `SPARK_TEST_DATA`; `None`, after saying so, where there is none.
///
/// With `CI` set the missing data is a failure.
pub(crate) fn truth(name: &str) -> Option<Value> {
    let Some(root) = std::env::var_os("SPARK_TEST_DATA") else {
        assert!(
            std::env::var_os("CI").is_none(),
            "SPARK_TEST_DATA must be set in CI"
        );
        println!("skipped: SPARK_TEST_DATA is not set, so truth/sim/{name} cannot be read");
        return None;
    };
    let path = PathBuf::from(root).join("truth/sim").join(name);
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
