//! Where the outside truth lies.

use std::path::PathBuf;

/// The file `truth/quant/<name>` of the test data.
///
/// Without `SPARK_TEST_DATA` the caller is skipped and says so; on CI that is a failure.
pub(crate) fn truth(name: &str) -> Option<PathBuf> {
    let Some(root) = std::env::var_os("SPARK_TEST_DATA") else {
        assert!(
            std::env::var_os("CI").is_none(),
            "SPARK_TEST_DATA must be set on CI"
        );
        eprintln!("skipped: {name} is read from SPARK_TEST_DATA, which is not set");
        return None;
    };
    let path = PathBuf::from(root).join("truth/quant").join(name);
    assert!(path.is_file(), "{} does not exist", path.display());
    Some(path)
}

/// The bytes of a truth file.
pub(crate) fn truth_bytes(name: &str) -> Option<Vec<u8>> {
    truth(name).map(|path| std::fs::read(&path).expect("readable truth file"))
}

/// The f32 values of a truth file.
pub(crate) fn truth_f32(name: &str) -> Option<Vec<f32>> {
    let (words, rest) = (truth_bytes(name)?, 0);
    assert_eq!(words.len() % 4, rest, "whole f32 values");
    Some(
        words
            .as_chunks::<4>()
            .0
            .iter()
            .map(|&word| f32::from_le_bytes(word))
            .collect(),
    )
}
