//! Temporary files, and those that killed processes left.
//!
//! ```text
//! .<name>.<random>.tmp     random: six letters or digits; locked while its process writes it
//! left behind              of such a name, a regular file, not written to for an hour, and not locked
//! ```
//!
//! The lock (flock(2)) goes with the process, however it ends: a file that somebody stopped or debugs for
//! a day is in use all that time. Where locks are not to be had nothing is removed.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Metadata};
use std::io;
use std::path::Path;
use std::time::Duration;

use tempfile::NamedTempFile;

use crate::{place, regular};

const SUFFIX: &str = ".tmp";
const N_RANDOM: usize = 6;
/// How long nobody has written to what is left behind.
const OLD: Duration = Duration::from_secs(60 * 60);
/// Names of a folder that are looked at, at most.
const MOST_NAMES: usize = 10_000;

/// An empty file beside `path`, which has the permissions of any new file. The operating system's
/// errors come as they are: callers name the file that was asked for.
pub(crate) fn temporary_file(path: &Path) -> io::Result<NamedTempFile> {
    let mut prefix = OsString::from(".");
    prefix.push(place::beginning(path.file_name().unwrap_or_default()));
    prefix.push(".");
    let mut builder = tempfile::Builder::new();
    builder.prefix(&prefix).suffix(SUFFIX).rand_bytes(N_RANDOM);
    let file = builder.make_in(place::folder_of(path), |path| File::create_new(path))?;
    // Without it the file has its age alone, which is enough for all but hours of writing.
    let _ = file.as_file().try_lock();
    Ok(file)
}

/// Removes the temporary files that killed processes left in a folder of the program's own; says how
/// many.
///
/// They are those that were to become files of names for which `is_own` holds (of a long name it sees the
/// beginning), that nobody has written to for an hour, and that no process has open to write them. What
/// cannot be examined or removed stays. Of a large folder the first ten thousand names are looked at.
///
/// # Errors
///
/// What the operating system said of the folder.
pub fn remove_leftovers(folder: &Path, is_own: impl Fn(&OsStr) -> bool) -> io::Result<usize> {
    let mut n_removed = 0;
    for entry in fs::read_dir(folder)?.take(MOST_NAMES) {
        let entry = entry?;
        let name = entry.file_name();
        let is_left = name_behind(&name).is_some_and(&is_own)
            // Of a link itself.
            && entry.metadata().is_ok_and(|metadata| is_old(&metadata))
            && is_unused(&entry.path());
        if is_left && fs::remove_file(entry.path()).is_ok() {
            n_removed += 1;
        }
    }
    Ok(n_removed)
}

/// The name that a temporary file was to get.
fn name_behind(name: &OsStr) -> Option<&OsStr> {
    // What is no text was not named by a program that knows its names.
    let rest = name.to_str()?.strip_prefix('.')?.strip_suffix(SUFFIX)?;
    let (name, random) = rest.rsplit_once('.')?;
    let is_random =
        random.len() == N_RANDOM && random.bytes().all(|byte| byte.is_ascii_alphanumeric());
    Some(OsStr::new(name)).filter(|name| is_random && !name.is_empty())
}

fn is_old(metadata: &Metadata) -> bool {
    let age = metadata
        .modified()
        .ok()
        .and_then(|time| time.elapsed().ok());
    metadata.is_file() && age.is_some_and(|age| age >= OLD)
}

/// Whether nobody writes it. Its lock is free again at the end; who asks at the same time leaves the file.
fn is_unused(path: &Path) -> bool {
    regular::open(path).is_ok_and(|(file, _)| file.try_lock().is_ok())
}
