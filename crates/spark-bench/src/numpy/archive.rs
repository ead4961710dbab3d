//! An `.npz` file: a zip archive of `.npy` files.
//!
//! ```text
//! local header, name, bytes   for each entry
//! central directory           for each entry where it begins, how long it is, its checksum
//! end of it                   how many entries, where the directory begins; at most 64 KiB of comment behind it
//! ```
//!
//! Sizes are taken from the directory and held against the bytes that are there before anything is unpacked; all
//! entries together unpack to 4 GiB at most. Written archives are stored, as `np.savez` writes them, and the same
//! tensors give the same bytes.
//!
//! Source: PKWARE's APPNOTE 6.3, 4.3.7 to 4.3.16. Deliberately absent: zip64, encryption, methods but 0 and 8.

use std::collections::BTreeMap;

use spark_onnx::tensor::Tensor;

use super::array;

/// How an archive of an entry or more begins.
pub(crate) const ARCHIVE_MAGIC: &[u8] = LOCAL;
/// What one that holds nothing begins with.
pub(crate) const END_MAGIC: &[u8] = END;

const LOCAL: &[u8] = b"PK\x03\x04";
const CENTRAL: &[u8] = b"PK\x01\x02";
const END: &[u8] = b"PK\x05\x06";
const LOCAL_BYTES: usize = 30;
const CENTRAL_BYTES: usize = 46;
const END_BYTES: usize = 22;
const MOST_COMMENT_BYTES: usize = u16::MAX as usize;
/// Most bytes that all entries together unpack to.
const MOST_UNPACKED_BYTES: usize = 4 << 30;
const STORED: u16 = 0;
const DEFLATED: u16 = 8;
/// 1 January 1980, the first day that an archive can name.
const FIRST_DAY: u16 = 0x21;

/// The tensors of an archive, by name.
///
/// # Errors
///
/// Why it is none, in words.
pub(crate) fn read(bytes: &[u8]) -> Result<BTreeMap<String, Tensor>, String> {
    let from = bytes.len().saturating_sub(END_BYTES + MOST_COMMENT_BYTES);
    let ends = bytes[from..].windows(END.len());
    let end = ends.rev().position(|signature| signature == END);
    let end = end.ok_or("it has no directory at its end")?;
    let end = &bytes[bytes.len() - END.len() - end..];
    if end.len() < END_BYTES {
        return Err("it has no directory at its end".to_owned());
    }
    let end = Fields(end);
    let (n_entries, n_bytes, start) = (end.short(10)?, end.long(12)?, end.long(16)?);
    let mut directory = bytes
        .get(start..)
        .and_then(|behind| behind.get(..n_bytes))
        .ok_or("its directory does not lie before its end")?;
    let mut entries = Vec::new();
    for _ in 0..n_entries {
        let entry = Entry::read(directory)?;
        directory = &directory[entry.n_bytes..];
        entries.push(entry);
    }
    if !directory.is_empty() {
        return Err("its directory has more entries than it says".to_owned());
    }
    // What lies in two entries would be unpacked twice, or a thousand times.
    let packed: usize = entries.iter().map(|entry| entry.packed_bytes).sum();
    if packed > bytes.len() {
        return Err("its entries lie in each other".to_owned());
    }
    let mut left = MOST_UNPACKED_BYTES;
    let mut tensors = BTreeMap::new();
    for entry in entries {
        let refused = |reason: String| format!("entry `{}`: {reason}", entry.name);
        let name = entry.name.strip_suffix(".npy");
        let name = name.ok_or_else(|| refused("it is no .npy file".to_owned()))?;
        let unpacked = entry.unpack(bytes, left).map_err(refused)?;
        left -= unpacked.len();
        let tensor = array::read(&unpacked).map_err(refused)?;
        if tensors.insert(name.to_owned(), tensor).is_some() {
            return Err(refused("it is there twice".to_owned()));
        }
    }
    Ok(tensors)
}

/// What the directory says of an entry.
struct Entry {
    name: String,
    method: u16,
    checksum: u32,
    packed_bytes: usize,
    unpacked_bytes: usize,
    start: usize,
    /// In the directory itself.
    n_bytes: usize,
}

impl Entry {
    fn read(directory: &[u8]) -> Result<Self, String> {
        if !directory.starts_with(CENTRAL) {
            return Err("its directory has fewer entries than it says".to_owned());
        }
        let fields = Fields(directory);
        let lengths = [28, 30, 32].map(|at| fields.short(at));
        let [name, extra, comment] = lengths;
        let (name_bytes, more) = (
            usize::from(name?),
            usize::from(extra?) + usize::from(comment?),
        );
        let n_bytes = CENTRAL_BYTES + name_bytes + more;
        let name = directory.get(CENTRAL_BYTES..CENTRAL_BYTES + name_bytes);
        let name = name
            .filter(|_| directory.len() >= n_bytes)
            .ok_or_else(cut)?;
        let name = str::from_utf8(name).map_err(|_| "a name in its directory is no text")?;
        if fields.short(8)? & 1 == 1 {
            return Err(format!("entry `{name}` is encrypted"));
        }
        Ok(Self {
            name: name.to_owned(),
            method: fields.short(10)?,
            checksum: fields.long(16)? as u32,
            packed_bytes: fields.long(20)?,
            unpacked_bytes: fields.long(24)?,
            start: fields.long(42)?,
            n_bytes,
        })
    }

