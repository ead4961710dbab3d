//! Runs that `sim run --json` and `sim merge --json` wrote.

use std::error::Error;
use std::path::Path;

use spark_program::{about, input, output};
use sparkpilot::sim::report::read_run_json;
use sparkpilot::sim::run::RunReport;

/// Most bytes of a run's JSON, of which a drive has about 1,500.
const MOST_BYTES: u64 = 4 << 30;

/// A run from a file, or with `-` from stdin.
///
/// # Errors
///
/// Those of reading, and what the text lacks to be a run.
pub(super) fn read(path: &Path) -> Result<RunReport, Box<dyn Error>> {
    let is_object = |first: &[u8]| first.trim_ascii_start().starts_with(b"{");
    let bytes = match output::is_stdout(path) {
        true => input::stdin(MOST_BYTES)?,
        false => input::read_limited(path, MOST_BYTES, "a run's JSON", is_object)?,
    };
    let text = String::from_utf8(bytes).map_err(about(path))?;
    Ok(read_run_json(&text).map_err(about(path))?)
}
