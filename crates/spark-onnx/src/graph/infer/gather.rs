//! Operators that pick or write elements by listed indices.

use super::{
    Operand, Operands, check_index, check_numeric, check_rank_at_least, check_same_dtype,
    check_shape, one, op_error, resolve_axis,
};
use crate::graph::{OpError, ScatterReduction, TensorType};
use crate::tensor::{DType, Tensor, TensorData};

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
