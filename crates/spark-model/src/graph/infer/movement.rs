//! Operators that move, repeat, select or make elements without arithmetic.

use super::{
    Operand, Operands, broadcast_shapes, check_index, check_numeric, check_rank,
    check_rank_at_least, check_same_dtype, check_scalar, check_shape, constant_ints, one, op_error,
    resolve_axes, resolve_axis,
};
use crate::graph::{OpError, PadMode, ScatterReduction, TensorType};
use crate::tensor::{DType, MAX_ELEMENTS, Tensor, TensorData};

/// Constant extents, none negative.
fn constant_extents(what: &str, operand: &Operand<'_>) -> Result<Vec<usize>, OpError> {
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

/// Refuses constant indices outside `-extent..extent`; others are checked when they flow.
fn check_indices(indices: &Operand<'_>, extent: usize) -> Result<(), OpError> {
    check_index("indices", indices)?;
    let out_of_range = |&v: &i64| v < -(extent as i64) || v >= extent as i64;
    let bad = match indices.constant.map(Tensor::data) {
        Some(TensorData::I64(v)) => v.iter().copied().find(out_of_range),
        Some(TensorData::I32(v)) => v.iter().map(|&i| i64::from(i)).find(out_of_range),
        _ => None,
    };
    match bad {
        Some(bad) => Err(op_error!(
            "index {bad} is out of range for an axis of {extent}"
        )),
        None => Ok(()),
    }
}

pub(super) fn gather(axis: i64, operands: &Operands<'_>) -> Result<Vec<TensorType>, OpError> {
    operands.expect(2, 2, 1)?;
    let x = operands.required(0, "x")?;
    let indices = operands.required(1, "indices")?;
    let axis = resolve_axis(axis, x.rank())?;
    check_indices(&indices, x.shape[axis])?;
    one(
        x.dtype,
        [&x.shape[..axis], indices.shape, &x.shape[axis + 1..]].concat(),
    )
}

pub(super) fn gather_elements(
    axis: i64,
    operands: &Operands<'_>,
) -> Result<Vec<TensorType>, OpError> {
    operands.expect(2, 2, 1)?;
    let x = operands.required(0, "x")?;
    let indices = operands.required(1, "indices")?;
    let axis = resolve_axis(axis, x.rank())?;
    check_indices(&indices, x.shape[axis])?;
    check_inside(&indices, &x, axis)?;
    one(x.dtype, indices.shape)
}

/// `indices` must not reach beyond `x` on any axis but `axis`.
fn check_inside(indices: &Operand<'_>, x: &Operand<'_>, axis: usize) -> Result<(), OpError> {
    let inside = |(i, &d): (usize, &usize)| i == axis || d <= x.shape[i];
    if indices.rank() == x.rank() && indices.shape.iter().enumerate().all(inside) {
        return Ok(());
    }
    Err(op_error!(
        "`indices` of shape {:?} do not fit `x` of shape {:?}",
        indices.shape,
        x.shape
    ))
}

/// Axes of `x` behind those that the last axis of `indices` speaks of.
fn nd_rest<'a>(
    x: &Operand<'a>,
    indices: &Operand<'_>,
    batch_dims: usize,
) -> Result<&'a [usize], OpError> {
    if !matches!(indices.dtype, DType::I64 | DType::I32) {
        return Err(op_error!("`indices` is {}, wanted i64", indices.dtype));
    }
    check_rank_at_least("x", x, 1)?;
    check_rank_at_least("indices", indices, 1)?;
    let Some((&depth, outer)) = indices.shape.split_last() else {
        return Err(op_error!("`indices` is a scalar"));
    };
    if batch_dims > outer.len()
        || batch_dims > x.rank()
        || x.shape[..batch_dims] != outer[..batch_dims]
    {
        return Err(op_error!(
            "`x` of shape {:?} and `indices` of shape {:?} do not share {batch_dims} axes",
            x.shape,
            indices.shape
        ));
    }
    if depth > x.rank() - batch_dims {
        return Err(op_error!(
            "{depth} indices for {} axes",
            x.rank() - batch_dims
        ));
    }
    Ok(&x.shape[batch_dims + depth..])
}

pub(super) fn gather_nd(
    batch_dims: usize,
    operands: &Operands<'_>,
) -> Result<Vec<TensorType>, OpError> {
    operands.expect(2, 2, 1)?;
    let x = operands.required(0, "x")?;
    let indices = operands.required(1, "indices")?;
    let rest = nd_rest(&x, &indices, batch_dims)?;
    let outer = &indices.shape[..indices.rank() - 1];
    one(x.dtype, [outer, rest].concat())
}

fn check_scatter_dtype(x: &Operand<'_>, reduction: ScatterReduction) -> Result<(), OpError> {
    match reduction {
        ScatterReduction::None => Ok(()),
        _ => check_numeric("x", x),
    }
}

pub(super) fn scatter_elements(
    axis: i64,
    reduction: ScatterReduction,
    operands: &Operands<'_>,
) -> Result<Vec<TensorType>, OpError> {
    operands.expect(3, 3, 1)?;
    let x = operands.required(0, "x")?;
    let indices = operands.required(1, "indices")?;
    let updates = operands.required(2, "updates")?;
    check_scatter_dtype(&x, reduction)?;
    let axis = resolve_axis(axis, x.rank())?;
    check_indices(&indices, x.shape[axis])?;
    check_inside(&indices, &x, axis)?;
    check_same_dtype("updates", &updates, x.dtype)?;
    check_shape("updates", updates.shape, indices.shape)?;
    one(x.dtype, x.shape)
}

