//! Files of users: regular ones only, because pipes and devices may never end.
//!
//! Deliberately absent: limits of size, which depend on what is read.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::Path;

/// Opens `path`; the file and its size in bytes.
///
/// # Errors
///
/// What the operating system said, or [`ErrorKind::InvalidInput`] if it is no regular file.
pub(crate) fn open(path: &Path) -> io::Result<(File, u64)> {
    // Asked before opening: to open a pipe is to wait for somebody who writes.
    let metadata = std::fs::metadata(path)?;
    if !metadata.is_file() {
        let reason = "it is not a regular file";
        return Err(io::Error::new(ErrorKind::InvalidInput, reason));
    }
    Ok((File::open(path)?, metadata.len()))
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn devices_and_folders_are_refused() {
        for path in ["/dev/zero", "/"] {
            let error = open(Path::new(path)).expect_err("no regular file");
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{path}");
        }
    }
}
