//! Why a file is not a model this crate can read or write.

use std::path::PathBuf;

use spark_onnx_proto::ProtoError;

/// Why a file is not a model this crate can read or write.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OnnxError {
    /// The messages of the file are malformed, contradict each other or ask for too much.
    #[error(transparent)]
    Proto(#[from] ProtoError),
    /// An operator this crate does not know.
    #[error(
        "node `{node}`: operator {op} of operator set {opset} is not supported{hint}; the nearest names are {}; `file::supported_operators` lists all",
        nearest.join(", ")
    )]
    UnknownOperator {
        /// Name of the node.
        node: String,
        /// Domain and name of the operator, as `domain::operator`.
        op: String,
        /// Version of the operator set.
        opset: i64,
        /// Why, where there is more to say; starts with a space and is in brackets.
        hint: &'static str,
        /// Operators that are, by names most like this one.
        nearest: Vec<String>,
    },
    /// An input, output or declared value is malformed.
    #[error("{what} `{name}`: {reason}")]
    Value {
        /// `input`, `output` or `value`.
        what: &'static str,
        /// Name of the value.
        name: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A graph cannot be written as ONNX.
    #[error("node `{node}` cannot be written: {reason}")]
    Export {
        /// Name of the node.
        node: String,
        /// What ONNX has no form for.
        reason: String,
    },
    /// A model cannot be written without a folder for its constants.
    #[error(
        "the model takes {bytes} bytes; over {limit} it needs a file, with a second one for its constants"
    )]
    NeedsFile {
        /// Bytes of all constants.
        bytes: usize,
        /// Most that fit one file.
        limit: usize,
    },
    /// A path that names no file.
    #[error("`{0}` has no file name")]
    NoFileName(PathBuf),
}
