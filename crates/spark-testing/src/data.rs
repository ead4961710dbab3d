//! Where the reference data of the tests lie; they are not part of the repository.

use std::path::PathBuf;
use std::process::Command;

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

/// As [`test_data`], for a file or folder with videos: `None` also without ffmpeg to decode them.
///
/// # Panics
///
/// As [`test_data`], and without ffmpeg where `CI` is set.
pub fn test_videos(path: &str) -> Option<PathBuf> {
    let found = test_data(path)?;
    if Command::new("ffmpeg").arg("-version").output().is_err() {
        assert!(!settings::is_ci(), "CI needs ffmpeg");
        eprintln!("skipped: there is no ffmpeg to decode videos with");
        return None;
    }
    Some(found)
}
