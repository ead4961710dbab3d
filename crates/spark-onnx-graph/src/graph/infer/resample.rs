//! Resizing and sampling on a grid.

use super::{Operand, check_float, check_shape, constant_ints, op_error, resolve_axes};
use crate::graph::{AspectRatio, CoordinateTransform, NearestRounding, OpError, Resize};
use crate::tensor::{MAX_ELEMENTS, Tensor};

/// How one axis is resized.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ResizeAxis {
    /// Extent of the operand.
    pub input: usize,
    /// Extent of the result.
    pub output: usize,
    /// Result over operand: as given, or `output / input` where sizes are given.
    pub scale: f64,
    /// Begin and end of the part that is taken, as fractions of the operand;
    /// (0, 1) but for [`CoordinateTransform::TfCropAndResize`].
    pub region: (f64, f64),
}

/// How every axis of `x` is resized, axes that stay included.
///
/// # Errors
///
/// [`OpError`] unless exactly one of `scales` and `sizes` is given (an empty one
/// counts as absent), constant, positive and of the right length; if `roi` is
/// wanted and missing; if an axis is empty or out of range.
pub fn resolve_resize(
    resize: &Resize,
    x_shape: &[usize],
    roi: Option<Operand<'_>>,
    scales: Option<Operand<'_>>,
    sizes: Option<Operand<'_>>,
) -> Result<Vec<ResizeAxis>, OpError> {
    let rank = x_shape.len();
    let axes = match &resize.axes {
        Some(axes) => resolve_axes(axes, rank)?,
        None => (0..rank).collect(),
    };
    let mut resolved: Vec<ResizeAxis> = x_shape
        .iter()
        .map(|&n| ResizeAxis {
            input: n,
            output: n,
            scale: 1.0,
            region: (0.0, 1.0),
        })
        .collect();
    if resize.transform == CoordinateTransform::TfCropAndResize {
        let roi = roi.ok_or_else(|| op_error!("crop and resize needs operand 1 (`roi`)"))?;
        let roi = constant_floats("roi", &roi, 2 * axes.len())?;
        for (i, &axis) in axes.iter().enumerate() {
            resolved[axis].region = (roi[i], roi[axes.len() + i]);
        }
    }
    // Exporters write an empty tensor where an operand is not meant.
    let scales = scales.filter(|s| s.len() != 0);
    let sizes = sizes.filter(|s| s.len() != 0);
    match (scales, sizes) {
        (Some(scales), None) => {
            let scales = constant_floats("scales", &scales, axes.len())?;
            for (&axis, &scale) in axes.iter().zip(&scales) {
                let axis = &mut resolved[axis];
                // In f32 as onnxruntime does: 10 x 0.7 is 7, though 0.7f32 is below 0.7.
                let taken = axis.input as f32 * (axis.region.1 - axis.region.0) as f32;
                let output = (taken * scale as f32).floor();
                if !(scale > 0.0 && output >= 0.0 && output <= MAX_ELEMENTS as f32) {
                    return Err(op_error!("scale {scale} of an axis of {}", axis.input));
                }
                axis.scale = scale;
                axis.output = output as usize;
            }
        }
        (None, Some(sizes)) => {
            let sizes = constant_ints("sizes", &sizes)?;
            if sizes.len() != axes.len() {
                return Err(op_error!(
                    "`sizes` has {} values, wanted {}",
                    sizes.len(),
                    axes.len()
                ));
            }
            apply_sizes(resize.aspect, &axes, &sizes, &mut resolved)?;
        }
        _ => return Err(op_error!("exactly one of `scales` and `sizes` is needed")),
    }
    // A filter stretched over more than the operand would take forever.
    let too_wide = |a: &ResizeAxis| a.output > 0 && a.scale * (a.input as f64) < 0.5;
    if resize.antialias && resolved.iter().any(too_wide) {
        return Err(op_error!("an antialiasing filter wider than its operand"));
    }
    if resolved.iter().any(|a| a.input == 0 && a.output != 0) {
        return Err(op_error!("`x` of shape {x_shape:?} has nothing to sample"));
    }
    Ok(resolved)
}

