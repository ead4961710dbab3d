//! Reading a file past the page cache, with several reads in flight.
//!
//! ```text
//! file      |  8 MiB  |  8 MiB  |  8 MiB  | tail |
//! threads       a         b         a        b       pread(O_DIRECT), 4096-aligned
//! tail      rounded up to 4096 through a small buffer of its own
//! ```
//!
//! `O_DIRECT` needs offsets, lengths and memory in whole blocks; buffers of a page or more
//! begin on one. A file system that refuses it (tmpfs, some network file systems) is read
//! the ordinary way, and [`LoadReport::method`] says so with the reason.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::mapped::open_regular;
use crate::buffer::Buffer;
use crate::device::Device;
use crate::error::MemError;
use crate::lock::lock;
use crate::stream::Stream;

/// Bytes of one read.
const CHUNK_BYTES: usize = 8 << 20;
/// Reads in flight at most; an NVMe drive reaches its rate with a few large ones.
const N_READERS: usize = 4;
/// Bytes that are on the host at a time when a file goes to memory of the device alone.
const WINDOW_BYTES: usize = N_READERS * CHUNK_BYTES;
/// What `O_DIRECT` needs offsets, lengths and addresses to be multiples of, on every
/// file system in use; some accept 512.
const BLOCK_BYTES: usize = 4096;

/// How a file was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Method {
    /// Past the page cache.
    Direct,
    /// Through the page cache, because of this.
    Buffered {
        /// Why the file could not be read directly, for people.
        why: String,
    },
}

/// What reading a file took.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadReport {
    /// Bytes that were read: the file's length.
    pub bytes: u64,
    /// From the first read to the last.
    pub duration: Duration,
    /// How it was read.
    pub method: Method,
}

/// Reads a file into a new buffer that both sides use.
///
/// `progress` is called with the bytes read so far and altogether, from several threads
/// but never at the same time; its last call has both equal.
///
/// # Errors
///
/// [`MemError::Io`] if it is no regular file or cannot be read; [`MemError::FileTooShort`]
/// if it shrinks meanwhile; as [`Device::buffer`] before anything is read.
pub fn load(
    device: &Device,
    stream: &Stream,
    path: &Path,
    progress: impl FnMut(u64, u64) + Send,
) -> Result<(Buffer<u8>, LoadReport), MemError> {
    // Once: the path may lead to another file a moment later.
    load_opened(device, stream, path, open_regular(path)?, progress)
}

/// As [`load`], of a file that is open.
pub(super) fn load_opened(
    device: &Device,
    stream: &Stream,
    path: &Path,
    opened: (File, u64),
    progress: impl FnMut(u64, u64) + Send,
) -> Result<(Buffer<u8>, LoadReport), MemError> {
    let len = usize::try_from(opened.1).map_err(|_| MemError::SizeOverflow {
        len: usize::MAX,
        element_bytes: 1,
    })?;
    let mut buffer = device.shared::<u8>(len)?;
    let report = if buffer.kind().is_host_visible() || len == 0 {
        let mut guard = buffer.overwrite(stream)?;
        let work = |reading: &Reading<'_, _>, to: &mut [u8]| reading.run(0, to);
        let report = read_file(path, opened, &mut guard, len as u64, progress, work)?;
        guard.finish()?;
        report
    } else {
        load_through(&mut buffer, stream, path, opened, progress)?
    };
    Ok((buffer, report))
}

