//! A shard of a run as a process: which one it is, what its folder has, what it says in the end.
//!
//! ```text
//! --shard K/N|auto   this                  which share of how many
//! --folder DIR       Part::open            of the run? what is damaged is said; a place for what is left
//! the work           Part::left, write     chunk by chunk
//! the end            Part::finish          no other run's chunks? "shard 1/2: 3 of 6 chunks; 1 were there, 2 driven (128 drives)"
//! ```
//!
//! Deliberately absent: what is computed, and what a payload holds.

use std::error::Error;
use std::io;
use std::path::Path;

use spark_shards::{
    Asked, Folder, Identity, LauncherError, Plan, Run, Shard, ShardError, hash_of_this_program,
    is_chunk_name,
};

use crate::failure::{Usage, tell};
use crate::place;
use crate::signals::postponed;

/// The shard of this process.
///
/// # Errors
///
/// [`Usage`] if no launcher says, or what they say cannot be.
pub fn this(asked: Asked) -> Result<Shard, Usage> {
    let variable = |name: &str| {
        let value = std::env::var_os(name)?;
        Some(value.to_string_lossy().into_owned())
    };
    let told = |error: LauncherError| Usage(error.to_string());
    asked.shard(variable).map_err(told)
}

/// What every run's numbers depend on: its work, the format of its payloads by name, this program.
///
/// # Errors
///
/// What the operating system said of the program's file.
pub fn identity(work: &str, (name, format): (&str, u32), version: &str) -> io::Result<Identity> {
    let identity = Identity::new(work).with(name, format.to_string());
    Ok(identity
        .with("program", format!("sparkpilot {version}"))
        .with("build", hash_of_this_program()?)
        .with("architecture", std::env::consts::ARCH))
}

/// Refuses a place of a result that would be the end of a chunk, or be taken for a damaged one beside chunks.
///
/// # Errors
///
/// [`Usage`] for a file with the name of a chunk.
pub fn refuse_name_of_chunk(result: &Path) -> Result<(), Usage> {
    match is_chunk_name(result) {
        true => Err(Usage(format!(
            "`{}` is to be written and has the name of a shard's chunk",
            result.display()
        ))),
        false => Ok(()),
    }
}

/// A shard's part of a run, in a folder.
#[derive(Debug)]
pub struct Part {
    chunks: Folder,
    plan: Plan,
    shard: Shard,
    n_own: usize,
    left: Vec<u64>,
}

impl Part {
    /// Looks which of the shard's `own` chunks the folder has, and says which files of it are damaged.
    ///
    /// # Errors
    ///
    /// As [`Folder::open`]; [`output::Unwritten`](crate::output::Unwritten) where what is left could not be written.
    pub fn open(
        folder: &Path,
        run: &Run,
        shard: Shard,
        own: impl Iterator<Item = u64>,
    ) -> Result<Self, Box<dyn Error>> {
        // One that is there and complete need not be one that can be written to.
        if !folder.is_dir() {
            place::folder(folder)?;
        }
        let (chunks, found) = Folder::open(folder, run)?;
        let own: Vec<u64> = own.collect();
        let left = own.iter().filter(|chunk| !found.done.contains(chunk));
        let left: Vec<u64> = left.copied().collect();
        if !left.is_empty() {
            place::folder(folder)?;
        }
        for (path, damage) in &found.damaged {
            tell(format_args!("`{}`: {damage}", path.display()));
        }
        Ok(Self {
            chunks,
            plan: run.plan,
            shard,
            n_own: own.len(),
            left,
        })
    }

    /// The shard's chunks that are not there, or damaged, in order.
    pub fn left(&self) -> &[u64] {
        &self.left
    }

    /// Items of some chunks.
    pub fn n_items(&self, chunks: &[u64]) -> u64 {
        let each = chunks.iter().map(|&chunk| self.plan.items(chunk));
        each.map(|items| items.end - items.start).sum()
    }

    /// Writes a chunk; Ctrl-C waits for it.
    ///
    /// # Errors
    ///
    /// As [`Folder::write`].
    pub fn write(&self, chunk: u64, payload: &[u8]) -> Result<(), ShardError> {
        postponed(|| self.chunks.write(chunk, payload))
    }

    /// Looks whether another run has written here meanwhile, and gives the line that ends the shard: what was `done` with `items`.
    ///
    /// # Errors
    ///
    /// As [`Folder::look_again`].
    pub fn finish(&self, done: &str, items: &str) -> Result<String, ShardError> {
        self.chunks.look_again()?;
        Ok(format!(
            "shard {}: {} of {} chunks; {} were there, {} {done} ({} {items})",
            self.shard,
            self.n_own,
            self.plan.n_chunks(),
            self.n_own - self.left.len(),
            self.left.len(),
            self.n_items(&self.left),
        ))
    }
}
