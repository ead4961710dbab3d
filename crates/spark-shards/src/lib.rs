//! Numbered work shared out among processes that need not know of each other, and put together again.
//!
//! ```text
//! plan        items 0 .. n ──> chunks of one length, whoever computes them
//!               │   shard K of N: the chunks c with c mod N = K - 1        launcher: which K of how many N
//!               ▼
//! folder      DIR/chunk-00000007.shard ──> done: skipped · damaged: done again · of another run: refused
//!               │ what a chunk holds: chunk_file; what it is of: identity
//!               ▼
//! merge       DIR DIR … ──> the payloads in order, or what is missing, damaged, or disagrees
//! ```
//!
//! Any launcher serves (mpirun, Slurm, Kubernetes, ssh in a loop), nothing is linked and no process
//! waits for another: a shard that fails is started again, with any number of shards, on any machine.
//! Two processes on one chunk come to the same bytes, so the later one changes nothing.
//!
//! A chunk's bytes may depend on its [`Run`] and its number alone. What differs between two processes
//! of one run (times, threads, names of machines) does not belong in a payload: chunks that two folders
//! hold are compared byte for byte, and a difference is refused as the error it is.
//!
//! ```
//! use spark_shards::{Folder, Identity, Merge, Plan, Run, Shard};
//!
//! let place = std::env::temp_dir().join(format!("spark-shards-doc-{}", std::process::id()));
//! let identity = Identity::new("squares").with("of what", "0 to 9");
//! let run = Run { identity, plan: Plan::new(10, 4)? };
//! for shard in [Shard::new(1, 2)?, Shard::new(2, 2)?] {
//!     let (folder, found) = Folder::open(&place, &run)?;
//!     for chunk in run.plan.chunks_of(shard).filter(|chunk| !found.done.contains(chunk)) {
//!         let squares = run.plan.items(chunk).map(|item| (item * item) as u8);
//!         folder.write(chunk, &squares.collect::<Vec<u8>>())?;
//!     }
//! }
//! let merge = Merge::of(&[&place])?;
//! let payloads: Result<Vec<Vec<u8>>, _> = merge.payloads().collect();
//! assert_eq!(payloads?.concat(), [0, 1, 4, 9, 16, 25, 36, 49, 64, 81]);
//! # std::fs::remove_dir_all(&place)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Deliberately absent: what items are, messages between processes, and shares by speed. Chunks go
//! round by number, so that slow ones that lie side by side are spread, or to each shard as neighbours
//! ([`Plan::neighbours_of`]); a machine that is twice as fast is given two shards.

mod chunk_file;
mod difference;
mod error;
mod folder;
mod identity;
mod launcher;
mod merge;
mod plan;
#[cfg(test)]
mod tests;

pub use chunk_file::{Chunk, MOST_PAYLOAD_BYTES, decode, encode};
pub use difference::{Difference, Differences};
pub use error::{Damage, Remedy, ShardError};
pub use folder::{Folder, Found, file_name, has_chunks, is_chunk_name};
pub use identity::{Fingerprint, Identity, Run, hash_of_this_program};
pub use launcher::{Asked, Launcher, LauncherError};
pub use merge::Merge;
pub use plan::{Plan, Shard};

/// The README's example, so that it is compiled and run with the others.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
