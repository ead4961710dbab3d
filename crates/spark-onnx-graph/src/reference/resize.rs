//! Resizing by interpolation, one axis after the other.
//!
//! ```text
//! for every axis that changes, for every result position o:
//!     at = position in the operand that o maps to (CoordinateTransform)
//!     result = sum over taps i near at: weight(i - at) * operand[i]
//! ```
//!
//! The lengths in the coordinate formulas are whole, as in onnxruntime and PyTorch,
//! also where `scales` gave a fractional one. Taps outside the operand repeat its
//! edge, or under `exclude_outside` are left out and the other weights rescaled.

use super::index::Lines;
use super::movement::pick;
use super::numbers::from_floats;
use super::operator::{Evaluate, Evaluated, Inputs, Working, one, times};
use crate::graph::{
    CoordinateTransform, Interpolation, OpError, Resize, ResizeAxis, TensorType, nearest_sources,
    resolve_resize,
};
use crate::tensor::Tensor;

/// What one result position of one axis is made of; empty where crop and resize
/// reaches outside the operand.
pub(crate) type Taps = Vec<(usize, f64)>;

impl Evaluate for Resize {
    fn evaluate(&self, inputs: Inputs<'_>, types: &[TensorType]) -> Evaluated {
        one(types, |ty| resize(self, inputs, ty))
    }

    fn working_bytes(&self, working: &Working<'_>) -> usize {
        // Tables of every axis, at most as long as operand and result.
        let tables = times(
            working.extents_written().saturating_add(working.read()),
            256,
        );
        working.computed_with(tables.saturating_add(times(working.written(), 64)))
    }

    fn reads_per_result(&self, work: &Working<'_>) -> usize {
        work.read()
    }
}

fn resize(resize: &Resize, inputs: Inputs<'_>, ty: &TensorType) -> Result<Tensor, OpError> {
    let x = inputs.get(0)?;
    let axes = resolve_resize(
        resize,
        x.shape(),
        inputs.operand(1),
        inputs.operand(2),
        inputs.operand(3),
    )?;
    if ty.shape.contains(&0) {
        return from_floats(ty, Vec::new());
    }
    if resize.mode == Interpolation::Nearest {
        return nearest(resize, x, &axes, ty);
    }
    let mut values = x.to_f64();
    let mut inside = vec![true; values.len()];
    let mut shape = x.shape().to_vec();
    // Shrinking axes first: nothing in between is larger than operand and result.
    let mut order: Vec<usize> = (0..axes.len())
        .filter(|&axis| changes(resize, &axes[axis]))
        .collect();
    order.sort_by_key(|&axis| axes[axis].output > axes[axis].input);
    for axis in order {
        let taps = taps(resize, &axes[axis]);
        let from = Lines::new(&shape, axis);
        shape[axis] = axes[axis].output;
        let to = Lines::new(&shape, axis);
        let mut resized = vec![0.0; shape.iter().product()];
        let mut resized_inside = vec![false; resized.len()];
        for outer in 0..from.outer {
            for inner in 0..from.inner {
                for (o, taps) in taps.iter().enumerate() {
                    let target = (outer * to.extent + o) * to.inner + inner;
                    for &(i, weight) in taps {
                        let source = (outer * from.extent + i) * from.inner + inner;
                        resized[target] += weight * values[source];
                        resized_inside[target] = inside[source];
                    }
                }
            }
        }
        (values, inside) = (resized, resized_inside);
    }
    for (value, inside) in values.iter_mut().zip(inside) {
        if !inside {
            *value = f64::from(resize.extrapolation);
        }
    }
    from_floats(ty, values)
}

/// Nearest neighbours are copied, whatever their type.
fn nearest(
    resize: &Resize,
    x: &Tensor,
    axes: &[ResizeAxis],
    ty: &TensorType,
) -> Result<Tensor, OpError> {
    let mut sources = vec![Some(0)];
    for axis in axes {
        let taken = if changes(resize, axis) {
            nearest_sources(resize, axis)
        } else {
            (0..axis.input).map(Some).collect()
        };
        let within = |before: Option<usize>, i: Option<usize>| Some(before? * axis.input + i?);
        sources = sources
            .iter()
            .flat_map(|&before| taken.iter().map(move |&i| within(before, i)))
            .collect();
    }
    let scalar = TensorType {
        dtype: ty.dtype,
        shape: vec![],
    };
    let outside = from_floats(&scalar, vec![f64::from(resize.extrapolation)])?;
    let sources: Vec<(usize, usize)> = sources
        .into_iter()
        .map(|source| source.map_or((1, 0), |source| (0, source)))
        .collect();
    pick(&[x, &outside], &sources, ty)
}

