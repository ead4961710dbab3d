//! Files of users: regular ones only, because pipes and devices may never end, and of a size
//! that makes sense.

use crate::SimError;
use std::fs::File;
use std::io::{Error, ErrorKind, Read};
use std::path::Path;

fn failed(path: &Path, source: Error) -> SimError {
    SimError::Io {
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
    // Asked before opening: to open a pipe is to wait for somebody who writes.
    let metadata = std::fs::metadata(path).map_err(|e| failed(path, e))?;
    if !metadata.is_file() {
        let reason = Error::new(ErrorKind::InvalidInput, "it is not a regular file");
        return Err(failed(path, reason));
    }
    let file = File::open(path).map_err(|e| failed(path, e))?;
    Ok((file, metadata.len()))
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
    file.read_to_string(&mut text)
        .map_err(|e| failed(path, e))?;
    Ok(text)
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