/// Reads a file into memory of the device alone, window by window: while one is copied to the
/// device the next is read. Host memory of a window's size is taken, whatever the file's.
fn load_through(
    buffer: &mut Buffer<u8>,
    stream: &Stream,
    path: &Path,
    opened: (File, u64),
    progress: impl FnMut(u64, u64) + Send,
) -> Result<LoadReport, MemError> {
    let len = buffer.len();
    let n_window = WINDOW_BYTES.min(len);
    let mut room = vec![0_u8; n_window + BLOCK_BYTES];
    let first = room.as_ptr().align_offset(BLOCK_BYTES).min(BLOCK_BYTES);
    let window = &mut room[first..first + n_window];
    read_file(
        path,
        opened,
        window,
        len as u64,
        progress,
        |reading, window| {
            for begin in (0..len).step_by(WINDOW_BYTES) {
                let end = len.min(begin + WINDOW_BYTES);
                let piece = &mut window[..end - begin];
                reading.run(begin, piece)?;
                buffer.upload_part(stream, begin..end, piece)?;
            }
            Ok(())
        },
    )
}

/// Reads the first `to.len()` bytes of a file. See [`load`].
///
/// # Errors
///
/// As [`load`]; [`MemError::FileTooShort`] if the file has fewer bytes.
pub fn load_into(
    path: &Path,
    to: &mut [u8],
    progress: impl FnMut(u64, u64) + Send,
) -> Result<LoadReport, MemError> {
    let want = to.len() as u64;
    read_file(
        path,
        open_regular(path)?,
        to,
        want,
        progress,
        |reading, to| reading.run(0, to),
    )
}

/// Lets `work` read a file of at least `want` bytes, which is open, into `to`, or into parts of it.
fn read_file<P: FnMut(u64, u64) + Send>(
    path: &Path,
    (file, len): (File, u64),
    to: &mut [u8],
    want: u64,
    progress: P,
    work: impl FnOnce(&Reading<'_, P>, &mut [u8]) -> Result<(), MemError>,
) -> Result<LoadReport, MemError> {
    if len < want {
        return Err(MemError::FileTooShort {
            path: path.to_owned(),
            got: len,
            want,
        });
    }
    let started = Instant::now();
    let direct = open_direct(&file, to);
    let method = match &direct {
        Ok(_) => Method::Direct,
        Err(why) => Method::Buffered { why: why.clone() },
    };
    if let Method::Buffered { why } = &method {
        tracing::info!("{} is read through the page cache: {why}", path.display());
    }
    let reading = Reading {
        path,
        file: direct.as_ref().unwrap_or(&file),
        is_direct: direct.is_ok(),
        n_chunks_taken: AtomicUsize::new(0),
        n_read: AtomicU64::new(0),
        want,
        progress: Mutex::new(progress),
    };
    work(&reading, to)?;
    Ok(LoadReport {
        bytes: want,
        duration: started.elapsed(),
        method,
    })
}

/// The same file without the page cache, tried with a first block; or why not.
fn open_direct(file: &File, to: &mut [u8]) -> Result<File, String> {
    if to.len() < BLOCK_BYTES {
        return Err("it is smaller than a block".to_owned());
    }
    if !(to.as_ptr() as usize).is_multiple_of(BLOCK_BYTES) {
        return Err("the memory does not begin on a block".to_owned());
    }
    let file = File::options()
        .read(true)
        .custom_flags(libc::O_DIRECT | libc::O_NONBLOCK)
        .open(format!("/proc/self/fd/{}", file.as_raw_fd()))
        .map_err(|error| format!("O_DIRECT: {error}"))?;
    // Some file systems accept the flag and refuse the read.
    match file.read_at(&mut to[..BLOCK_BYTES], 0) {
        Ok(_) => Ok(file),
        Err(error) => Err(format!("the first direct read: {error}")),
    }
}

struct Reading<'a, P> {
    path: &'a Path,
    file: &'a File,
    is_direct: bool,
    n_chunks_taken: AtomicUsize,
    n_read: AtomicU64,
    want: u64,
    progress: Mutex<P>,
}

/// A part of the destination and where it lies in the file.
type Chunk<'a> = Mutex<(usize, &'a mut [u8])>;

