//! Normalisations, softmax, reductions and searches along axes.

use super::{
    Operands, check_broadcasts_to, check_float, check_index, check_numeric, check_rank_at_least,
    check_same_dtype, check_scalar, check_shape, constant_int, constant_ints, one, op_error,
    resolve_axes, resolve_axis,
};
use crate::graph::{ArgReduce, OpError, Reduce, ReduceKind, TensorType};
use crate::tensor::DType;

pub(super) fn batch_normalization(operands: &Operands<'_>) -> Result<Vec<TensorType>, OpError> {
    operands.expect(5, 5, 1)?;
    let x = operands.required(0, "x")?;
    check_float("x", &x)?;
    check_rank_at_least("x", &x, 2)?;
    for (index, what) in [(1, "scale"), (2, "bias"), (3, "mean"), (4, "variance")] {
        // Statistics may be kept in a wider format than the data.
        let operand = operands.required(index, what)?;
        check_float(what, &operand)?;
        check_shape(what, operand.shape, &x.shape[1..2])?;
    }
    one(x.dtype, x.shape)
}

/// LayerNormalization and RMSNormalization: `scale` and `bias` broadcast to the
/// normalised axes.
pub(super) fn layer_normalization(
    axis: i64,
    min: usize,
    max: usize,
    operands: &Operands<'_>,
) -> Result<Vec<TensorType>, OpError> {
    operands.expect(min, max, 1)?;
    let x = operands.required(0, "x")?;
    check_float("x", &x)?;
    resolve_axis(axis, x.rank())?;
    for (index, what) in [(1, "scale"), (2, "bias")] {
        if index >= min && operands.optional(index).is_none() {
            continue;
        }
        let operand = operands.required(index, what)?;
        check_same_dtype(what, &operand, x.dtype)?;
        check_broadcasts_to(what, operand.shape, x.shape)?;
    }
    one(x.dtype, x.shape)
}

pub(super) fn instance_normalization(operands: &Operands<'_>) -> Result<Vec<TensorType>, OpError> {
    operands.expect(3, 3, 1)?;
    let x = operands.required(0, "x")?;
    check_float("x", &x)?;
    check_rank_at_least("x", &x, 3)?;
    per_channel(operands, x.dtype, x.shape[1])?;
    one(x.dtype, x.shape)
}

pub(super) fn group_normalization(
    groups: usize,
    operands: &Operands<'_>,
) -> Result<Vec<TensorType>, OpError> {
    operands.expect(3, 3, 1)?;
    let x = operands.required(0, "x")?;
    check_float("x", &x)?;
    check_rank_at_least("x", &x, 2)?;
    if groups == 0 || !x.shape[1].is_multiple_of(groups) {
        return Err(op_error!(
            "{} channels do not split into {groups} groups",
            x.shape[1]
        ));
    }
    per_channel(operands, x.dtype, x.shape[1])?;
    one(x.dtype, x.shape)
}

fn per_channel(operands: &Operands<'_>, dtype: DType, channels: usize) -> Result<(), OpError> {
    for (index, what) in [(1, "scale"), (2, "bias")] {
        let operand = operands.required(index, what)?;
        check_same_dtype(what, &operand, dtype)?;
        check_shape(what, operand.shape, &[channels])?;
    }
    Ok(())
}

pub(super) fn lp_normalization(
    axis: i64,
    p: u8,
    operands: &Operands<'_>,
) -> Result<Vec<TensorType>, OpError> {
    operands.expect(1, 1, 1)?;
    let x = operands.required(0, "x")?;
    check_float("x", &x)?;
    resolve_axis(axis, x.rank())?;
    if !matches!(p, 1 | 2) {
        return Err(op_error!("norm of order {p}, wanted 1 or 2"));
    }
    one(x.dtype, x.shape)
}

pub(super) fn lrn(size: usize, operands: &Operands<'_>) -> Result<Vec<TensorType>, OpError> {
    operands.expect(1, 1, 1)?;
    let x = operands.required(0, "x")?;
    check_float("x", &x)?;
    check_rank_at_least("x", &x, 2)?;
    if size == 0 {
        return Err(op_error!("the number of channels summed over is zero"));
    }
    one(x.dtype, x.shape)
}

