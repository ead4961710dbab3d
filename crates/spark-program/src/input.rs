//! Files that a program reads for libraries that would open anything.

use std::io;
use std::path::{Path, PathBuf};

/// A file that could not be read.
#[derive(Debug)]
pub struct Unread {
    path: PathBuf,
    source: io::Error,
}

impl std::fmt::Display for Unread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "cannot read `{}`: {}", self.path.display(), self.source)
    }
}

impl std::error::Error for Unread {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}

/// The bytes of a regular file; pipes and devices, which may never end, are refused.
///
/// # Errors
///
/// [`Unread`] with the path and why.
pub fn read(path: &Path) -> Result<Vec<u8>, Unread> {
    spark_files::read(path).map_err(|source| Unread {
        path: path.to_owned(),
        source,
    })
}
