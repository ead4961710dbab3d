//! Files of users: read only if they are regular, written whole or not at all.
//!
//! ```text
//! path that is written to         what happens
//! nothing, a regular file         a temporary file beside it is written, synchronised and renamed
//! a symbolic link                 the same to the file it points to; the link stays
//! a device, a pipe, /dev/stdout,  written to as it is: nothing could be replaced
//! /dev/fd/63
//! a folder, a file that may       an error, and nothing is touched
//! not be written to
//! ```
//!
//! A reader sees the old file or the new one, also after a crash: the new one is on the disk before
//! it has its name, and its folder is synchronised after that (rename(2), fsync(2)). The permissions
//! of a file that is replaced stay; its owner and hard links do not.
//!
//! A process that is killed leaves its temporary file behind, `.<name>.<random>.tmp` (of a long name the
//! beginning). Programs that are to survive Ctrl-C without one keep signals waiting meanwhile; those
//! that write into a folder of their own take such files away ([`remove_leftovers`]).
//!
//! Deliberately absent: limits of size, which depend on what is read, and several files that are
//! replaced as one.

mod clash;
mod leftovers;
mod place;
mod regular;

use std::fs::{self, File};
use std::io::{self, BufWriter, Read as _, Write};
use std::path::Path;

pub use clash::{Clash, clash};
pub use leftovers::remove_leftovers;
use leftovers::temporary_file;
use place::{Place, folder_of};
pub use regular::open;

/// The bytes of a regular file.
///
/// # Errors
///
/// As [`open`]; [`ErrorKind::OutOfMemory`](io::ErrorKind::OutOfMemory) for a file that memory cannot hold.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let (file, size) = open(path)?;
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(usize::try_from(size).unwrap_or(usize::MAX))?;
    // No more than was asked for, should the file grow meanwhile.
    file.take(size).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Writes `bytes` to `path`, whole or not at all.
///
/// # Errors
///
/// What the operating system said; then nothing stays behind.
pub fn write(path: &Path, bytes: impl AsRef<[u8]>) -> io::Result<()> {
    write_with(path, |out| out.write_all(bytes.as_ref()))
}

/// Writes to `path`, whole or not at all, what `write` puts into the buffered stream it is given.
///
/// # Errors
///
/// The error of `write`, or what the operating system said; then nothing stays behind.
pub fn write_with<E: From<io::Error>>(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> Result<(), E>,
) -> Result<(), E> {
    let (path, permissions) = match Place::of(path)? {
        // Appended, so that what others wrote to the same stream stays.
        Place::Stream => return fill(&File::options().append(true).open(path)?, write),
        Place::File { path, permissions } => (path, permissions),
    };
    put(&path, permissions, If::Any, write)
}

/// As [`write_with`], for files of the program's own: whatever is at `path`, a link or a pipe too, is
/// replaced and never opened.
///
/// # Errors
///
/// The error of `write`, or what the operating system said; then nothing stays behind.
pub fn replace_with<E: From<io::Error>>(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> Result<(), E>,
) -> Result<(), E> {
    put(path, None, If::Any, write)
}

/// As [`replace_with`], where there is nothing yet: of several processes that create one file, one does.
///
/// # Errors
///
/// [`ErrorKind::AlreadyExists`](io::ErrorKind::AlreadyExists) if there is something, that of `write`, or what the operating
/// system said; then nothing stays behind.
pub fn create_with<E: From<io::Error>>(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> Result<(), E>,
) -> Result<(), E> {
    put(path, None, If::Absent, write)
}

/// What may have the name of a new file.
enum If {
    Any,
    Absent,
}

/// Writes a new file and gives it the name.
fn put<E: From<io::Error>>(
    path: &Path,
    permissions: Option<fs::Permissions>,
    there: If,
    write: impl FnOnce(&mut dyn Write) -> Result<(), E>,
) -> Result<(), E> {
    let temporary = temporary_file(path)?;
    fill(temporary.as_file(), write)?;
    if let Some(permissions) = permissions {
        temporary.as_file().set_permissions(permissions)?;
    }
    temporary.as_file().sync_all()?;
    let named = match there {
        If::Any => temporary.persist(path),
        If::Absent => temporary.persist_noclobber(path),
    };
    named.map_err(|error| error.error)?;
    // The new name lasts only when its folder is on the disk; some file systems cannot say so, and
    // the file is whole either way.
    if let Ok(folder) = File::open(folder_of(path)) {
        let _ = folder.sync_all();
    }
    Ok(())
}

fn fill<E: From<io::Error>>(
    file: &File,
    write: impl FnOnce(&mut dyn Write) -> Result<(), E>,
) -> Result<(), E> {
    let mut out = BufWriter::new(file);
    write(&mut out)?;
    Ok(out.flush()?)
}

/// Whether [`write_with`] would begin at `path` now, for programs that ask before long work. Nothing
/// stays behind, and nothing is promised: a disk may fill meanwhile.
///
/// # Errors
///
/// What the operating system said.
pub fn check(path: &Path) -> io::Result<()> {
    match Place::of(path)? {
        Place::Stream => Ok(()),
        Place::File { path, .. } => temporary_file(&path).map(drop),
    }
}

/// The README's example, so that it is compiled and run with the others.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

#[cfg(all(test, unix))]
mod tests;
