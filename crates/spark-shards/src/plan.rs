//! Which items make a chunk, and whose chunk it is.
//!
//! ```text
//! items    0 1 2 3 | 4 5 6 7 | 8 9          n_items = 10, chunk_len = 4
//! chunk       0    |    1    |  2           whatever the number of shards
//! shard of 2  1/2  |   2/2   | 1/2          chunk mod N = K - 1: `chunks_of`
//!             1/2  |   2/2   | 2/2          neighbours: `neighbours_of`
//! ```
//!
//! Shards are counted from 1, as test runners count theirs (`--shard 1/4` to `--shard 4/4`); ranks of
//! launchers, which begin at 0, are turned into them in `launcher`.
//!
//! Deliberately absent: a choice of the chunk's length per process. It is part of the run.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use crate::ShardError;

/// Items as chunks of one length; the last one may be shorter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    n_items: u64,
    chunk_len: u64,
}

impl Plan {
    /// A plan of so many items; none at all have no chunk.
    ///
    /// # Errors
    ///
    /// [`ShardError::ChunkLength`] for chunks of no item.
    pub fn new(n_items: u64, chunk_len: u64) -> Result<Self, ShardError> {
        match chunk_len {
            0 => Err(ShardError::ChunkLength),
            chunk_len => Ok(Self { n_items, chunk_len }),
        }
    }

    /// Number of items.
    pub fn n_items(&self) -> u64 {
        self.n_items
    }

    /// Items of every chunk but the last.
    pub fn chunk_len(&self) -> u64 {
        self.chunk_len
    }

    /// Number of chunks.
    pub fn n_chunks(&self) -> u64 {
        self.n_items.div_ceil(self.chunk_len)
    }

    /// The items of a chunk; none if the plan has no such chunk.
    pub fn items(&self, chunk: u64) -> Range<u64> {
        let bounded = |chunk: u64| chunk.saturating_mul(self.chunk_len).min(self.n_items);
        bounded(chunk)..bounded(chunk.saturating_add(1))
    }

    /// The chunks of a shard, in order. Where shards are more than chunks, some have none.
    pub fn chunks_of(&self, shard: Shard) -> impl Iterator<Item = u64> + use<> {
        let n_chunks = self.n_chunks();
        std::iter::successors(Some(shard.number - 1), move |c| c.checked_add(shard.of))
            .take_while(move |&chunk| chunk < n_chunks)
    }

    /// The same chunks shared out as neighbours, for work whose neighbours have something costly in common, such as a video that is decoded
    /// whole. Parts differ by one chunk at most.
    pub fn neighbours_of(&self, shard: Shard) -> Range<u64> {
        let until = |number: u64| {
            let product = u128::from(self.n_chunks()) * u128::from(number);
            // No more than the number of chunks, as no number is above that of shards.
            (product / u128::from(shard.of)) as u64
        };
        until(shard.number - 1)..until(shard.number)
    }
}

/// One of several shares of a run: number K of N, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shard {
    number: u64,
    of: u64,
}

impl Shard {
    /// Share `number` of `of`.
    ///
    /// # Errors
    ///
    /// [`ShardError::Shard`] unless `number` is 1 to `of`.
    pub fn new(number: u64, of: u64) -> Result<Self, ShardError> {
        match (1..=of).contains(&number) {
            true => Ok(Self { number, of }),
            false => Err(ShardError::Shard {
                text: format!("{number}/{of}"),
            }),
        }
    }

    /// Which share, from 1.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Of how many.
    pub fn of(&self) -> u64 {
        self.of
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.number, self.of)
    }
}

impl FromStr for Shard {
    type Err = ShardError;

    fn from_str(text: &str) -> Result<Self, ShardError> {
        let refused = || ShardError::Shard {
            text: text.to_owned(),
        };
        let (number, of) = text.split_once('/').ok_or_else(refused)?;
        let (number, of) = (whole(number), whole(of));
        let (number, of) = number.zip(of).ok_or_else(refused)?;
        Self::new(number, of)
    }
}

/// A number of plain digits; `u64::from_str` would take a sign, too.
pub(crate) fn whole(text: &str) -> Option<u64> {
    let is_digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_digits)
}
