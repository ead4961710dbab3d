//! Why a model was refused or could not run.

use spark_onnx_proto::ProtoError;

use crate::dtype::DType;

/// Why a model was refused or could not run. No variant means "try again".
///
/// An engine raises the same errors, and some that are its alone: precisions, devices, views.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// A tensor's elements do not fill its shape.
    #[error("shape {shape:?} does not fit {got} elements")]
    ElementCount {
        /// The shape asked for.
        shape: Vec<usize>,
        /// Number of elements that were given.
        got: usize,
    },
    /// An operator cannot take these operands.
    #[error("node `{node}` ({op}): {reason}")]
    Operator {
        /// Name of the node.
        node: String,
        /// Name of the operator.
        op: String,
        /// What is wrong with what, and what was wanted.
        reason: String,
    },
    /// An embedder's own operator could not compute.
    #[error("node `{node}` ({op}): {source}")]
    Custom {
        /// Name of the node.
        node: String,
        /// Domain and name of the operator.
        op: String,
        /// What the operator says.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// An operator is registered that is there.
    #[error("operator {op} is there already")]
    OperatorTaken {
        /// Domain and name of the operator.
        op: String,
    },
    /// An input has the wrong type.
    #[error("input `{name}` is {got}, the model wants {want}")]
    InputType {
        /// Name of the input.
        name: String,
        /// Element type of the tensor that was given.
        got: DType,
        /// Element type that the model declares.
        want: DType,
    },
    /// An input has the wrong shape.
    #[error("input `{name}` has shape {got:?}, the model wants {want}")]
    InputShape {
        /// Name of the input.
        name: String,
        /// Shape of the tensor that was given.
        got: Vec<usize>,
        /// Shape declared, symbols by name.
        want: String,
    },
    /// An executor that computes f64 models in f32 would make this number an infinity.
    #[error(
        "{what} `{name}` holds {value:e}; f64 values are computed in f32, which ends at 3.4e38"
    )]
    BeyondF32 {
        /// What holds the number: `input` or `constant`.
        what: &'static str,
        /// Name of that input or constant.
        name: String,
        /// The first such number.
        value: f64,
    },
    /// A graph is run with other elements of an input than those it was bound for.
    #[error("input `{name}` decides shapes, and the graph is bound for other elements of it")]
    InputValue {
        /// Name of the input.
        name: String,
    },
    /// A plan is asked for without the elements of an input that it hangs on.
    #[error("input `{name}` decides shapes: a plan is made when a run gives its elements")]
    InputDecides {
        /// Name of the input.
        name: String,
    },
    /// An input's element type is not declared.
    #[error("input `{name}` has no declared element type")]
    InputUndeclared {
        /// Name of the input.
        name: String,
    },
    /// An input's shape is neither given nor fixed by the model.
    #[error("input `{name}` is declared {declared}: give its shape")]
    InputOpen {
        /// Name of the input.
        name: String,
        /// Shape declared, symbols by name.
        declared: String,
    },
    /// What a model declares of a value is not what its operators make of it.
    #[error("{what} `{name}` is declared {declared}, the graph makes it {inferred}")]
    Declaration {
        /// `output`, or `value` for one in between.
        what: &'static str,
        /// Name of the value.
        name: String,
        /// Element type, and shape where it matters, as declared.
        declared: String,
        /// The same, as it follows from the graph.
        inferred: String,
    },
    /// The values of a graph would not fit any machine this crate is for.
    #[error("the graph's values take {bytes} bytes, the limit is {limit}")]
    GraphTooLarge {
        /// Bytes of all values until the limit was passed.
        bytes: usize,
        /// Bytes that the values of a graph may take.
        limit: usize,
    },
    /// A node, or all of them together, would take more memory than the budget, which
    /// [`bind_within`](crate::graph::bind_within) takes and `RunOptions::memory_budget` of `spark-onnx` sets.
    #[error(
        "node `{node}` ({op}): {what} takes {wanted} bytes, of the budget of {budget} bytes {held} are taken"
    )]
    OverBudget {
        /// Name of the node.
        node: String,
        /// Name of the operator.
        op: String,
        /// What the memory is for.
        what: &'static str,
        /// Bytes that the node needs besides what is taken.
        wanted: usize,
        /// Bytes that were taken before.
        held: usize,
        /// Bytes allowed in all.
        budget: usize,
    },
    /// The system refuses memory that the budget allows.
    #[error("node `{node}` ({op}): the system refuses the {wanted} bytes that {what} takes")]
    OutOfMemory {
        /// Name of the node.
        node: String,
        /// Name of the operator.
        op: String,
        /// What the memory is for.
        what: &'static str,
        /// Bytes that were asked of the system.
        wanted: usize,
    },
    /// The system refuses the memory of a tensor.
    #[error("the system refuses the {bytes} bytes of a tensor of shape {shape:?}")]
    TensorMemory {
        /// Shape of the tensor that was to be made.
        shape: Vec<usize>,
        /// Bytes that were asked of the system.
        bytes: usize,
    },
    /// An input is missing.
    #[error("input `{name}` is missing")]
    InputMissing {
        /// Name of the input.
        name: String,
    },
    /// An input is given more than once.
    #[error("input `{name}` is given twice")]
    InputTwice {
        /// Name of the input.
        name: String,
    },
    /// An output that is asked for is not one of the model's.
    #[error("the model has no output `{name}`")]
    OutputUnknown {
        /// Name that was asked for.
        name: String,
    },
    /// An output is asked for more than once.
    #[error("output `{name}` is asked for twice")]
    OutputTwice {
        /// Name of the output.
        name: String,
    },
    /// The memory for an output has another type or shape than the output.
    #[error("output `{name}` is {want} of shape {want_shape:?}, its memory {got} of {got_shape:?}")]
    OutputMemory {
        /// Name of the output.
        name: String,
        /// Element type of the output.
        want: DType,
        /// Shape of the output.
        want_shape: Vec<usize>,
        /// Element type of the memory that was given.
        got: DType,
        /// Shape of the memory that was given.
        got_shape: Vec<usize>,
    },
    /// An input is given, or carried, that the run before gives already.
    #[error("input `{name}` is carried from run to run: it is not given")]
    InputCarried {
        /// Name of the input.
        name: String,
    },
    /// An output is asked for, or carried, that goes to the next run already.
    #[error("output `{name}` is carried to the next run: it is not handed out")]
    OutputCarried {
        /// Name of the output.
        name: String,
    },
    /// A state is set of an input that no output is carried to.
    #[error("no output is carried to input `{name}`")]
    NotCarried {
        /// Name of the input.
        name: String,
    },
    /// The caller ended a run.
    #[error("the run was cancelled")]
    Cancelled,
    /// Strides that do not belong to a shape, or lead outside the elements.
    #[error("a view of shape {shape:?} and strides {strides:?} does not lie in {len} elements")]
    ViewStrides {
        /// Extent of every axis.
        shape: Vec<usize>,
        /// Elements from one position of an axis to the next.
        strides: Vec<usize>,
        /// Number of elements that the view would lie in.
        len: usize,
    },
    /// A given input is not one of the model's.
    #[error("the model has no input `{name}`")]
    InputUnknown {
        /// Name that was given with the tensor.
        name: String,
    },
    /// An index the model computed points outside its axis.
    #[error("node `{node}`: index {index} outside an axis of {extent}")]
    IndexOutside {
        /// Name of the node.
        node: String,
        /// The index as the model computed it; negative ones count from the end.
        index: i64,
        /// Positions the axis has.
        extent: usize,
    },
    /// A precision no executor has kernels for.
    #[error("precision {precision} is not available on {device}; available: {available}")]
    PrecisionUnavailable {
        /// What was asked for.
        precision: spark_hal::Precision,
        /// Name of the device that was to compute it.
        device: &'static str,
        /// Precisions that the device has, separated by commas.
        available: &'static str,
    },
    /// A precision that takes scales chosen for a model was asked for without them.
    #[error(
        "precision {precision} takes scales that a calibration chooses, and {why}; the example `calibrate_model` makes one, \
         which `bench --calibration FILE.safetensors` measures and `RunOptions::with_calibration` takes"
    )]
    Uncalibrated {
        /// What was asked for.
        precision: spark_hal::Precision,
        /// What is missing.
        why: &'static str,
    },
    /// Weights or activations of a step cannot be quantised.
    #[error("node `{node}` cannot be quantised: {source}")]
    Quantise {
        /// Name of the node.
        node: String,
        /// What the quantiser found wrong, in an error type of its own.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// No mixed plan keeps to the error asked for.
    #[error("no mix of formats keeps {wanted} dB at the outputs, the best has {best:.1} dB")]
    Mix {
        /// Signal to error asked for.
        wanted: f64,
        /// The most that was found.
        best: f64,
    },
    /// A calibration does not fit the network, or cannot be made.
    #[error("calibration of `{step}`: {reason}")]
    Calibration {
        /// Name of the step, or of what stands in its place in a file.
        step: String,
        /// What is wrong.
        reason: String,
    },
    /// The file of a calibration cannot be read or written.
    #[error("calibration file `{path}`: {source}")]
    CalibrationFile {
        /// The file.
        path: String,
        /// What went wrong.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A part of an output, as the caller names it, lies outside that output.
    #[error("part `{name}` spans {start}..{end} of an output of {len} values")]
    OutputPart {
        /// Name of the part.
        name: String,
        /// First position of the part in the flat output.
        start: usize,
        /// One past the last position.
        end: usize,
        /// Values in the output.
        len: usize,
    },
    /// A device that cannot be had.
    #[error("device {device} is not available: {reason}")]
    DeviceUnavailable {
        /// What was asked for.
        device: String,
        /// Why there is none, as half a sentence.
        reason: &'static str,
    },
    /// A step of a network that an executor has no kernel for.
    #[error("node `{node}` ({step}) has no kernel on {device}: {reason}")]
    StepUnsupported {
        /// Name of the node.
        node: String,
        /// Kind of the step that it became.
        step: String,
        /// What has no kernel for it.
        device: &'static str,
        /// What it is about the step, as half a sentence.
        reason: String,
    },
    /// Memory, kernels or launches of a device failed.
    #[error("the device: {source}")]
    Device {
        /// What failed, in an error type of its own.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A graph that was put together wrongly; a file gives [`ModelError::Onnx`] instead.
    #[error("the graph contradicts itself: {reason}")]
    Graph {
        /// Which value or node, and what is wrong with it.
        reason: String,
    },
    /// A lowered plan contradicts itself: a defect of this crate.
    #[error("the lowered plan is inconsistent: {0}")]
    View(#[from] ViewOutside),
    /// A tensor of another crate cannot be taken, or made.
    #[cfg(any(feature = "ndarray", feature = "safetensors"))]
    #[error(transparent)]
    Conversion(#[from] crate::interop::ConversionError),
    /// A file could not be read or written.
    #[error("cannot access `{path}`: {source}")]
    Io {
        /// Path of the file or folder.
        path: std::path::PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// Bytes are not an ONNX model this crate can read or write.
    #[error(transparent)]
    Onnx(#[from] crate::file::OnnxError),
}

/// A view that reaches outside its buffer: a defect of the lowering, caught at load.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("step `{step}`: a view of {needed} elements in a buffer of {len}")]
pub struct ViewOutside {
    /// Name of the step.
    pub step: String,
    /// Elements the view needs, counted from the start of the buffer.
    pub needed: isize,
    /// Elements of the buffer.
    pub len: usize,
}

impl From<ProtoError> for ModelError {
    fn from(error: ProtoError) -> Self {
        match error {
            ProtoError::Io { path, source } => Self::Io { path, source },
            other => Self::Onnx(other.into()),
        }
    }
}
