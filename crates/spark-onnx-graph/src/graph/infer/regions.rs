//! Where regions of interest are sampled.
//!
//! ```text
//! along an axis   start = region.low * scale - (1/2 if half_pixel)      length = region.high * scale - ... - start
//!                 cell  = length / cells                                n = samples of a cell, or ceil(cell)
//! sample i of cell c at   start + c * cell + (i + 1/2) * cell / n
//!     below -1 or above the extent: 0;  else between two elements, the first and the last going on outside
//! ```
//!
//! Computed in f32, step by step as onnxruntime does: how many samples a cell has hangs on a rounding.
//!
//! Source: ONNX operator RoiAlign, version 16; He et al., "Mask R-CNN" (2017).

use std::ops::Range;

use super::op_error;
use crate::graph::{OpError, RegionEdges, RoiAlign};

/// Samples that a cell may have along an axis where its size says how many: a cell that long is no part of a picture.
const MAX_SAMPLES: usize = 1 << 16;

/// How a region is sampled along one axis.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RegionAxis {
    start: f32,
    /// Length of a cell.
    cell: f32,
    /// Samples of a cell.
    pub samples: usize,
}

/// Where a sample lies: between two elements, with the weight of the second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RegionTaps {
    /// Positions of the elements, which may be the same.
    pub at: [usize; 2],
    /// Their weights, which add up to 1.
    pub weight: [f32; 2],
}

impl RegionAxis {
    /// Where sample `sample` of cell `cell` lies on an axis of `extent` elements; nowhere if it is outside.
    pub fn taps(&self, extent: usize, cell: usize, sample: usize) -> Option<RegionTaps> {
        let n = self.samples as f32;
        let at = self.start + cell as f32 * self.cell + (sample as f32 + 0.5) * self.cell / n;
        // A position that is no number is nowhere.
        if !(-1.0..=extent as f32).contains(&at) || extent == 0 {
            return None;
        }
        let at = at.max(0.0);
        let first = at as usize;
        let last = extent - 1;
        if first >= last {
            return Some(RegionTaps {
                at: [last; 2],
                weight: [1.0, 0.0],
            });
        }
        let second = at - first as f32;
        Some(RegionTaps {
            at: [first, first + 1],
            weight: [1.0 - second, second],
        })
    }

    /// Samples of cell `cell` that may not be outside of an axis of `extent` elements; all others are.
    pub fn inside(&self, extent: usize, cell: usize) -> Range<usize> {
        let (start, length) = (f64::from(self.start), f64::from(self.cell));
        let step = length / self.samples as f64;
        let begin = start + cell as f64 * length;
        // A sample more on either side makes up for roundings.
        let number = |at: f64| (at - begin) / step - 0.5;
        let (a, b) = (number(-1.0), number(extent as f64));
        if !(a.is_finite() && b.is_finite()) {
            return 0..self.samples;
        }
        let first = (a.min(b) - 2.0).max(0.0) as usize;
        let end = (a.max(b) + 3.0).max(0.0) as usize;
        first.min(self.samples)..end.min(self.samples)
    }
}

/// How `region`, `(x, y)` of one corner and of the opposite one, is sampled along rows' axis and along columns'.
///
/// # Errors
///
/// [`OpError`] for a region of so many samples that it is no part of any picture.
///
/// # Examples
///
/// ```
/// use spark_onnx_graph::graph::{PoolKind, RegionEdges, RoiAlign, region_axes};
///
/// let op = RoiAlign {
///     kind: PoolKind::Average,
///     edges: RegionEdges::HalfPixel,
///     cells: [1, 2],
///     samples: 0,
///     scale: 1.0,
/// };
/// // Rows 2 to 3, columns 0 to 4: cells of one row and of two columns.
/// let [rows, columns] = region_axes(&op, [0.0, 2.0, 4.0, 3.0])?;
/// assert_eq!((rows.samples, columns.samples), (1, 2));
/// let taps = columns.taps(10, 1, 0).expect("inside");
/// assert_eq!((taps.at, taps.weight), ([2, 3], [1.0, 0.0]));
/// # Ok::<(), spark_onnx_graph::graph::OpError>(())
/// ```
pub fn region_axes(op: &RoiAlign, region: [f32; 4]) -> Result<[RegionAxis; 2], OpError> {
    let [x0, y0, x1, y1] = region;
    let offset = match op.edges {
        RegionEdges::HalfPixel => 0.5,
        RegionEdges::OutputHalfPixel => 0.0,
    };
    let axis = |low: f32, high: f32, cells: usize| {
        let start = low * op.scale - offset;
        let mut length = high * op.scale - offset - start;
        if op.edges == RegionEdges::OutputHalfPixel {
            length = length.max(1.0);
        }
        let cell = length / cells as f32;
        let samples = match op.samples {
            // None for a length that is negative or no number.
            0 => cell.ceil() as usize,
            samples => samples,
        };
        match samples <= MAX_SAMPLES {
            true => Ok(RegionAxis {
                start,
                cell,
                samples,
            }),
            false => Err(op_error!(
                "a region from {low} to {high} has {samples} samples in a cell, the most is {MAX_SAMPLES}"
            )),
        }
    };
    Ok([axis(y0, y1, op.cells[0])?, axis(x0, x1, op.cells[1])?])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::PoolKind;

    fn align(samples: usize) -> RoiAlign {
        RoiAlign {
            kind: PoolKind::Average,
            edges: RegionEdges::HalfPixel,
            cells: [3, 5],
            samples,
            scale: 0.25,
        }
    }

    #[test]
    fn no_sample_inside_is_left_out() {
        let corners = [
            -40.0,
            -3.0,
            0.0,
            1.5,
            7.0,
            33.0,
            90.0,
            4000.0,
            1e6,
            f32::NAN,
            f32::INFINITY,
        ];
        let mut n_inside = 0;
        for (low, high) in corners
            .iter()
            .flat_map(|&low| corners.map(|high| (low, high)))
        {
            for (samples, extent) in [(0, 9), (2, 9), (0, 1), (7, 30)] {
                let Ok(axes) = region_axes(&align(samples), [low, high, high, low]) else {
                    continue;
                };
                for (axis, cells) in axes.iter().zip([3, 5]) {
                    for cell in 0..cells {
                        let inside = axis.inside(extent, cell);
                        let sampled = (0..axis.samples.min(20_000))
                            .filter(|&i| axis.taps(extent, cell, i).is_some());
                        for sample in sampled {
                            assert!(inside.contains(&sample), "{axis:?}, {cell}, {sample}");
                            n_inside += 1;
                        }
                        // As many as elements, or those that are asked for.
                        assert!(inside.len() <= samples.max(2 * extent + 8), "{axis:?}");
                    }
                }
            }
        }
        assert!(n_inside > 1000, "{n_inside}");
    }

    #[test]
    fn regions_that_are_no_part_of_a_picture_are_refused() {
        for far in [1e9, f32::MAX, f32::INFINITY] {
            let error = region_axes(&align(0), [0.0, 0.0, far, 1.0]).expect_err("too many samples");
            assert!(error.reason.contains("samples in a cell"), "{error}");
            region_axes(&align(2), [0.0, 0.0, far, 1.0]).expect("two samples");
        }
        let nothing = region_axes(&align(0), [f32::NAN, 3.0, 1.0, 2.0]).expect("no samples");
        assert_eq!(nothing.map(|axis| axis.samples), [0, 0]);
    }
}
