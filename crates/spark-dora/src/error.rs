//! Why an adapter was refused.

use std::path::PathBuf;

/// Why a layer, a configuration or a file was refused. No variant means "try again".
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DoraError {
    /// A low-rank update needs at least one rank.
    #[error("{layer}: rank 0 makes no low-rank update; use magnitude-only for that")]
    RankZero {
        /// Name of the layer, or `r` for the default of all layers.
        layer: String,
    },
    /// More ranks than the weight has rows or columns describe no further updates.
    #[error(
        "{layer}: rank {rank} is more than the {limit} that a weight of {rows} x {columns} can use"
    )]
    RankTooLarge {
        /// Name of the layer that was to be adapted.
        layer: String,
        /// Rank that the settings give the layer.
        rank: usize,
        /// The smaller of rows and columns.
        limit: usize,
        /// Rows of the weight.
        rows: usize,
        /// Columns of the weight, taps included.
        columns: usize,
    },
    /// A tensor has another shape than the layer needs.
    #[error("`{name}` is {got:?}, expected {want:?}")]
    Shape {
        /// Name of the tensor, or of the argument.
        name: String,
        /// Shape that the tensor has.
        got: Vec<usize>,
        /// The shape that fits.
        want: Vec<usize>,
    },
    /// A layer's inputs have more elements than their directions are computed for.
    #[error(
        "the inputs of `{layer}` have {columns} elements; directions are computed of at most {limit}"
    )]
    TooManyColumns {
        /// Name of the layer.
        layer: String,
        /// Elements of one input.
        columns: usize,
        /// Most that are taken.
        limit: usize,
    },
    /// Layers are to begin by their inputs, of which none were seen.
    #[error("no inputs of {} were observed", names(layers))]
    NotObserved {
        /// Adapted layers without inputs.
        layers: Vec<String>,
    },
    /// A layer is to begin anew, but it no longer stands at its base.
    #[error("`{layer}` was trained already: its B is not zero")]
    AlreadyTrained {
        /// Name of the layer.
        layer: String,
    },
    /// A setting is outside its range.
    #[error("{name} is {value}, expected {want}")]
    Setting {
        /// Setting, and whose it is.
        name: String,
        /// Value that was given for it.
        value: f64,
        /// What it may be.
        want: &'static str,
    },
    /// A setting of a file that this crate does not implement.
    #[error("{name} = {value} is not supported: {reason}")]
    Unsupported {
        /// Name of the setting, as the file has it.
        name: &'static str,
        /// Its value in the file, as JSON or in words.
        value: String,
        /// Why this crate does not take it, as half a sentence.
        reason: &'static str,
    },
    /// A weight, a magnitude or a merged weight is NaN or infinite.
    #[error("`{name}` is not finite at element {index}")]
    NotFinite {
        /// Name of the tensor that holds it.
        name: String,
        /// First such element, row-major.
        index: usize,
    },
    /// An element is larger than any of the type that it should be written in, or so small that the type has not its like.
    #[error("element {index} of `{name}` is beyond the range of {storage}")]
    BeyondType {
        /// Name of the tensor that holds it.
        name: String,
        /// Such an element, row-major.
        index: usize,
        /// The element type.
        storage: &'static str,
    },
    /// A weight, a bias or a variable is of integers or of 8-bit floats, which would round an update away.
    #[error("`{name}` is {got}, expected f64, f32, f16 or bf16")]
    ElementType {
        /// Name of the tensor, or of the argument.
        name: String,
        /// Element type that the tensor has.
        got: &'static str,
    },
    /// A file's A and its settings give a layer different ranks.
    #[error("{layer}: the tensors have rank {tensors}, the settings say {settings}")]
    Rank {
        /// Name of the layer in the file.
        layer: String,
        /// Rows of A in the file.
        tensors: usize,
        /// What `rank_pattern` or `r` gives.
        settings: usize,
    },
    /// A file holds tensors of a layer that its settings do not mean.
    #[error(
        "{layer}: the file has tensors for it, but target_modules and exclude_modules leave it out"
    )]
    NotTargeted {
        /// Name of the layer in the file.
        layer: String,
    },
    /// A layer is to be trained whole and to be adapted, which PEFT refuses too.
    #[error("{layer}: modules_to_save trains it whole, and target_modules adapts it")]
    SavedAndAdapted {
        /// Name of the layer.
        layer: String,
    },
    /// A file holds a magnitude and says that there is none.
    #[error("{layer}: the file has a magnitude for it, but use_dora is false")]
    MagnitudeWithoutDora {
        /// Name of the layer in the file.
        layer: String,
    },
    /// PEFT has magnitudes for all layers or for none.
    #[error(
        "other layers have a magnitude, these have none, which PEFT's files cannot say: {layers:?}"
    )]
    MixedMethods {
        /// Low-rank layers without a magnitude.
        layers: Vec<String>,
    },
    /// A scale of the update that the other way of scaling has no alpha for.
    #[error(
        "{layer}: no alpha gives a scale of exactly {scaling} at rank {rank} in the other way of scaling"
    )]
    InexactScale {
        /// Name of the layer in the file.
        layer: String,
        /// Its rank.
        rank: usize,
        /// The factor of its update.
        scaling: f64,
    },
    /// Settings and tensors of different saves lie in one folder.
    #[error(
        "`{folder}`: adapter_config.json is not the one saved with these tensors, {setting} differs; save the \
         adapter again, or put back the settings it was saved with"
    )]
    MixedSaves {
        /// Path of the adapter's folder.
        folder: PathBuf,
        /// First setting that differs.
        setting: &'static str,
    },
    /// Two layers under one name.
    #[error("a layer named `{name}` is already in the adapter")]
    Duplicate {
        /// Name of the layer, or of the tensor that stands for it.
        name: String,
    },
    /// Two adapters under one name.
    #[error("an adapter named `{name}` is already in the set")]
    DuplicateAdapter {
        /// Name that was given to the adapter.
        name: String,
    },
    /// No adapter of that name.
    #[error("the set has no adapter `{name}`")]
    UnknownAdapter {
        /// Name that was asked of the set.
        name: String,
    },
    /// A layer that adapters of the set were never offered.
    #[error("layer `{name}` comes after the set's first adapter, which would not see it")]
    LateLayer {
        /// Name of the layer.
        name: String,
    },
    /// No layer of that name.
    #[error("the adapter has no layer `{name}`")]
    UnknownLayer {
        /// Name that was asked of the adapter.
        name: String,
    },
    /// A file lacks tensors or holds others.
    #[error(
        "adapter and model differ: missing {}, unexpected {}",
        names(missing),
        names(unexpected)
    )]
    Tensors {
        /// Tensors the layers need and the file lacks.
        missing: Vec<String>,
        /// Tensors of the file that no layer takes.
        unexpected: Vec<String>,
    },
    /// The adapter was trained on other base weights.
    #[error("the adapter was trained on other weights; these differ: {layers:?}")]
    Base {
        /// Layers whose base weights differ.
        layers: Vec<String>,
    },
    /// A file cannot be read or written.
    #[error("cannot access `{path}`: {source}")]
    Io {
        /// Path of the file or folder.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A tensor file contradicts itself.
    #[error("`{path}` is no valid safetensors file: {source}")]
    TensorFile {
        /// Path of the tensor file.
        path: PathBuf,
        /// What is wrong with it.
        source: safetensors::SafeTensorError,
    },
    /// Bytes that were to be a tensor file contradict themselves, or cannot be written as one.
    #[error("no valid safetensors file: {0}")]
    Safetensors(#[from] safetensors::SafeTensorError),
    /// A configuration cannot be understood.
    #[error("`{path}` cannot be understood: {source}")]
    Json {
        /// Path of the configuration file.
        path: PathBuf,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// A file is larger than any adapter.
    #[error("`{path}` has {size} bytes, at most {limit} are read")]
    FileTooLarge {
        /// Path of the file, which is not read.
        path: PathBuf,
        /// Size of the file in bytes.
        size: u64,
        /// Most bytes that are read of such a file.
        limit: u64,
    },
    /// A packed weight was refused.
    #[error(transparent)]
    Quant(#[from] spark_quant::QuantError),
    /// candle refused an operation.
    #[error(transparent)]
    Candle(#[from] candle_core::Error),
}

/// What this crate's functions return.
pub type Result<T> = std::result::Result<T, DoraError>;

impl From<DoraError> for candle_core::Error {
    fn from(error: DoraError) -> Self {
        match error {
            DoraError::Candle(error) => error,
            other => Self::wrap(other),
        }
    }
}
/// Some of them: networks have hundreds.
fn names(names: &[String]) -> String {
    const MOST: usize = 8;
    match names.len().checked_sub(MOST) {
        None | Some(0) => format!("{names:?}"),
        Some(more) => format!("{:?} and {more} more", &names[..MOST]),
    }
}
