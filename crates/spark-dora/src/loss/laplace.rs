//! Losses of predictions that come as a Laplace distribution: a centre and the logarithm of its width.
//!
//! ```text
//! negative log likelihood   |mu - t| / b + log b
//! robust                    |mu - t| / max(b, 1e-6 + |mu - t| / 1000) + log max(b, 1e-3)
//! KL(teacher, student)      log(b2 / b1) + |d| / b2 + (b1 / b2) exp(-|d| / b1) - 1     d = mu1 - mu2
//! ```
//!
//! The robust form bounds how much one far target weighs. It is that of the openpilot-pipeline project,
//! whose caller hands it a width where it expects a logarithm; here it is the logarithm.

use candle_core::{D, Tensor};

use crate::error::Result;

/// Widths below this are taken as this in the logarithm.
const MIN_WIDTH: f64 = 1e-3;
/// A distance of this many widths or more counts as this many.
const MAX_WIDTHS: f64 = 1000.0;
/// What a hypothesis that did not win still learns.
const LOSER_WEIGHT: f64 = 1e-6;

/// Robust negative log likelihood, element by element.
///
/// # Shapes
///
/// `centre`, `log_width` and `target` have one shape, and so has the result. Targets in the unit of the
/// centres; `log_width` is the natural logarithm of a width in that unit.
///
/// # Errors
///
/// As candle's, for shapes that differ.
pub fn laplace_nll(centre: &Tensor, log_width: &Tensor, target: &Tensor) -> Result<Tensor> {
    let distance = (centre - target)?.abs()?;
    let bound = ((&distance / MAX_WIDTHS)? + 1e-6)?.log()?;
    let divisor = log_width.maximum(&bound)?;
    let scaled = (&distance * divisor.neg()?.exp()?)?;
    let floor = (log_width.ones_like()? * MIN_WIDTH.ln())?;
    Ok((scaled + log_width.maximum(&floor)?)?)
}

/// Winner takes all: the hypothesis nearest to the target learns, and the scores learn which one that was.
///
/// # Shapes
///
/// `centre` and `log_width` are `[batch, hypotheses, values]`, `target` is `[batch, values]`, `scores` are
/// `[batch, hypotheses]` before the softmax. The result is one number: the mean over the batch of the
/// winner's summed [`laplace_nll`] plus the cross entropy of the scores.
///
/// # Errors
///
/// As candle's, for shapes that do not fit.
pub fn winner_takes_all(
    centre: &Tensor,
    log_width: &Tensor,
    scores: &Tensor,
    target: &Tensor,
) -> Result<Tensor> {
    let target = target.unsqueeze(1)?.broadcast_as(centre.shape())?;
    let losses = laplace_nll(centre, log_width, &target)?.sum(D::Minus1)?;
    let winner = losses.detach().argmin(D::Minus1)?;
    let places = Tensor::arange(0u32, scores.dim(1)? as u32, scores.device())?.unsqueeze(0)?;
    let won = places
        .broadcast_eq(&winner.unsqueeze(1)?)?
        .to_dtype(losses.dtype())?;
    let weights = won.affine(1.0 - LOSER_WEIGHT, LOSER_WEIGHT)?;
    let regression = (losses * weights)?.sum(D::Minus1)?;
    let likelihood = candle_nn::ops::log_softmax(scores, D::Minus1)?;
    let choice = (likelihood * won)?.sum(D::Minus1)?.neg()?;
    Ok((regression + choice)?.mean_all()?)
}

/// Divergence of a student's distribution from a teacher's, element by element; the teacher is a constant.
///
/// # Shapes
///
/// All four have one shape, and so has the result.
///
/// # Errors
///
/// As candle's, for shapes that differ.
pub fn laplace_kl(
    teacher: (&Tensor, &Tensor),
    centre: &Tensor,
    log_width: &Tensor,
) -> Result<Tensor> {
    let (teacher_centre, teacher_log) = (teacher.0.detach(), teacher.1.detach());
    let distance = (centre - teacher_centre)?.abs()?;
    let ratio = (log_width - &teacher_log)?;
    let far = (&distance * log_width.neg()?.exp()?)?;
    let near = (distance.neg()? * teacher_log.neg()?.exp()?)?.exp()?;
    let near = (ratio.neg()?.exp()? * near)?;
    Ok((((ratio + far)? + near)? - 1.0)?)
}
