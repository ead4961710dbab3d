//! Why training was refused or ended.

use std::path::PathBuf;

use spark_dora::DoraError;
use spark_onnx::{ModelError, Precision};
use spark_onnx_graph::reference::gradient::GradientError;

/// Why training was refused or ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrainError {
    /// The network, or what is made of it, was refused by the engine.
    #[error("{0}")]
    Model(#[from] ModelError),
    /// An operator on the way has no gradient, or the network is none that can be trained.
    #[error("{0}")]
    Gradient(#[from] GradientError),
    /// The adapter does not fit the network, or its settings are refused.
    #[error("{0}")]
    Dora(#[from] DoraError),
    /// Of candle, which holds the variables.
    #[error("{0}")]
    Candle(#[from] candle_core::Error),
    /// The table of a network's heads cannot be read, or does not fit its output.
    #[error("{0}")]
    Layout(#[from] spark_openpilot::OpenpilotError),
    /// No input takes pictures of a kind that is known.
    #[error(
        "no input of the network takes pictures of a recorded drive: it has {}; known are input_img [1, 6, 320, 160], and img, big_img and \
         vision_input_imgs [1, 12, 128, 256]",
        inputs.join(", ")
    )]
    NoPictures {
        /// Its inputs and their shapes.
        inputs: Vec<String>,
    },
    /// The camera's direction at a sample is not known.
    #[error(
        "sample {number}: the camera's direction is not known, and the network's view needs it"
    )]
    Uncalibrated {
        /// The sample.
        number: usize,
    },
    /// A sample's pictures cannot be had.
    #[cfg(feature = "drives")]
    #[error("{0}")]
    Pictures(#[from] spark_data::prefetch::PrefetchError),
    /// Steps of a network with dropout have a number each, of which their masks follow.
    #[error(
        "the network has dropout, and a step without a number would have the same masks each time: `TrainingStep::run_pass` takes one"
    )]
    Dropout,
    /// Nothing of the network would be trained.
    #[error(
        "the settings mean no layer of this network; it has {}",
        list(available)
    )]
    NothingTrained {
        /// Names of the layers there are.
        available: Vec<String>,
    },
    /// Adapters were to begin by what linear layers read, and none is adapted.
    #[error(
        "the settings mean no linear layer of this network, which EVA is for; it has {}",
        list(available)
    )]
    NothingObserved {
        /// Names of the linear layers there are.
        available: Vec<String>,
    },
    /// No layer's name ends so.
    #[error("no layer is called {}; there are {}", list(names), list(available))]
    NoLayer {
        /// What was asked for.
        names: Vec<String>,
        /// Names of the layers there are.
        available: Vec<String>,
    },
    /// The engine rounds weights that training would not, or others than it would.
    #[error(
        "in {precision} the engine rounds other weights of this network than training sees: output `{output}` differs by {off:.1e} of \
         its largest value; weights that are computed, scaled or transposed, and scales behind products, are to be folded in the file"
    )]
    OtherRounding {
        /// The precision.
        precision: Precision,
        /// The output that differs most.
        output: String,
        /// Its largest difference for a largest value of 1.
        off: f32,
    },
    /// Steps were asked for in another precision than theirs.
    #[error(
        "steps of training are computed in fp32, not in {asked}; what rounded weights lose is for a `Deployment` to say"
    )]
    NotExact {
        /// What the options ask for.
        asked: String,
    },
    /// The network has no value that a head can stand on, or that can be an output.
    #[error(
        "the network has no such value `{name}`; a head stands on one of f32 with two extents or more"
    )]
    NoValue {
        /// The name that was asked for.
        name: String,
    },
    /// A value of the network has the name of one that is new.
    #[error("the network has a value `{name}` already")]
    NameTaken {
        /// The name.
        name: String,
    },
    /// Everything the network computes hangs on an adapted layer.
    #[error("every node hangs on an adapted layer: there is no trunk whose results could be kept")]
    NoTrunk,
    /// What a trunk gives for samples has no first extent that is their number.
    #[error("`{name}`, which the trunk gives, is {shape:?} for {n}: wanted a first extent of {n}")]
    NotBySample {
        /// The value.
        name: String,
        /// Its shape.
        shape: Vec<usize>,
        /// For so many samples.
        n: usize,
    },
    /// A calibration rounded what is no layer's weight here.
    #[error(
        "calibrated weights of {} cannot stand in the file: they are no layer's own of f32",
        list(names)
    )]
    NotReplaced {
        /// Nodes.
        names: Vec<String>,
    },
    /// The network has no output of this name.
    #[error("the network has no output `{name}`; it has {}", list(available))]
    NoOutput {
        /// The name that was asked for.
        name: String,
        /// Names of the outputs there are.
        available: Vec<String>,
    },
    /// A head lies outside its output, or its numbers cannot be what it says.
    #[error("head `{head}` of output `{output}`: {reason}")]
    Head {
        /// The head.
        head: String,
        /// Its output.
        output: String,
        /// What does not fit.
        reason: String,
    },
    /// A precision whose rounding of weights training cannot see, or that no layer is run in.
    #[error(
        "no weight of this network is rounded to {precision}: layers of fp8 and fp4 are, where the engine has them"
    )]
    NoRounding {
        /// The precision.
        precision: Precision,
    },
    /// What the engine rounds is not the layer's own weight.
    #[error(
        "node `{node}` is folded into the weight of `{layer}` before that is rounded: fold it in the file"
    )]
    FoldedBehind {
        /// The layer.
        layer: String,
        /// The node behind it.
        node: String,
    },
    /// Numbers that cannot be rounded.
    #[error("{0}")]
    Quant(#[from] spark_quant::QuantError),
    /// A setting that no run can have.
    #[error("setting `{name}` is {value}, wanted a number above 0, or from 0 on for rates")]
    Setting {
        /// The setting.
        name: &'static str,
        /// Its value.
        value: String,
    },
    /// There are fewer samples than one step takes.
    #[error("one step takes {want} samples, there are {got}")]
    TooFewSamples {
        /// Samples there are.
        got: usize,
        /// Samples of a batch, times the batches of a step.
        want: usize,
    },
    /// A sample cannot be had.
    #[error("sample {index}: {source}")]
    Sample {
        /// Its number.
        index: usize,
        /// What kept it.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Samples of one batch do not go together.
    #[error(
        "`{name}` of sample {first} is {want:?}, that of sample {other} {}",
        shape_or_nothing(got)
    )]
    UnlikeSamples {
        /// A sample.
        first: usize,
        /// Another.
        other: usize,
        /// The input or output.
        name: String,
        /// Its shape in the first one.
        want: Vec<usize>,
        /// In the other one; nothing if it is not there.
        got: Option<Vec<usize>>,
    },
    /// Bytes that should be packed samples or answers are none.
    #[error("the bytes are none of packed tensors: their {what} does not fit the rest")]
    Packed {
        /// Which part of them.
        what: &'static str,
    },
    /// An answer that is to be judged lacks something.
    #[error("answer {index} has no {what}")]
    Answer {
        /// Its number, the first being 0.
        index: usize,
        /// What it lacks.
        what: &'static str,
    },
    /// The first extent of a sample's tensor is not 1.
    #[error("`{name}` of sample {index} is {shape:?}, wanted a first extent of 1")]
    NotOneSample {
        /// The sample.
        index: usize,
        /// The input or output.
        name: String,
        /// Its shape.
        shape: Vec<usize>,
    },
    /// Steps in a row gave no finite numbers.
    #[error(
        "{in_a_row} steps in a row, up to step {step}, gave no finite numbers: {}",
        match u64::from(*in_a_row) == *step {
            true => "there was no other, so that samples may be too large for the network",
            false => "the learning rate may be too high",
        }
    )]
    Diverged {
        /// The last step.
        step: u64,
        /// Steps in a row.
        in_a_row: u32,
    },
    /// A file or folder of checkpoints.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A checkpoint's state.
    #[error("{}: {source}", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// There is no checkpoint to go on from.
    #[error("{}: there is no whole checkpoint to go on from", folder.display())]
    NoCheckpoint {
        /// The folder.
        folder: PathBuf,
    },
    /// Another run writes to the folder.
    #[error("{}: another run writes its checkpoints there", folder.display())]
    Busy {
        /// The folder.
        folder: PathBuf,
    },
    /// The folder holds checkpoints of an earlier run, which is not resumed.
    #[error("{}: there are checkpoints of an earlier run: resume it, or take another folder", folder.display())]
    FolderUsed {
        /// The folder.
        folder: PathBuf,
    },
    /// The ranks of a run cannot have as many batches of a step each.
    #[error("{n_ranks} ranks cannot share out the {n_batches} batches of a step evenly")]
    Ranks {
        /// Ranks there are.
        n_ranks: usize,
        /// Batches whose gradients make one step.
        n_batches: usize,
    },
    /// Ranks have come to different variables.
    #[error(
        "after step {step} the variables of rank {rank} are not those of rank 0: their machines compute differently"
    )]
    Apart {
        /// Steps that were made or skipped.
        step: u64,
        /// The first rank that differs.
        rank: usize,
    },
    /// Ranks could not tell each other something.
    #[error("ranks: {0}")]
    Exchange(Box<dyn std::error::Error + Send + Sync>),
    /// A checkpoint is not of this run.
    #[error("{}: {what} was {was} and is {is}: this is another run", folder.display())]
    OtherRun {
        /// The checkpoint.
        folder: PathBuf,
        /// What differs.
        what: String,
        /// As it is in the checkpoint.
        was: String,
        /// As it is here.
        is: String,
    },
}

fn shape_or_nothing(shape: &Option<Vec<usize>>) -> String {
    match shape {
        Some(shape) => format!("{shape:?} or of another type"),
        None => "is not there".to_owned(),
    }
}

/// At most eight of them; networks have hundreds.
fn list(names: &[String]) -> String {
    const MOST: usize = 8;
    let mut text = names[..names.len().min(MOST)].join(", ");
    if names.is_empty() {
        text.push_str("none");
    }
    if let Some(more @ 1..) = names.len().checked_sub(MOST) {
        text.push_str(&format!(" and {more} more"));
    }
    text
}

/// What this crate's functions give.
pub type Result<T> = std::result::Result<T, TrainError>;