pub(super) fn scatter_nd(
    reduction: ScatterReduction,
    operands: &Operands<'_>,
) -> Result<Vec<TensorType>, OpError> {
    operands.expect(3, 3, 1)?;
    let x = operands.required(0, "x")?;
    let indices = operands.required(1, "indices")?;
    let updates = operands.required(2, "updates")?;
    check_scatter_dtype(&x, reduction)?;
    let rest = nd_rest(&x, &indices, 0)?;
    let outer = &indices.shape[..indices.rank() - 1];
    check_same_dtype("updates", &updates, x.dtype)?;
    check_shape("updates", updates.shape, &[outer, rest].concat())?;
    one(x.dtype, x.shape)
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

pub(super) fn shape(
    start: i64,
    end: Option<i64>,
    operands: &Operands<'_>,
) -> Result<Vec<TensorType>, OpError> {
    operands.expect(1, 1, 1)?;
    let x = operands.required(0, "x")?;
    one(DType::I64, [shape_part(x.shape, start, end).len()])
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

pub(super) fn size(operands: &Operands<'_>) -> Result<Vec<TensorType>, OpError> {
    operands.expect(1, 1, 1)?;
    operands.required(0, "x")?;
    one(DType::I64, [])
}

pub(super) fn constant_of_shape(
    value: &Tensor,
    operands: &Operands<'_>,
) -> Result<Vec<TensorType>, OpError> {
    operands.expect(1, 1, 1)?;
    let shape = constant_extents("shape", &operands.required(0, "shape")?)?;
    if value.len() != 1 {
        return Err(op_error!(
            "the value has {} elements, wanted one",
            value.len()
        ));
    }
    one(value.dtype(), shape)
}

pub(super) fn range(operands: &Operands<'_>) -> Result<Vec<TensorType>, OpError> {
    operands.expect(3, 3, 1)?;
    let start = operands.required(0, "start")?;
    check_numeric("start", &start)?;
    let mut bounds = Vec::with_capacity(3);
    for (index, what) in ["start", "limit", "delta"].into_iter().enumerate() {
        let bound = operands.required(index, what)?;
        check_same_dtype(what, &bound, start.dtype)?;
        check_scalar(what, &bound)?;
        let constant = bound.constant.ok_or_else(|| {
            op_error!("`{what}` must be constant: the result's shape depends on it")
        })?;
        bounds.push(constant);
    }
    let n = match [bounds[0].data(), bounds[1].data(), bounds[2].data()] {
        [TensorData::I64(a), TensorData::I64(b), TensorData::I64(d)] => {
            let (distance, step) = (i128::from(b[0]) - i128::from(a[0]), i128::from(d[0]));
            let whole = distance
                .checked_div(step)
                .ok_or_else(|| op_error!("delta is zero"))?;
            let more = distance % step != 0 && (distance > 0) == (step > 0);
            (whole + i128::from(more)) as f64
        }
        _ => {
            let [a, b, d] = [0, 1, 2].map(|i| bounds[i].to_f64()[0]);
            ((b - a) / d).ceil()
        }
    };
    if n.is_nan() || n > MAX_ELEMENTS as f64 || bounds[2].to_f64()[0] == 0.0 {
        return Err(op_error!("a range of {n} elements"));
    }
    // Negative counts, the limit lying behind, saturate to none.
    one(start.dtype, [n as usize])
}

pub(super) fn one_hot(axis: i64, operands: &Operands<'_>) -> Result<Vec<TensorType>, OpError> {
    operands.expect(3, 3, 1)?;
    let indices = operands.required(0, "indices")?;
    let depth = operands.required(1, "depth")?;
    let values = operands.required(2, "values")?;
    check_numeric("indices", &indices)?;
    check_numeric("depth", &depth)?;
    check_scalar("depth", &depth)?;
    check_shape("values", values.shape, &[2])?;
    let depth = depth
        .constant
        .ok_or_else(|| op_error!("`depth` must be constant: the result's shape depends on it"))?
        .to_f64()[0];
    if !(depth >= 1.0 && depth <= MAX_ELEMENTS as f64) {
        return Err(op_error!("depth {depth}, wanted 1 to {MAX_ELEMENTS}"));
    }
    let axis = resolve_axis(axis, indices.rank() + 1)?;
    let mut shape = indices.shape.to_vec();
    shape.insert(axis, depth as usize);
    one(values.dtype, shape)
}

pub(super) fn non_zero(operands: &Operands<'_>) -> Result<Vec<TensorType>, OpError> {
    operands.expect(1, 1, 1)?;
    let x = operands.required(0, "x")?;
    let constant = x
        .constant
        .ok_or_else(|| op_error!("`x` must be constant: the result's shape depends on it"))?;
    let count = constant.to_f64().iter().filter(|&&v| v != 0.0).count();
    one(DType::I64, [x.rank(), count])
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

pub(super) fn eye_like(
    dtype: Option<DType>,
    operands: &Operands<'_>,
) -> Result<Vec<TensorType>, OpError> {
    operands.expect(1, 1, 1)?;
    let x = operands.required(0, "x")?;
    check_rank("x", &x, 2)?;
    one(dtype.unwrap_or(x.dtype), x.shape)
}
