//! The safetensors container: names, types, shapes, bytes.
//!
//! ```text
//! u64 length of the header | JSON header, padded with spaces | data, no holes
//! ```
//!
//! Reading goes through the `safetensors` crate, which checks that offsets follow each other without
//! gaps or overlaps and match shape and type. Writing is done here, because the header must come out in
//! the same order every time. Wide types come first, so that every tensor is aligned.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use safetensors::{Dtype, SafeTensors};

use super::METADATA_KEY;
use crate::error::QuantError;

/// The bytes of a regular file; pipes and devices may never end.
pub(super) fn read_file(path: &Path) -> Result<Vec<u8>, QuantError> {
    // Asked before opening: to open a pipe is to wait for somebody who writes.
    let metadata = fs::metadata(path).map_err(QuantError::io(path))?;
    if !metadata.is_file() {
        let reason = "it is not a regular file";
        let error = io::Error::new(io::ErrorKind::InvalidInput, reason);
        return Err(QuantError::io(path)(error));
    }
    fs::read(path).map_err(QuantError::io(path))
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
}

/// A tensor inside a file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stored<'a> {
    pub(super) dtype: Dtype,
    pub(super) data: &'a [u8],
}

/// A parsed file.
#[derive(Debug)]
pub(super) struct File<'a> {
    pub(super) tensors: BTreeMap<String, (Stored<'a>, Vec<usize>)>,
    pub(super) metadata: Metadata,
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
        Ok(Self { tensors, metadata })
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

    /// An f32 tensor.
    pub(super) fn f32(name: String, shape: Vec<usize>, values: &[f32]) -> Self {
        let data: Vec<u8> = values.iter().flat_map(|x| x.to_le_bytes()).collect();
        Self::new(name, Dtype::F32, shape, data)
    }
}

/// Writes a whole file; tensors must have distinct names.
pub(super) fn write_to(
    out: &mut dyn Write,
    mut tensors: Vec<Outgoing<'_>>,
    metadata: &Metadata,
) -> io::Result<()> {
    tensors.sort_by(|a, b| {
        b.dtype
            .bitsize()
            .cmp(&a.dtype.bitsize())
            .then_with(|| a.name.cmp(&b.name))
    });
    let mut header = serde_json::Map::new();
    let own = serde_json::to_string(metadata)?;
    header.insert(
        "__metadata__".to_owned(),
        serde_json::json!({ "format": "pt", METADATA_KEY: own }),
    );
    let mut offset = 0;
    for tensor in &tensors {
        let end = offset + tensor.data.len();
        let info = serde_json::json!({
            "dtype": tensor.dtype.to_string(), "shape": tensor.shape, "data_offsets": [offset, end],
        });
        header.insert(tensor.name.clone(), info);
        offset = end;
    }
    let mut header = serde_json::to_vec(&header)?;
    header.resize(header.len().next_multiple_of(8), b' ');
    out.write_all(&(header.len() as u64).to_le_bytes())?;
    out.write_all(&header)?;
    tensors
        .iter()
        .try_for_each(|tensor| out.write_all(&tensor.data))
}

/// Creates or replaces `path` in one step: a sibling file is written, synchronized and renamed.
pub(super) fn write_file(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<(), QuantError> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let temporary = path.with_file_name(format!(".{name}.{}.part", std::process::id()));
    let result = (|| {
        let mut file = BufWriter::new(fs::File::create(&temporary)?);
        write(&mut file)?;
        file.into_inner()
            .map_err(io::IntoInnerError::into_error)?
            .sync_all()?;
        fs::rename(&temporary, path)
    })();
    result.map_err(|error| {
        // The half-written sibling is of no use; that it may not exist either is no second error.
        let _ = fs::remove_file(&temporary);
        QuantError::io(path)(error)
    })
}
