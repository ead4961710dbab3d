//! Which boxes a non-maximum suppression keeps.
//!
//! ```text
//! for each sample, for each class:
//!     candidates = boxes whose score is above the threshold, best first, of equal scores the first
//!     for candidate in candidates, until enough are kept:
//!         keep it unless its overlap with a kept box is above the threshold
//! overlap = area of the intersection / area of the union
//! ```
//!
//! How many rows the result has hangs on all of this, so that inference needs it as much as evaluation does.
//! Overlaps are computed in f32, step by step as onnxruntime does: a comparison with a threshold has no tolerance.
//!
//! Source: ONNX operator NonMaxSuppression, version 11. It leaves open what a score that is no number means: here it
//! is below every number, so that a threshold keeps it out.

use std::cmp::Ordering;

use super::{Operand, Operands, check_rank, check_scalar, op_error};
use crate::graph::{NonMaxSuppression, OpError};
use crate::tensor::{DType, Tensor, TensorData};

/// Pairs of boxes that are compared at most, about a second, and per element of the operands: files that hold
/// little take little time.
const MAX_COMPARISONS: usize = 1 << 28;
const COMPARISONS_PER_ELEMENT: usize = 1 << 11;

/// A box that is kept: its sample, its class and its position.
pub(crate) type KeptBox = [usize; 3];

/// The operands of a node, checked; none where it keeps nothing, whatever they hold.
struct Suppression<'a> {
    is_centred: bool,
    boxes: &'a [f32],
    scores: &'a [f32],
    n_classes: usize,
    n_boxes: usize,
    most: usize,
    overlap: f32,
    score: Option<f32>,
}

/// The boxes that `op` keeps: by sample, then by class, then from the best score down.
///
/// # Errors
///
/// [`OpError`] for operands of other types and shapes, for an overlap outside 0..=1, for operands that are not
/// constant where the result hangs on them, and for too many pairs of boxes to compare.
pub(crate) fn kept_boxes(
    op: NonMaxSuppression,
    operands: &Operands<'_>,
) -> Result<Vec<KeptBox>, OpError> {
    let mut kept = Vec::new();
    let Some(suppression) = checked(op, operands)? else {
        return Ok(kept);
    };
    let n = suppression.n_boxes;
    let elements = suppression.boxes.len() + suppression.scores.len();
    let most = elements.saturating_mul(COMPARISONS_PER_ELEMENT);
    let mut comparisons_left = most.min(MAX_COMPARISONS);
    for (row, scores) in suppression.scores.chunks_exact(n).enumerate() {
        let (sample, class) = (row / suppression.n_classes, row % suppression.n_classes);
        let boxes = &suppression.boxes[sample * n * 4..][..n * 4];
        for at in suppression.of_class(boxes, scores, &mut comparisons_left)? {
            kept.push([sample, class, at]);
        }
    }
    Ok(kept)
}

fn checked<'a>(
    op: NonMaxSuppression,
    operands: &Operands<'a>,
) -> Result<Option<Suppression<'a>>, OpError> {
    let boxes = operands.required(0, "boxes")?;
    let scores = operands.required(1, "scores")?;
    for (what, operand) in [("boxes", &boxes), ("scores", &scores)] {
        check_f32(what, operand)?;
        check_rank(what, operand, 3)?;
    }
    let [samples, n_boxes, 4] = *boxes.shape else {
        return Err(op_error!(
            "`boxes` of shape {:?} must have four numbers each",
            boxes.shape
        ));
    };
    if scores.shape[0] != samples || scores.shape[2] != n_boxes {
        return Err(op_error!(
            "`scores` of shape {:?} for {samples} samples of {n_boxes} boxes",
            scores.shape
        ));
    }
    let most = count(operands)?;
    let overlap = threshold("iou_threshold", operands.optional(3))?;
    if let Some(Some(overlap)) = overlap
        && !(0.0..=1.0).contains(&overlap)
    {
        return Err(op_error!("`iou_threshold` is {overlap}, wanted 0 to 1"));
    }
    let score = threshold("score_threshold", operands.optional(4))?;
    if most == Some(0) || scores.len() == 0 {
        return Ok(None);
    }
    let constant =
        |what: &str| op_error!("`{what}` must be constant: the result's shape depends on it");
    let elements = |operand: &Operand<'a>| operand.constant.and_then(Tensor::as_f32);
    Ok(Some(Suppression {
        is_centred: op.is_centred,
        boxes: elements(&boxes).ok_or_else(|| constant("boxes"))?,
        scores: elements(&scores).ok_or_else(|| constant("scores"))?,
        n_classes: scores.shape[1],
        n_boxes,
        most: most.ok_or_else(|| constant("max_output_boxes_per_class"))?,
        overlap: match overlap {
            None => 0.0,
            Some(overlap) => overlap.ok_or_else(|| constant("iou_threshold"))?,
        },
        score: match score {
            None => None,
            Some(score) => Some(score.ok_or_else(|| constant("score_threshold"))?),
        },
    }))
}

/// How many boxes of a class are kept at most, if that is known; none where the operand is left out.
fn count(operands: &Operands<'_>) -> Result<Option<usize>, OpError> {
    let Some(operand) = operands.optional(2) else {
        return Ok(Some(0));
    };
    check_scalar("max_output_boxes_per_class", &operand)?;
    if operand.dtype != DType::I64 {
        return Err(op_error!(
            "`max_output_boxes_per_class` is {}, wanted i64",
            operand.dtype
        ));
    }
    Ok(match operand.constant.map(Tensor::data) {
        Some(TensorData::I64(v)) => Some(usize::try_from(v[0]).unwrap_or(0)),
        _ => None,
    })
}

