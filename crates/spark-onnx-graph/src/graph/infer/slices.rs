//! What slices, pads and parts of shapes take of every axis.

use super::{Operand, constant_ints, op_error, resolve_axes};
use crate::graph::{OpError, PadMode};
use crate::tensor::MAX_ELEMENTS;

/// Which elements of one axis a slice takes: `start + i * step` for `i < len`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SliceAxis {
    /// Position of the first element taken.
    pub start: usize,
    /// Distance between elements taken; negative runs backwards.
    pub step: i64,
    /// Number of elements taken.
    pub len: usize,
}

/// What a `Slice` takes of every axis of `x_shape`, axes left whole included.
///
/// # Errors
///
/// [`OpError`] if an operand is not constant, their lengths differ, a step is
/// zero, or an axis is out of range or named twice.
pub fn resolve_slice(
    x_shape: &[usize],
    starts: Operand<'_>,
    ends: Operand<'_>,
    axes: Option<Operand<'_>>,
    steps: Option<Operand<'_>>,
) -> Result<Vec<SliceAxis>, OpError> {
    let starts = constant_ints("starts", &starts)?;
    let ends = constant_ints("ends", &ends)?;
    let axes = match axes {
        Some(axes) => constant_ints("axes", &axes)?,
        None => (0..starts.len() as i64).collect(),
    };
    let steps = match steps {
        Some(steps) => constant_ints("steps", &steps)?,
        None => vec![1; starts.len()],
    };
    if [ends.len(), axes.len(), steps.len()] != [starts.len(); 3] {
        return Err(op_error!(
            "starts {starts:?}, ends {ends:?}, axes {axes:?} and steps {steps:?} differ in length"
        ));
    }
    let mut slices: Vec<SliceAxis> = x_shape
        .iter()
        .map(|&len| SliceAxis {
            start: 0,
            step: 1,
            len,
        })
        .collect();
    for (i, axis) in resolve_axes(&axes, x_shape.len())?.into_iter().enumerate() {
        slices[axis] = slice_axis(x_shape[axis], starts[i], ends[i], steps[i])?;
    }
    Ok(slices)
}

fn slice_axis(extent: usize, start: i64, end: i64, step: i64) -> Result<SliceAxis, OpError> {
    if step == 0 {
        return Err(op_error!("a step is zero"));
    }
    if extent == 0 {
        return Ok(SliceAxis {
            start: 0,
            step,
            len: 0,
        });
    }
    let extent = extent as i64;
    let from_front = |v: i64| if v < 0 { v.saturating_add(extent) } else { v };
    let (start, end) = if step > 0 {
        (
            from_front(start).clamp(0, extent),
            from_front(end).clamp(0, extent),
        )
    } else {
        // Running backwards, -1 is the position before the first element.
        (
            from_front(start).clamp(0, extent - 1),
            from_front(end).clamp(-1, extent - 1),
        )
    };
    let distance = if step > 0 { end - start } else { start - end };
    let len = (distance.max(0) as u64).div_ceil(step.unsigned_abs()) as usize;
    Ok(SliceAxis {
        start: start as usize,
        step,
        len,
    })
}

/// What a `Pad` does to one axis; negative values cut elements off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PadAxis {
    /// Elements added before the first.
    pub begin: i64,
    /// Elements added after the last.
    pub end: i64,
}

/// What a `Pad` does to every axis of `x_shape`, axes left alone included.
///
/// # Errors
///
/// [`OpError`] if an operand is not constant or has the wrong length, an axis is
/// out of range or named twice, more is cut off than there is, or there is
/// nothing to reflect, repeat or wrap.
pub fn resolve_pads(
    mode: PadMode,
    x_shape: &[usize],
    pads: Operand<'_>,
    axes: Option<Operand<'_>>,
) -> Result<Vec<PadAxis>, OpError> {
    let pads = constant_ints("pads", &pads)?;
    let axes = match axes {
        Some(axes) => resolve_axes(&constant_ints("axes", &axes)?, x_shape.len())?,
        None => (0..x_shape.len()).collect(),
    };
    if pads.len() != 2 * axes.len() {
        return Err(op_error!("pads {pads:?} do not fit {} axes", axes.len()));
    }
    let limit = MAX_ELEMENTS as i64;
    if let Some(bad) = pads.iter().find(|p| !(-limit..=limit).contains(*p)) {
        return Err(op_error!("pad of {bad} elements"));
    }
    let mut resolved = vec![PadAxis { begin: 0, end: 0 }; x_shape.len()];
    for (i, &axis) in axes.iter().enumerate() {
        let pad = PadAxis {
            begin: pads[i],
            end: pads[axes.len() + i],
        };
        let left = x_shape[axis] as i64 + pad.begin.min(0) + pad.end.min(0);
        if left < 0 {
            return Err(op_error!(
                "pads {pads:?} cut more than axis {axis} of {x_shape:?} has"
            ));
        }
        if left == 0 && mode != PadMode::Constant && (pad.begin > 0 || pad.end > 0) {
            return Err(op_error!(
                "axis {axis} of {x_shape:?} has nothing to pad with"
            ));
        }
        resolved[axis] = pad;
    }
    Ok(resolved)
}

/// The axes `start..end` of a shape, clipped as the `Shape` operator does.
pub(crate) fn shape_part(shape: &[usize], start: i64, end: Option<i64>) -> &[usize] {
    let rank = shape.len() as i64;
    let clip = |v: i64| {
        let from_front = if v < 0 { v.saturating_add(rank) } else { v };
        from_front.clamp(0, rank) as usize
    };
    shape
        .get(clip(start)..clip(end.unwrap_or(rank)))
        .unwrap_or(&[])
}
