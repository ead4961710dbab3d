//! Regular files and nothing else: pipes and devices may never end.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::Path;

/// Opens a regular file; it and its size in bytes. Pipes and devices, which may never end, are
/// refused.
///
/// # Errors
///
/// What the operating system said; [`ErrorKind::InvalidInput`] for what is no regular file.
pub fn open(path: &Path) -> io::Result<(File, u64)> {
    // Asked before opening, since opening some devices does something.
    refuse_other_than_regular(&fs::metadata(path)?)?;
    let mut options = File::options();
    options.read(true);
    // Somebody may have put something else in its place since: to open a pipe would be to wait for
    // somebody who writes. To a regular file the flag means nothing (open(2)).
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, libc::O_NONBLOCK);
    let file = options.open(path)?;
    let metadata = file.metadata()?;
    refuse_other_than_regular(&metadata)?;
    Ok((file, metadata.len()))
}

fn refuse_other_than_regular(metadata: &fs::Metadata) -> io::Result<()> {
    if metadata.is_file() {
        return Ok(());
    }
    let reason = "it is not a regular file";
    Err(io::Error::new(ErrorKind::InvalidInput, reason))
}
