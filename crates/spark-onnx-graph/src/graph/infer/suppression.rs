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
//! Detectors ask this of thousands of boxes for each of some eighty classes. So candidates are sorted a part at a time, as
//! far as they are looked at, and compared with sixteen kept boxes at once: that an overlap is far below the threshold takes
//! no division to see, and most are.
//!
//! Source: ONNX operator NonMaxSuppression, version 11. It leaves open what a score that is no number means: here it
//! is below every number, so that a threshold keeps it out.

use super::{Operand, Operands, check_rank, check_scalar, op_error};
use crate::graph::{NonMaxSuppression, OpError};
use crate::tensor::{DType, MAX_ELEMENTS, Tensor, TensorData};

/// Pairs of boxes that are compared at most, about three seconds, and per element of the operands: files that hold
/// little take little time.
const MAX_COMPARISONS: usize = 1 << 32;
const COMPARISONS_PER_ELEMENT: usize = 1 << 13;

/// Kept boxes that a candidate is compared with at once.
const LANES: usize = 16;

/// The part of a threshold below which an overlap is for certain, whatever the roundings of sums and products.
const CERTAIN: f32 = 0.999;

/// A threshold, and an area, from which sums and products are rounded as normal numbers are.
const LEAST_NORMAL: f32 = 1e-6;
const LEAST_AREA: f32 = 1e-24;

/// Candidates that are sorted first, and how many times more each time there are more to be looked at.
const FIRST_SORTED: usize = 256;
const MORE_SORTED: usize = 4;

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

/// Calls `keep` with the boxes that `op` keeps: by sample, then by class, then from the best score down.
///
/// # Errors
///
/// [`OpError`] for operands of other types and shapes, for an overlap outside 0..=1, for operands that are not
/// constant where the result hangs on them, and for too many pairs of boxes to compare.
pub(crate) fn for_each_kept_box(
    op: NonMaxSuppression,
    operands: &Operands<'_>,
    mut keep: impl FnMut(KeptBox),
) -> Result<(), OpError> {
    let Some(suppression) = checked(op, operands)? else {
        return Ok(());
    };
    let n = suppression.n_boxes;
    let elements = suppression.boxes.len() + suppression.scores.len();
    let most = elements.saturating_mul(COMPARISONS_PER_ELEMENT);
    let mut class_run = ClassRun {
        comparisons_left: most.min(MAX_COMPARISONS),
        ..ClassRun::default()
    };
    for (row, scores) in suppression.scores.chunks_exact(n).enumerate() {
        let (sample, class) = (row / suppression.n_classes, row % suppression.n_classes);
        let boxes = &suppression.boxes[sample * n * 4..][..n * 4];
        suppression.of_class(boxes, scores, &mut class_run, |at| {
            keep([sample, class, at]);
        })?;
    }
    Ok(())
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

/// What one class after the other is worked out in.
#[derive(Default)]
struct ClassRun {
    /// A candidate each: its score as a whole number of the same order, its position as one that is less for later ones.
    candidates: Vec<u64>,
    kept: Kept,
    comparisons_left: usize,
}

// Positions are in the lower half of a candidate.
const _: () = assert!(MAX_ELEMENTS <= 1 << 32);

impl Suppression<'_> {
    /// Calls `keep` with the positions of the boxes of one class that are kept, the best score first.
    fn of_class(
        &self,
        boxes: &[f32],
        scores: &[f32],
        run: &mut ClassRun,
        mut keep: impl FnMut(usize),
    ) -> Result<(), OpError> {
        let is_candidate = |score: f32| self.score.is_none_or(|least| score > least);
        run.candidates.clear();
        run.kept.clear();
        for (at, &score) in scores.iter().enumerate() {
            if is_candidate(score) {
                run.candidates
                    .push(u64::from(order(score)) << 32 | u64::from(!(at as u32)));
            }
        }
        let mut n_kept = 0;
        let mut rest = &mut run.candidates[..];
        let mut n_sorted = self.most.saturating_mul(2).min(FIRST_SORTED);
        while !rest.is_empty() {
            let (sorted, others) = best_first(rest, n_sorted);
            for &mut candidate in sorted {
                if n_kept == self.most {
                    return Ok(());
                }
                let at = !(candidate as u32) as usize;
                let corners = Corners::of(&boxes[at * 4..][..4], self.is_centred);
                if self.is_kept(&corners, &mut run.kept, &mut run.comparisons_left)? {
                    n_kept += 1;
                    keep(at);
                }
            }
            rest = others;
            n_sorted = n_sorted.saturating_mul(MORE_SORTED);
        }
        Ok(())
    }

    /// Whether no kept box overlaps one at `corners` too much; it is among them then.
    fn is_kept(
        &self,
        corners: &Corners,
        kept: &mut Kept,
        comparisons_left: &mut usize,
    ) -> Result<bool, OpError> {
        let area = corners.area();
        // Overlaps nothing: an end that is no number leaves no area above zero either.
        if area.is_nan() || area <= 0.0 {
            return Ok(true);
        }
        match comparisons_left.checked_sub(kept.n) {
            Some(left) => *comparisons_left = left,
            None => {
                return Err(op_error!(
                    "too many pairs of boxes to compare: a score threshold leaves less of them"
                ));
            }
        }
        let is_kept = !kept.overlaps(corners, area, self.overlap);
        if is_kept {
            kept.push(corners);
        }
        Ok(is_kept)
    }
}

