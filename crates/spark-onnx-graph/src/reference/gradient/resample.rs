//! Gradients of resizing and of grids: both are linear, so that each weight is used the other way round.
//!
//! ```text
//! result[o] += weight * operand[i]      gradient[i] += weight * dy[o]      axis by axis
//! ```
//!
//! Results outside of the region of a crop are fixed numbers and hand nothing on.

use super::super::grid_sample::coordinate;
use super::super::index::{Lines, for_each_position};
use super::super::operator::{Working, times};
use super::super::resize::{Taps, changes, taps};
use super::kinds::{Asked, GradientKind};
use super::operator::{At, Differentiate, Differentiated};
use crate::graph::{
    AffineGrid, Interpolation, Resize, ResizeAxis, nearest_sources, resolve_resize,
};

impl Differentiate for Resize {
    fn kind(&self, asked: Asked) -> GradientKind {
        match asked.operand {
            0 => GradientKind::Computed,
            _ => GradientKind::Refused("regions, scales and sizes are fixed when shapes are"),
        }
    }

    fn gradient(&self, at: &At<'_>, _: usize) -> Differentiated {
        let input = |operand| at.inputs.operand(operand);
        let axes = resolve_resize(self, at.shape(0)?, input(1), input(2), input(3))?;
        let mut gradient = at.dy()?.to_vec();
        let mut shape = at.y_shape().to_vec();
        // Axes that become shorter on the way back first: nothing in between is larger than operand and result.
        let mut order: Vec<usize> = (0..axes.len()).collect();
        order.retain(|&axis| changes(self, &axes[axis]));
        order.sort_by_key(|&axis| axes[axis].output < axes[axis].input);
        for axis in order {
            let resized = &axes[axis];
            let taps = taps_of(self, resized);
            let from = Lines::new(&shape, axis);
            shape[axis] = resized.input;
            let to = Lines::new(&shape, axis);
            let mut spread = vec![0.0; shape.iter().product()];
            for outer in 0..to.outer {
                for inner in 0..to.inner {
                    for (o, taps) in taps.iter().enumerate() {
                        let dy = gradient[(outer * from.extent + o) * from.inner + inner];
                        for &(i, weight) in taps {
                            spread[(outer * to.extent + i) * to.inner + inner] += weight * dy;
                        }
                    }
                }
            }
            gradient = spread;
        }
        Ok(gradient)
    }

    fn working_bytes(&self, working: &Working<'_>) -> usize {
        let extents = working.extents_written().saturating_add(working.read());
        let elements = working.read().saturating_add(working.written());
        working.computed_with(times(extents, 256).saturating_add(times(elements, 16)))
    }
}

/// What every result position of an axis is made of.
pub(crate) fn taps_of(resize: &Resize, axis: &ResizeAxis) -> Vec<Taps> {
    if resize.mode != Interpolation::Nearest {
        return taps(resize, axis);
    }
    let sources = nearest_sources(resize, axis).into_iter();
    sources
        .map(|source| source.map(|i| (i, 1.0)).into_iter().collect())
        .collect()
}

/// Every position is a sum of numbers of `theta`, each times a coordinate.
impl Differentiate for AffineGrid {
    fn kind(&self, asked: Asked) -> GradientKind {
        asked.first_alone()
    }

    fn gradient(&self, at: &At<'_>, _: usize) -> Differentiated {
        let (shape, dy) = (at.y_shape(), at.dy()?);
        let rank = shape.len() - 2;
        let mut gradient = at.zeros(0)?;
        let mut dy = dy.iter();
        for_each_position(shape, |at| {
            let dy = dy.next().copied().unwrap_or_default();
            let row = &mut gradient[(at[0] * rank + at[rank + 1]) * (rank + 1)..][..rank + 1];
            let spatial = at[1..=rank].iter().zip(&shape[1..=rank]).rev();
            for ((&at, &extent), gradient) in spatial.zip(row.iter_mut()) {
                *gradient += coordinate(self.align_corners, at, extent) * dy;
            }
            row[rank] += dy;
        });
        Ok(gradient)
    }
}
