//! What training gained, beside what is had without it.
//!
//! ```text
//! untouched   the network as it is run, without the adapter
//! bias        the same, and for each number its mean error on the training samples taken off
//! constant    for each number its mean target on the training samples
//! trained     with the adapter
//! ```
//!
//! By the root of the mean square over all taught numbers, and by each head's own loss, which is what training lowers: a logit that all classes
//! have more of, or a hypothesis that nobody believes, is an error of numbers and none of the head.
//!
//! What costs time is what networks say of each sample, which many processes may ask them ([`Examination`], bytes by [`answers_to_bytes`]);
//! the rest is sums of it in the order of the samples, which one makes ([`Judgement`]). [`compare`] does both.
//!
//! ```text
//! samples ──Examination──> answers, one by one ──Judgement, in order──> Comparison
//! ```
//!
//! A result that a bias or a constant has too is no result. All of them are judged on samples that were held back.

mod answer;
mod errors;
mod judgement;
mod measure;
mod numbers;
mod packed;

use spark_onnx::RunOptions;
use spark_onnx_graph::graph::Graph;

pub use answer::{Answer, Examination};
pub use errors::{Comparison, Errors, HeadComparison};
pub use judgement::Judgement;
pub use packed::{ANSWERS_FORMAT, PackedAnswers, answers_to_bytes};

use crate::error::{Result, TrainError};
use crate::loss::OutputHeads;
use crate::network::AdaptedNetwork;
use crate::trainer::Samples;

/// Judges a trained network on `held_back`, with the means of `training`. Heads of weight 0 are judged too.
///
/// `untouched` is the network without adapter and `options` what it is run with: the precision that the trained one will be run in.
/// The trained one runs in f32, with weights rounded as its [`Deployment`](crate::Deployment) says.
///
/// # Errors
///
/// [`TrainError::Model`] if one of them cannot be run; [`TrainError::TooFewSamples`] without samples, [`TrainError::Sample`] for one that
/// cannot be read; [`TrainError::NoOutput`] and
/// [`TrainError::Head`] for heads that samples and outputs do not have.
pub fn compare(
    network: &AdaptedNetwork,
    untouched: &Graph,
    heads: &[OutputHeads],
    [training, held_back]: [&dyn Samples; 2],
    options: &RunOptions,
) -> Result<Comparison> {
    let numbers = [training.len(), held_back.len()];
    let mut judgement = Judgement::new(heads, numbers, options)?;
    let mut examination = Examination::new(network, &[untouched], heads, options)?;
    for (samples, is_held_back) in [(training, false), (held_back, true)] {
        for index in 0..samples.len() {
            let sample = samples.sample(index);
            let sample = sample.map_err(|source| TrainError::Sample { index, source })?;
            judgement.take(&examination.answer(&sample, is_held_back)?, 0)?;
        }
    }
    judgement.finish()
}