/// The `n` largest of `candidates`, or all, the largest first, and the others.
fn best_first(candidates: &mut [u64], n: usize) -> (&mut [u64], &mut [u64]) {
    let n = n.clamp(1, candidates.len());
    if n < candidates.len() {
        candidates.select_nth_unstable_by(n - 1, |a, b| b.cmp(a));
    }
    let (sorted, others) = candidates.split_at_mut(n);
    sorted.sort_unstable_by(|a, b| b.cmp(a));
    (sorted, others)
}

/// Whole numbers in the order of scores, both zeros the same, what is no number below all of them.
fn order(score: f32) -> u32 {
    // The sum makes -0 the other zero.
    let bits = (score + 0.0).to_bits();
    match (score.is_nan(), bits >> 31) {
        (true, _) => 0,
        (false, 0) => bits | 1 << 31,
        (false, _) => !bits,
    }
}

/// Kept boxes of an area above zero.
#[derive(Default)]
struct Kept {
    blocks: Vec<Block>,
    n: usize,
}

impl Kept {
    fn clear(&mut self) {
        self.blocks.clear();
        self.n = 0;
    }

    fn push(&mut self, corners: &Corners) {
        let lane = self.n % LANES;
        if lane == 0 {
            self.blocks.push(Block::default());
        }
        if let Some(block) = self.blocks.last_mut() {
            for axis in 0..2 {
                block.low[axis][lane] = corners.low[axis];
                block.high[axis][lane] = corners.high[axis];
            }
            block.area[lane] = corners.area();
        }
        self.n += 1;
    }

    /// Whether the overlap of one of them with `candidate`, of an area above zero, is above `most`.
    fn overlaps(&self, candidate: &Corners, area: f32, most: f32) -> bool {
        let least = match most >= LEAST_NORMAL && area >= LEAST_AREA {
            true => most * CERTAIN,
            false => 0.0,
        };
        let mut blocks = self.blocks.iter();
        blocks.any(|block| {
            block.may_overlap(candidate, area, least)
                && (0..LANES).any(|lane| block.corners(lane).overlap(candidate) > most)
        })
    }
}

/// Boxes, a column for each of their numbers.
struct Block {
    low: [[f32; LANES]; 2],
    high: [[f32; LANES]; 2],
    area: [f32; LANES],
}

impl Default for Block {
    /// Boxes that meet nothing.
    fn default() -> Self {
        Self {
            low: [[f32::INFINITY; LANES]; 2],
            high: [[f32::NEG_INFINITY; LANES]; 2],
            area: [0.0; LANES],
        }
    }
}

impl Block {
    fn corners(&self, lane: usize) -> Corners {
        Corners {
            low: [0, 1].map(|axis| self.low[axis][lane]),
            high: [0, 1].map(|axis| self.high[axis][lane]),
        }
    }