fn apply_sizes(
    aspect: AspectRatio,
    axes: &[usize],
    sizes: &[i64],
    resolved: &mut [ResizeAxis],
) -> Result<(), OpError> {
    if let Some(&bad) = sizes.iter().find(|&&s| s < 1 || s > MAX_ELEMENTS as i64) {
        return Err(op_error!("size {bad} of a result's axis"));
    }
    let ratios = axes
        .iter()
        .zip(sizes)
        .map(|(&axis, &size)| size as f64 / resolved[axis].input as f64);
    let common = match aspect {
        AspectRatio::Stretch => None,
        AspectRatio::NotLarger => ratios.reduce(f64::min),
        AspectRatio::NotSmaller => ratios.reduce(f64::max),
    };
    for (&axis, &size) in axes.iter().zip(sizes) {
        let axis = &mut resolved[axis];
        match common {
            None => {
                axis.output = size as usize;
                axis.scale = size as f64 / axis.input as f64;
            }
            Some(scale) => {
                // Half up, as ONNX's round_int.
                let output = (axis.input as f64 * scale + 0.5).floor();
                if output.is_nan() || output > MAX_ELEMENTS as f64 {
                    return Err(op_error!("scale {scale} of an axis of {}", axis.input));
                }
                axis.scale = scale;
                axis.output = output as usize;
            }
        }
    }
    Ok(())
}

/// Which element every result position of one axis copies in nearest mode; none where
/// crop and resize reaches outside the operand.
///
/// Coordinates are computed in f32, step by step as onnxruntime does: with a scale of
/// 0.6f32, position 1 falls on element 2 there, but just below it in exact arithmetic,
/// and a nearest neighbour has no tolerance. Everyone below takes the answer from here.
pub fn nearest_sources(resize: &Resize, axis: &ResizeAxis) -> Vec<Option<usize>> {
    let last = axis.input as f32 - 1.0;
    (0..axis.output)
        .map(|o| {
            let at = nearest_position(resize.transform, axis, o as f32);
            let cropped = resize.transform == CoordinateTransform::TfCropAndResize;
            if cropped && !(0.0..=last).contains(&at) {
                return None;
            }
            // From here on f64, where adding a half is exact.
            let at = f64::from(at);
            let rounded = match resize.rounding {
                NearestRounding::RoundPreferFloor => (at - 0.5).ceil(),
                NearestRounding::RoundPreferCeil => (at + 0.5).floor(),
                NearestRounding::Floor => at.floor(),
                NearestRounding::Ceil => at.ceil(),
            };
            Some(rounded.clamp(0.0, f64::from(last)) as usize)
        })
        .collect()
}

/// Where result position `o` lies in the operand, in f32.
fn nearest_position(transform: CoordinateTransform, axis: &ResizeAxis, o: f32) -> f32 {
    let (input, output, scale) = (axis.input as f32, axis.output as f32, axis.scale as f32);
    let half_pixel = (o + 0.5) / scale - 0.5;
    match transform {
        CoordinateTransform::TfCropAndResize => {
            let (begin, end) = (axis.region.0 as f32, axis.region.1 as f32);
            if axis.output > 1 {
                begin * (input - 1.0) + o * (end - begin) * (input - 1.0) / (output - 1.0)
            } else {
                0.5 * (begin + end) * (input - 1.0)
            }
        }
        _ if scale == 1.0 => o,
        CoordinateTransform::HalfPixel => half_pixel,
        CoordinateTransform::HalfPixelSymmetric => {
            let adjustment = output / (scale * input);
            input / 2.0 * (1.0 - adjustment) + half_pixel
        }
        CoordinateTransform::PytorchHalfPixel if axis.output > 1 => half_pixel,
        CoordinateTransform::AlignCorners if axis.output > 1 => o * (input - 1.0) / (output - 1.0),
        CoordinateTransform::PytorchHalfPixel | CoordinateTransform::AlignCorners => 0.0,
        CoordinateTransform::Asymmetric => o / scale,
    }
}

fn constant_floats(what: &str, operand: &Operand<'_>, len: usize) -> Result<Vec<f64>, OpError> {
    check_float(what, operand)?;
    check_shape(what, operand.shape, &[len])?;
    operand
        .constant
        .map(Tensor::to_f64)
        .ok_or_else(|| op_error!("`{what}` must be constant: the result's shape depends on it"))
}
