//! ONNX files: read, checked, translated to [`Graph`], and written again.
//!
//! ```text
//! bytes --wire--> ModelProto --functions, order, import--> Graph --export--> ModelProto --> bytes
//! ```
//!
//! Reads the formats of IR versions 3 to 14 and the standard operators of versions 7 to
//! 28, as PyTorch (both exporters), tf2onnx, keras2onnx, onnxconverter-common and
//! onnxruntime's optimiser write them.
//!
//! Files come from strangers: every count is held against what backs it before memory is
//! taken, names and paths are checked, and a load takes at most the file, the constants
//! themselves and a fixed amount for the rest.
//!
//! Deliberately absent: control flow, sequences, texts, training information, and
//! elements below 8 bits.

mod edit;
mod error;
pub(crate) mod export;
pub(crate) mod external;
pub(crate) mod functions;
pub(crate) mod import;
pub(crate) mod model_file;
mod order;
pub(crate) mod proto;
pub(crate) mod tensors;
pub(crate) mod wire;

use std::path::Path;

pub use edit::replace_constants;
pub use error::{OnnxError, WireProblem};
pub use export::{save, save_bytes, to_bytes};
pub use import::supported_operators;
#[cfg(test)]
pub(crate) use tensors::write_tensor;

use crate::ModelError;
use crate::graph::Graph;
use external::ExternalFiles;
use model_file::{LeftOut, ModelFile};
use proto::ModelProto;
use tensors::TensorSource;
use wire::Budget;

/// Largest file read, protocol buffers' own limit; larger models keep their constants
/// in a second file.
const MAX_FILE_BYTES: u64 = 1 << 31;

/// What constants may take beyond the files they come from: lists of small integers
/// and sparse tensors grow when read.
const CONSTANT_BYTES: usize = 512 << 20;

/// Reads a model from a file.
///
/// # Errors
///
/// [`ModelError::Io`] if the file cannot be read or is no regular file;
/// [`OnnxError::TooLarge`] beyond 2 GiB; otherwise as [`parse`].
pub fn load(path: &Path) -> Result<Graph, ModelError> {
    let io = |source| ModelError::Io {
        path: path.to_owned(),
        source,
    };
    let (file, size) = spark_files::open(path).map_err(io)?;
    let too_large = OnnxError::TooLarge {
        what: "the size of the file",
        got: size,
        limit: MAX_FILE_BYTES,
    };
    let n_bytes = match usize::try_from(size) {
        Ok(n_bytes) if size <= MAX_FILE_BYTES => n_bytes,
        _ => return Err(too_large.into()),
    };
    let mut file = ModelFile::read(file, n_bytes).map_err(io)?;
    let malformed = file.malformed();
    let folder = match path.parent() {
        Some(folder) if folder.as_os_str().is_empty() => Path::new("."),
        Some(folder) => folder,
        None => Path::new("/"),
    };
    let model = ModelProto::decode(file.bytes())?;
    // Decoding stops at such a place too, or before; behind it nothing was read.
    if let Some(error) = malformed {
        return Err(error.into());
    }
    import_model(model, file.bytes(), Some(file.left_out()), Some(folder))
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
    import_model(ModelProto::decode(bytes)?, bytes, None, folder)
}

fn import_model(
    model: ModelProto<'_>,
    bytes: &[u8],
    left_out: Option<LeftOut<'_>>,
    folder: Option<&Path>,
) -> Result<Graph, ModelError> {
    let mut source = TensorSource {
        left_out,
        external: ExternalFiles::new(folder),
        budget: Budget::new(bytes.len().saturating_add(CONSTANT_BYTES)),
    };
    let mut graph = import::import(model, &mut source)?;
    graph.file_bytes = Some(bytes.len().saturating_add(source.external.bytes()));
    Ok(graph)
}