impl<P: FnMut(u64, u64) + Send> Reading<'_, P> {
    /// Reads the bytes from `begin` on.
    fn run(&self, begin: usize, to: &mut [u8]) -> Result<(), MemError> {
        self.n_chunks_taken.store(0, Ordering::Relaxed);
        if to.is_empty() {
            self.report(0);
            return Ok(());
        }
        let chunks: Vec<Chunk<'_>> = to
            .chunks_mut(CHUNK_BYTES)
            .enumerate()
            .map(|(idx, chunk)| Mutex::new((begin + idx * CHUNK_BYTES, chunk)))
            .collect();
        let n_readers = N_READERS.min(chunks.len());
        std::thread::scope(|scope| {
            let readers: Vec<_> = (0..n_readers)
                .map(|_| scope.spawn(|| self.read_chunks(&chunks)))
                .collect();
            let mut outcome = Ok(());
            for reader in readers {
                let read = match reader.join() {
                    Ok(read) => read,
                    Err(panic) => std::panic::resume_unwind(panic),
                };
                outcome = outcome.and(read);
            }
            outcome
        })
    }

    /// Takes chunks until there are none left.
    fn read_chunks(&self, chunks: &[Chunk<'_>]) -> Result<(), MemError> {
        loop {
            let idx = self.n_chunks_taken.fetch_add(1, Ordering::Relaxed);
            let Some(chunk) = chunks.get(idx) else {
                return Ok(());
            };
            let mut chunk = lock(chunk);
            let (offset, bytes) = &mut *chunk;
            let read = self.read_exactly(*offset, bytes);
            if let Err(error) = read {
                // The others need not go on.
                self.n_chunks_taken.store(chunks.len(), Ordering::Relaxed);
                return Err(error);
            }
            self.report(bytes.len() as u64);
        }
    }

    fn report(&self, n_bytes: u64) {
        // Counted under the lock, so that the figures never go down.
        let mut progress = lock(&self.progress);
        let n_read = self.n_read.fetch_add(n_bytes, Ordering::Relaxed) + n_bytes;
        progress(n_read, self.want);
    }

    fn read_exactly(&self, offset: usize, bytes: &mut [u8]) -> Result<(), MemError> {
        let whole = if self.is_direct {
            bytes.len() / BLOCK_BYTES * BLOCK_BYTES
        } else {
            bytes.len()
        };
        let (body, tail) = bytes.split_at_mut(whole);
        self.fill(offset, body)?;
        if tail.is_empty() {
            return Ok(());
        }
        // The last bytes are read as a whole block, into memory that begins on one.
        let mut room = vec![0_u8; 2 * BLOCK_BYTES];
        let first = room.as_ptr().align_offset(BLOCK_BYTES);
        let block = &mut room[first..first + BLOCK_BYTES];
        let got = self.read_some(offset + whole, block)?;
        if got < tail.len() {
            return Err(self.too_short(offset + whole + got));
        }
        tail.copy_from_slice(&block[..tail.len()]);
        Ok(())
    }

    fn fill(&self, offset: usize, bytes: &mut [u8]) -> Result<(), MemError> {
        let mut n_filled = 0;
        while n_filled < bytes.len() {
            let got = self.read_some(offset + n_filled, &mut bytes[n_filled..])?;
            // A direct read that ends inside a block has met the end of the file.
            let is_end = got == 0 || (self.is_direct && !got.is_multiple_of(BLOCK_BYTES));
            n_filled += got;
            if is_end && n_filled < bytes.len() {
                return Err(self.too_short(offset + n_filled));
            }
        }
        Ok(())
    }

    fn read_some(&self, offset: usize, bytes: &mut [u8]) -> Result<usize, MemError> {
        loop {
            match self.file.read_at(bytes, offset as u64) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => return result.map_err(MemError::io("read", self.path)),
            }
        }
    }

    fn too_short(&self, got: usize) -> MemError {
        MemError::FileTooShort {
            path: self.path.to_owned(),
            got: got as u64,
            want: self.want,
        }
    }
}
