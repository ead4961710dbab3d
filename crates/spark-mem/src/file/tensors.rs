//! Named tensors of a safetensors file, as views into its bytes.
//!
//! ```text
//! u64 length of header | JSON header: name -> type, shape, range | values
//! ```
//!
//! The header is checked by the `safetensors` crate: its length, that ranges lie inside the
//! file, follow each other and agree with type and shape. Format:
//! <https://huggingface.co/docs/safetensors>. Writing such files is no business of this crate.

use std::path::{Path, PathBuf};

use safetensors::{Dtype, SafeTensors};

use super::direct::{LoadReport, load};
use super::mapped::MappedFile;
use crate::buffer::Buffer;
use crate::buffer::view::View;
use crate::device::Device;
use crate::element::Element;
use crate::error::MemError;
use crate::stream::Stream;

/// One tensor of a file.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TensorView<'a> {
    /// Name of the tensor, unique in its file.
    pub name: &'a str,
    /// The type of its values.
    pub dtype: Dtype,
    /// Extents, outermost first; empty for a scalar.
    pub shape: &'a [usize],
    /// The elements, row-major, little-endian, borrowed from the file's memory.
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
    /// Reads the file into memory that both sides use. See [`load`](super::load).
    ///
    /// # Errors
    ///
    /// Those of [`load`](super::load); [`MemError::Tensors`] if the header lies.
    pub fn load(
        device: &Device,
        stream: &Stream,
        path: &Path,
        progress: impl FnMut(u64, u64) + Send,
    ) -> Result<(Self, LoadReport), MemError> {
        let (buffer, report) = load(device, stream, path, progress)?;
        let entries = entries(path, &buffer.read(stream)?)?;
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
            entries: entries(path, &mapped)?,
            source: Source::Mapped(mapped),
        })
    }

    /// The tensors' names, in the order of their values in the file.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(|entry| entry.name.as_str())
    }

    /// Shows one tensor to `look`, in place where host and device share memory.
    ///
    /// # Errors
    ///
    /// [`MemError::NoTensor`]; as [`Buffer::read`].
    pub fn tensor<R>(
        &self,
        stream: &Stream,
        name: &str,
        look: impl FnOnce(TensorView<'_>) -> R,
    ) -> Result<R, MemError> {
        let entry = self.entry(name)?;
        let show = |file: &[u8]| {
            look(TensorView {
                name: &entry.name,
                dtype: entry.dtype,
                shape: &entry.shape,
                bytes: &file[entry.range.clone()],
            })
        };
        match &self.source {
            Source::Loaded(buffer) => Ok(show(&buffer.read(stream)?)),
            Source::Mapped(mapped) => Ok(show(mapped)),
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

fn entries(path: &Path, file: &[u8]) -> Result<Vec<Entry>, MemError> {
    let lying = |source| MemError::Tensors {
        path: path.to_owned(),
        source,
    };
    let tensors = SafeTensors::deserialize(file).map_err(lying)?;
    let mut entries: Vec<Entry> = tensors
        .iter()
        .map(|(name, tensor)| {
            // Where the crate's view lies inside the file.
            let start = tensor.data().as_ptr() as usize - file.as_ptr() as usize;
            Entry {
                name: name.to_owned(),
                dtype: tensor.dtype(),
                shape: tensor.shape().to_vec(),
                range: start..start + tensor.data().len(),
            }
        })
        .collect();
    entries.sort_by_key(|entry| entry.range.start);
    Ok(entries)
}
