//! One operator on known operands, within a budget of memory.

use std::borrow::Cow;

use super::super::operator::{Inputs, Working};
use super::kind_of::kind_of;
use super::kinds::{GradientKind, GradientOptions};
use super::operator::{At, Differentiate};
use crate::budget;
use crate::graph::infer::op_error;
use crate::graph::op::each_operator;
use crate::graph::{Op, OpError, Operand, TensorType, infer};
use crate::tensor::{DType, Tensor, checked_elements};

/// The gradient by operand `operand` of `op`'s results, which themselves have the gradients `results`: an f64 for each of
/// the operand's elements.
///
/// Results without a gradient, at the end of the list or among it, are those that nothing hangs on. Where
/// [`kind_of`] says that the gradient is zero, zeros are the answer.
///
/// # Precision
///
/// Everything is computed in f64, of the operands as they are.
///
/// # Errors
///
/// [`OpError`] where [`infer`] refuses the operands, where a gradient does not have its result's shape, for an operand
/// that is not there or has no gradient, and if computing it takes more than 64 times the bytes of the operands plus
/// 1 GiB, or than the system has.
///
/// # Examples
///
/// ```
/// use spark_onnx_graph::graph::{Binary, Op};
/// use spark_onnx_graph::reference::gradient::{GradientOptions, differentiate};
/// use spark_onnx_graph::{DType, Tensor};
///
/// let f64s = |values: Vec<f64>| Tensor::from_f64(DType::F64, [values.len()], values);
/// let (a, b, dy) = (f64s(vec![2.0, 3.0])?, f64s(vec![5.0])?, f64s(vec![1.0, 10.0])?);
/// let product = Op::Binary(Binary::Mul);
/// let by_b = differentiate(&product, &[Some(&a), Some(&b)], &[Some(&dy)], 1, GradientOptions::default())?;
/// assert_eq!(by_b.to_f64(), [32.0]); // 2 * 1 + 3 * 10
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn differentiate(
    op: &Op,
    inputs: &[Option<&Tensor>],
    results: &[Option<&Tensor>],
    operand: usize,
    options: GradientOptions,
) -> Result<Tensor, OpError> {
    let Some(by) = inputs.get(operand).copied().flatten() else {
        return Err(op_error!("operand {operand} is missing"));
    };
    let types = types_of(op, inputs, results.len())?;
    for (index, (gradient, ty)) in results.iter().zip(&types).enumerate() {
        if let Some(gradient) = gradient.filter(|gradient| gradient.shape() != ty.shape) {
            return Err(op_error!(
                "the gradient of result {index} has shape {:?}, the result {:?}",
                gradient.shape(),
                ty.shape
            ));
        }
    }
    let result = types.first().map_or(DType::F32, |ty| ty.dtype);
    let n_bytes = by.len().saturating_mul(DType::F64.size_bytes());
    let given = inputs.iter().chain(results).flatten();
    let given = given.map(|tensor| tensor.size_bytes());
    let left = budget::by_file(given.fold(0, usize::saturating_add));
    let kind = kind_of(op, operand, result, options);
    let bytes = match kind {
        GradientKind::Refused(reason) => {
            return Err(op_error!("{} has no gradient: {reason}", op.name()));
        }
        GradientKind::Zero => n_bytes,
        GradientKind::Computed => working_bytes(op, inputs, &types),
    };
    if bytes > left || !budget::can_get(bytes) {
        return Err(op_error!(
            "takes up to {bytes} bytes, the budget has {left}"
        ));
    }
    let gradients: Vec<Option<Cow<'_, [f64]>>> = results
        .iter()
        .map(|gradient| gradient.map(|gradient| Cow::Owned(gradient.to_f64())))
        .collect();
    let gradient = match kind {
        GradientKind::Zero => vec![0.0; by.len()],
        _ => gradient(op, inputs, &types, &gradients, operand)?,
    };
    Tensor::from_f64(DType::F64, by.shape(), gradient).map_err(|error| op_error!("{error}"))
}

/// Types of the results.
pub(super) fn types_of(
    op: &Op,
    inputs: &[Option<&Tensor>],
    n_results: usize,
) -> Result<Vec<TensorType>, OpError> {
    let operands = inputs.iter().map(|tensor| tensor.map(Operand::constant));
    infer(op, &operands.collect::<Vec<_>>(), n_results)
}

/// Bytes that [`gradient`] takes at most, its result included.
pub(super) fn working_bytes(op: &Op, inputs: &[Option<&Tensor>], types: &[TensorType]) -> usize {
    let working = Working::new(inputs, types);
    each_operator!(match op, it => Differentiate::working_bytes(it, &working))
}

/// The gradient by an operand whose kind is computed.
pub(super) fn gradient(
    op: &Op,
    inputs: &[Option<&Tensor>],
    types: &[TensorType],
    gradients: &[Option<Cow<'_, [f64]>>],
    operand: usize,
) -> Result<Vec<f64>, OpError> {
    let at = At {
        inputs: Inputs(inputs),
        types,
        gradients,
    };
    let is_nothing = |ty: &TensorType| checked_elements(&ty.shape) == Some(0);
    if types.iter().all(is_nothing) {
        return at.zeros(operand);
    }
    each_operator!(match op, it => Differentiate::gradient(it, &at, operand))
}
