//! ONNX files, as `spark-onnx-graph` reads and writes them. Memory of large constants is taken from
//! the system in one piece before they are read.

use std::path::Path;

use spark_gemm::take_pages;
pub use spark_onnx_graph::file::{
    OnnxError, OperatorRegistry, ProtoError, ReadOptions, WireProblem, replace_constants, save,
    save_bytes, supported_operators, to_bytes,
};

use crate::ModelError;
use crate::graph::Graph;

/// Reads a model from a file.
///
/// # Errors
///
/// [`ModelError::Io`] if the file cannot be read or is no regular file;
/// [`ProtoError::TooLarge`] beyond 2 GiB; otherwise as [`parse`].
pub fn load(path: &Path) -> Result<Graph, ModelError> {
    load_with(path, &ReadOptions::new())
}

/// [`load`] as `options` say: with operators of an embedder's own.
///
/// # Errors
///
/// As [`load`]; [`ModelError::Operator`] for attributes that such an operator refuses.
pub fn load_with(path: &Path, options: &ReadOptions) -> Result<Graph, ModelError> {
    spark_onnx_graph::file::load_with(path, &hinted(options))
}

/// Reads a model from memory. `folder` is where constants outside the model are looked
/// for; without it such constants are an error.
///
/// # Errors
///
/// [`ModelError::Onnx`] if the bytes are no model this crate can read, saying where and
/// why; [`ModelError::Operator`] if a node's operands or parameters are not its
/// operator's.
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
    spark_onnx_graph::file::parse_with(bytes, folder, &hinted(options))
}

fn hinted(options: &ReadOptions) -> ReadOptions {
    match options.hint {
        Some(_) => options.clone(),
        None => options.clone().with_hint(take_pages),
    }
}
