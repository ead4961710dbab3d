//! Where the outside truth lies.

use std::path::PathBuf;

use spark_testing::test_data;

/// The file `truth/quant/<name>` of the test data.
pub(crate) fn truth(name: &str) -> Option<PathBuf> {
    test_data(&format!("truth/quant/{name}"))
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
