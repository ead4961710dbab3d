//! Operators that move, repeat or leave out elements by position.

use super::{
    Operand, Operands, broadcast_shapes, check_index, check_rank, check_rank_at_least,
    check_same_dtype, check_scalar, constant_ints, one, op_error, resolve_axes, resolve_axis,
};
use crate::graph::{OpError, PadMode, TensorType};
use crate::tensor::MAX_ELEMENTS;

/// Constant extents, none negative.
pub(super) fn constant_extents(what: &str, operand: &Operand<'_>) -> Result<Vec<usize>, OpError> {
    constant_ints(what, operand)?
        .into_iter()
        .map(|v| {
            usize::try_from(v)
                .ok()
                .filter(|&v| v <= MAX_ELEMENTS)
                .ok_or_else(|| op_error!("`{what}` holds {v}, wanted 0 to {MAX_ELEMENTS}"))
        })
        .collect()
}

pub(super) fn reshape(
    allow_zero: bool,
    operands: &Operands<'_>,
) -> Result<Vec<TensorType>, OpError> {
    operands.expect(2, 2, 1)?;
    let x = operands.required(0, "x")?;
    let target = constant_ints("shape", &operands.required(1, "shape")?)?;
    let mut shape = Vec::with_capacity(target.len());
    let mut open = None;
    for (axis, &extent) in target.iter().enumerate() {
        match extent {
            -1 if open.is_none() => {
                open = Some(axis);
                shape.push(1);
            }
            0 if !allow_zero => match x.shape.get(axis) {
                Some(&same) => shape.push(same),
                None => {
                    return Err(op_error!(
                        "shape {target:?} keeps axis {axis} of {:?}",
                        x.shape
                    ));
                }
            },
            0.. if extent as u64 <= MAX_ELEMENTS as u64 => shape.push(extent as usize),
            _ => return Err(op_error!("{extent} in shape {target:?}")),
        }
    }
    let fixed = shape.iter().try_fold(1usize, |n, &d| n.checked_mul(d));
    let misfit = || op_error!("{:?} cannot take shape {target:?}", x.shape);
    let fixed = fixed.ok_or_else(misfit)?;
    match open {
        Some(axis) if fixed > 0 && x.len().is_multiple_of(fixed) => shape[axis] = x.len() / fixed,
        None if fixed == x.len() => {}
        _ => return Err(misfit()),
    }
    one(x.dtype, shape)
}

pub(super) fn flatten(axis: i64, operands: &Operands<'_>) -> Result<Vec<TensorType>, OpError> {
    operands.expect(1, 1, 1)?;
    let x = operands.required(0, "x")?;
    // The cut may also be behind the last axis.
    let axis = match axis {
        a if a == x.rank() as i64 => x.rank(),
        a => resolve_axis(a, x.rank())?,
    };
    let (rows, columns) = x.shape.split_at(axis);
    one(
        x.dtype,
        [rows.iter().product::<usize>(), columns.iter().product()],
    )
}

pub(super) fn squeeze(operands: &Operands<'_>) -> Result<Vec<TensorType>, OpError> {
    operands.expect(1, 2, 1)?;
    let x = operands.required(0, "x")?;
    let mut drop: Vec<bool> = x.shape.iter().map(|&d| d == 1).collect();
    if let Some(axes) = operands.optional(1) {
        drop.fill(false);
        for axis in resolve_axes(&constant_ints("axes", &axes)?, x.rank())? {
            if x.shape[axis] != 1 {
                return Err(op_error!("axis {axis} of shape {:?} is not 1", x.shape));
            }
            drop[axis] = true;
        }
    }
    let kept = x.shape.iter().zip(&drop).filter(|&(_, &drop)| !drop);
    one(x.dtype, kept.map(|(&d, _)| d).collect::<Vec<_>>())
}

pub(super) fn unsqueeze(operands: &Operands<'_>) -> Result<Vec<TensorType>, OpError> {
    operands.expect(2, 2, 1)?;
    let x = operands.required(0, "x")?;
    let axes = constant_ints("axes", &operands.required(1, "axes")?)?;
    let rank = x.rank() + axes.len();
    let mut new = vec![false; rank];
    for axis in resolve_axes(&axes, rank)? {
        new[axis] = true;
    }
    let mut old = x.shape.iter();
    let shape: Vec<usize> = new
        .iter()
        .filter_map(|&new| if new { Some(1) } else { old.next().copied() })
        .collect();
    one(x.dtype, shape)
}

pub(super) fn transpose(
    perm: Option<&[usize]>,
    operands: &Operands<'_>,
) -> Result<Vec<TensorType>, OpError> {
    operands.expect(1, 1, 1)?;
    let x = operands.required(0, "x")?;
    let Some(perm) = perm else {
        return one(x.dtype, x.shape.iter().rev().copied().collect::<Vec<_>>());
    };
    let mut sorted = perm.to_vec();
    sorted.sort_unstable();
    if !sorted.into_iter().eq(0..x.rank()) {
        return Err(op_error!(
            "perm {perm:?} is no permutation of {} axes",
            x.rank()
        ));
    }
    one(
        x.dtype,
        perm.iter().map(|&axis| x.shape[axis]).collect::<Vec<_>>(),
    )
}

