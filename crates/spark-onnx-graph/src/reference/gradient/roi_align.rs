//! Gradients of regions of interest, cell by cell.
//!
//! ```text
//! average   every tap of every sample has its weight's part of the cell's gradient
//! maximum   the first largest product of a weight and an element has it all; where a sample outside, which is 0, is
//!           larger, none has
//! ```
//!
//! By where regions lie it is refused: they are rounded to f32, and PyTorch's operator has no such gradient either.

use super::super::index::strides;
use super::super::roi_align::{for_each_tap, samples_of_regions};
use super::kinds::{Asked, GradientKind};
use super::operator::{At, Differentiate, Differentiated};
use crate::graph::infer::op_error;
use crate::graph::{PoolKind, RegionAxis, RoiAlign, region_axes};

impl Differentiate for RoiAlign {
    fn kind(&self, asked: Asked) -> GradientKind {
        match asked.operand {
            0 => GradientKind::Computed,
            1 => GradientKind::Refused("where its regions lie is not differentiated"),
            _ => GradientKind::Zero,
        }
    }

    fn gradient(&self, at: &At<'_>, _: usize) -> Differentiated {
        let &[n, channels, h, w] = at.shape(0)? else {
            return Err(op_error!("`x` has not four axes"));
        };
        let steps = strides(at.shape(0)?);
        let (x, regions) = (at.floats(0)?, at.inputs.get(1)?.to_f32());
        let samples = samples_of_regions(at.inputs.get(2)?, n)?;
        let mut dy = at.dy()?.iter();
        let mut gradient = at.zeros(0)?;
        for (region, sample) in regions.chunks_exact(4).zip(samples) {
            let axes = region_axes(self, [region[0], region[1], region[2], region[3]])?;
            for channel in 0..channels {
                let first = sample * steps[0] + channel * steps[1];
                let plane = &x[first..][..h * w];
                let gradient = &mut gradient[first..][..h * w];
                for row in 0..self.cells[0] {
                    for column in 0..self.cells[1] {
                        let dy = dy.next().copied().unwrap_or_default();
                        let parts = cell(self.kind, &axes, [row, column], plane, [h, w]);
                        parts.iter().for_each(|(i, part)| gradient[*i] += part * dy);
                    }
                }
            }
        }
        Ok(gradient)
    }
}

/// The elements that a cell hangs on, and how much.
fn cell(
    kind: PoolKind,
    [rows, columns]: &[RegionAxis; 2],
    [row, column]: [usize; 2],
    plane: &[f64],
    [h, w]: [usize; 2],
) -> Vec<(usize, f64)> {
    let count = rows.samples * columns.samples;
    let mut parts = Vec::new();
    let mut most: Option<(usize, f64)> = None;
    let seen = for_each_tap([rows, columns], [row, column], [h, w], |element, weight| {
        if kind == PoolKind::Average {
            parts.push((element, weight / count.max(1) as f64));
            return;
        }
        let beats = |&(best, its): &(usize, f64)| weight * plane[element] > its * plane[best];
        if most.as_ref().is_none_or(beats) {
            most = Some((element, weight));
        }
    });
    // A sample outside is 0.
    let is_beaten = |(best, weight): (usize, f64)| seen < count && weight * plane[best] < 0.0;
    parts.extend(most.filter(|&most| !is_beaten(most)));
    parts
}
