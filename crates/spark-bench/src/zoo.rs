//! The zoo's networks as ONNX files.
//!
//! ```text
//! folder/driving_vision.onnx, driving_policy.onnx, …     the names that openpilot's own files have
//! ```
//!
//! Real models have these names, so a file that is there already is left as it is, and nothing is written beside it.

use std::io;
use std::path::{Path, PathBuf};

use spark_onnx::file;
use spark_openpilot::zoo::ZooModel;

use crate::error::BenchError;
use crate::output::write_file;

/// Writes every network of the zoo, with random weights from `seed`, into a folder that is there. Files that have
/// the same bytes already are fine.
///
/// Returns the files.
///
/// # Errors
///
/// [`BenchError::Unwritten`] if one of the names belongs to another file: before anything is written; or if a file
/// cannot be written. [`BenchError::Model`] if a network cannot be made a file.
pub fn write(folder: &Path, seed: u64) -> Result<Vec<PathBuf>, BenchError> {
    let files = ZooModel::ALL.map(|model| {
        let path = folder.join(format!("{}.onnx", model.name()));
        let bytes = file::to_bytes(&model.build(seed)).map_err(|source| BenchError::Model {
            model: model.name().to_owned(),
            source,
        })?;
        Ok((path, bytes))
    });
    let files = files
        .into_iter()
        .collect::<Result<Vec<(PathBuf, Vec<u8>)>, BenchError>>()?;
    let mut missing = Vec::new();
    for (path, bytes) in &files {
        match has(path, bytes) {
            Ok(true) => {}
            Ok(false) => missing.push((path, bytes)),
            Err(source) => {
                return Err(BenchError::Unwritten {
                    path: path.clone(),
                    source,
                });
            }
        }
    }
    for (path, bytes) in missing {
        write_file(path, bytes)?;
    }
    Ok(files.into_iter().map(|(path, _)| path).collect())
}

/// Whether the file is there already; that another one has its name is an error.
fn has(path: &Path, bytes: &[u8]) -> io::Result<bool> {
    let is_same = match std::fs::metadata(path) {
        Ok(it) => it.len() == bytes.len() as u64 && spark_files::read(path)? == bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
    };
    let other = "another file has this name already and would be lost; take an empty folder";
    match is_same {
        true => Ok(true),
        false => Err(io::Error::new(io::ErrorKind::AlreadyExists, other)),
    }
}
