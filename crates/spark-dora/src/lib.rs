//! DoRA and LoRA for candle: layers that train, merge, and are exchanged with PEFT.
//!
//! ```text
//! config    which layers, which ranks                      DoraConfig, LayerConfig
//! adapter   a network's layers, by name, and their files      Adapter; PEFT's folder, kohya's file; AdapterSet
//! layer     candle modules with frozen bases               DoraLinear, DoraConv2d, DoraConv1d, DoraEmbedding
//! eva       A begun by the inputs of the layers               ExplainedVariance
//! kernel    forward and backward passes on slices          GEMM by spark-gemm's micro-kernel
//! loss      Laplace likelihoods, distillation by heads        made of operations with gradients
//! optim     groups, AdamW, schedules, accumulation           works with any training loop
//! merge     plain layers again, and how far they are off   Merged, Equivalence; networks: Adapter::merge
//! ```
//!
//! `W' = m (W + s B A) / |W + s B A|`, row by row (of an embedding column by column), the norm held constant
//! in gradients: S. Liu et al., "DoRA: Weight-Decomposed Low-Rank Adaptation", ICML 2024 (arXiv 2402.09353).
//! Everything else follows Hugging Face PEFT, so that adapters can be exchanged.

pub mod adapter;
mod base;
mod config;
mod dropout;
mod error;
pub mod eva;
mod finite;
mod kernel;
pub mod layer;
pub mod loss;
pub mod merge;
pub mod optim;
mod random;
mod slice;

pub use adapter::merged::{MergedFile, NetworkReport};
pub use adapter::on_disk::{
    AdapterDifference, AdapterFiles, Change, ModuleReport, Rounding, StorageType,
};
pub use adapter::set::{AdapterSet, Switched, SwitchedTensors};
pub use adapter::{Adapter, Offered, SizeReport};
pub use config::{
    Biases, DoraConfig, DoraConfigBuilder, Init, LayerConfig, Method, OneOrMany, PatternError,
    Patterns, Targets,
};
pub use dropout::Dropout;
pub use error::{DoraError, Result};
pub use eva::{EvaSettings, ExplainedVariance};
pub use kernel::threads::set_threads;
pub use layer::{
    DoraConv1d, DoraConv2d, DoraEmbedding, DoraLinear, Factors, SavedLayer, SavedTensors,
    TrainModule, WholeLayer,
};
pub use merge::{Equivalence, MergeReport, Merged, equivalence};

/// The README's example, so that it is compiled and run with the others.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