/// A threshold that is given, and its value if that is known.
fn threshold(what: &str, operand: Option<Operand<'_>>) -> Result<Option<Option<f32>>, OpError> {
    let Some(operand) = operand else {
        return Ok(None);
    };
    check_f32(what, &operand)?;
    check_scalar(what, &operand)?;
    let known = operand.constant.and_then(Tensor::as_f32);
    Ok(Some(known.map(|values| values[0])))
}

fn check_f32(what: &str, operand: &Operand<'_>) -> Result<(), OpError> {
    match operand.dtype {
        DType::F32 => Ok(()),
        dtype => Err(op_error!("`{what}` is {dtype}, wanted f32")),
    }
}

impl Suppression<'_> {
    /// Positions of the boxes of one class that are kept, the best score first.
    fn of_class(
        &self,
        boxes: &[f32],
        scores: &[f32],
        comparisons_left: &mut usize,
    ) -> Result<Vec<usize>, OpError> {
        let is_candidate = |&at: &usize| self.score.is_none_or(|score| scores[at] > score);
        let mut candidates: Vec<usize> = (0..scores.len()).filter(is_candidate).collect();
        candidates.sort_by(|&a, &b| by_score(scores[b], scores[a]));
        let mut kept: Vec<usize> = Vec::new();
        let mut corners: Vec<Corners> = Vec::new();
        for at in candidates {
            if kept.len() == self.most {
                break;
            }
            match comparisons_left.checked_sub(kept.len()) {
                Some(left) => *comparisons_left = left,
                None => {
                    return Err(op_error!(
                        "too many pairs of boxes to compare: a score threshold leaves less of them"
                    ));
                }
            }
            let candidate = Corners::of(&boxes[at * 4..][..4], self.is_centred);
            if !corners
                .iter()
                .any(|kept| kept.overlap(&candidate) > self.overlap)
            {
                kept.push(at);
                corners.push(candidate);
            }
        }
        Ok(kept)
    }
}

/// Numbers in their order, what is none below all of them.
fn by_score(a: f32, b: f32) -> Ordering {
    let order = a.partial_cmp(&b);
    order.unwrap_or_else(|| b.is_nan().cmp(&a.is_nan()))
}

/// A box by the ends of its two sides.
struct Corners {
    low: [f32; 2],
    high: [f32; 2],
}

impl Corners {
    /// Of a centre and two lengths, or of two corners of a diagonal, in whichever order.
    fn of(numbers: &[f32], is_centred: bool) -> Self {
        let [a, b, c, d] = [numbers[0], numbers[1], numbers[2], numbers[3]];
        match is_centred {
            true => Self {
                low: [a - c / 2.0, b - d / 2.0],
                high: [a + c / 2.0, b + d / 2.0],
            },
            false => Self {
                low: [a.min(c), b.min(d)],
                high: [a.max(c), b.max(d)],
            },
        }
    }

    fn area(&self) -> f32 {
        (self.high[0] - self.low[0]) * (self.high[1] - self.low[1])
    }

    /// Of boxes that do not meet, or have no area, 0.
    fn overlap(&self, other: &Self) -> f32 {
        let side = |axis: usize| {
            let low = self.low[axis].max(other.low[axis]);
            self.high[axis].min(other.high[axis]) - low
        };
        let (height, width) = (side(0), side(1));
        let (own, others) = (self.area(), other.area());
        if !(height > 0.0 && width > 0.0 && own > 0.0 && others > 0.0) {
            return 0.0;
        }
        let both = height * width;
        both / (own + others - both)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn overlap(a: [f32; 4], b: [f32; 4], is_centred: bool) -> f32 {
        Corners::of(&a, is_centred).overlap(&Corners::of(&b, is_centred))
    }

    #[test]
    fn either_diagonal_and_either_form_name_the_same_box() {
        let square = [0.0, 0.0, 2.0, 2.0];
        for same in [[2.0, 2.0, 0.0, 0.0], [0.0, 2.0, 2.0, 0.0]] {
            assert_eq!(overlap(square, same, false), 1.0);
        }
        // Two squares of side 2, one moved by half of it: 2 of 6.
        assert_eq!(overlap(square, [1.0, 0.0, 3.0, 2.0], false), 1.0 / 3.0);
        assert_eq!(
            overlap([1.0, 1.0, 2.0, 2.0], [2.0, 1.0, 2.0, 2.0], true),
            1.0 / 3.0
        );
    }

    #[test]
    fn boxes_without_an_area_overlap_nothing() {
        let line = [0.0, 0.0, 0.0, 2.0];
        assert_eq!(overlap(line, line, false), 0.0);
        let nothing = [f32::NAN; 4];
        assert_eq!(overlap(nothing, nothing, false), 0.0);
        // A negative length turns the box inside out.
        assert_eq!(
            overlap([1.0, 1.0, -2.0, 2.0], [1.0, 1.0, 2.0, 2.0], true),
            0.0
        );
    }

    #[test]
    fn scores_that_are_no_numbers_come_last() {
        let mut scores = [f32::NAN, 1.0, f32::NEG_INFINITY, f32::INFINITY];
        scores.sort_by(|&a, &b| by_score(b, a));
        assert_eq!(scores[..3], [f32::INFINITY, 1.0, f32::NEG_INFINITY]);
    }
}
