//! Weighted sums of positions along one axis, and sampling at a grid.
//!
//! One kernel serves interpolation, nearest-neighbour resizing and padding by index:
//! the tables were made when the plan was lowered.

use spark_quant::QuantError;

use super::copy::{Nest, strides};
use crate::cpu::prepared::{Context, Kernel, PreparedStep, Problem, StepError};
use crate::cpu::reduction::reduce::Walk;
use crate::graph::{GridPadding, Interpolation};
use crate::plan::{GridSampleStep, ResampleStep, Storage};

/// The nest over all axes but the resampled one.
fn nest(step: &ResampleStep) -> Nest {
    let mut extents = step.y.shape();
    extents[step.axis] = 1;
    Nest::new(&extents, &strides(&step.x), &strides(&step.y))
}

/// Runs a resampling step along its prepared nest.
fn run(nest: &Nest, step: &ResampleStep, c: &Context<'_>) {
    let (memory, pool) = (c.memory, c.pool);
    let axis = step.axis;
    let wide = memory.storage(&step.x) == Storage::I64;
    let others = &Walk::new(&step.y, &step.x, (0..step.y.rank()).filter(|&a| a != axis));
    pool.run(step.y.axes[axis].extent, |o| {
        let to = o as isize * step.y.axes[axis].stride;
        let stride = step.x.axes[axis].stride;
        let index = &step.index[o * step.taps..(o + 1) * step.taps];
        let at = |tap: usize| index[tap] as isize * stride;
        // SAFETY: table entries are below the axis' extent, other positions come from the views, which
        // were checked at load; every task writes its own slice of the result.
        unsafe {
            match &step.weight {
                None if wide => {
                    let x = memory.i64(&step.x).cast_const().wrapping_offset(at(0));
                    nest.copy(x, memory.i64(&step.y).wrapping_offset(to), |v| v);
                }
                None => {
                    let x = memory.f32(&step.x).cast_const().wrapping_offset(at(0));
                    nest.copy(x, memory.f32(&step.y).wrapping_offset(to), |v| v);
                }
                Some(weights) => {
                    let weights = &weights[o * step.taps..(o + 1) * step.taps];
                    let (x, y) = (memory.f32(&step.x), memory.f32(&step.y).wrapping_offset(to));
                    for i in 0..others.len() {
                        let (yo, xo) = others.offsets(i);
                        let sum: f32 = weights
                            .iter()
                            .enumerate()
                            .map(|(tap, w)| w * *x.offset(xo + at(tap)))
                            .sum();
                        *y.offset(yo) = sum;
                    }
                }
            }
        }
    });
}

/// Runs a grid sampling.
///
/// Source: ONNX operator specification, GridSample-20; the cubic coefficient is -0.75.
fn run_grid(step: &GridSampleStep, c: &Context<'_>) {
    let (memory, pool) = (c.memory, c.pool);
    let [n, c, oh, ow] = [0, 1, 2, 3].map(|a| step.y.axes[a].extent);
    let [h, w] = [step.x.axes[2].extent, step.x.axes[3].extent];
    pool.run(n * oh, |task| {
        let (batch, row) = (task / oh, task % oh);
        for column in 0..ow {
            let g = [batch, row, column]
                .iter()
                .zip(&step.grid.axes)
                .map(|(&i, a)| i as isize * a.stride)
                .sum::<isize>();
            let grid = memory.f32(&step.grid);
            // SAFETY: the grid's last axis has extent 2; views were checked at load.
            let (gx, gy) = unsafe { (*grid.offset(g), *grid.offset(g + step.grid.axes[3].stride)) };
            let x = denormalise(gx, w, step.align_corners);
            let y = denormalise(gy, h, step.align_corners);
            let taps_x = taps(step, x, w);
            let taps_y = taps(step, y, h);
            for channel in 0..c {
                let base = batch as isize * step.x.axes[0].stride
                    + channel as isize * step.x.axes[1].stride;
                let mut sum = 0.0f64;
                for (iy, wy) in taps_y.iter().flatten() {
                    for (ix, wx) in taps_x.iter().flatten() {
                        let at = base
                            + *iy as isize * step.x.axes[2].stride
                            + *ix as isize * step.x.axes[3].stride;
                        // SAFETY: tap positions are inside the image.
                        sum += wy * wx * f64::from(unsafe { *memory.f32(&step.x).offset(at) });
                    }
                }
                let to = [batch, channel, row, column]
                    .iter()
                    .zip(&step.y.axes)
                    .map(|(&i, a)| i as isize * a.stride)
                    .sum::<isize>();
                // SAFETY: every task writes its own row.
                unsafe { *memory.f32(&step.y).offset(to) = sum as f32 };
            }
        }
    });
}

