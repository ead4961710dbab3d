//! Why work could not be shared out, gone on with or put together.

use std::io;
use std::ops::RangeInclusive;
use std::path::PathBuf;

use crate::Differences;

/// Why a chunk, a folder of chunks or several of them cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ShardError {
    /// A share that there cannot be.
    #[error("`{text}` is no shard: expected K/N, with K from 1 to N")]
    Shard {
        /// What was given.
        text: String,
    },
    /// Chunks of no item.
    #[error("a chunk must hold at least one item")]
    ChunkLength,
    /// A chunk that cannot be written as a file.
    #[error("chunk {number} cannot be written: {reason}")]
    NotWritable {
        /// Number of the chunk.
        number: u64,
        /// What is beyond a chunk's file.
        reason: &'static str,
    },
    /// A file or folder could not be accessed.
    #[error("cannot access `{path}`: {source}")]
    Io {
        /// Which one.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// A chunk's file could not be written.
    #[error("cannot write `{path}`: {source}")]
    Unwritten {
        /// The chunk's file.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// A chunk is of another run than the one that is to go on.
    #[error("`{path}` is of another run ({differences})")]
    Foreign {
        /// The chunk's file.
        path: PathBuf,
        /// This run here, the file's there.
        differences: Differences,
    },
    /// A whole chunk in a format that this program does not read.
    #[error("`{path}` is whole, but of format {format}; this program reads format {reads}")]
    Format {
        /// The chunk's file.
        path: PathBuf,
        /// The format that it states.
        format: u32,
        /// The one that this program reads.
        reads: u32,
    },
    /// Chunks that are to be put together are not whole, or one lies where no shard will mend it.
    #[error("`{path}` is damaged: {damage}{}; {remedy}", more(*.n_more))]
    Damaged {
        /// The first of them.
        path: PathBuf,
        /// What is wrong with it.
        damage: Damage,
        /// How many others are damaged, too.
        n_more: usize,
        /// What to do about the first of them.
        remedy: Remedy,
    },
    /// Two chunks are of different runs.
    #[error("`{second}` and `{first}` are of different runs ({})", .differences.of_former_and_latter())]
    Disagree {
        /// The chunk that was read first.
        first: PathBuf,
        /// The chunk that differs from it.
        second: PathBuf,
        /// The second one's here, the first one's there.
        differences: Differences,
    },
    /// Two files of one chunk of one run hold different bytes.
    #[error(
        "`{second}` and `{first}` are both chunk {number} of one run and hold different results"
    )]
    Overlap {
        /// Number of the chunk.
        number: u64,
        /// The file that was read first.
        first: PathBuf,
        /// The file that differs from it.
        second: PathBuf,
    },
    /// A process of the same run has written other results of a chunk.
    #[error("`{path}` is there already, of the same run, and holds other results")]
    Unlike {
        /// The chunk's file.
        path: PathBuf,
    },
    /// Not every chunk is there.
    #[error("{n_missing} of {n_chunks} chunks are missing: {}", ranges(.missing, *.n_missing))]
    Gaps {
        /// The first gaps.
        missing: Vec<RangeInclusive<u64>>,
        /// Number of chunks that are not there.
        n_missing: u64,
        /// Number of chunks of the run.
        n_chunks: u64,
    },
    /// There is no chunk at all.
    #[error("no chunk of any run lies in {folders}")]
    Nothing {
        /// Where they were looked for.
        folders: String,
    },
    /// A chunk changed while chunks were put together.
    #[error("`{path}` changed while it was read")]
    Changed {
        /// The chunk's file.
        path: PathBuf,
    },
}

/// What makes a damaged chunk's file go away.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Remedy {
    /// The shard that the chunk is a part of writes it anew.
    #[error("run its shard again")]
    RunAgain,
    /// Nothing writes over a folder.
    #[error("remove it, and run its shard again")]
    RemoveAndRunAgain,
    /// The run ends before this number, so no shard writes it anew.
    #[error("the run has chunks 0 to {}: remove it", n_chunks.saturating_sub(1))]
    Remove {
        /// Chunks of the run.
        n_chunks: u64,
    },
}

/// What is wrong with a chunk's file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Damage {
    /// It does not begin as chunks do.
    #[error("it does not begin as a chunk")]
    Magic,
    /// It is shorter than any chunk.
    #[error("it has {n_bytes} bytes, fewer than any chunk")]
    Short {
        /// Its length.
        n_bytes: u64,
    },
    /// It is longer than any chunk.
    #[error("it has {n_bytes} bytes, more than any chunk")]
    Long {
        /// Its length.
        n_bytes: u64,
    },
    /// Its bytes are not those that were written.
    #[error("its checksum is wrong")]
    Checksum,
    /// Its parts do not fit together, though its checksum is right.
    #[error("its {what} does not fit the rest")]
    Misfit {
        /// Which part.
        what: &'static str,
    },
    /// It has the name of another chunk.
    #[error("it is chunk {number}, by another name")]
    Name {
        /// Which chunk it is.
        number: u64,
    },
    /// It is no regular file: a pipe, a device, or a link that leads nowhere.
    #[error("it is no regular file")]
    NotRegular,
    /// It is a folder.
    #[error("it is a folder")]
    Folder,
}

fn more(n: usize) -> String {
    match n {
        0 => String::new(),
        n => format!(", and so are {n} more"),
    }
}

/// Gaps as words; those beyond the listed ones are counted.
fn ranges(missing: &[RangeInclusive<u64>], n_missing: u64) -> String {
    let one = |gap: &RangeInclusive<u64>| match gap.start() == gap.end() {
        true => gap.start().to_string(),
        false => format!("{} to {}", gap.start(), gap.end()),
    };
    let listed: Vec<String> = missing.iter().map(one).collect();
    let n_listed: u64 = missing.iter().map(|gap| gap.end() - gap.start() + 1).sum();
    match n_missing - n_listed.min(n_missing) {
        0 => listed.join(", "),
        n => format!("{} and {n} more", listed.join(", ")),
    }
}
