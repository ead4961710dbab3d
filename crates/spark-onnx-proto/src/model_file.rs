//! A model's file, read without the elements of its large constants.
//!
//! ```text
//! file     graph {  node  node  initializer { dims name raw_data [..........] }  output }
//! memory   graph {  node  node  initializer { dims name raw_data [  zeros   ] }  output }
//!                                                                └── read when the tensor is made
//! ```
//!
//! The elements go from the file straight into their tensor, so a model takes its constants once
//! and not the file beside them. Pages of zeros nobody touches take no memory. Whatever else there
//! is, malformed or not, is read as it stands, so that a decoder finds in this memory what it would
//! find in the whole file.
//!
//! Deliberately absent: memory maps. A file that is cut while it is read is an error here, and
//! would be a signal there.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};

use zerocopy::FromZeros;

use crate::error::{ProtoError, WireProblem};
use crate::proto::ModelProto;
use crate::wire::{Bytes, Reader, WireValue};

/// Elements of more bytes are left out.
const LARGE: usize = 4 << 10;
/// Bytes read at least: what stands between two large constants.
const READ_AHEAD: usize = 4 << 10;
/// No key with its length, and no key with its number, is longer.
const HEADER: usize = 20;

/// Field numbers on the way to the elements of a constant.
const WAY: [u32; 3] = [7, 5, 9];

/// Largest file read, protocol buffers' own limit; larger models keep their constants
/// in a second file.
const MAX_FILE_BYTES: u64 = 1 << 31;

/// A file in memory, all but the elements of large constants.
///
/// # Examples
///
/// ```no_run
/// # fn main() -> Result<(), spark_onnx_proto::ProtoError> {
/// let file = spark_onnx_proto::ModelFile::open("model.onnx".as_ref())?;
/// for set in &file.model()?.opset_import {
///     println!("{:?} {:?}", set.domain, set.version);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct ModelFile {
    file: File,
    folder: PathBuf,
    /// As long as the file.
    bytes: Vec<u8>,
    /// Bytes before this were read or left out.
    position: usize,
    /// Bytes of the file that were not read, in ascending order.
    left_out: Vec<Range<usize>>,
    /// Where the file is no message any more, and why; nothing behind it was read.
    malformed: Option<(usize, WireProblem)>,
}

impl ModelFile {
    /// Reads a file. Constants outside the model are looked for in its folder.
    ///
    /// # Errors
    ///
    /// [`ProtoError::Io`] if the file cannot be read or is no regular file;
    /// [`ProtoError::TooLarge`] beyond 2 GiB.
    pub fn open(path: &Path) -> Result<Self, ProtoError> {
        let io = |source| ProtoError::Io {
            path: path.to_owned(),
            source,
        };
        let (file, size) = spark_files::open(path).map_err(io)?;
        let too_large = ProtoError::TooLarge {
            what: "the size of the file",
            got: size,
            limit: MAX_FILE_BYTES,
        };
        let n_bytes = match usize::try_from(size) {
            Ok(n_bytes) if size <= MAX_FILE_BYTES => n_bytes,
            _ => return Err(too_large),
        };
        let folder = match path.parent() {
            Some(folder) if folder.as_os_str().is_empty() => Path::new("."),
            Some(folder) => folder,
            None => Path::new("/"),
        };
        Self::read(file, n_bytes, folder).map_err(io)
    }

    /// Reads a file of `size` bytes.
    fn read(file: File, size: usize, folder: &Path) -> io::Result<Self> {
        let mut model = Self {
            file,
            folder: folder.to_owned(),
            // A length that lies costs addresses, not memory.
            bytes: u8::new_vec_zeroed(size).map_err(|_| io::ErrorKind::OutOfMemory)?,
            position: 0,
            left_out: Vec::new(),
            malformed: None,
        };
        model.message(0..size, 0)?;
        Ok(model)
    }

    /// The model. Large constants of it hold zeros, which
    /// [`ConstantSource::of_file`](crate::ConstantSource::of_file) replaces by what is in the file.
    ///
    /// # Errors
    ///
    /// As [`ModelProto::decode`].
    pub fn model(&self) -> Result<ModelProto<'_>, ProtoError> {
        let model = ModelProto::decode(&self.bytes)?;
        // Decoding stops at such a place too, or before; behind it nothing was read.
        match self.malformed {
            Some((offset, problem)) => Err(ProtoError::Wire { offset, problem }),
            None => Ok(model),
        }
    }

    /// Bytes of the file.
    pub fn n_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Where the file lies.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// What was left out.
    pub(crate) fn left_out(&self) -> LeftOut<'_> {
        LeftOut {
            file: &self.file,
            bytes: &self.bytes,
            ranges: &self.left_out,
        }
    }

    /// Reads the message at `range`, `depth` steps on the way to elements.
    fn message(&mut self, range: Range<usize>, depth: usize) -> io::Result<()> {
        let mut start = range.start;
        while start < range.end && self.malformed.is_none() {
            self.read_to(range.end.min(start + HEADER))?;
            let mut reader = Reader::new(&self.bytes[start..range.end], start);
            let field = match reader.next_field() {
                Ok(Some(field)) => field,
                Ok(None) => break,
                Err(ProtoError::Wire { offset, problem }) => {
                    self.malformed = Some((offset, problem));
                    break;
                }
                Err(other) => return Err(io::Error::other(other)),
            };
            let (inner, end) = (field.offset, start + reader.position());
            let nested = matches!(field.value, WireValue::Bytes(_)) && field.number == WAY[depth];
            if nested && depth + 1 < WAY.len() {
                self.message(inner..end, depth + 1)?;
            } else if nested && end - inner > LARGE {
                self.left_out.push(inner..end);
                self.position = self.position.max(end);
            } else {
                self.read_to(end)?;
            }
            start = end;
        }
        Ok(())
    }

    /// Reads on until `end` at least.
    fn read_to(&mut self, end: usize) -> io::Result<()> {
        if end <= self.position {
            return Ok(());
        }
        let end = end.max(self.position + READ_AHEAD).min(self.bytes.len());
        let to = &mut self.bytes[self.position..end];
        self.file.seek(SeekFrom::Start(self.position as u64))?;
        self.file.read_exact(to)?;
        self.position = end;
        Ok(())
    }
}

