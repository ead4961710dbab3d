//! Why a benchmark could not be run.

use std::path::PathBuf;

use spark_onnx::ModelError;
use spark_onnx::tensor::DType;
use spark_openpilot::OpenpilotError;

/// Why a benchmark could not be run. No variant means "try again".
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BenchError {
    /// An option has a value it cannot have, or options contradict each other.
    #[error("{option}: {reason}")]
    Usage {
        /// The option, as typed.
        option: &'static str,
        /// What is wrong and what is expected.
        reason: String,
    },
    /// The folder holds none of the files openpilot's models have.
    #[error("`{dir}` holds none of {expected}")]
    NoModels {
        /// The folder that was searched.
        dir: PathBuf,
        /// Names looked for, joined by commas.
        expected: String,
    },
    /// A model could not be loaded or run.
    #[error("model `{model}`: {source}")]
    Model {
        /// Name of the model.
        model: String,
        /// What the engine said.
        source: ModelError,
    },
    /// The driving networks could not be chained.
    #[error("driving_vision and driving_policy together: {0}")]
    Chain(#[source] OpenpilotError),
    /// A file could not be read.
    #[error("cannot read `{path}`: {source}")]
    Io {
        /// The file that was to be read.
        path: PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// A file could not be written, or has no place to be.
    #[error("cannot write `{path}`: {source}")]
    Unwritten {
        /// The file that was to be written.
        path: PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// A file is not of the kind that it begins as, or what is to be written does not go into one.
    #[error("`{path}` is not {kind} file: {reason}")]
    NotTensors {
        /// The file that was to be read or written.
        path: PathBuf,
        /// The kind with its article: "a safetensors", "an .npy".
        kind: &'static str,
        /// What the reader said.
        reason: String,
    },
    /// An `.npy` file holds one tensor.
    #[error(
        "`{path}` would hold {count} tensors, and an .npy file holds one; an .npz file holds any number"
    )]
    NotOneTensor {
        /// The file that was to be written.
        path: PathBuf,
        /// How many tensors there are.
        count: usize,
    },
    /// A tensor file does not fit the model.
    #[error("`{path}` does not fit model `{model}`: {reason}")]
    Misfit {
        /// The file of inputs or golden values.
        path: PathBuf,
        /// Name of the model.
        model: String,
        /// What is missing or different.
        reason: String,
    },
    /// A tensor that is fed in or compared with holds NaN or an infinity.
    #[error("`{path}`: tensor `{tensor}` holds {count} values that are not finite")]
    NotFinite {
        /// The file of inputs or golden values.
        path: PathBuf,
        /// Name of the tensor, with that of its case.
        tensor: String,
        /// How many of its values are not finite.
        count: usize,
    },
    /// An input of the model has a type no value can be made up for, or no declared shape.
    #[error(
        "model `{model}`: no value can be made up for input `{input}` ({dtype}): give it with --inputs"
    )]
    NoDefaultInput {
        /// Name of the model.
        model: String,
        /// Name of the input.
        input: String,
        /// Its element type, or "no declared type".
        dtype: String,
    },
    /// A tensor cannot be converted to what the model wants without changing its meaning.
    #[error("`{path}`: tensor `{tensor}` is {got}, the model wants {want}")]
    Conversion {
        /// The file.
        path: PathBuf,
        /// Name of the tensor.
        tensor: String,
        /// Type in the file.
        got: DType,
        /// Type of the input.
        want: DType,
    },
    /// The report could not be written as JSON.
    #[error("the report cannot be written as JSON: {0}")]
    Json(#[source] serde_json::Error),
}

impl BenchError {
    /// Exit code of a program that ends with this error: 2 for wrong usage, else 1.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Usage { .. } => 2,
            _ => 1,
        }
    }
}

/// What no timed run at all is.
pub(crate) fn no_runs() -> BenchError {
    BenchError::Usage {
        option: "--runs",
        reason: "0 runs cannot be timed, expected 1 or more".to_owned(),
    }
}
