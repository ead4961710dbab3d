//! Sampling at positions that an operand lists, and making such lists.
//!
//! ```text
//! grid value g in [-1, 1] on an axis of n elements, last axis first
//! at = (g + 1) / 2 * (n - 1)       align_corners: -1 and 1 are the centres of the ends
//! at = ((g + 1) * n - 1) / 2       otherwise their outer edges
//! ```
//!
//! A position outside is moved in (border, reflection) before its taps are taken, but
//! for cubic ones, where every tap is moved in by itself, as in PyTorch and
//! onnxruntime. Taps still outside are treated the same way, or are zero.

use super::index::{for_each_position, offset, strides};
use super::numbers::from_floats;
use super::operator::{Evaluate, Evaluated, Inputs, Working, one};
use crate::graph::{AffineGrid, GridPadding, GridSample, Interpolation, OpError, TensorType};
use crate::tensor::Tensor;

/// Cubic coefficient, fixed by the operator.
pub(super) const CUBIC: f64 = -0.75;

impl Evaluate for GridSample {
    fn evaluate(&self, inputs: Inputs<'_>, types: &[TensorType]) -> Evaluated {
        one(types, |ty| {
            grid_sample(self.mode, self.padding, self.align_corners, inputs, ty)
        })
    }

    fn working_bytes(&self, working: &Working<'_>) -> usize {
        working.computed()
    }
}

fn grid_sample(
    mode: Interpolation,
    padding: GridPadding,
    align_corners: bool,
    inputs: Inputs<'_>,
    ty: &TensorType,
) -> Result<Tensor, OpError> {
    let (x, grid) = (inputs.get(0)?, inputs.get(1)?);
    let (x_shape, x) = (x.shape(), x.to_f64());
    let spatial = &x_shape[2..];
    let spatial_strides = strides(spatial);
    let plane: usize = spatial.iter().product();
    let points_per_sample: usize = ty.shape[2..].iter().product();
    let grid = grid.to_f64();
    let mut y = vec![0.0; ty.shape.iter().product()];
    for n in 0..x_shape[0] {
        for point in 0..points_per_sample {
            let place = &grid[(n * points_per_sample + point) * spatial.len()..][..spatial.len()];
            // The grid names the last axis first.
            let taps: Vec<Vec<(Option<usize>, f64)>> = spatial
                .iter()
                .zip(place.iter().rev())
                .map(|(&extent, &g)| axis_taps(mode, padding, align_corners, extent, g))
                .collect();
            let counts: Vec<usize> = taps.iter().map(Vec::len).collect();
            for c in 0..x_shape[1] {
                let plane = &x[(n * x_shape[1] + c) * plane..][..plane];
                let mut sum = 0.0;
                for_each_position(&counts, |k| {
                    let chosen = || taps.iter().zip(k).map(|(taps, &k)| taps[k]);
                    let weight: f64 = chosen().map(|(_, weight)| weight).product();
                    let position: Option<Vec<usize>> = chosen().map(|(i, _)| i).collect();
                    if let Some(position) = position {
                        sum += weight * plane[offset(&position, &spatial_strides)];
                    }
                });
                y[(n * x_shape[1] + c) * points_per_sample + point] = sum;
            }
        }
    }
    from_floats(ty, y)
}

/// Where a grid value lies on an axis, and between which positions nothing is moved in.
#[derive(Clone, Copy)]
pub(super) struct GridAxis {
    /// Extent of the axis.
    n: f64,
    low: f64,
    high: f64,
    /// Elements for each unit of a grid value.
    pub(super) scale: f64,
}

impl GridAxis {
    pub(super) fn new(align_corners: bool, extent: usize) -> Self {
        let n = extent as f64;
        match align_corners {
            true => Self {
                n,
                low: 0.0,
                high: n - 1.0,
                scale: (n - 1.0) / 2.0,
            },
            false => Self {
                n,
                low: -0.5,
                high: n - 0.5,
                scale: n / 2.0,
            },
        }
    }

    /// The position of `g` before it is moved in.
    pub(super) fn position(&self, align_corners: bool, g: f64) -> f64 {
        match align_corners {
            true => (g + 1.0) / 2.0 * (self.n - 1.0),
            false => ((g + 1.0) * self.n - 1.0) / 2.0,
        }
    }

    /// Whether a position stays where it is.
    pub(super) fn stays(&self, mode: Interpolation, padding: GridPadding, at: f64) -> bool {
        let is_inside = (self.low..=self.high).contains(&at);
        mode == Interpolation::Cubic || padding == GridPadding::Zeros || is_inside
    }