pub(super) fn concat(axis: i64, operands: &Operands<'_>) -> Result<Vec<TensorType>, OpError> {
    operands.expect(1, usize::MAX, 1)?;
    let first = operands.required(0, "x0")?;
    let axis = resolve_axis(axis, first.rank())?;
    let mut shape = first.shape.to_vec();
    shape[axis] = 0;
    for index in 0..operands.list.len() {
        let x = operands.required(index, "x")?;
        check_same_dtype("x", &x, first.dtype)?;
        let agrees = |(i, &d): (usize, &usize)| i == axis || d == first.shape[i];
        if x.rank() != first.rank() || !x.shape.iter().enumerate().all(agrees) {
            return Err(op_error!(
                "operand {index} of shape {:?} does not join {:?} along axis {axis}",
                x.shape,
                first.shape
            ));
        }
        // Each is at most MAX_ELEMENTS, and a file holds fewer than 2^32 operands.
        shape[axis] += x.shape[axis];
    }
    one(first.dtype, shape)
}

pub(super) fn split(axis: i64, operands: &Operands<'_>) -> Result<Vec<TensorType>, OpError> {
    operands.expect(1, 2, usize::MAX)?;
    let x = operands.required(0, "x")?;
    let axis = resolve_axis(axis, x.rank())?;
    let n = operands.n_outputs;
    let extent = x.shape[axis];
    let parts = match operands.optional(1) {
        Some(split) => constant_extents("split", &split)?,
        None => {
            let whole = extent.div_ceil(n);
            (0..n)
                .map(|i| extent.saturating_sub(i * whole).min(whole))
                .collect()
        }
    };
    if parts.len() != n || parts.iter().sum::<usize>() != extent {
        return Err(op_error!(
            "parts {parts:?} do not cut an axis of {extent} into {n}"
        ));
    }
    let part = |part: usize| {
        let mut shape = x.shape.to_vec();
        shape[axis] = part;
        TensorType {
            dtype: x.dtype,
            shape,
        }
    };
    Ok(parts.into_iter().map(part).collect())
}

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

pub(super) fn slice(operands: &Operands<'_>) -> Result<Vec<TensorType>, OpError> {
    operands.expect(3, 5, 1)?;
    let x = operands.required(0, "x")?;
    let slices = resolve_slice(
        x.shape,
        operands.required(1, "starts")?,
        operands.required(2, "ends")?,
        operands.optional(3),
        operands.optional(4),
    )?;
    one(x.dtype, slices.iter().map(|s| s.len).collect::<Vec<_>>())
}

pub(super) fn expand(operands: &Operands<'_>) -> Result<Vec<TensorType>, OpError> {
    operands.expect(2, 2, 1)?;
    let x = operands.required(0, "x")?;
    let target = constant_extents("shape", &operands.required(1, "shape")?)?;
    one(x.dtype, broadcast_shapes(x.shape, &target)?)
}

pub(super) fn tile(operands: &Operands<'_>) -> Result<Vec<TensorType>, OpError> {
    operands.expect(2, 2, 1)?;
    let x = operands.required(0, "x")?;
    let repeats = constant_extents("repeats", &operands.required(1, "repeats")?)?;
    if repeats.len() != x.rank() {
        return Err(op_error!("{} repeats for {} axes", repeats.len(), x.rank()));
    }
    // Both factors are at most 2^31.
    one(
        x.dtype,
        x.shape
            .iter()
            .zip(&repeats)
            .map(|(&d, &n)| d * n)
            .collect::<Vec<_>>(),
    )
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

pub(super) fn pad(mode: PadMode, operands: &Operands<'_>) -> Result<Vec<TensorType>, OpError> {
    operands.expect(2, 4, 1)?;
    let x = operands.required(0, "x")?;
    let pads = operands.required(1, "pads")?;
    if let Some(value) = operands.optional(2) {
        check_same_dtype("value", &value, x.dtype)?;
        check_scalar("value", &value)?;
    }
    let pads = resolve_pads(mode, x.shape, pads, operands.optional(3))?;
    let padded = |(&d, pad): (&usize, &PadAxis)| (d as i64 + pad.begin + pad.end) as usize;
    one(
        x.dtype,
        x.shape.iter().zip(&pads).map(padded).collect::<Vec<_>>(),
    )
}

pub(super) fn depth_to_space(
    block: usize,
    operands: &Operands<'_>,
) -> Result<Vec<TensorType>, OpError> {
    operands.expect(1, 1, 1)?;
    let x = operands.required(0, "x")?;
    check_rank("x", &x, 4)?;
    let [n, c, h, w] = [x.shape[0], x.shape[1], x.shape[2], x.shape[3]];
    if !(1..=MAX_ELEMENTS).contains(&block) || !c.is_multiple_of(block * block) {
        return Err(op_error!(
            "{c} channels do not make blocks of {block}x{block}"
        ));
    }
    one(x.dtype, [n, c / (block * block), h * block, w * block])
}

pub(super) fn space_to_depth(
    block: usize,
    operands: &Operands<'_>,
) -> Result<Vec<TensorType>, OpError> {
    operands.expect(1, 1, 1)?;
    let x = operands.required(0, "x")?;
    check_rank("x", &x, 4)?;
    let [n, c, h, w] = [x.shape[0], x.shape[1], x.shape[2], x.shape[3]];
    if block == 0 || !h.is_multiple_of(block) || !w.is_multiple_of(block) {
        return Err(op_error!(
            "{h}x{w} does not split into blocks of {block}x{block}"
        ));
    }
    let Some(channels) = block
        .checked_mul(block)
        .and_then(|area| c.checked_mul(area))
    else {
        return Err(op_error!("blocks of {block}x{block} overflow"));
    };
    one(x.dtype, [n, channels, h / block, w / block])
}

pub(super) fn trilu(operands: &Operands<'_>) -> Result<Vec<TensorType>, OpError> {
    operands.expect(1, 2, 1)?;
    let x = operands.required(0, "x")?;
    check_rank_at_least("x", &x, 2)?;
    if let Some(k) = operands.optional(1) {
        check_index("k", &k)?;
        check_scalar("k", &k)?;
    }
    one(x.dtype, x.shape)
}
