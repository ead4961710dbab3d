//! The safetensors container: names, types, shapes, bytes.
//!
//! ```text
//! u64 length of the header | JSON header, padded with spaces | data, no holes
//! ```
//!
//! Reading goes through the `safetensors` crate, which checks that offsets follow each other without
//! gaps or overlaps and match shape and type. Writing is done here, because the header must come out in
//! the same order every time; what is written passes the same checks before a byte of it is. Wide types
//! come first, so that every tensor is aligned.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::path::Path;

use safetensors::tensor::{Metadata as Header, TensorInfo};
use safetensors::{Dtype, SafeTensorError, SafeTensors};

use super::entry::METADATA_KEY;
use crate::error::QuantError;

/// Longest header that `safetensors` reads, bytes.
const LONGEST_HEADER: usize = 100_000_000;
/// The header's entry that is no tensor.
const RESERVED_NAME: &str = "__metadata__";

/// The bytes of a regular file; pipes and devices may never end.
pub(super) fn read_file(path: &Path) -> Result<Vec<u8>, QuantError> {
    spark_files::read(path).map_err(QuantError::io(path))
}

/// What this crate keeps in the header beyond what the layouts can say.
#[derive(Debug, Clone, Default, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub(super) struct Metadata {
    /// Layout of the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) layout: Option<String>,
    /// Original shapes of weights that are stored as matrices.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) shapes: BTreeMap<String, Vec<usize>>,
    /// Bits of tensor scales that are stored as reciprocals.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) tensor_scales: BTreeMap<String, u32>,
    /// Size and seed of rotations.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) rotations: BTreeMap<String, (usize, u64)>,
    /// Weights whose layers find the scales of their inputs while running.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub(super) dynamic_inputs: BTreeSet<String>,
    /// Size of the blocks that a file in the fp8 layout is being written with.
    #[serde(skip)]
    pub(super) fp8_block: Option<[usize; 2]>,
}

impl Metadata {
    /// Takes in what another file of the same checkpoint says.
    fn merge(&mut self, other: Self) {
        self.layout = self.layout.take().or(other.layout);
        self.shapes.extend(other.shapes);
        self.tensor_scales.extend(other.tensor_scales);
        self.rotations.extend(other.rotations);
        self.dynamic_inputs.extend(other.dynamic_inputs);
    }
}

/// A tensor inside a file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stored<'a> {
    pub(super) dtype: Dtype,
    pub(super) data: &'a [u8],
}

/// A parsed safetensors file: its tensors by name, and its metadata.
#[derive(Debug)]
pub(super) struct File<'a> {
    pub(super) tensors: BTreeMap<String, (Stored<'a>, Vec<usize>)>,
    pub(super) metadata: Metadata,
    /// Whether this crate wrote it.
    pub(super) is_own: bool,
}

impl<'a> File<'a> {
    pub(super) fn parse(bytes: &'a [u8]) -> Result<Self, QuantError> {
        let (_, header) = SafeTensors::read_metadata(bytes)?;
        let own = header
            .metadata()
            .as_ref()
            .and_then(|metadata| metadata.get(METADATA_KEY));
        let metadata = match own {
            Some(text) => serde_json::from_str(text).map_err(|source| QuantError::Json {
                what: "the file's own metadata entry",
                source,
            })?,
            None => Metadata::default(),
        };
        let file = SafeTensors::deserialize(bytes)?;
        let tensors = file
            .iter()
            .map(|(name, view)| {
                let stored = Stored {
                    dtype: view.dtype(),
                    data: view.data(),
                };
                (name.to_owned(), (stored, view.shape().to_vec()))
            })
            .collect();
        Ok(Self {
            tensors,
            metadata,
            is_own: own.is_some(),
        })
    }

    /// Takes in the tensors of another file of the same checkpoint; names must be distinct.
    pub(super) fn merge(&mut self, other: Self) {
        self.tensors.extend(other.tensors);
        self.metadata.merge(other.metadata);
        self.is_own &= other.is_own;
    }
}

/// A tensor to be written.
#[derive(Debug, Clone)]
pub(super) struct Outgoing<'a> {
    pub(super) name: String,
    dtype: Dtype,
    shape: Vec<usize>,
    data: Cow<'a, [u8]>,
}

