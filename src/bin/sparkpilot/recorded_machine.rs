//! Machines that somebody has written down with `sparkpilot info --record`.

use std::error::Error;
use std::path::Path;

use spark_program::{about, input};
use sparkpilot::hal::{Machine, Root, Sources, unpack_record};
use tempfile::TempDir;

/// More than any record; a longer file is none.
const LARGEST_BYTES: u64 = 64 << 20;

/// A recorded machine, its files in a folder that goes away with the value.
pub(crate) struct RecordedMachine {
    pub(crate) root: Root,
    pub(crate) machine: Machine,
    _folder: TempDir,
}

impl RecordedMachine {
    /// Reads a record, if one is named.
    ///
    /// # Errors
    ///
    /// Those of the file and of what is in it.
    pub(crate) fn read_if(path: Option<&Path>) -> Result<Option<Self>, Box<dyn Error>> {
        path.map(Self::read).transpose()
    }

    /// Reads a record from a file, or with `-` from stdin.
    ///
    /// # Errors
    ///
    /// The same.
    pub(crate) fn read(path: &Path) -> Result<Self, Box<dyn Error>> {
        let bytes = match path == Path::new("-") {
            true => input::stdin(LARGEST_BYTES)?,
            // What is no text is told where its lines are read.
            false => input::read_limited(path, LARGEST_BYTES, "a record", |_| true)?,
        };
        let text = String::from_utf8_lossy(&bytes);
        let folder = tempfile::tempdir()?;
        let root = unpack_record(&text, folder.path()).map_err(about(path))?;
        let machine = Machine::read(&Sources::files(root.clone()));
        Ok(Self {
            root,
            machine,
            _folder: folder,
        })
    }
}
