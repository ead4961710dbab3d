//! Teaching a network another's outputs, head by head, as openpilot's parser reads them.
//!
//! ```text
//! Mdn       [mu (n), log width (n)]   log widths above 11 count as 11     laplace_kl
//! Sigmoid   one logit per probability                                     cross entropy with the teacher's
//! Softmax   logits of classes, in rows of `classes`                       cross entropy with the teacher's
//! Features  numbers without a meaning of their own                        softened(T)
//! Squares   numbers that are to be the same                               mean of squared differences
//! Distances the same, far ones weighing less                              mean of absolute differences
//! ```
//!
//! Where a head lies in the output vector is for the caller to say: the model's metadata know
//! (`spark_openpilot::metadata`). Multi-hypothesis heads of old models are for [`super::winner_takes_all`].

use candle_core::{D, Tensor};
use std::ops::Range;

use super::laplace::laplace_kl;
use crate::error::Result;

/// Log widths above this count as this, as in openpilot's parser.
pub const MAX_LOG_WIDTH: f64 = 11.0;

/// What a head's numbers mean.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum HeadKind {
    /// Half centres, half log widths.
    Mdn,
    /// Logits of independent yes-or-no answers.
    Sigmoid,
    /// Logits of so many classes, perhaps several times.
    Softmax {
        /// Logits that belong together.
        classes: usize,
    },
    /// Softened by this temperature.
    Features {
        /// Above 1 to weigh small values more.
        temperature: f64,
    },
    /// Numbers that are to be the same: the mean of squared differences.
    Squares,
    /// The same with absolute differences.
    Distances,
}

/// One head of an output vector.
#[derive(Debug, Clone, PartialEq)]
pub struct Head {
    /// For reports: `plan`, `lane_lines`, `road_edges`, `lead` ...
    pub name: String,
    /// Where it lies in the last axis.
    pub range: Range<usize>,
    /// What its numbers mean, and with that its loss.
    pub kind: HeadKind,
    /// Its weight in the sum.
    pub weight: f64,
}

/// Centres and log widths of a head of kind [`HeadKind::Mdn`].
///
/// # Errors
///
/// As candle's; an odd last axis loses its last number.
pub fn split_mdn(raw: &Tensor) -> Result<(Tensor, Tensor)> {
    let n = raw.dim(D::Minus1)? / 2;
    let centre = raw.narrow(D::Minus1, 0, n)?;
    let log_width = raw.narrow(D::Minus1, n, n)?;
    let bound = (log_width.ones_like()? * MAX_LOG_WIDTH)?;
    Ok((centre, log_width.minimum(&bound)?))
}

/// Cross entropy of softened distributions over the last axis, times `T^2` so that gradients keep their
/// size, less the teacher's own entropy: 0 where both agree. G. Hinton et al., arXiv 1503.02531.
///
/// # Errors
///
/// As candle's, for shapes that differ.
pub fn softened(teacher: &Tensor, student: &Tensor, temperature: f64) -> Result<Tensor> {
    let of = |t: &Tensor| candle_nn::ops::log_softmax(&(t / temperature)?, D::Minus1);
    let (teacher, student) = (of(&teacher.detach())?, of(student)?);
    let divergence = (teacher.exp()? * (&teacher - student)?)?.sum(D::Minus1)?;
    Ok((divergence.mean_all()? * (temperature * temperature))?)
}

/// Cross entropy of independent probabilities given as logits, less the teacher's own entropy.
///
/// # Errors
///
/// As candle's, for shapes that differ.
pub fn sigmoid_divergence(teacher: &Tensor, student: &Tensor) -> Result<Tensor> {
    // log sigmoid(x) = min(x, 0) - log(1 + exp(-|x|)): nothing overflows.
    let log_sigmoid = |x: &Tensor| -> candle_core::Result<Tensor> {
        let tail = (x.abs()?.neg()?.exp()? + 1.0)?.log()?;
        x.minimum(&x.zeros_like()?)? - tail
    };
    let teacher = teacher.detach();
    let term = |t: &Tensor, s: &Tensor| -> candle_core::Result<Tensor> {
        let log_t = log_sigmoid(t)?;
        log_t.exp()? * (log_t - log_sigmoid(s)?)?
    };
    let sum = (term(&teacher, student)? + term(&teacher.neg()?, &student.neg()?)?)?;
    Ok(sum.mean_all()?)
}

/// The weighted sum over heads, and each head's own loss (its mean over all numbers), unweighted.
///
/// # Shapes
///
/// `teacher` and `student` are output vectors `[.., outputs]`.
///
/// # Errors
///
/// As candle's, for heads that lie outside the vectors.
pub fn distil(
    teacher: &Tensor,
    student: &Tensor,
    heads: &[Head],
) -> Result<(Tensor, Vec<(String, Tensor)>)> {
    let mut total = Tensor::zeros((), student.dtype(), student.device())?;
    let mut parts = Vec::with_capacity(heads.len());
    for head in heads {
        let (start, len) = (head.range.start, head.range.len());
        let part = |t: &Tensor| t.narrow(D::Minus1, start, len)?.contiguous();
        let (teacher, student) = (part(&teacher.detach())?, part(student)?);
        let loss = match head.kind {
            HeadKind::Mdn => {
                let (teacher_centre, teacher_log) = split_mdn(&teacher)?;
                let (centre, log_width) = split_mdn(&student)?;
                laplace_kl((&teacher_centre, &teacher_log), &centre, &log_width)?.mean_all()?
            }
            HeadKind::Sigmoid => sigmoid_divergence(&teacher, &student)?,
            HeadKind::Softmax { classes } => {
                let rows = |t: &Tensor| t.reshape(((), classes));
                softened(&rows(&teacher)?, &rows(&student)?, 1.0)?
            }
            HeadKind::Features { temperature } => softened(&teacher, &student, temperature)?,
            HeadKind::Squares => (student - teacher)?.sqr()?.mean_all()?,
            HeadKind::Distances => (student - teacher)?.abs()?.mean_all()?,
        };
        total = (total + (&loss * head.weight)?)?;
        parts.push((head.name.clone(), loss));
    }
    Ok((total, parts))
}
