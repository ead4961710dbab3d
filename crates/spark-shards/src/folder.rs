//! A folder of chunks: which are done, and how one more is put there.
//!
//! ```text
//! DIR/chunk-00000007.shard     whole, of this run      done, skipped
//!                              damaged                 listed, and done again by whoever has it
//!                              damaged, and a folder   refused, as no shard would ever mend it
//!                              or beyond the run
//!                              whole, of another run   refused, with the difference; nothing is written
//! DIR/.chunk-….shard.XXXXXX.tmp                        what a killed process left; taken away when an hour old
//! DIR/anything else                                    left alone
//! ```
//!
//! Any number of processes may share a folder, on one machine or by a network's file system: a chunk
//! appears whole under its name, and whole chunks are not written over. Folders of machines that share none are
//! copied together later, or given to [`Merge`](crate::Merge) side by side.
//!
//! All chunks of the folder are read when a process starts, those of other shards too: a run in the
//! wrong folder is refused before it computes anything. Two runs that begin at once in an empty folder see
//! nothing of each other then; each looks again when it has written its last chunk, and the one that ends later
//! finds those of the other.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io::{self, ErrorKind, Read as _};
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use crate::chunk_file::{self, Chunk, FORMAT, MOST_BYTES, Unreadable, beginning};
use crate::error::{Damage, Remedy, ShardError};
use crate::plan::whole;
use crate::{Run, encode};

/// How often somebody may take a chunk away again while it is written.
const MOST_TRIES: usize = 8;
/// Digits of a chunk's number in a file's name, at least.
const N_DIGITS: usize = 8;

/// A folder that chunks of one run are written to.
#[derive(Debug, Clone)]
pub struct Folder {
    path: PathBuf,
    run: Run,
}

/// What lay in a folder when it was opened.
#[derive(Debug, Clone, Default)]
pub struct Found {
    /// Chunks that are whole.
    pub done: BTreeSet<u64>,
    /// Files of chunks that are not, and what is wrong with them.
    pub damaged: Vec<(PathBuf, Damage)>,
}

impl Folder {
    /// Makes the folder if it is not there, and reads what lies in it.
    ///
    /// # Errors
    ///
    /// [`ShardError::Foreign`] if a chunk of another run lies there, [`ShardError::Format`] if one of
    /// another format does, [`ShardError::Damaged`] for a damaged one that no shard would write anew,
    /// [`ShardError::Io`] for what cannot be read or made.
    pub fn open(path: &Path, run: &Run) -> Result<(Self, Found), ShardError> {
        fs::create_dir_all(path).map_err(about(path))?;
        // What stays there is only in the way of people.
        let _ = spark_files::remove_leftovers(path, |name| number_of(name).is_some());
        let (mut found, mut beyond_mending) = (Found::default(), None);
        for file in files(path)? {
            match read(&file)? {
                Read::Whole { chunk, .. } => {
                    refuse_foreign(run, &file, &chunk.run)?;
                    found.done.insert(chunk.number);
                }
                Read::Damaged(damage) => match remedy(&file, &damage, Some(run)) {
                    Remedy::RunAgain => found.damaged.push((file, damage)),
                    remedy => beyond_mending = beyond_mending.or(Some((file, damage, remedy))),
                },
            }
        }
        // Last, as in a folder of another run nothing should be removed.
        if let Some((path, damage, remedy)) = beyond_mending {
            return Err(ShardError::Damaged {
                path,
                damage,
                n_more: 0,
                remedy,
            });
        }
        let folder = Self {
            path: path.to_owned(),
            run: run.clone(),
        };
        Ok((folder, found))
    }

    /// Where a chunk is written to.
    pub fn path_of(&self, chunk: u64) -> PathBuf {
        self.path.join(file_name(chunk))
    }