pub(super) fn softmax(axis: i64, operands: &Operands<'_>) -> Result<Vec<TensorType>, OpError> {
    operands.expect(1, 1, 1)?;
    let x = operands.required(0, "x")?;
    check_float("x", &x)?;
    resolve_axis(axis, x.rank())?;
    one(x.dtype, x.shape)
}

pub(super) fn reduce(reduce: &Reduce, operands: &Operands<'_>) -> Result<Vec<TensorType>, OpError> {
    operands.expect(1, 2, 1)?;
    let x = operands.required(0, "x")?;
    match reduce.kind {
        ReduceKind::L2 | ReduceKind::LogSum | ReduceKind::LogSumExp => check_float("x", &x)?,
        ReduceKind::Max | ReduceKind::Min => {}
        _ => check_numeric("x", &x)?,
    }
    let given = match operands.optional(1) {
        Some(axes) => constant_ints("axes", &axes)?,
        None => Vec::new(),
    };
    if given.is_empty() && reduce.noop_with_empty_axes {
        return one(x.dtype, x.shape);
    }
    let mut reduced = vec![given.is_empty(); x.rank()];
    for axis in resolve_axes(&given, x.rank())? {
        reduced[axis] = true;
    }
    one(x.dtype, reduced_shape(x.shape, &reduced, reduce.keep_dims))
}

fn reduced_shape(shape: &[usize], reduced: &[bool], keep_dims: bool) -> Vec<usize> {
    shape
        .iter()
        .zip(reduced)
        .filter(|&(_, &reduced)| keep_dims || !reduced)
        .map(|(&extent, &reduced)| if reduced { 1 } else { extent })
        .collect()
}

pub(super) fn arg_reduce(
    arg: &ArgReduce,
    operands: &Operands<'_>,
) -> Result<Vec<TensorType>, OpError> {
    operands.expect(1, 1, 1)?;
    let x = operands.required(0, "x")?;
    check_numeric("x", &x)?;
    let axis = resolve_axis(arg.axis, x.rank())?;
    if x.shape[axis] == 0 {
        return Err(op_error!(
            "axis {axis} of `x` of shape {:?} is empty",
            x.shape
        ));
    }
    let mut reduced = vec![false; x.rank()];
    reduced[axis] = true;
    one(DType::I64, reduced_shape(x.shape, &reduced, arg.keep_dims))
}

pub(super) fn top_k(axis: i64, operands: &Operands<'_>) -> Result<Vec<TensorType>, OpError> {
    operands.expect(2, 2, 2)?;
    let x = operands.required(0, "x")?;
    check_numeric("x", &x)?;
    let axis = resolve_axis(axis, x.rank())?;
    let k = constant_int("k", &operands.required(1, "k")?)?;
    let mut shape = x.shape.to_vec();
    match usize::try_from(k) {
        Ok(k) if k <= shape[axis] => shape[axis] = k,
        _ => return Err(op_error!("k is {k}, wanted 0 to {}", shape[axis])),
    }
    let values = TensorType {
        dtype: x.dtype,
        shape: shape.clone(),
    };
    let indices = TensorType {
        dtype: DType::I64,
        shape,
    };
    Ok([values, indices]
        .into_iter()
        .take(operands.n_outputs)
        .collect())
}

pub(super) fn cum_sum(operands: &Operands<'_>) -> Result<Vec<TensorType>, OpError> {
    operands.expect(2, 2, 1)?;
    let x = operands.required(0, "x")?;
    check_numeric("x", &x)?;
    let axis = operands.required(1, "axis")?;
    check_index("axis", &axis)?;
    check_scalar("axis", &axis)?;
    if axis.constant.is_some() {
        resolve_axis(constant_int("axis", &axis)?, x.rank())?;
    }
    one(x.dtype, x.shape)
}
