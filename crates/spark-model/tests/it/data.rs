//! Finds the test data, which are not part of the repository.

use std::path::PathBuf;

/// The file at `path` below `SPARK_TEST_DATA`; without that variable a line says that
/// the test is skipped, and on a CI machine the test fails instead.
pub(crate) fn file(path: &str) -> Option<PathBuf> {
    match std::env::var_os("SPARK_TEST_DATA") {
        Some(root) => {
            let file = PathBuf::from(root).join(path);
            assert!(file.exists(), "SPARK_TEST_DATA holds no {path}");
            Some(file)
        }
        None => {
            assert!(
                std::env::var("CI").as_deref() != Ok("true"),
                "CI needs SPARK_TEST_DATA"
            );
            eprintln!("skipped: SPARK_TEST_DATA is not set, so there is no {path}");
            None
        }
    }
}