    /// The position that is sampled.
    pub(super) fn moved_in(&self, mode: Interpolation, padding: GridPadding, at: f64) -> f64 {
        match padding {
            _ if self.stays(mode, padding, at) => at,
            GridPadding::Reflection => reflect(at, self.low, self.high),
            GridPadding::Border | GridPadding::Zeros => at.clamp(0.0, self.n - 1.0),
        }
    }

    /// Whether a position that is reflected moves the other way than the grid value; neither where the axis has no
    /// length.
    pub(super) fn reflected_slope(&self, at: f64) -> f64 {
        let range = self.high - self.low;
        if range <= 0.0 || !at.is_finite() {
            return 0.0;
        }
        let phase = (at - self.low).rem_euclid(2.0 * range);
        if phase <= range { 1.0 } else { -1.0 }
    }
}

/// Elements and weights along one axis; no element where zeros lie outside.
pub(super) fn axis_taps(
    mode: Interpolation,
    padding: GridPadding,
    align_corners: bool,
    extent: usize,
    g: f64,
) -> Vec<(Option<usize>, f64)> {
    let axis = GridAxis::new(align_corners, extent);
    let GridAxis { n, low, high, .. } = axis;
    let at = axis.position(align_corners, g);
    let at = if mode == Interpolation::Nearest {
        at.round_ties_even()
    } else {
        at
    };
    let at = axis.moved_in(mode, padding, at);
    let element = |i: f64| {
        let i = match padding {
            _ if (0.0..n).contains(&i) => i,
            GridPadding::Zeros => return None,
            GridPadding::Border => i.clamp(0.0, n - 1.0),
            GridPadding::Reflection => reflect(i, low, high).trunc().clamp(0.0, n - 1.0),
        };
        // A NaN position takes the first element.
        Some(i as usize)
    };
    let first = at.floor();
    let t = at - first;
    match mode {
        Interpolation::Nearest => vec![(element(first), 1.0)],
        Interpolation::Linear => vec![(element(first), 1.0 - t), (element(first + 1.0), t)],
        Interpolation::Cubic => (-1..=2)
            .map(|k| {
                let k = f64::from(k);
                (element(first + k), cubic((k - t).abs()))
            })
            .collect(),
    }
}

/// `at` folded back at `low` and `high` until it lies between them.
fn reflect(at: f64, low: f64, high: f64) -> f64 {
    let range = high - low;
    if range <= 0.0 || !at.is_finite() {
        return low.max(0.0);
    }
    let phase = (at - low).rem_euclid(2.0 * range);
    low + phase.min(2.0 * range - phase)
}

/// Keys' cubic convolution kernel at distance `d`.
fn cubic(d: f64) -> f64 {
    if d <= 1.0 {
        ((CUBIC + 2.0) * d - (CUBIC + 3.0)) * d * d + 1.0
    } else if d < 2.0 {
        ((CUBIC * d - 5.0 * CUBIC) * d + 8.0 * CUBIC) * d - 4.0 * CUBIC
    } else {
        0.0
    }
}

/// An axis of one element whose corners are aligned has it in the middle, as in PyTorch; ONNX's
/// formula divides by zero.
impl Evaluate for AffineGrid {
    fn evaluate(&self, inputs: Inputs<'_>, types: &[TensorType]) -> Evaluated {
        one(types, |ty| affine_grid(self.align_corners, inputs, ty))
    }

    fn working_bytes(&self, working: &Working<'_>) -> usize {
        working.computed()
    }
}

/// What `theta` moves: the coordinate of position `at`, between -1 and 1.
pub(super) fn coordinate(align_corners: bool, at: usize, extent: usize) -> f64 {
    match align_corners {
        true if extent == 1 => 0.0,
        true => 2.0 * at as f64 / (extent - 1) as f64 - 1.0,
        false => (2.0 * at as f64 + 1.0) / extent as f64 - 1.0,
    }
}

fn affine_grid(
    align_corners: bool,
    inputs: Inputs<'_>,
    ty: &TensorType,
) -> Result<Tensor, OpError> {
    let theta = inputs.get(0)?.to_f64();
    let rank = ty.shape.len() - 2;
    let mut grid = Vec::with_capacity(ty.shape.iter().product());
    for_each_position(&ty.shape, |at| {
        let row = &theta[(at[0] * rank + at[rank + 1]) * (rank + 1)..][..rank + 1];
        // The grid names the last axis first.
        let spatial = at[1..=rank].iter().zip(&ty.shape[1..=rank]).rev();
        let moved = spatial
            .zip(row)
            .map(|((&at, &extent), t)| t * coordinate(align_corners, at, extent));
        grid.push(moved.sum::<f64>() + row[rank]);
    });
    from_floats(ty, grid)
}
