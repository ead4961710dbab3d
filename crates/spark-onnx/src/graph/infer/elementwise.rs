//! Element-wise operators, casts and quantisation.

use super::{
    Operand, Operands, broadcast_shapes, check_bool, check_broadcasts_to, check_float,
    check_numeric, check_same_dtype, check_scalar, check_shape, one, op_error, resolve_axis,
};
use crate::graph::{Binary, OpError, TensorType, Unary, Variadic};
use crate::tensor::{DType, Tensor};

pub(super) fn unary(f: Unary, operands: &Operands<'_>) -> Result<Vec<TensorType>, OpError> {
    operands.expect(1, 1, 1)?;
    let x = operands.required(0, "x")?;
    match f {
        Unary::Identity => {}
        Unary::Not => check_bool("x", &x)?,
        Unary::Abs | Unary::Sign | Unary::Relu => check_numeric("x", &x)?,
        Unary::Neg => {
            check_numeric("x", &x)?;
            if matches!(x.dtype, DType::U8 | DType::U16 | DType::U32 | DType::U64) {
                return Err(op_error!("`x` is {}, wanted a signed type", x.dtype));
            }
        }
        _ => check_float("x", &x)?,
    }
    let dtype = match f {
        Unary::IsNaN | Unary::IsInf => DType::Bool,
        _ => x.dtype,
    };
    one(dtype, x.shape)
}

/// What becomes of integers: one has no quotient and no remainder by zero, and zero no negative
/// power.
pub(crate) const DIVIDED_BY_ZERO: &str = "integer division by zero";

pub(super) fn binary(f: Binary, operands: &Operands<'_>) -> Result<Vec<TensorType>, OpError> {
    operands.expect(2, 2, 1)?;
    let a = operands.required(0, "a")?;
    let b = operands.required(1, "b")?;
    match f {
        Binary::And | Binary::Or | Binary::Xor => check_bool("a", &a)?,
        Binary::Equal => {}
        _ => check_numeric("a", &a)?,
    }
    match f {
        Binary::Pow => check_numeric("b", &b)?,
        _ => check_same_dtype("b", &b, a.dtype)?,
    }
    if f == Binary::PRelu {
        check_broadcasts_to("slope", b.shape, a.shape)?;
    }
    let dtype = match f {
        Binary::And
        | Binary::Or
        | Binary::Xor
        | Binary::Equal
        | Binary::Less
        | Binary::LessOrEqual
        | Binary::Greater
        | Binary::GreaterOrEqual => DType::Bool,
        _ => a.dtype,
    };
    let shape = broadcast_shapes(a.shape, b.shape)?;
    // Every element of the divisor meets one of the result.
    let divides = matches!(f, Binary::Div | Binary::Mod { .. }) && !a.dtype.is_float();
    let has_zero = |t: &Tensor| t.to_f64().contains(&0.0);
    if divides && !shape.contains(&0) && b.constant.is_some_and(has_zero) {
        return Err(op_error!("{DIVIDED_BY_ZERO}"));
    }
    one(dtype, shape)
}

pub(super) fn variadic(f: Variadic, operands: &Operands<'_>) -> Result<Vec<TensorType>, OpError> {
    operands.expect(1, usize::MAX, 1)?;
    let first = operands.required(0, "x0")?;
    match f {
        Variadic::Sum | Variadic::Mean => check_float("x0", &first)?,
        Variadic::Max | Variadic::Min => check_numeric("x0", &first)?,
    }
    let mut shape = first.shape.to_vec();
    for index in 1..operands.list.len() {
        let x = operands.required(index, "x")?;
        check_same_dtype("x", &x, first.dtype)?;
        shape = broadcast_shapes(&shape, x.shape)?;
    }
    one(first.dtype, shape)
}

pub(super) fn select(operands: &Operands<'_>) -> Result<Vec<TensorType>, OpError> {
    operands.expect(3, 3, 1)?;
    let condition = operands.required(0, "condition")?;
    let a = operands.required(1, "a")?;
    let b = operands.required(2, "b")?;
    check_bool("condition", &condition)?;
    if a.dtype != b.dtype {
        return Err(op_error!("`a` is {} but `b` is {}", a.dtype, b.dtype));
    }
    let values = broadcast_shapes(a.shape, b.shape)?;
    one(a.dtype, broadcast_shapes(condition.shape, &values)?)
}

pub(super) fn clip(operands: &Operands<'_>) -> Result<Vec<TensorType>, OpError> {
    operands.expect(1, 3, 1)?;
    let x = operands.required(0, "x")?;
    check_numeric("x", &x)?;
    for (index, what) in [(1, "min"), (2, "max")] {
        if let Some(bound) = operands.optional(index) {
            check_same_dtype(what, &bound, x.dtype)?;
            check_scalar(what, &bound)?;
        }
    }
    one(x.dtype, x.shape)
}

pub(super) fn cast(to: DType, operands: &Operands<'_>) -> Result<Vec<TensorType>, OpError> {
    operands.expect(1, 1, 1)?;
    one(to, operands.required(0, "x")?.shape)
}

pub(super) fn cast_like(operands: &Operands<'_>) -> Result<Vec<TensorType>, OpError> {
    operands.expect(2, 2, 1)?;
    let like = operands.required(1, "like")?;
    one(like.dtype, operands.required(0, "x")?.shape)
}

pub(super) fn quantize(axis: i64, operands: &Operands<'_>) -> Result<Vec<TensorType>, OpError> {
    operands.expect(2, 3, 1)?;
    let x = operands.required(0, "x")?;
    let scale = operands.required(1, "scale")?;
    if x.dtype != DType::I32 {
        check_float("x", &x)?;
    }
    check_float("scale", &scale)?;
    check_scale_shape(axis, &x, &scale)?;
    let Some(zero_point) = operands.optional(2) else {
        return one(DType::U8, x.shape);
    };
    if !matches!(
        zero_point.dtype,
        DType::I8 | DType::U8 | DType::I16 | DType::U16
    ) {
        return Err(op_error!(
            "`zero_point` is {}, wanted i8, u8, i16 or u16",
            zero_point.dtype
        ));
    }
    check_shape("zero_point", zero_point.shape, scale.shape)?;
    one(zero_point.dtype, x.shape)
}

pub(super) fn dequantize(axis: i64, operands: &Operands<'_>) -> Result<Vec<TensorType>, OpError> {
    operands.expect(2, 3, 1)?;
    let x = operands.required(0, "x")?;
    let scale = operands.required(1, "scale")?;
    if !matches!(
        x.dtype,
        DType::I8 | DType::U8 | DType::I16 | DType::U16 | DType::I32
    ) {
        return Err(op_error!(
            "`x` is {}, wanted i8, u8, i16, u16 or i32",
            x.dtype
        ));
    }
    check_float("scale", &scale)?;
    check_scale_shape(axis, &x, &scale)?;
    if let Some(zero_point) = operands.optional(2) {
        check_same_dtype("zero_point", &zero_point, x.dtype)?;
        check_shape("zero_point", zero_point.shape, scale.shape)?;
    }
    one(scale.dtype, x.shape)
}

/// One scale for all, or one per position of `axis`.
fn check_scale_shape(axis: i64, x: &Operand<'_>, scale: &Operand<'_>) -> Result<(), OpError> {
    match scale.shape {
        [] | [1] => Ok(()),
        [n] => {
            let axis = resolve_axis(axis, x.rank())?;
            check_shape("scale", &[*n], &[x.shape[axis]])
        }
        _ => Err(op_error!(
            "`scale` of shape {:?}: scales per block are not supported, only per tensor or axis",
            scale.shape
        )),
    }
}
