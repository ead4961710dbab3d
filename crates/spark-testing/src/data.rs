//! Where the reference data of the tests lie; they are not part of the repository.

use std::path::PathBuf;

use crate::settings;

/// The file or folder at `path` below `SPARK_TEST_DATA`.
///
/// Without that variable a line says that something is skipped, and the answer is `None`.
///
/// # Panics
///
/// If the variable is not set where `CI` is, or if there is nothing at `path`.
pub fn test_data(path: &str) -> Option<PathBuf> {
    let Some(root) = settings::data_folder() else {
        assert!(!settings::is_ci(), "SPARK_TEST_DATA must be set on CI");
        eprintln!("skipped: {path} is read from SPARK_TEST_DATA, which is not set");
        return None;
    };
    let found = root.join(path);
    assert!(found.exists(), "SPARK_TEST_DATA holds no {path}");
    Some(found)
}