/// A coordinate of -1..1 as a pixel coordinate.
fn denormalise(g: f32, extent: usize, align_corners: bool) -> f64 {
    let (g, n) = (f64::from(g), extent as f64);
    if align_corners {
        (g + 1.0) / 2.0 * (n - 1.0)
    } else {
        ((g + 1.0) * n - 1.0) / 2.0
    }
}

/// Positions inside the axis and their weights; `None` where a tap reads zero.
fn taps(step: &GridSampleStep, x: f64, extent: usize) -> [Option<(usize, f64)>; 4] {
    // A coordinate that is not a number samples nothing.
    if !x.is_finite() {
        return [None; 4];
    }
    let at = |position: f64, weight: f64| {
        inside(step.padding, step.align_corners, position, extent).map(|p| (p, weight))
    };
    match step.mode {
        Interpolation::Nearest => [at(x.round_ties_even(), 1.0), None, None, None],
        Interpolation::Linear => {
            let x = match step.padding {
                GridPadding::Border => x.clamp(0.0, extent as f64 - 1.0),
                GridPadding::Reflection => reflect(x, extent, step.align_corners),
                GridPadding::Zeros => x,
            };
            let first = x.floor();
            let t = x - first;
            [at(first, 1.0 - t), at(first + 1.0, t), None, None]
        }
        Interpolation::Cubic => {
            let first = x.floor();
            let t = x - first;
            std::array::from_fn(|i| {
                let position = first + i as f64 - 1.0;
                at(position, cubic(t - (i as f64 - 1.0)))
            })
        }
    }
}

fn cubic(d: f64) -> f64 {
    const A: f64 = -0.75;
    let d = d.abs();
    if d <= 1.0 {
        ((A + 2.0) * d - (A + 3.0)) * d * d + 1.0
    } else if d < 2.0 {
        ((A * d - 5.0 * A) * d + 8.0 * A) * d - 4.0 * A
    } else {
        0.0
    }
}

/// Folds a coordinate back into the axis, at pixel centres or at their outer edges.
fn reflect(x: f64, extent: usize, align_corners: bool) -> f64 {
    let n = extent as f64;
    let (low, high) = if align_corners {
        (0.0, n - 1.0)
    } else {
        (-0.5, n - 0.5)
    };
    let range = high - low;
    if range <= 0.0 {
        return 0.0;
    }
    let d = (x - low).rem_euclid(2.0 * range);
    let folded = low + if d > range { 2.0 * range - d } else { d };
    folded.clamp(0.0, n - 1.0)
}

fn inside(padding: GridPadding, align_corners: bool, x: f64, extent: usize) -> Option<usize> {
    let last = extent as f64 - 1.0;
    match padding {
        GridPadding::Zeros => (0.0..=last).contains(&x).then_some(x as usize),
        GridPadding::Border => Some(x.clamp(0.0, last) as usize),
        GridPadding::Reflection => {
            Some(reflect(x, extent, align_corners).round_ties_even() as usize)
        }
    }
}

/// The kernel of weighted sums of positions along one axis.
pub(crate) struct Resample {
    step: ResampleStep,
    nest: Nest,
}

impl Kernel<ResampleStep> for Resample {
    fn prepare(problem: &Problem<'_, ResampleStep>) -> Result<Self, QuantError> {
        let step = problem.step.clone();
        Ok(Self {
            nest: nest(&step),
            step,
        })
    }
}

impl PreparedStep for Resample {
    fn run(&self, c: &Context<'_>) -> Result<(), StepError> {
        run(&self.nest, &self.step, c);
        Ok(())
    }
}

/// The kernel that samples an image at the coordinates of a grid.
pub(crate) struct GridSample(GridSampleStep);

impl Kernel<GridSampleStep> for GridSample {
    fn prepare(problem: &Problem<'_, GridSampleStep>) -> Result<Self, QuantError> {
        Ok(Self(problem.step.clone()))
    }
}

impl PreparedStep for GridSample {
    fn run(&self, c: &Context<'_>) -> Result<(), StepError> {
        run_grid(&self.0, c);
        Ok(())
    }
}
