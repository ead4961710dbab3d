//! Fine-tuning of ONNX networks with DoRA adapters, every step run by the engine.
//!
//! ```text
//! network    layers by name; the adapter written into the graph; the merged graph     AdaptedNetwork
//!            what training cannot change, run once for each sample                          Trunk
//! loss       heads of outputs and what they are taught                                OutputHeads
//! step       network, losses and gradients as one plan                                TrainingStep, Evaluation
//! driving    heads of openpilot's networks by what they mean                            driving_heads
//! drives     recorded drives as a network's inputs (feature `drives`)                  PictureInputs
//! teacher    another network's outputs as targets                                       Teacher, taught
//! comparison what training gained beside a bias and a constant                          compare, Examination, Judgement
//! trainer    order, AdamW, checkpoints, the best epoch; goes on where it was killed      Trainer
//!            samples in memory, on the disk, and as bytes that outlive a process       Samples, StoredSamples, PackedSamples
//! exchange   what processes of one run tell each other                                 GradientExchange, Single
//! tensorboard events of a run as TensorBoard reads them                                    TensorBoard
//! ```
//!
//! The base stays as it is: its weights are constants that are packed once, and only factors, magnitudes and modules that are
//! trained whole have gradients. Variables, optimisers, files and merging are those of [`spark_dora`]; a step's plan is
//! [`spark_onnx`]'s.

mod comparison;
#[cfg(feature = "drives")]
mod drives;
mod driving;
mod error;
mod exact;
mod exchange;
mod layout;
mod loss;
mod network;
mod packed;
mod step;
mod teacher;
mod tensorboard;
mod trainer;

pub use comparison::{
    ANSWERS_FORMAT, Answer, Comparison, Errors, Examination, HeadComparison, Judgement,
    PackedAnswers, answers_to_bytes, compare,
};
#[cfg(feature = "drives")]
pub use drives::PictureInputs;
pub use driving::driving_heads;
pub use error::{Result, TrainError};
pub use exchange::{ExchangeError, GradientExchange, Single};
pub use loss::OutputHeads;
pub use network::{
    AdaptedNetwork, Deployment, LayerSummary, MergedNetwork, Trunk, layers,
    with_calibrated_weights, with_free_batch, with_head, with_outputs,
};
pub use step::{Evaluation, EvaluationResult, StepResult, TrainingStep};
pub use teacher::{Teacher, taught};
pub use tensorboard::TensorBoard;
pub use trainer::{
    Decay, Ended, Event, Go, LeftOut, Observer, Outcome, PackedSamples, SAMPLES_FORMAT, Sample,
    SamplePacker, SampleRange, SampleWriter, Samples, StoredSamples, Sum, Trainer, TrainerSettings,
    digest, digest_of_all,
};

/// The README's example, so that it is compiled and run with the others.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