    /// Its bytes, at most so many.
    fn unpack(&self, archive: &[u8], most: usize) -> Result<Vec<u8>, String> {
        let local = archive.get(self.start..).ok_or_else(cut)?;
        if !local.starts_with(LOCAL) {
            return Err("it does not begin where the directory says".to_owned());
        }
        let fields = Fields(local);
        let before = LOCAL_BYTES + usize::from(fields.short(26)?) + usize::from(fields.short(28)?);
        let packed = local
            .get(before..)
            .and_then(|behind| behind.get(..self.packed_bytes));
        let packed = packed.ok_or_else(cut)?;
        if self.unpacked_bytes > most {
            return Err(format!(
                "the archive unpacks to more than {MOST_UNPACKED_BYTES} bytes"
            ));
        }
        let unpacked = match self.method {
            STORED => packed.to_vec(),
            DEFLATED => {
                miniz_oxide::inflate::decompress_to_vec_with_limit(packed, self.unpacked_bytes)
                    .map_err(|error| format!("it cannot be unpacked: {error}"))?
            }
            other => {
                return Err(format!(
                    "it is packed by method {other}; stored and deflated are read"
                ));
            }
        };
        if unpacked.len() != self.unpacked_bytes || crc32fast::hash(&unpacked) != self.checksum {
            return Err(
                "its bytes are not those that the directory has the checksum of".to_owned(),
            );
        }
        Ok(unpacked)
    }
}

fn cut() -> String {
    "the archive ends within it".to_owned()
}

/// Numbers at fixed places.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn short(&self, at: usize) -> Result<u16, String> {
        let bytes = self.0.get(at..).and_then(|behind| behind.first_chunk());
        bytes
            .map(|bytes| u16::from_le_bytes(*bytes))
            .ok_or_else(cut)
    }

    fn long(&self, at: usize) -> Result<usize, String> {
        let bytes = self.0.get(at..).and_then(|behind| behind.first_chunk());
        bytes
            .map(|bytes| u32::from_le_bytes(*bytes) as usize)
            .ok_or_else(cut)
    }
}

/// An archive of `tensors`.
///
/// # Errors
///
/// What an archive without zip64 cannot hold: 65,535 entries, 4 GiB; a tensor of too many axes.
pub(crate) fn write(tensors: &BTreeMap<String, Tensor>) -> Result<Vec<u8>, String> {
    let long = |n: usize| u32::try_from(n).map_err(|_| "it would be longer than 4 GiB".to_owned());
    let n_entries = u16::try_from(tensors.len());
    let n_entries = n_entries.map_err(|_| format!("{} tensors are too many", tensors.len()))?;
    let (mut archive, mut directory) = (Vec::new(), Vec::new());
    for (name, tensor) in tensors {
        let bytes = array::write(tensor).map_err(|why| format!("tensor `{name}`: {why}"))?;
        let name = format!("{name}.npy");
        let name_bytes = u16::try_from(name.len());
        let name_bytes = name_bytes.map_err(|_| "a name has more than 64 KiB".to_owned())?;
        let start = long(archive.len())?;
        // From the version that is needed to the length of what stands behind the name, alike in both places.
        let mut about = Vec::new();
        const UTF8: u16 = 1 << 11;
        for field in [20, UTF8, STORED, 0, FIRST_DAY] {
            about.extend(field.to_le_bytes());
        }
        for field in [
            crc32fast::hash(&bytes),
            long(bytes.len())?,
            long(bytes.len())?,
        ] {
            about.extend(field.to_le_bytes());
        }
        about.extend(name_bytes.to_le_bytes());
        about.extend(0u16.to_le_bytes());
        archive.extend(LOCAL);
        archive.extend(&about);
        archive.extend(name.as_bytes());
        archive.extend(bytes);
        directory.extend(CENTRAL);
        directory.extend(20u16.to_le_bytes());
        directory.extend(&about);
        // No comment, the first disk, no attributes.
        directory.extend([0; 10]);
        directory.extend(start.to_le_bytes());
        directory.extend(name.as_bytes());
    }
    let (start, n_bytes) = (long(archive.len())?, long(directory.len())?);
    archive.extend(directory);
    archive.extend(END);
    archive.extend([0; 4]);
    archive.extend(n_entries.to_le_bytes());
    archive.extend(n_entries.to_le_bytes());
    archive.extend(n_bytes.to_le_bytes());
    archive.extend(start.to_le_bytes());
    archive.extend([0; 2]);
    Ok(archive)
}

#[cfg(test)]
mod tests;
