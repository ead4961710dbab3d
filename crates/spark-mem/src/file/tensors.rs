//! Named tensors of a safetensors file, as views into its bytes.
//!
//! ```text
//! u64 length of header | JSON header: name -> type, shape, range | values
//! ```
//!
//! The header is read from the file before its values are, and nothing of it from memory of a
//! device. The `safetensors` crate checks it: its length, that ranges follow each other and agree
//! with type and shape; that they end where the file does is checked here, where the file's length
//! is known. Format: <https://huggingface.co/docs/safetensors>. Writing such files is no business of
//! this crate.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use safetensors::tensor::Metadata;
use safetensors::{Dtype, SafeTensorError, SafeTensors};

use super::direct::{LoadReport, load_opened};
use super::mapped::{MappedFile, open_regular};
use crate::buffer::Buffer;
use crate::buffer::view::View;
use crate::device::Device;
use crate::element::Element;
use crate::error::MemError;
use crate::stream::Stream;

/// Bytes in front of the header, which say how long it is.
const LENGTH_BYTES: usize = 8;
/// Bytes of a header at most, as the `safetensors` crate has it; nothing longer is read.
const LARGEST_HEADER_BYTES: u64 = 100_000_000;

/// One tensor of a file.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TensorView<'a> {
    /// Name of the tensor, unique in its file.
    pub name: &'a str,
    /// The type of its values.
    pub dtype: Dtype,
    /// Extents, outermost first; empty for a scalar.
    pub shape: &'a [usize],
    /// The elements, row-major, little-endian: the file's memory itself, or a copy of this tensor
    /// alone where the host does not see that.
    pub bytes: &'a [u8],
}

#[derive(Debug)]
struct Entry {
    name: String,
    dtype: Dtype,
    shape: Vec<usize>,
    /// In bytes of the file.
    range: std::ops::Range<usize>,
}

#[derive(Debug)]
enum Source {
    Loaded(Buffer<u8>),
    Mapped(MappedFile),
}

/// A safetensors file, loaded or mapped, its header checked.
#[derive(Debug)]
pub struct TensorFile {
    path: PathBuf,
    entries: Vec<Entry>,
    source: Source,
}

impl TensorFile {
    /// Reads the file into memory that both sides use. See [`load`](super::load), which takes as much
    /// memory. A file whose header lies is refused before its values are read.
    ///
    /// # Errors
    ///
    /// [`MemError::Tensors`] if the header lies; those of [`load`](super::load).
    pub fn load(
        device: &Device,
        stream: &Stream,
        path: &Path,
        progress: impl FnMut(u64, u64) + Send,
    ) -> Result<(Self, LoadReport), MemError> {
        // Once, for header and values: the path may lead to another file a moment later.
        let (file, len) = open_regular(path)?;
        let entries = entries(path, &read_head(path, &file, len)?, len)?;
        let (buffer, report) = load_opened(device, stream, path, (file, len), progress)?;
        let file = Self {
            path: path.to_owned(),
            entries,
            source: Source::Loaded(buffer),
        };
        Ok((file, report))
    }

    /// Takes a file that is mapped.
    ///
    /// # Errors
    ///
    /// [`MemError::Tensors`] if the header lies.
    pub fn from_mapped(path: &Path, mapped: MappedFile) -> Result<Self, MemError> {
        Ok(Self {
            path: path.to_owned(),
            entries: entries(path, head_of(&mapped), mapped.len() as u64)?,
            source: Source::Mapped(mapped),
        })
    }

