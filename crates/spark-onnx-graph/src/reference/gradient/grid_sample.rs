//! Gradients of sampling at positions that an operand lists.
//!
//! ```text
//! y = sum over taps: product of weights along the axes * element
//! by the element       product of weights
//! by a grid value      slope of its axis' weight * product of the other axes' weights * element
//! ```
//!
//! As in PyTorch a position that is moved in to the border hands nothing on, one that is reflected the negative each other
//! time, and the nearest element does not hang on the position. At an element itself it is the slope to the right.

use super::super::grid_sample::{CUBIC, GridAxis, axis_taps};
use super::super::index::{for_each_position, offset, strides};
use super::kinds::{Asked, GradientKind};
use super::operator::{At, Differentiate, Differentiated};
use crate::graph::{GridPadding, GridSample, Interpolation};

impl Differentiate for GridSample {
    fn kind(&self, asked: Asked) -> GradientKind {
        match (asked.operand, self.mode) {
            (1, Interpolation::Nearest) => GradientKind::Zero,
            _ => GradientKind::Computed,
        }
    }

    fn gradient(&self, at: &At<'_>, operand: usize) -> Differentiated {
        let (x_shape, x, grid, dy) = (at.shape(0)?, at.floats(0)?, at.floats(1)?, at.dy()?);
        let spatial = &x_shape[2..];
        let rank = spatial.len();
        let spatial_strides = strides(spatial);
        let plane: usize = spatial.iter().product();
        let n_points: usize = at.y_shape()[2..].iter().product();
        let mut gradient = at.zeros(operand)?;
        for n in 0..x_shape[0] {
            for point in 0..n_points {
                let place = (n * n_points + point) * rank;
                // The grid names the last axis first.
                let values = grid[place..][..rank].iter().rev();
                let axes: Vec<Axis> = spatial
                    .iter()
                    .zip(values)
                    .map(|(&extent, &g)| Axis::new(self, extent, g))
                    .collect();
                let counts: Vec<usize> = axes.iter().map(|axis| axis.taps.len()).collect();
                for c in 0..x_shape[1] {
                    let first = (n * x_shape[1] + c) * plane;
                    let dy = dy[(n * x_shape[1] + c) * n_points + point];
                    for_each_position(&counts, |k| {
                        let chosen = axes.iter().zip(k);
                        let position: Option<Vec<usize>> =
                            chosen.map(|(axis, &k)| axis.taps[k].0).collect();
                        let Some(position) = position else { return };
                        let element = first + offset(&position, &spatial_strides);
                        // The product of all weights, or with the slope of one in its place.
                        let product = |sloped: Option<usize>| -> f64 {
                            let factors = axes.iter().zip(k).enumerate();
                            let factors = factors.map(|(axis_idx, (axis, &k))| {
                                if sloped == Some(axis_idx) {
                                    axis.slopes[k]
                                } else {
                                    axis.taps[k].1
                                }
                            });
                            factors.product()
                        };
                        if operand == 0 {
                            gradient[element] += product(None) * dy;
                            return;
                        }
                        for axis in 0..rank {
                            let by_position = product(Some(axis)) * x[element] * dy;
                            gradient[place + rank - 1 - axis] += by_position;
                        }
                    });
                }
            }
        }
        Ok(gradient)
    }
}

/// What a point reads along one axis.
struct Axis {
    taps: Vec<(Option<usize>, f64)>,
    /// Of each weight, by the grid value.
    slopes: Vec<f64>,
}

impl Axis {
    fn new(op: &GridSample, extent: usize, g: f64) -> Self {
        let axis = GridAxis::new(op.align_corners, extent);
        let at = axis.position(op.align_corners, g);
        let by_grid = match op.padding {
            _ if axis.stays(op.mode, op.padding, at) => axis.scale,
            GridPadding::Reflection => axis.scale * axis.reflected_slope(at),
            GridPadding::Border | GridPadding::Zeros => 0.0,
        };
        let at = axis.moved_in(op.mode, op.padding, at);
        let t = at - at.floor();
        let by_position = match op.mode {
            Interpolation::Nearest => vec![0.0],
            Interpolation::Linear => vec![-1.0, 1.0],
            Interpolation::Cubic => (-1..=2).map(|k| -cubic_slope(f64::from(k) - t)).collect(),
        };
        Self {
            taps: axis_taps(op.mode, op.padding, op.align_corners, extent, g),
            slopes: by_position.into_iter().map(|s| s * by_grid).collect(),
        }
    }
}

/// Slope of Keys' cubic convolution kernel at `d`, which may be negative.
fn cubic_slope(d: f64) -> f64 {
    let magnitude = d.abs();
    let slope = if magnitude <= 1.0 {
        (3.0 * (CUBIC + 2.0) * magnitude - 2.0 * (CUBIC + 3.0)) * magnitude
    } else if magnitude < 2.0 {
        (3.0 * CUBIC * magnitude - 10.0 * CUBIC) * magnitude + 8.0 * CUBIC
    } else {
        0.0
    };
    if d < 0.0 { -slope } else { slope }
}
