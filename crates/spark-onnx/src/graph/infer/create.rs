//! Operators that make elements from shapes, counts and positions.

use super::movement::constant_extents;
use super::{
    Operands, check_numeric, check_rank, check_same_dtype, check_scalar, check_shape, one,
    op_error, resolve_axis,
};
use crate::graph::{OpError, TensorType};
use crate::tensor::{DType, MAX_ELEMENTS, Tensor, TensorData};

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

pub(super) fn eye_like(
    dtype: Option<DType>,
    operands: &Operands<'_>,
) -> Result<Vec<TensorType>, OpError> {
    operands.expect(1, 1, 1)?;
    let x = operands.required(0, "x")?;
    check_rank("x", &x, 2)?;
    one(dtype.unwrap_or(x.dtype), x.shape)
}