    /// Whether one of them may overlap `candidate` by `least` or more.
    fn may_overlap(&self, candidate: &Corners, area: f32, least: f32) -> bool {
        let mut may = 0u32;
        for lane in 0..LANES {
            // None of them is NaN, so that a plain comparison finds the larger one, and is one instruction.
            let side = |axis: usize| {
                let (low, high) = (self.low[axis][lane], self.high[axis][lane]);
                let (from, to) = (candidate.low[axis], candidate.high[axis]);
                (if high < to { high } else { to }) - if low > from { low } else { from }
            };
            let (height, width) = (side(0), side(1));
            let both = height * width;
            let union = self.area[lane] + area - both;
            let is_above = u32::from(both >= least * union);
            may |= u32::from(height > 0.0) & u32::from(width > 0.0) & is_above;
        }
        may != 0
    }
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
        let mut scores = [f32::NAN, 1.0, f32::NEG_INFINITY, f32::INFINITY, -1.0];
        scores.sort_by_key(|&score| std::cmp::Reverse(order(score)));
        assert_eq!(scores[..4], [f32::INFINITY, 1.0, -1.0, f32::NEG_INFINITY]);
        assert_eq!(order(0.0), order(-0.0));
        assert_eq!(order(f32::NAN), order(-f32::NAN));
    }

    /// What the header says, box by box.
    fn plainly(suppression: &Suppression<'_>, boxes: &[f32], scores: &[f32]) -> Vec<usize> {
        let is_candidate = |&at: &usize| suppression.score.is_none_or(|least| scores[at] > least);
        let mut candidates: Vec<usize> = (0..scores.len()).filter(is_candidate).collect();
        let by_score = |a: f32, b: f32| {
            let order = a.partial_cmp(&b);
            order.unwrap_or_else(|| b.is_nan().cmp(&a.is_nan()))
        };
        candidates.sort_by(|&a, &b| by_score(scores[b], scores[a]));
        let corners = |at: usize| Corners::of(&boxes[at * 4..][..4], suppression.is_centred);
        let mut kept: Vec<usize> = Vec::new();
        for at in candidates {
            let overlaps =
                |&other: &usize| corners(other).overlap(&corners(at)) > suppression.overlap;
            if kept.len() < suppression.most && !kept.iter().any(overlaps) {
                kept.push(at);
            }
        }
        kept
    }

    #[test]
    fn too_many_pairs_are_refused() {
        // Boxes side by side suppress nothing, so that every pair is compared.
        let n = 100;
        let boxes: Vec<f32> = (0..n)
            .flat_map(|i| [2.0 * i as f32, 0.0, 1.0, 1.0])
            .collect();
        let scores = vec![1.0; n];
        let suppression = Suppression {
            is_centred: true,
            boxes: &boxes,
            scores: &scores,
            n_classes: 1,
            n_boxes: n,
            most: usize::MAX,
            overlap: 0.5,
            score: None,
        };
        let kept = |comparisons_left: usize| {
            let mut run = ClassRun {
                comparisons_left,
                ..ClassRun::default()
            };
            let mut kept = 0;
            let done = suppression.of_class(&boxes, &scores, &mut run, |_| kept += 1);
            done.map(|()| kept)
        };
        assert_eq!(kept(100 * 99 / 2), Ok(100));
        let error = kept(100 * 99 / 2 - 1).expect_err("one more");
        assert!(
            error.reason.contains("pairs of boxes to compare"),
            "{error}"
        );
    }

    #[test]
    fn overlaps_close_to_the_threshold_are_divided() {
        // Of all thresholds next to an overlap, those below it keep the box out.
        for scale in [1.0f32, 1e-13, 3e17] {
            let mut kept = Kept::default();
            let large = Corners::of(&[0.0, 0.0, scale, scale], false);
            kept.push(&large);
            for shift in 1..400 {
                let at = scale * shift as f32 / 401.0;
                let moved = Corners::of(&[at, at / 3.0, at + scale, at / 3.0 + scale], false);
                let overlap = large.overlap(&moved);
                for most in [overlap.next_down(), overlap, overlap.next_up(), 1e-9, 0.5] {
                    let got = kept.overlaps(&moved, moved.area(), most);
                    assert_eq!(got, overlap > most, "{scale}, {shift}, {most}");
                }
            }
        }
    }

    #[test]
    fn what_is_kept_is_what_comparing_box_by_box_keeps() {
        let mut state = 1u64;
        let mut draw = move || {
            state = state
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            (state >> 40) as f32 / (1 << 24) as f32
        };
        let mut lengths = Vec::new();
        for round in 0..60 {
            let n = [1, 15, 16, 33, 700][round % 5];
            let odd = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 0.0, -0.0];
            let mut number = |scale: f32| match draw() {
                chance if chance < 0.02 => odd[(chance * 250.0) as usize],
                _ => draw() * scale,
            };
            // Scores in a few steps, so that some are equal; boxes of all sizes, some inside out.
            let scores: Vec<f32> = (0..n).map(|_| (number(16.0) - 4.0).round()).collect();
            let boxes: Vec<f32> = (0..4 * n).map(|_| number(20.0) - 2.0).collect();
            for (most, overlap, score) in [
                (usize::MAX, 0.3, None),
                (usize::MAX, 0.0, Some(0.0)),
                (5, 0.7, None),
                (0, 0.5, None),
                (40, 1.0, Some(-2.0)),
            ] {
                let suppression = Suppression {
                    is_centred: round % 2 == 0,
                    boxes: &boxes,
                    scores: &scores,
                    n_classes: 1,
                    n_boxes: n,
                    most,
                    overlap,
                    score,
                };
                let mut run = ClassRun {
                    comparisons_left: usize::MAX,
                    ..ClassRun::default()
                };
                let mut kept = Vec::new();
                suppression
                    .of_class(&boxes, &scores, &mut run, |at| kept.push(at))
                    .expect("few pairs");
                assert_eq!(
                    kept,
                    plainly(&suppression, &boxes, &scores),
                    "{most} of {n}"
                );
                lengths.push(kept.len());
            }
        }
        assert!(
            lengths.iter().any(|&n| n > 300) && lengths.contains(&0),
            "{lengths:?}"
        );
    }
}