/// Elements that are still in the model's file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LeftOut<'f> {
    file: &'f File,
    bytes: &'f [u8],
    ranges: &'f [Range<usize>],
}

impl<'f> LeftOut<'f> {
    /// Where the elements that `raw` stands for are.
    pub(crate) fn find<'r>(&self, raw: &'r Bytes<'_>) -> Elements<'r>
    where
        'f: 'r,
    {
        let Cow::Borrowed(borrowed) = raw else {
            return Elements::Memory(raw);
        };
        let start = borrowed
            .as_ptr()
            .addr()
            .wrapping_sub(self.bytes.as_ptr().addr());
        let found = self
            .ranges
            .binary_search_by_key(&start, |range| range.start);
        match found.map(|index| &self.ranges[index]) {
            Ok(range) if range.len() == borrowed.len() => Elements::File {
                file: self.file,
                start: start as u64,
                n_bytes: range.len(),
            },
            _ => Elements::Memory(borrowed),
        }
    }
}

/// The bytes of a constant's elements.
#[derive(Clone, Copy)]
pub(crate) enum Elements<'a> {
    /// They were read with the model, or handed over with it.
    Memory(&'a [u8]),
    /// In a file, which is long enough for all anyone knows.
    File {
        /// File that they are read from.
        file: &'a File,
        /// Position of the first of them in that file.
        start: u64,
        /// Number of bytes from there on.
        n_bytes: usize,
    },
}

impl Elements<'_> {
    /// Number of bytes, wherever they are.
    pub(crate) fn n_bytes(&self) -> usize {
        match self {
            Self::Memory(bytes) => bytes.len(),
            Self::File { n_bytes, .. } => *n_bytes,
        }
    }

    /// Reads all bytes into `to`, which is as long as they are.
    pub(crate) fn read_into(self, to: &mut [u8]) -> io::Result<()> {
        match self {
            Self::Memory(bytes) => to.copy_from_slice(bytes),
            Self::File {
                mut file, start, ..
            } => {
                file.seek(SeekFrom::Start(start))?;
                file.read_exact(to)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::{GraphProto, TensorProto};

    /// A model of two constants, 10,000 and 10 bytes.
    fn model() -> Vec<u8> {
        let tensor = |n: u8, len: usize| TensorProto {
            raw_data: Some(Cow::Owned(vec![n; len])),
            ..TensorProto::default()
        };
        let graph = GraphProto {
            initializer: vec![tensor(1, 10_000), tensor(2, 10)],
            ..GraphProto::default()
        };
        let model = ModelProto {
            graph: Some(Box::new(graph)),
            ..ModelProto::default()
        };
        model.encode()
    }

    fn all_of(elements: Elements<'_>) -> io::Result<Vec<u8>> {
        let mut all = vec![0; elements.n_bytes()];
        elements.read_into(&mut all)?;
        Ok(all)
    }

    #[test]
    fn only_large_elements_are_left_out_and_a_cut_file_is_an_error() {
        let path =
            std::env::temp_dir().join(format!("spark-onnx-proto-file-{}", std::process::id()));
        let bytes = model();
        std::fs::write(&path, &bytes).expect("a writable folder");
        let file = File::open(&path).expect("own file");
        let read = ModelFile::read(file, bytes.len(), Path::new(".")).expect("readable");
        assert_eq!(read.left_out.len(), 1);
        let decoded = read.model().expect("a model");
        let tensors = &decoded.graph.as_deref().expect("a graph").initializer;
        let found: Vec<Elements<'_>> = tensors
            .iter()
            .filter_map(|t| t.raw_data.as_ref())
            .map(|raw| read.left_out().find(raw))
            .collect();
        assert!(matches!(
            found[0],
            Elements::File {
                n_bytes: 10_000,
                ..
            }
        ));
        assert!(matches!(found[1], Elements::Memory(_)));
        assert_eq!(all_of(found[0]).expect("readable"), [1; 10_000]);
        assert_eq!(all_of(found[1]).expect("in memory"), [2; 10]);
        let file = File::options().write(true).open(&path).expect("own file");
        file.set_len(5000).expect("a file that can be cut");
        let error = all_of(found[0]).expect_err("half of it is gone");
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
        std::fs::remove_file(&path).expect("own file");
    }
}