/// Whether an axis is more than copied.
pub(crate) fn changes(resize: &Resize, axis: &ResizeAxis) -> bool {
    axis.input != axis.output
        || axis.scale != 1.0
        || (resize.transform == CoordinateTransform::TfCropAndResize && axis.region != (0.0, 1.0))
}

/// The taps of every result position.
pub(super) fn taps(resize: &Resize, axis: &ResizeAxis) -> Vec<Taps> {
    (0..axis.output)
        .map(|o| {
            let at = source_position(resize.transform, axis, o);
            let last = axis.input as f64 - 1.0;
            if resize.transform == CoordinateTransform::TfCropAndResize
                && !(0.0..=last).contains(&at)
            {
                return Vec::new();
            }
            if resize.mode == Interpolation::Cubic {
                let a = f64::from(resize.cubic_coeff);
                weighted(resize, axis, at, 2.0, &|d| cubic(a, d.abs()))
            } else {
                weighted(resize, axis, at, 1.0, &|d| 1.0 - d.abs())
            }
        })
        .collect()
}

/// Where result position `o` lies in the operand.
fn source_position(transform: CoordinateTransform, axis: &ResizeAxis, o: usize) -> f64 {
    let (input, output, o) = (axis.input as f64, axis.output as f64, o as f64);
    let half_pixel = (o + 0.5) / axis.scale - 0.5;
    match transform {
        CoordinateTransform::HalfPixel => half_pixel,
        CoordinateTransform::HalfPixelSymmetric => {
            let adjustment = output / (axis.scale * input);
            input / 2.0 * (1.0 - adjustment) + half_pixel
        }
        CoordinateTransform::PytorchHalfPixel if axis.output > 1 => half_pixel,
        CoordinateTransform::PytorchHalfPixel => 0.0,
        CoordinateTransform::AlignCorners if axis.output > 1 => o * (input - 1.0) / (output - 1.0),
        CoordinateTransform::AlignCorners => 0.0,
        CoordinateTransform::Asymmetric => o / axis.scale,
        CoordinateTransform::TfCropAndResize => {
            let (begin, end) = axis.region;
            if axis.output > 1 {
                begin * (input - 1.0) + o * (end - begin) * (input - 1.0) / (output - 1.0)
            } else {
                0.5 * (begin + end) * (input - 1.0)
            }
        }
    }
}

/// Taps under a filter that is zero beyond `reach`, stretched when shrinking with
/// antialiasing, around `at`.
fn weighted(
    resize: &Resize,
    axis: &ResizeAxis,
    at: f64,
    reach: f64,
    filter: &dyn Fn(f64) -> f64,
) -> Taps {
    let stretch = match resize.antialias {
        true => axis.scale.min(1.0),
        false => 1.0,
    };
    let last = axis.input as f64 - 1.0;
    let mut taps = Vec::new();
    let mut i = (at - reach / stretch).floor() + 1.0;
    while i < at + reach / stretch {
        let weight = filter((i - at) * stretch);
        let outside = !(0.0..=last).contains(&i);
        if !(outside && resize.exclude_outside) {
            taps.push((i.clamp(0.0, last) as usize, weight));
        }
        i += 1.0;
    }
    let sum: f64 = taps.iter().map(|(_, weight)| weight).sum();
    taps.iter_mut().for_each(|(_, weight)| *weight /= sum);
    taps
}

/// Keys' cubic convolution kernel at distance `d`.
fn cubic(a: f64, d: f64) -> f64 {
    if d <= 1.0 {
        ((a + 2.0) * d - (a + 3.0)) * d * d + 1.0
    } else {
        ((a * d - 5.0 * a) * d + 8.0 * a) * d - 4.0 * a
    }
}
