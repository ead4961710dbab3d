//! A finished chunk as bytes: of which run, which items, what they came to, and a checksum over all of it.
//!
//! ```text
//! 0   "SPKSHARD"
//! 8   format: u32                          1
//!     lines: u32, each a name and a value  u32 and so many bytes of UTF-8, twice
//!     items, items a chunk: u64, u64
//!     chunk, first item, end: u64 × 3      the items follow from the rest, and must
//!     payload: u64 and so many bytes
//!     SHA-256 of all bytes before it       32 bytes
//! ```
//!
//! Numbers are little-endian. Every later format keeps the first twelve bytes and the last 32, so that a chunk of
//! a newer program is told from a damaged one and not written over.
//!
//! Deliberately absent: times, names of machines, which shard wrote it. Two processes that compute one chunk
//! write the same bytes.

use sha2::{Digest as _, Sha256};

use crate::error::Damage;
use crate::{Identity, Plan, Run};

/// What is written, and the one format that is read.
pub(crate) const FORMAT: u32 = 1;

/// Most bytes of a payload.
pub const MOST_PAYLOAD_BYTES: u64 = 256 << 20;
/// Most bytes of what stands around a payload.
const MOST_HEADER_BYTES: u64 = 1 << 20;
/// Most lines that say what a run is of: people compare them.
const MOST_LINES: usize = 1024;
/// Most bytes of a chunk's file.
pub(crate) const MOST_BYTES: u64 = MOST_PAYLOAD_BYTES + MOST_HEADER_BYTES;

const MAGIC: &[u8; 8] = b"SPKSHARD";
const CHECKSUM_BYTES: usize = 32;

/// A finished chunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    /// The run that it is a part of.
    pub run: Run,
    /// Which part.
    pub number: u64,
    /// What its items came to; the program's own bytes.
    pub payload: Vec<u8>,
}

/// Why bytes are no chunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Unreadable {
    Damaged(Damage),
    Format(u32),
}

impl From<Damage> for Unreadable {
    fn from(damage: Damage) -> Self {
        Self::Damaged(damage)
    }
}

/// The bytes of a chunk's file.
///
/// # Errors
///
/// In words, for a run without such a chunk, and for what is too long: a payload beyond
/// [`MOST_PAYLOAD_BYTES`], or more than 1,024 lines, or a mebibyte of them.
pub fn encode(run: &Run, number: u64, payload: &[u8]) -> Result<Vec<u8>, &'static str> {
    if number >= run.plan.n_chunks() {
        return Err("the run has no such chunk");
    }
    if payload.len() as u64 > MOST_PAYLOAD_BYTES {
        return Err("its results are too long");
    }
    let lines = &run.identity.lines;
    if !are_few(lines) {
        return Err("the lines that say what it is of are too long, or too many");
    }
    let mut bytes = beginning(run);
    bytes.reserve(payload.len() + 64);
    let items = run.plan.items(number);
    let n_bytes = payload.len() as u64;
    for value in [number, items.start, items.end, n_bytes] {
        bytes.extend_from_slice(&value.to_le_bytes());
    }
    bytes.extend_from_slice(payload);
    let checksum = Sha256::digest(&bytes);
    bytes.extend_from_slice(&checksum);
    Ok(bytes)
}

/// Whether lines are no more than a chunk may have.
fn are_few(lines: &[(String, String)]) -> bool {
    let n_text_bytes: usize = lines.iter().map(|(a, b)| a.len() + b.len() + 8).sum();
    lines.len() <= MOST_LINES && n_text_bytes as u64 + 128 <= MOST_HEADER_BYTES
}

/// The bytes with which every chunk of a run begins, and none of another run of this format.
pub(crate) fn beginning(run: &Run) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend_from_slice(&FORMAT.to_le_bytes());
    let lines = &run.identity.lines;
    bytes.extend_from_slice(&(lines.len() as u32).to_le_bytes());
    for (name, value) in lines {
        for text in [name, value] {
            bytes.extend_from_slice(&(text.len() as u32).to_le_bytes());
            bytes.extend_from_slice(text.as_bytes());
        }
    }
    for value in [run.plan.n_items(), run.plan.chunk_len()] {
        bytes.extend_from_slice(&value.to_le_bytes());
    }
    bytes
}

