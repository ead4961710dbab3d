//! Why a quantization request or a quantized file was refused.

/// Why a buffer, a shape, a scale or a file was refused. No variant means "try again".
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum QuantError {
    /// A buffer's length does not follow from the number of values.
    #[error("`{what}` holds {got} elements, expected {want}")]
    LengthMismatch {
        /// Which argument is wrong.
        what: &'static str,
        /// Elements the caller passed.
        got: usize,
        /// Elements the format requires.
        want: usize,
    },
    /// The product of a shape's extents does not fit the address space.
    #[error("shape {shape:?} has more elements than this machine can address")]
    ShapeOverflow {
        /// The shape as given.
        shape: Vec<usize>,
    },
    /// The axis to quantize along does not exist.
    #[error("axis {axis} of a tensor with {rank} dimensions")]
    Axis {
        /// Axis that the caller asked for, counted from 0.
        axis: usize,
        /// Dimensions of the tensor.
        rank: usize,
    },
    /// A weight is NaN or infinite and the policy is to refuse it.
    #[error("value {value} at element {index} is not finite")]
    NotFinite {
        /// Position in the caller's buffer.
        index: usize,
        /// The value: NaN or an infinity.
        value: f32,
    },
    /// A scale in a packed tensor or a file cannot be used.
    #[error("scale {index} is {value}, expected a {want}")]
    Scale {
        /// Position among the scales.
        index: usize,
        /// The scale that was found there, as f32.
        value: f32,
        /// What a scale must be here.
        want: &'static str,
    },
    /// The operation needs a length that is a multiple of the block.
    #[error("`{what}` is {got}, expected a multiple of {multiple}")]
    NotAMultiple {
        /// Which extent is wrong.
        what: &'static str,
        /// Values in that extent.
        got: usize,
        /// What it must divide by.
        multiple: usize,
    },
    /// The operation does not exist for this format.
    #[error("{operation} does not exist for {format}")]
    Unsupported {
        /// What was asked for.
        operation: &'static str,
        /// The format it was asked of.
        format: String,
    },
    /// The instruction set asked for is not available on this processor.
    #[error("this processor has no {level}")]
    Level {
        /// Instruction set asked for.
        level: &'static str,
    },
    /// A file is no valid safetensors file.
    #[error("not a valid safetensors file: {0}")]
    Safetensors(#[from] safetensors::SafeTensorError),
    /// A file is no valid GGUF file.
    #[error("GGUF, byte {offset}: {what}")]
    Gguf {
        /// Byte of the file at which reading stopped.
        offset: usize,
        /// What was wrong there.
        what: &'static str,
    },
    /// JSON that accompanies a checkpoint cannot be read.
    #[error("{what} is not valid JSON: {source}")]
    Json {
        /// Which file or field.
        what: &'static str,
        /// Why `serde_json` refused it.
        source: serde_json::Error,
    },
    /// A tensor of a checkpoint is not what its layout requires.
    #[error("tensor `{name}`: {what} is {got}, expected {want}")]
    TensorLayout {
        /// Name in the file.
        name: String,
        /// Which property is wrong.
        what: &'static str,
        /// What the file says.
        got: String,
        /// What the layout requires.
        want: String,
    },
    /// A tensor that belongs to another one is not in the file.
    #[error("tensor `{needed_by}` needs `{name}`, which is not in the file")]
    MissingTensor {
        /// Name of the absent tensor.
        name: String,
        /// Name of the present one.
        needed_by: String,
    },
    /// A setting of a checkpoint's configuration is unknown, unsupported, or contradicts the tensors.
    #[error("quantization method `{method}`: `{field}` is {value}, expected {want}")]
    Setting {
        /// The quantization method, as the configuration names it.
        method: String,
        /// Path of the field inside the configuration.
        field: String,
        /// What the file says there, as JSON or in words.
        value: String,
        /// What would be read.
        want: String,
    },
    /// The index of a checkpoint in several files names a file that is not there.
    #[error("`{index}` places tensors in `{file}`, which is not in the folder")]
    MissingShard {
        /// Name of the absent file, as the index has it.
        file: String,
        /// Name of the index file, which places tensors in it.
        index: String,
    },
    /// The index of a checkpoint names a file outside its folder.
    #[error("tensor `{tensor}` is placed in `{file}`, which is not the plain name of a file")]
    ShardPath {
        /// Name of a tensor that is placed there.
        tensor: String,
        /// The path as given.
        file: String,
    },
    /// Index and files of a checkpoint do not agree about a tensor.
    #[error("tensor `{tensor}`: the index says `{index_says}`, but `{file}` {file_says}")]
    ShardContents {
        /// Name of the tensor that they disagree about.
        tensor: String,
        /// The file it was looked for or found in.
        file: String,
        /// File that the index names, or `nothing`.
        index_says: String,
        /// What the file has to say.
        file_says: &'static str,
    },
    /// A tensor is in a checkpoint twice.
    #[error("tensor `{tensor}` is in `{first}` and again in `{second}`")]
    DuplicateTensor {
        /// Name of the tensor that is there twice.
        tensor: String,
        /// Where it is first.
        first: String,
        /// Where it is again.
        second: String,
    },
    /// A folder does not say which of its files are the checkpoint.
    #[error("`{folder}` holds {found}, expected {want}")]
    Folder {
        /// Path of the folder that was to be read.
        folder: String,
        /// What is in it.
        found: String,
        /// What would be read.
        want: &'static str,
    },
    /// What is wrong inside one file of several.
    #[error("file `{name}`: {source}")]
    InFile {
        /// Name of the file.
        name: String,
        /// What is wrong inside that file.
        source: Box<QuantError>,
    },
    /// What is wrong inside one tensor.
    #[error("tensor `{name}`: {source}")]
    InTensor {
        /// Name in the file.
        name: String,
        /// What is wrong with that tensor.
        source: Box<QuantError>,
    },
    /// A plan cannot meet its budget even with the smallest choice everywhere.
    #[error("the budget of {budget} {unit} cannot be met, the best possible is {best}")]
    Budget {
        /// What was asked for.
        budget: f64,
        /// The best value any plan reaches.
        best: f64,
        /// Unit of both numbers.
        unit: &'static str,
    },
    /// A setting of a calibration, or a number among its statistics, is out of range.
    #[error("calibration: {what} is {got}, expected {want}")]
    Calibration {
        /// Which number is wrong.
        what: &'static str,
        /// What it is.
        got: f64,
        /// What it must be.
        want: &'static str,
    },
    /// A device refused or failed.
    #[cfg(feature = "device")]
    #[error(transparent)]
    Device(#[from] spark_mem::MemError),
    /// Reading or writing a file failed.
    #[error("cannot access `{path}`: {source}")]
    Io {
        /// Path of the file or folder, as given.
        path: String,
        /// The operating system's error.
        source: std::io::Error,
    },
}

/// The error for a tensor `name` whose property `what` is not as its layout requires.
pub(crate) fn wrong_tensor(
    name: &str,
    what: &'static str,
    got: impl std::fmt::Debug,
    want: impl Into<String>,
) -> QuantError {
    QuantError::TensorLayout {
        name: name.to_owned(),
        what,
        got: format!("{got:?}"),
        want: want.into(),
    }
}

impl QuantError {
    /// Says which tensor of a file an error is about, unless it does.
    pub(crate) fn in_tensor(self, name: &str) -> Self {
        match self {
            Self::TensorLayout { name: ref said, .. } if said == name => self,
            other => Self::InTensor {
                name: name.to_owned(),
                source: Box::new(other),
            },
        }
    }

    /// Says which file of a checkpoint an error is about.
    pub(crate) fn in_file(self, name: &str) -> Self {
        Self::InFile {
            name: name.to_owned(),
            source: Box::new(self),
        }
    }

    /// Wraps an error of the operating system.
    pub(crate) fn io(path: &std::path::Path) -> impl Fn(std::io::Error) -> Self + use<> {
        let path = path.display().to_string();
        move |source| Self::Io {
            path: path.clone(),
            source,
        }
    }

    /// Refuses a buffer of the wrong length.
    pub(crate) fn check_length(what: &'static str, got: usize, want: usize) -> Result<(), Self> {
        if got == want {
            Ok(())
        } else {
            Err(Self::LengthMismatch { what, got, want })
        }
    }

    /// Refuses an extent that does not divide into blocks.
    pub(crate) fn check_multiple(
        what: &'static str,
        got: usize,
        multiple: usize,
    ) -> Result<(), Self> {
        if got.is_multiple_of(multiple) {
            Ok(())
        } else {
            Err(Self::NotAMultiple {
                what,
                got,
                multiple,
            })
        }
    }
}
