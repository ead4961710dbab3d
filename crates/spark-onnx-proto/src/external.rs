//! Elements of constants that stand in files beside the model.
//!
//! ```text
//! external_data   location = "weights.bin"   offset = "4096"   length = "1024"
//!                 a path below the model's folder; the rest is optional
//! ```
//!
//! A model comes from strangers, so what it names is confined to its own folder:
//! no absolute path, no `..`, no symbolic link that leads out, only regular files.
//! Offset and length are held against the size of the file before memory is taken.
//!
//! Source: ONNX, "External Data", <https://onnx.ai/onnx/repo-docs/ExternalData.html>.
//!
//! Deliberately absent: checksums (the format does not say over what) and memory maps.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::File;
use std::path::{Component, Path, PathBuf};

use crate::error::ProtoError;
use crate::model_file::Elements;
use crate::proto::{StringStringEntryProto, TensorProto, text};
use crate::wire::ReadBudget;

/// The files beside one model.
#[derive(Debug)]
pub(crate) struct ExternalFiles<'f> {
    folder: Option<&'f Path>,
    /// By real path, so that two names of a file do not count twice.
    open: BTreeMap<PathBuf, (File, u64)>,
}

impl<'f> ExternalFiles<'f> {
    /// Files below `folder`; none may be named if there is none.
    pub(crate) fn new(folder: Option<&'f Path>) -> Self {
        Self {
            folder,
            open: BTreeMap::new(),
        }
    }

    /// Bytes of all files that were opened.
    pub(crate) fn n_bytes(&self) -> usize {
        let sizes = self.open.values().map(|(_, size)| *size);
        let sum = sizes.fold(0, u64::saturating_add);
        usize::try_from(sum).unwrap_or(usize::MAX)
    }

    /// Where the `n_bytes` that `entries` speak of are; they are charged to `budget`.
    pub(crate) fn find(
        &mut self,
        tensor: &str,
        entries: &[StringStringEntryProto<'_>],
        n_bytes: usize,
        budget: &mut ReadBudget,
    ) -> Result<Elements<'_>, ProtoError> {
        let entry = |key: &str| {
            entries
                .iter()
                .find(|e| text(&e.key) == key)
                .map(|e| text(&e.value))
        };
        let location = entry("location").unwrap_or_default();
        let fail = |reason: String| ProtoError::ExternalData {
            name: tensor.to_owned(),
            location: location.to_owned(),
            reason,
        };
        let number = |key: &str| match entry(key) {
            None => Ok(None),
            Some(digits) => digits
                .parse::<u64>()
                .map(Some)
                .map_err(|_| fail(format!("{key} `{digits}` is no number"))),
        };
        let offset = number("offset")?.unwrap_or(0);
        let length = number("length")?.unwrap_or(n_bytes as u64);
        if length != n_bytes as u64 {
            return Err(fail(format!(
                "{length} bytes stated, its shape takes {n_bytes}"
            )));
        }
        let path = self.confined(location).map_err(fail)?;
        let (file, size) = match self.open.entry(path) {
            Entry::Occupied(open) => open.into_mut(),
            Entry::Vacant(new) => {
                let (file, size) = open_file(new.key()).map_err(fail)?;
                budget.extend(usize::try_from(size).unwrap_or(usize::MAX));
                new.insert((file, size))
            }
        };
        if offset.checked_add(length).is_none_or(|end| end > *size) {
            return Err(fail(format!(
                "bytes {offset}..+{length} of a file of {size}"
            )));
        }
        budget.charge("external data", n_bytes)?;
        Ok(Elements::File {
            file,
            start: offset,
            n_bytes,
        })
    }

    /// The real path of `location`, if it is below the model's folder.
    fn confined(&self, location: &str) -> Result<PathBuf, String> {
        let folder = self
            .folder
            .ok_or("the model was not read from a folder".to_owned())?;
        // A backslash is a separator on some systems and part of a name on others.
        let outside = location.is_empty()
            || location.contains(['\\', '\0'])
            || Path::new(location)
                .components()
                .any(|c| !matches!(c, Component::Normal(_) | Component::CurDir));
        if outside {
            return Err("the path does not stay in the model's folder".to_owned());
        }
        let root = folder.canonicalize().map_err(|e| e.to_string())?;
        let path = root
            .join(location)
            .canonicalize()
            .map_err(|e| e.to_string())?;
        if !path.starts_with(&root) {
            return Err("a symbolic link leads out of the model's folder".to_owned());
        }
        Ok(path)
    }
}

impl TensorProto<'_> {
    /// A constant without name, type and shape, whose `n_bytes` of elements stand in the file
    /// `location` below the model's folder, from byte `start` on.
    pub fn stored_beside(location: &str, start: u64, n_bytes: usize) -> Self {
        let entry = |key: &'static str, value: String| StringStringEntryProto {
            key: Some(key.into()),
            value: Some(value.into()),
        };
        Self {
            external_data: vec![
                entry("location", location.to_owned()),
                entry("offset", start.to_string()),
                entry("length", n_bytes.to_string()),
            ],
            data_location: Some(1),
            ..Self::default()
        }
    }
}

fn open_file(path: &Path) -> Result<(File, u64), String> {
    spark_files::open(path).map_err(|e| e.to_string())
}
