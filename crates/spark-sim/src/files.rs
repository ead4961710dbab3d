//! Files of users: read if they are regular and of a size that makes sense, written whole or not at
//! all.

use crate::SimError;
use std::fs::File;
use std::io::{Error, Read};
use std::path::Path;

fn failed(path: &Path) -> impl Fn(Error) -> SimError {
    move |source| SimError::Io {
        path: path.to_owned(),
        source,
    }
}

/// Opens a file; it and its size in bytes.
///
/// # Errors
///
/// [`SimError::Io`] if it cannot be opened or is no regular file.
pub(crate) fn open(path: &Path) -> Result<(File, u64), SimError> {
    spark_files::open(path).map_err(failed(path))
}

/// Reads a text of at most `most` bytes.
///
/// # Errors
///
/// As [`open`]; [`SimError::FileTooLarge`], or [`SimError::Io`] for text that is not UTF-8.
pub(crate) fn read_text(path: &Path, most: u64) -> Result<String, SimError> {
    let (mut file, bytes) = open(path)?;
    if bytes > most {
        return Err(SimError::FileTooLarge {
            path: path.to_owned(),
            bytes,
            most,
        });
    }
    let mut text = String::new();
    file.read_to_string(&mut text).map_err(failed(path))?;
    Ok(text)
}

/// Writes a file whole or not at all.
///
/// # Errors
///
/// [`SimError::Io`] with the path.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<(), SimError> {
    spark_files::write(path, bytes).map_err(failed(path))
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn devices_and_folders_are_refused() {
        for path in ["/dev/zero", "/"] {
            let result = read_text(Path::new(path), 10);
            assert!(matches!(result, Err(SimError::Io { .. })), "{path}");
        }
    }
}