    /// The tensors' names, in the order of their values in the file.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(|entry| entry.name.as_str())
    }

    /// Shows one tensor to `look`: in place where host and device share memory, elsewhere a copy of
    /// that tensor, which goes away afterwards.
    ///
    /// # Errors
    ///
    /// [`MemError::NoTensor`]; as [`Buffer::read`] in place, else as [`Buffer::into_vec`].
    pub fn tensor<R>(
        &self,
        stream: &Stream,
        name: &str,
        look: impl FnOnce(TensorView<'_>) -> R,
    ) -> Result<R, MemError> {
        let entry = self.entry(name)?;
        let show = |bytes: &[u8]| {
            look(TensorView {
                name: &entry.name,
                dtype: entry.dtype,
                shape: &entry.shape,
                bytes,
            })
        };
        let range = entry.range.clone();
        match &self.source {
            Source::Loaded(buffer) if buffer.kind().is_host_visible() => {
                Ok(show(&buffer.read(stream)?[range]))
            }
            Source::Loaded(buffer) => Ok(show(&buffer.part_to_vec(stream, range)?)),
            Source::Mapped(mapped) => Ok(show(&mapped[range])),
        }
    }

    /// One tensor's values for the device to read, where they are.
    ///
    /// # Errors
    ///
    /// [`MemError::NoTensor`]; [`MemError::Misaligned`] if the values do not lie or end
    /// where `T` needs it; [`MemError::Unsupported`] for a mapped file, which the device
    /// does not know.
    pub fn on_device<T: Element>(&self, name: &str) -> Result<View<'_, T>, MemError> {
        let entry = self.entry(name)?;
        let Source::Loaded(buffer) = &self.source else {
            return Err(MemError::Unsupported {
                what: "a device's view of a mapped file",
                why: "load the file instead".to_owned(),
            });
        };
        let align = size_of::<T>();
        let (start, n_bytes) = (entry.range.start, entry.range.len());
        if !start.is_multiple_of(align) || !n_bytes.is_multiple_of(align) {
            return Err(MemError::Misaligned {
                offset: start,
                align,
            });
        }
        Ok(buffer.range(entry.range.clone())?.cast())
    }

    fn entry(&self, name: &str) -> Result<&Entry, MemError> {
        let found = self.entries.iter().find(|entry| entry.name == name);
        found.ok_or_else(|| MemError::NoTensor {
            path: self.path.clone(),
            name: name.to_owned(),
        })
    }
}

/// Bytes of a file up to the end of its header, by its first ones; only those that say how long that is
/// if it cannot be as long as they say.
fn head_len(first: [u8; LENGTH_BYTES], file_len: u64) -> usize {
    let header_len = u64::from_le_bytes(first);
    let is_there = header_len <= LARGEST_HEADER_BYTES
        && header_len <= file_len.saturating_sub(LENGTH_BYTES as u64);
    LENGTH_BYTES + if is_there { header_len as usize } else { 0 }
}

/// Length and header of a file in memory, or what there is of them.
fn head_of(file: &[u8]) -> &[u8] {
    match file.first_chunk() {
        Some(first) => &file[..head_len(*first, file.len() as u64)],
        None => file,
    }
}

/// The same, read from a file of so many bytes.
fn read_head(path: &Path, file: &File, len: u64) -> Result<Vec<u8>, MemError> {
    let read = |head: &mut [u8]| {
        let failed = MemError::io("read", path);
        file.read_exact_at(head, 0).map_err(failed)
    };
    let mut first = [0_u8; LENGTH_BYTES];
    if len < LENGTH_BYTES as u64 {
        return Ok(Vec::new());
    }
    read(&mut first)?;
    let mut head = vec![0_u8; head_len(first, len)];
    read(&mut head)?;
    // It may have been written to in between, and would then say another length than was read.
    head[..LENGTH_BYTES].copy_from_slice(&first);
    Ok(head)
}

/// The tensors of a file of `file_len` bytes that begins with `head`.
fn entries(path: &Path, head: &[u8], file_len: u64) -> Result<Vec<Entry>, MemError> {
    let lying = |source| MemError::Tensors {
        path: path.to_owned(),
        source,
    };
    let metadata = metadata(head).map_err(lying)?;
    let begin = head.len();
    let end = begin.checked_add(metadata.data_len());
    if end.is_none_or(|end| end as u64 != file_len) {
        return Err(lying(SafeTensorError::MetadataIncompleteBuffer));
    }
    let mut entries: Vec<Entry> = metadata
        .tensors()
        .into_iter()
        .map(|(name, info)| Entry {
            name,
            dtype: info.dtype,
            shape: info.shape.clone(),
            // No more than the end of the file, which is a number.
            range: begin + info.data_offsets.0..begin + info.data_offsets.1,
        })
        .collect();
    entries.sort_by_key(|entry| entry.range.start);
    Ok(entries)
}

/// What a header says, in itself without contradiction.
fn metadata(head: &[u8]) -> Result<Metadata, SafeTensorError> {
    let header = head.get(LENGTH_BYTES..).unwrap_or_default();
    serde_json::from_slice(header).map_err(|error| {
        // The crate's own reader has better words. It would miss the values too, were the header good.
        let exact = SafeTensors::read_metadata(head).err();
        exact.unwrap_or(SafeTensorError::InvalidHeaderDeserialization(error))
    })
}
