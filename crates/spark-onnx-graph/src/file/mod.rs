//! ONNX files: read, checked, translated to [`Graph`], and written again.
//!
//! ```text
//! bytes --spark-onnx-proto--> ModelProto --import--> Graph --export--> ModelProto --> bytes
//! ```
//!
//! Reads the formats of IR versions 3 to 14 and the standard operators of versions up to 28, as PyTorch (both
//! exporters), tf2onnx, keras2onnx, onnxconverter-common and onnxruntime's optimiser write them.
//!
//! Files come from strangers: every count is held against what backs it before memory is
//! taken, names and paths are checked, and a load takes at most the file, the constants
//! themselves and a fixed amount for the rest.
//!
//! The graphs that If, Loop and Scan hold are read with them, at most 16 within each other; what they see by
//! name becomes an operand.
//!
//! Integers of 2 and 4 bits are held as i8 and u8, floats of 8 and 4 as f16: in constants, and in inputs and outputs,
//! which a caller gives and gets so. Casts and quantisation round to the narrow type; for other operators a value is what
//! it is held as.
//!
//! Deliberately absent: sequences, texts, training information, and float8e8m0.

mod error;
pub(crate) mod export;
pub(crate) mod import;
pub(crate) mod narrow;
mod options;
mod registry;
pub(crate) mod tensors;

use std::path::Path;

pub use error::OnnxError;
pub use export::{save, save_bytes, to_bytes};
pub use import::supported_operators;
pub use options::ReadOptions;
pub use registry::OperatorRegistry;
pub use spark_onnx_proto::{ProtoError, WireProblem};
pub use tensors::replace_constants;

use crate::ModelError;
use crate::graph::Graph;
use spark_onnx_proto::{ConstantSource, ModelFile, ModelProto};

/// Reads a model from a file.
///
/// # Errors
///
/// [`ModelError::Io`] if the file cannot be read or is no regular file;
/// [`ProtoError::TooLarge`] beyond 2 GiB; otherwise as [`parse`].
pub fn load(path: &Path) -> Result<Graph, ModelError> {
    load_with(path, &ReadOptions::new())
}

/// [`load`] as `options` say: with operators of an embedder's own, with hints to the system.
///
/// # Errors
///
/// As [`load`]; [`ModelError::Operator`] for attributes that such an operator refuses.
pub fn load_with(path: &Path, options: &ReadOptions) -> Result<Graph, ModelError> {
    let file = ModelFile::open(path)?;
    import_model(file.model()?, ConstantSource::of_file(&file), options)
}

/// Reads a model from memory. `folder` is where constants outside the model are looked
/// for; without it such constants are an error.
///
/// # Errors
///
/// [`ModelError::Onnx`] if the bytes are no model this crate can read, saying where and
/// why; [`ModelError::Operator`] if a node's operands or parameters are not its
/// operator's.
///
/// # Examples
///
/// ```
/// use spark_onnx_graph::{ModelError, file};
///
/// let refused = file::parse(b"no model", None);
/// assert!(matches!(refused, Err(ModelError::Onnx(_))));
/// ```
pub fn parse(bytes: &[u8], folder: Option<&Path>) -> Result<Graph, ModelError> {
    parse_with(bytes, folder, &ReadOptions::new())
}

/// [`parse`] as `options` say.
///
/// # Errors
///
/// As [`parse`]; [`ModelError::Operator`] for attributes that an embedder's own operator refuses.
pub fn parse_with(
    bytes: &[u8],
    folder: Option<&Path>,
    options: &ReadOptions,
) -> Result<Graph, ModelError> {
    let source = ConstantSource::of_bytes(bytes, folder);
    import_model(ModelProto::decode(bytes)?, source, options)
}

fn import_model(
    model: ModelProto<'_>,
    mut source: ConstantSource<'_>,
    options: &ReadOptions,
) -> Result<Graph, ModelError> {
    if let Some(hint) = options.hint {
        source = source.with_hint(hint);
    }
    let mut graph = import::import(model, &mut source, &options.operators)?;
    graph.file_bytes = Some(source.n_file_bytes());
    Ok(graph)
}
