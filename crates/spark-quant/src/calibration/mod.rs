//! Static scales for activations, from what was seen of them while a network ran.
//!
//! ```text
//! activations --Observer--> counts, extremes, exact sums, histogram     the same bits in any order
//!                              |
//!        ScaleMethod           |  MaxAbs, Percentile, MeanSquaredError, Entropy
//!                              v
//!                           clipping range --StaticFormat--> StaticScale: scale, zero point, expected SQNR
//!
//! means per channel, weights --scale_weights--> pre_quant_scale, weights          AWQ
//!
//! rows, exact and rounded --InputMoments--> second moments, weights --compensate--> codes    GPTQ
//! ```
//!
//! A scale that follows each tensor's largest magnitude needs a pass over the tensor before the one that
//! converts it, and lets one outlier take the resolution of all others. A static one is chosen once, on
//! inputs that are typical. [`Observer`] takes in what a network computes, [`ScaleMethod`] chooses,
//! [`StaticScale`] says what error is to be expected, which ranks layers for plans of mixed precision
//! ([`analysis`](crate::analysis)).
//!
//! Sources: NVIDIA ModelOpt (`torch/quantization/calib`, `model_calib.py`); Migacz, *8-bit Inference with
//! TensorRT* (GTC 2017); PyTorch's `HistogramObserver`; onnxruntime's `quant_utils.py`; Lin et al., *AWQ*
//! (arXiv 2306.00978); Frantar et al., *GPTQ* (arXiv 2210.17323).
//!
//! Deliberately absent: histograms per channel (activations of GEMM have one scale per tensor), running a
//! network, changing it, and scales for MX formats, which have none outside of their blocks.

mod columns;
mod compensate;
mod entropy;
mod exact;
mod histogram;
mod moments;
mod noise;
mod observer;
mod scale;
mod weights;

pub use compensate::{CompensatedWeights, compensate};
pub use histogram::Histogram;
pub use moments::InputMoments;
pub use observer::{Observer, Statistics};
pub use scale::{ScaleMethod, StaticFormat, StaticScale};
pub use weights::{ScaledWeights, scale_weights};

#[cfg(test)]
mod tests;