/// Reads a chunk's bytes.
///
/// # Errors
///
/// What is wrong with them; [`Damage::Misfit`] for a whole chunk of another format.
pub fn decode(bytes: &[u8]) -> Result<Chunk, Damage> {
    read(bytes).map_err(|unreadable| match unreadable {
        Unreadable::Damaged(damage) => damage,
        Unreadable::Format(_) => Damage::Misfit { what: "format" },
    })
}

pub(crate) fn read(bytes: &[u8]) -> Result<Chunk, Unreadable> {
    let n_bytes = bytes.len() as u64;
    if n_bytes > MOST_BYTES {
        return Err(Damage::Long { n_bytes }.into());
    }
    let Some((rest, checksum)) = bytes.split_last_chunk::<CHECKSUM_BYTES>() else {
        return Err(Damage::Short { n_bytes }.into());
    };
    if !rest.starts_with(MAGIC) {
        return Err(Damage::Magic.into());
    }
    if Sha256::digest(rest)[..] != checksum[..] {
        return Err(Damage::Checksum.into());
    }
    // The bytes are those that somebody wrote, who need not have been this program.
    let mut rest = Rest(&rest[MAGIC.len()..]);
    let format = rest.u32("format")?;
    if format != FORMAT {
        return Err(Unreadable::Format(format));
    }
    let mut lines = Vec::new();
    let misfit = |what| Damage::Misfit { what };
    let n_lines = rest.u32("number of lines")?;
    if n_lines as usize > MOST_LINES {
        return Err(misfit("number of lines").into());
    }
    for _ in 0..n_lines {
        let (name, value) = (rest.text()?, rest.text()?);
        lines.push((name, value));
    }
    if !are_few(&lines) {
        return Err(misfit("length of lines").into());
    }
    let n_items = rest.u64("number of items")?;
    let chunk_len = rest.u64("chunk's length")?;
    let plan = Plan::new(n_items, chunk_len).map_err(|_| misfit("chunk's length"))?;
    let number = rest.u64("number")?;
    let items = rest.u64("first item")?..rest.u64("last item")?;
    if number >= plan.n_chunks() || items != plan.items(number) {
        return Err(misfit("range of items").into());
    }
    let n_payload_bytes = rest.u64("payload's length")?;
    if n_payload_bytes != rest.0.len() as u64 {
        return Err(misfit("payload's length").into());
    }
    Ok(Chunk {
        run: Run {
            identity: Identity { lines },
            plan,
        },
        number,
        payload: rest.0.to_vec(),
    })
}

/// Bytes that are not read yet. Nothing is allocated that they do not hold.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn take(&mut self, n: usize, what: &'static str) -> Result<&'a [u8], Damage> {
        let (taken, rest) = self.0.split_at_checked(n).ok_or(Damage::Misfit { what })?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], Damage> {
        let taken = self.take(N, what)?;
        taken.try_into().map_err(|_| Damage::Misfit { what })
    }

    fn u32(&mut self, what: &'static str) -> Result<u32, Damage> {
        Ok(u32::from_le_bytes(self.array(what)?))
    }

    fn u64(&mut self, what: &'static str) -> Result<u64, Damage> {
        Ok(u64::from_le_bytes(self.array(what)?))
    }

    fn text(&mut self) -> Result<String, Damage> {
        let n = self.u32("line")?;
        let n = usize::try_from(n).unwrap_or(usize::MAX);
        let bytes = self.take(n, "line")?;
        let text = std::str::from_utf8(bytes).map_err(|_| Damage::Misfit { what: "line" })?;
        Ok(text.to_owned())
    }
}