    /// Looks whether a process of another run has written here since the folder was opened. Of files that begin as
    /// this run's chunks do nothing more is read.
    ///
    /// # Errors
    ///
    /// As [`Folder::open`] for files of other runs and formats; others, damaged ones too, are passed over.
    pub fn look_again(&self) -> Result<(), ShardError> {
        let own = beginning(&self.run);
        for path in files(&self.path)? {
            if begins_with(&path, &own) {
                continue;
            }
            let chunk = match read(&path) {
                Ok(Read::Whole { chunk, .. }) => chunk,
                Ok(Read::Damaged(_)) => continue,
                // Somebody has taken it away meanwhile.
                Err(ShardError::Io { source, .. }) if source.kind() == ErrorKind::NotFound => {
                    continue;
                }
                Err(error) => return Err(error),
            };
            refuse_foreign(&self.run, &path, &chunk.run)?;
        }
        Ok(())
    }

    /// Writes a finished chunk, whole or not at all, in place of a damaged one or of none.
    ///
    /// If another process has written the same chunk meanwhile, nothing is done.
    ///
    /// # Errors
    ///
    /// [`ShardError::NotWritable`] for a chunk that the run does not have or that is too long,
    /// [`ShardError::Foreign`] and [`ShardError::Format`] if a process of another run has written its own there,
    /// [`ShardError::Unlike`] if one of this run came to other results; [`ShardError::Unwritten`] with what the
    /// operating system said. Then nothing is written over and nothing stays behind.
    pub fn write(&self, chunk: u64, payload: &[u8]) -> Result<(), ShardError> {
        let bytes =
            encode(&self.run, chunk, payload).map_err(|reason| ShardError::NotWritable {
                number: chunk,
                reason,
            })?;
        let path = self.path_of(chunk);
        let unwritten = |source| ShardError::Unwritten {
            path: path.clone(),
            source,
        };
        for _ in 0..MOST_TRIES {
            match read(&path) {
                Ok(Read::Whole { chunk: there, hash }) => {
                    refuse_foreign(&self.run, &path, &there.run)?;
                    let is_same = hash[..] == Sha256::digest(&bytes)[..];
                    return match is_same {
                        true => Ok(()),
                        false => Err(ShardError::Unlike { path }),
                    };
                }
                Ok(Read::Damaged(_)) => {
                    return spark_files::replace_with(&path, |out| out.write_all(&bytes))
                        .map_err(unwritten);
                }
                Err(ShardError::Io { source, .. }) if source.kind() == ErrorKind::NotFound => {}
                // What cannot be read may be whole.
                Err(error) => return Err(error),
            }
            // Of processes that find nothing one writes; the others find what it wrote.
            match spark_files::create_with(&path, |out| out.write_all(&bytes)) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                done => return done.map_err(unwritten),
            }
        }
        Err(unwritten(ErrorKind::AlreadyExists.into()))
    }
}

/// Refuses a chunk at `path` of another run than `run`, with the difference.
fn refuse_foreign(run: &Run, path: &Path, there: &Run) -> Result<(), ShardError> {
    let differences = run.differences(there);
    match differences.is_empty() {
        true => Ok(()),
        false => Err(ShardError::Foreign {
            path: path.to_owned(),
            differences,
        }),
    }
}

/// The name of a chunk's file.
pub fn file_name(chunk: u64) -> String {
    format!("chunk-{chunk:0N_DIGITS$}.shard")
}

/// Whether a file of this name is taken for a chunk, also by way of links: programs that write something else
/// there would destroy one, or make a folder that no merge takes.
pub fn is_chunk_name(path: &Path) -> bool {
    let is_one = |path: &Path| path.file_name().and_then(number_of).is_some();
    let mut behind = path.to_owned();
    // As many links as Linux follows.
    for _ in 0..40 {
        if is_one(&behind) {
            return true;
        }
        let Ok(target) = fs::read_link(&behind) else {
            return false;
        };
        behind = behind.parent().unwrap_or(Path::new("")).join(target);
    }
    false
}

