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
        /// Axis asked for.
        axis: usize,
        /// Dimensions of the tensor.
        rank: usize,
    },
    /// A weight is NaN or infinite and the policy is to refuse it.
    #[error("value {value} at element {index} is not finite")]
    NotFinite {
        /// Position in the caller's buffer.
        index: usize,
        /// The offending value.
        value: f32,
    },
    /// A scale in a packed tensor or a file cannot be used.
    #[error("scale {index} is {value}, expected a {want}")]
    Scale {
        /// Position among the scales.
        index: usize,
        /// The offending scale.
        value: f32,
        /// What a scale must be here.
        want: &'static str,
    },
    /// The operation needs a length that is a multiple of the block.
    #[error("`{what}` is {got}, expected a multiple of {multiple}")]
    NotAMultiple {
        /// Which extent is wrong.
        what: &'static str,
        /// Its value.
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
    #[error("not a valid safetensors file")]
    Safetensors(#[from] safetensors::SafeTensorError),
    /// A file is no valid GGUF file.
    #[error("GGUF, byte {offset}: {what}")]
    Gguf {
        /// Where reading stopped.
        offset: usize,
        /// What was wrong there.
        what: &'static str,
    },
    /// JSON that accompanies a checkpoint cannot be read.
    #[error("{what} is not valid JSON")]
    Json {
        /// Which file or field.
        what: &'static str,
        /// The parser's error.
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
    /// What is wrong inside one tensor.
    #[error("tensor `{name}`")]
    InTensor {
        /// Name in the file.
        name: String,
        /// The reason.
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
    /// A device refused or failed.
    #[cfg(feature = "device")]
    #[error(transparent)]
    Device(#[from] spark_mem::MemError),
    /// Reading or writing a file failed.
    #[error("{path}")]
    Io {
        /// File concerned.
        path: String,
        /// The operating system's error.
        source: std::io::Error,
    },
}

impl QuantError {
    /// Says which tensor of a file an error is about.
    pub(crate) fn in_tensor(self, name: &str) -> Self {
        Self::InTensor {
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
