//! A file mapped into memory, read-only.

#![allow(
    unsafe_code,
    reason = "calls mmap and makes a slice of what it returns"
)]

use std::fs::File;
use std::ops::Deref;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use crate::error::MemError;

/// A file's bytes, read by the system when they are first touched.
#[derive(Debug)]
pub struct MappedFile {
    pointer: *const u8,
    len_bytes: usize,
}

// SAFETY: the mapping is read-only and stays until the value is dropped.
unsafe impl Send for MappedFile {}
// SAFETY: as above.
unsafe impl Sync for MappedFile {}

impl MappedFile {
    /// Maps a regular file.
    ///
    /// # Errors
    ///
    /// [`MemError::Io`] if it cannot be opened, is no regular file or cannot be mapped.
    ///
    /// # Safety
    ///
    /// Nobody may change or shorten the file while it is mapped: its bytes are handed out
    /// as a slice, and touching a page that is no longer there ends the process.
    /// [`load`](super::load) has no such condition.
    pub unsafe fn open(path: &Path) -> Result<Self, MemError> {
        let (file, len_bytes) = open_regular(path)?;
        let len_bytes = usize::try_from(len_bytes).map_err(|_| MemError::SizeOverflow {
            len: usize::MAX,
            element_bytes: 1,
        })?;
        if len_bytes == 0 {
            return Ok(Self {
                pointer: std::ptr::null(),
                len_bytes,
            });
        }
        // SAFETY: a new private read-only mapping of an open file; the arguments follow
        // mmap(2), and the file may be closed afterwards.
        let pointer = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len_bytes,
                libc::PROT_READ,
                libc::MAP_PRIVATE,
                file.as_raw_fd(),
                0,
            )
        };
        if pointer == libc::MAP_FAILED {
            return Err(MemError::io("map", path)(std::io::Error::last_os_error()));
        }
        Ok(Self {
            pointer: pointer.cast_const().cast(),
            len_bytes,
        })
    }

    /// Tells the system that all of it will be needed soon.
    pub fn will_need(&self) {
        if self.len_bytes > 0 {
            // SAFETY: the range is this mapping; the call is a hint that cannot change it.
            // A hint that fails changes nothing either.
            let _ = unsafe {
                libc::madvise(
                    self.pointer.cast_mut().cast(),
                    self.len_bytes,
                    libc::MADV_WILLNEED,
                )
            };
        }
    }
}

impl Deref for MappedFile {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        if self.len_bytes == 0 {
            return &[];
        }
        // SAFETY: the mapping has this many readable bytes until it is dropped, and the
        // caller of `open` promised that nobody changes them.
        unsafe { std::slice::from_raw_parts(self.pointer, self.len_bytes) }
    }
}

impl Drop for MappedFile {
    fn drop(&mut self) {
        if self.len_bytes > 0 {
            // SAFETY: this mapping, once; every slice of it borrowed this value.
            let _ = unsafe { libc::munmap(self.pointer.cast_mut().cast(), self.len_bytes) };
        }
    }
}

/// Opens a regular file and tells its length. Pipes and devices have none and are refused.
pub(super) fn open_regular(path: &Path) -> Result<(File, u64), MemError> {
    let file = File::options()
        .read(true)
        // A pipe without a writer would make `open` wait for one.
        .custom_flags(libc::O_NONBLOCK)
        .open(path)
        .map_err(MemError::io("open", path))?;
    let metadata = file.metadata().map_err(MemError::io("examine", path))?;
    if !metadata.is_file() {
        let source = std::io::Error::new(std::io::ErrorKind::InvalidInput, "not a regular file");
        return Err(MemError::io("read", path)(source));
    }
    Ok((file, metadata.len()))
}
