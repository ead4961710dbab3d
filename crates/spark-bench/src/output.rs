//! Files of a benchmark, which appear whole or not at all.

use std::path::Path;

use crate::error::BenchError;
use crate::report::BenchReport;

/// Writes `report` to `path` as JSON, in one step.
///
/// # Errors
///
/// [`BenchError::Unwritten`] if the file cannot be written; no partial file stays behind.
pub fn write_json(report: &BenchReport, path: &Path) -> Result<(), BenchError> {
    let mut text = serde_json::to_string_pretty(report).map_err(BenchError::Json)?;
    text.push('\n');
    write_file(path, text.as_bytes())
}

/// Writes a file whole or not at all.
pub(crate) fn write_file(path: &Path, bytes: &[u8]) -> Result<(), BenchError> {
    spark_files::write(path, bytes).map_err(|source| BenchError::Unwritten {
        path: path.to_owned(),
        source,
    })
}