impl<'a> Outgoing<'a> {
    pub(super) fn new(
        name: String,
        dtype: Dtype,
        shape: Vec<usize>,
        data: impl Into<Cow<'a, [u8]>>,
    ) -> Self {
        Self {
            name,
            dtype,
            shape,
            data: data.into(),
        }
    }

    /// A tensor of f32, row-major, stored little-endian.
    pub(super) fn f32(name: String, shape: Vec<usize>, values: &[f32]) -> Self {
        let data: Vec<u8> = values.iter().flat_map(|x| x.to_le_bytes()).collect();
        Self::new(name, Dtype::F32, shape, data)
    }
}

/// A file that can be read again: every tensor has the bytes of its type and shape.
pub(super) struct Writable<'a> {
    header: Vec<u8>,
    tensors: Vec<Outgoing<'a>>,
}

impl<'a> Writable<'a> {
    /// Lays tensors of distinct names out, and refuses what [`File::parse`] would.
    pub(super) fn new(
        mut tensors: Vec<Outgoing<'a>>,
        metadata: &Metadata,
    ) -> Result<Self, QuantError> {
        tensors.sort_by(|a, b| {
            b.dtype
                .bitsize()
                .cmp(&a.dtype.bitsize())
                .then_with(|| a.name.cmp(&b.name))
        });
        let mut header = serde_json::Map::new();
        let json = |source| QuantError::Json {
            what: "the header to be written",
            source,
        };
        let own = serde_json::to_string(metadata).map_err(json)?;
        header.insert(
            RESERVED_NAME.to_owned(),
            serde_json::json!({ "format": "pt", METADATA_KEY: own }),
        );
        let mut offset = 0;
        for tensor in &tensors {
            let end = offset + tensor.data.len();
            tensor.check()?;
            let info = serde_json::json!({
                "dtype": tensor.dtype.to_string(), "shape": tensor.shape, "data_offsets": [offset, end],
            });
            header.insert(tensor.name.clone(), info);
            offset = end;
        }
        let mut header = serde_json::to_vec(&header).map_err(json)?;
        header.resize(header.len().next_multiple_of(8), b' ');
        if header.len() > LONGEST_HEADER {
            return Err(SafeTensorError::HeaderTooLarge.into());
        }
        Ok(Self { header, tensors })
    }

    /// The tensors as they will be found when it is read.
    pub(super) fn as_file(&self, metadata: &Metadata) -> File<'_> {
        let tensors = self.tensors.iter().map(|tensor| {
            let stored = Stored {
                dtype: tensor.dtype,
                data: &tensor.data,
            };
            (tensor.name.clone(), (stored, tensor.shape.clone()))
        });
        File {
            tensors: tensors.collect(),
            metadata: metadata.clone(),
            is_own: true,
        }
    }

    /// Writes all of it.
    pub(super) fn write_to(&self, out: &mut dyn Write) -> io::Result<()> {
        out.write_all(&(self.header.len() as u64).to_le_bytes())?;
        out.write_all(&self.header)?;
        self.tensors
            .iter()
            .try_for_each(|tensor| out.write_all(&tensor.data))
    }
}

impl Outgoing<'_> {
    /// Holds type, shape and bytes against each other, by the check that reading makes.
    fn check(&self) -> Result<(), QuantError> {
        let name = &self.name;
        let refuse = |what, got: String, want: &str| {
            let (name, want) = (name.clone(), want.to_owned());
            Err(QuantError::TensorLayout {
                name,
                what,
                got,
                want,
            })
        };
        if name == RESERVED_NAME {
            return refuse(
                "name",
                format!("`{name}`"),
                "one that safetensors has not reserved",
            );
        }
        let alone = TensorInfo {
            dtype: self.dtype,
            shape: self.shape.clone(),
            data_offsets: (0, self.data.len()),
        };
        match Header::new(None, vec![(name.clone(), alone)]) {
            Ok(_) => Ok(()),
            Err(_) => {
                let got = format!("{} bytes", self.data.len());
                let want = format!("the bytes of {} of shape {:?}", self.dtype, self.shape);
                refuse("content", got, &want)
            }
        }
    }
}

/// Creates or replaces `path` in one step.
pub(super) fn write_file(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<(), QuantError> {
    spark_files::write_with(path, write).map_err(QuantError::io(path))
}
