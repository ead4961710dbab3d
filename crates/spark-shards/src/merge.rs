//! Folders of chunks put together: every chunk of one run, once, in order.
//!
//! ```text
//! DIR DIR … ──read all──> one run? every chunk whole? each there? ──> payloads in the order of the items,
//!                                                                     read and checked a second time
//! ```
//!
//! A chunk that lies in two folders is taken if both files are the same, byte for byte: whoever copied
//! twice, or ran a shard on two machines, has lost nothing. Where the bytes differ, one of two
//! machines computed something else, and nobody can say which: that is refused.
//!
//! One chunk is in memory at a time.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use crate::Run;
use crate::error::ShardError;
use crate::folder::{Read, files, read, remedy};

/// Gaps that an error lists.
const MOST_LISTED: usize = 8;

/// All chunks of a run.
#[derive(Debug, Clone)]
pub struct Merge {
    run: Run,
    chunks: BTreeMap<u64, Known>,
}

#[derive(Debug, Clone)]
struct Known {
    path: PathBuf,
    hash: [u8; 32],
}

impl Merge {
    /// Reads every chunk of the folders and checks that they are one run, and all of it.
    ///
    /// # Errors
    ///
    /// [`ShardError::Disagree`], [`ShardError::Overlap`], [`ShardError::Damaged`], [`ShardError::Gaps`],
    /// [`ShardError::Nothing`] and [`ShardError::Format`] say what is wrong with the chunks;
    /// [`ShardError::Io`] for what cannot be read.
    pub fn of(folders: &[impl AsRef<Path>]) -> Result<Self, ShardError> {
        let mut all: Option<(PathBuf, Self)> = None;
        let mut damaged = Vec::new();
        for folder in folders {
            for path in files(folder.as_ref())? {
                let (chunk, hash) = match read(&path)? {
                    Read::Whole { chunk, hash } => (chunk, hash),
                    Read::Damaged(damage) => {
                        damaged.push((path, damage));
                        continue;
                    }
                };
                let (first, merge) = all.get_or_insert_with(|| {
                    let run = chunk.run.clone();
                    let chunks = BTreeMap::new();
                    (path.clone(), Self { run, chunks })
                });
                let differences = chunk.run.differences(&merge.run);
                if !differences.is_empty() {
                    return Err(ShardError::Disagree {
                        first: first.clone(),
                        second: path,
                        differences,
                    });
                }
                let known = merge.chunks.entry(chunk.number);
                let known = known.or_insert_with(|| Known {
                    path: path.clone(),
                    hash,
                });
                if known.hash != hash {
                    return Err(ShardError::Overlap {
                        number: chunk.number,
                        first: known.path.clone(),
                        second: path,
                    });
                }
            }
        }
        let n_more = damaged.len().saturating_sub(1);
        if let Some((path, damage)) = damaged.into_iter().next() {
            let remedy = remedy(&path, &damage, all.as_ref().map(|(_, merge)| &merge.run));
            return Err(ShardError::Damaged {
                path,
                damage,
                n_more,
                remedy,
            });
        }
        let Some((_, merge)) = all else {
            let names = folders.iter().map(|it| it.as_ref().display().to_string());
            let folders = names.collect::<Vec<_>>().join(", ");
            return Err(ShardError::Nothing { folders });
        };
        merge.refuse_gaps()?;
        Ok(merge)
    }

    fn refuse_gaps(&self) -> Result<(), ShardError> {
        let n_chunks = self.run.plan.n_chunks();
        let n_missing = n_chunks - self.chunks.len() as u64;
        if n_missing == 0 {
            return Ok(());
        }
        let mut missing: Vec<RangeInclusive<u64>> = Vec::new();
        let mut next = 0;
        // A run may state more chunks than memory could list.
        for number in self.chunks.keys().copied().chain([n_chunks]) {
            if number > next && missing.len() < MOST_LISTED {
                missing.push(next..=number - 1);
            }
            next = number.saturating_add(1);
        }
        Err(ShardError::Gaps {
            missing,
            n_missing,
            n_chunks,
        })
    }

    /// The run that all chunks are of.
    pub fn run(&self) -> &Run {
        &self.run
    }

    /// The files of the chunks, in the order of the items.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.chunks.values().map(|known| known.path.as_path())
    }

    /// The payloads, in the order of the items.
    ///
    /// Each is [`ShardError::Changed`] if its file is not what it was when it was checked, and
    /// [`ShardError::Io`] if it cannot be read any more.
    pub fn payloads(&self) -> impl Iterator<Item = Result<Vec<u8>, ShardError>> + '_ {
        self.chunks.values().map(|known| match read(&known.path)? {
            Read::Whole { chunk, hash } if hash == known.hash => Ok(chunk.payload),
            _ => Err(ShardError::Changed {
                path: known.path.clone(),
            }),
        })
    }
}
