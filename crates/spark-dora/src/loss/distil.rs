//! Teaching a network another's outputs, head by head, as openpilot's parser reads them.
//!
//! ```text
//! Mdn       [mu (n), log width (n)]   log widths above 11 count as 11     laplace_kl
//! Hypotheses  several of those, each with logits that say which holds     hypotheses_divergence
//! Sigmoid   one logit per probability                                     cross entropy with the teacher's
//! Softmax   logits of classes, in rows of `classes`                       cross entropy with the teacher's
//! Features  numbers without a meaning of their own                        softened(T)
//! Squares   numbers that are to be the same                               mean of squared differences
//! Distances the same, far ones weighing less                              mean of absolute differences
//! ```
//!
//! Where a head lies in the output vector is for the caller to say: the model's metadata know
//! (`spark_openpilot::slices`), and what its numbers mean (`spark_openpilot::heads`). Recorded paths instead of a teacher are for
//! [`super::winner_takes_all`].

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
    /// Several such distributions, one after the other, each with logits behind it that say which of them holds.
    Hypotheses {
        /// Distributions.
        hypotheses: usize,
        /// Logits of each: choices that are made apart.
        selections: usize,
    },
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

/// How far a student's mixtures of Laplace distributions are from a teacher's, for each of their values, hypothesis by hypothesis:
/// the divergence of the choice plus that of each hypothesis, weighed by how likely the teacher holds it. By the chain rule it is
/// no less than the divergence of the mixtures, and 0 where both agree. Over `n` values,
///
/// ```text
/// sum over h of p(h) (mean over values of laplace_kl(h) + (log p(h) - log q(h)) / n)
/// ```
///
/// and the mean of that over the choices that are made apart. Hypotheses keep their places: a student that begins as the teacher
/// does has the same in each.
///
/// # Shapes
///
/// Last axes of `hypotheses * (2 n + selections)` numbers: for each hypothesis centres, log widths and logits.
///
/// # Errors
///
/// As candle's, for shapes that differ, do not divide so, or leave no value.
pub fn hypotheses_divergence(
    teacher: &Tensor,
    student: &Tensor,
    hypotheses: usize,
    selections: usize,
) -> Result<Tensor> {
    if teacher.dims() != student.dims() {
        return Err(candle_core::Error::ShapeMismatchBinaryOp {
            lhs: teacher.shape().clone(),
            rhs: student.shape().clone(),
            op: "hypotheses_divergence",
        }
        .into());
    }
    let len = student.dim(D::Minus1)?;
    let n = (len / hypotheses.max(1)).saturating_sub(selections) / 2;
    if n == 0 || selections == 0 || hypotheses * (2 * n + selections) != len {
        let reason = format!(
            "{len} numbers are no {hypotheses} hypotheses of centres, log widths and {selections} logits"
        );
        return Err(candle_core::Error::msg(reason).into());
    }
    // [rows, hypotheses, n] twice, [rows, hypotheses, selections]
    let parts = |t: &Tensor| {
        let rows = t.reshape(((), hypotheses, 2 * n + selections))?;
        let (centre, log_width) = split_mdn(&rows.narrow(D::Minus1, 0, 2 * n)?)?;
        let logits = rows.narrow(D::Minus1, 2 * n, selections)?.contiguous()?;
        let choice = candle_nn::ops::log_softmax(&logits, 1)?;
        Ok::<_, crate::DoraError>((centre, log_width, choice))
    };
    let (teacher_centre, teacher_log, teacher_choice) = parts(&teacher.detach())?;
    let (centre, log_width, choice) = parts(student)?;
    let apart = laplace_kl((&teacher_centre, &teacher_log), &centre, &log_width)?;
    let apart = apart.mean_keepdim(D::Minus1)?;
    let chosen = ((&teacher_choice - choice)? / n as f64)?;
    let weighed = (teacher_choice.exp()? * chosen.broadcast_add(&apart)?)?;
    Ok(weighed.sum(1)?.mean_all()?)
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
            HeadKind::Hypotheses {
                hypotheses,
                selections,
            } => hypotheses_divergence(&teacher, &student, hypotheses, selections)?,
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