/// Whether a folder has files of chunks, whole ones or not.
///
/// # Errors
///
/// [`ShardError::Io`] for one that cannot be listed.
pub fn has_chunks(folder: &Path) -> Result<bool, ShardError> {
    Ok(!files(folder)?.is_empty())
}

/// What a damaged file asks of people; without a known run a shard is believed to have it.
pub(crate) fn remedy(path: &Path, damage: &Damage, run: Option<&Run>) -> Remedy {
    let number = path.file_name().and_then(number_of);
    let n_chunks = run.map(|run| run.plan.n_chunks());
    match (number, n_chunks) {
        (Some(number), Some(n_chunks)) if number >= n_chunks => Remedy::Remove { n_chunks },
        _ if *damage == Damage::Folder => Remedy::RemoveAndRunAgain,
        _ => Remedy::RunAgain,
    }
}

/// Whether a regular file begins with these bytes; one that cannot be read does not.
fn begins_with(path: &Path, bytes: &[u8]) -> bool {
    let Ok((mut file, _)) = spark_files::open(path) else {
        return false;
    };
    let mut there = vec![0; bytes.len()];
    file.read_exact(&mut there).is_ok() && there == bytes
}

/// The number in a chunk's name.
fn number_of(name: &OsStr) -> Option<u64> {
    let name = name.to_str()?;
    let digits = name.strip_prefix("chunk-")?.strip_suffix(".shard")?;
    // One name for each chunk: `chunk-000000007.shard` is none.
    whole(digits).filter(|&number| file_name(number) == name)
}

/// The chunks' files of a folder, in the order of their numbers.
pub(crate) fn files(folder: &Path) -> Result<Vec<PathBuf>, ShardError> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(about(folder))? {
        let entry = entry.map_err(about(folder))?;
        if let Some(number) = number_of(&entry.file_name()) {
            found.push((number, entry.path()));
        }
    }
    found.sort_unstable();
    Ok(found.into_iter().map(|(_, path)| path).collect())
}

/// What a chunk's file holds.
pub(crate) enum Read {
    Whole { chunk: Chunk, hash: [u8; 32] },
    Damaged(Damage),
}

/// Reads the file of a chunk.
///
/// # Errors
///
/// [`ShardError::Io`], and [`ShardError::Format`] for a chunk of a newer program, which is not damaged.
pub(crate) fn read(path: &Path) -> Result<Read, ShardError> {
    let n_bytes = match spark_files::open(path) {
        Ok((_, n_bytes)) => n_bytes,
        Err(error) if error.kind() == ErrorKind::InvalidInput => {
            return Ok(Read::Damaged(match path.is_dir() && !path.is_symlink() {
                true => Damage::Folder,
                false => Damage::NotRegular,
            }));
        }
        // A link that leads nowhere, or in a circle; what it leads to and may not be read may be whole.
        Err(error) if path.is_symlink() && error.kind() != ErrorKind::PermissionDenied => {
            return Ok(Read::Damaged(Damage::NotRegular));
        }
        Err(error) => return Err(about(path)(error)),
    };
    if n_bytes > MOST_BYTES {
        return Ok(Read::Damaged(Damage::Long { n_bytes }));
    }
    let bytes = spark_files::read(path).map_err(about(path))?;
    let chunk = match chunk_file::read(&bytes) {
        Ok(chunk) => chunk,
        Err(Unreadable::Damaged(damage)) => return Ok(Read::Damaged(damage)),
        Err(Unreadable::Format(format)) => {
            let path = path.to_owned();
            let reads = FORMAT;
            return Err(ShardError::Format {
                path,
                format,
                reads,
            });
        }
    };
    let number = chunk.number;
    if path.file_name().and_then(number_of) != Some(number) {
        return Ok(Read::Damaged(Damage::Name { number }));
    }
    let hash = Sha256::digest(&bytes).into();
    Ok(Read::Whole { chunk, hash })
}

fn about(path: &Path) -> impl FnOnce(io::Error) -> ShardError {
    move |source| ShardError::Io {
        path: path.to_owned(),
        source,
    }
}
