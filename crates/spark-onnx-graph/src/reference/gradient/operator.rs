//! What is known of an operator's gradient: whether there is one, and how to compute it.
//!
//! ```text
//! gradient by operand element i = sum over result elements j: dy[j] * d result[j] / d operand[i]
//! ```
//!
//! Deliberately absent: the operators, which are in the files beside this one by family.

use std::borrow::Cow;

use super::super::index::{broadcast_strides, for_each_position, offset};
use super::super::operator::{Evaluate, Inputs, Working, times};
use super::kinds::{Asked, GradientKind};
use crate::graph::infer::op_error;
use crate::graph::{OpError, TensorType};
use crate::tensor::{DType, Tensor, TensorData};

/// A gradient by one operand, an element for each of the operand's.
pub(super) type Differentiated = Result<Vec<f64>, OpError>;

/// An operator whose gradient is known, or known not to be there. Every parameter struct of an operator is one.
pub(super) trait Differentiate {
    /// Whether the results have a gradient by the operand that is asked for.
    fn kind(&self, asked: Asked) -> GradientKind;

    /// The gradient by operand `operand`, of which [`Differentiate::kind`] says that it is computed.
    fn gradient(&self, at: &At<'_>, operand: usize) -> Differentiated;

    /// Bytes that [`Differentiate::gradient`] takes at most, its result included.
    fn working_bytes(&self, working: &Working<'_>) -> usize {
        let elements = working.read().saturating_add(working.written());
        working.computed_with(times(elements, 40))
    }
}

/// Where an operator is differentiated: its operands, and the gradients of its results.
pub(super) struct At<'a> {
    pub(super) inputs: Inputs<'a>,
    /// Types of the results.
    pub(super) types: &'a [TensorType],
    /// Gradients of the results; none where nothing hangs on a result.
    pub(super) gradients: &'a [Option<Cow<'a, [f64]>>],
}

impl<'a> At<'a> {
    /// The elements of an operand.
    pub(super) fn floats(&self, operand: usize) -> Result<Cow<'a, [f64]>, OpError> {
        Ok(floats(self.inputs.get(operand)?))
    }

    /// The elements of an operand that may be left out.
    pub(super) fn optional_floats(&self, operand: usize) -> Option<Cow<'a, [f64]>> {
        self.inputs.optional(operand).map(floats)
    }

    pub(super) fn shape(&self, operand: usize) -> Result<&'a [usize], OpError> {
        Ok(self.inputs.get(operand)?.shape())
    }

    /// The gradient of the one result.
    pub(super) fn dy(&self) -> Result<&[f64], OpError> {
        let dy = self.gradients.first().and_then(Option::as_deref);
        dy.ok_or_else(|| op_error!("no gradient of the result"))
    }

    /// The shape of the one result.
    pub(super) fn y_shape(&self) -> &'a [usize] {
        self.types.first().map_or(&[], |ty| &ty.shape)
    }

    /// As many zeros as an operand has elements.
    pub(super) fn zeros(&self, operand: usize) -> Result<Vec<f64>, OpError> {
        Ok(vec![0.0; self.inputs.get(operand)?.len()])
    }

    /// The one result, computed again.
    pub(super) fn result(&self, op: &impl Evaluate) -> Result<Vec<f64>, OpError> {
        let wide = self.types.iter().map(|ty| TensorType {
            dtype: DType::F64,
            shape: ty.shape.clone(),
        });
        let results = op.evaluate(self.inputs, &wide.collect::<Vec<_>>())?;
        match results.into_iter().next().map(Tensor::into_data) {
            Some(TensorData::F64(y)) => Ok(y),
            _ => Err(op_error!("its result is no float")),
        }
    }

    /// Calls `visit` with every position of the result, counted, and where it lies in each of the operands, which
    /// broadcast to it.
    pub(super) fn for_each_broadcast(
        &self,
        operands: &[usize],
        mut visit: impl FnMut(usize, &[usize]),
    ) -> Result<(), OpError> {
        let strides = operands
            .iter()
            .map(|&operand| Ok(broadcast_strides(self.shape(operand)?, self.y_shape())));
        let strides: Vec<Vec<usize>> = strides.collect::<Result<_, OpError>>()?;
        let mut places = vec![0; operands.len()];
        let mut flat = 0;
        for_each_position(self.y_shape(), |at| {
            for (place, strides) in places.iter_mut().zip(&strides) {
                *place = offset(at, strides);
            }
            visit(flat, &places);
            flat += 1;
        });
        Ok(())
    }
}

/// The elements, which are f64 already unless they are whole numbers.
fn floats(tensor: &Tensor) -> Cow<'_, [f64]> {
    match tensor.data() {
        TensorData::F64(values) => Cow::Borrowed(values),
        _ => Cow::Owned(tensor.to_f64()),
    }
}

/// An operand that the operator does not have, or of which nothing hangs.
pub(super) fn no_operand(operand: usize) -> OpError {
    op_error!("there is no gradient by operand {operand}")
}

/// `impl Differentiate` of operators without an operand whose gradient is computed.
macro_rules! without_gradient {
    ($name:ident, $kind:expr) => {
        impl $crate::reference::gradient::operator::Differentiate for $name {
            fn kind(
                &self,
                _: $crate::reference::gradient::kinds::Asked,
            ) -> $crate::reference::gradient::kinds::GradientKind {
                $kind
            }

            fn gradient(
                &self,
                _: &$crate::reference::gradient::operator::At<'_>,
                operand: usize,
            ) -> $crate::reference::gradient::operator::Differentiated {
                Err($crate::reference::gradient::operator::no_operand(operand))
            }
        }
    };
}
pub(super) use without_gradient;

/// Of operators whose results hang on nothing but shapes, positions and comparisons.
macro_rules! zero_by_definition {
    ($($name:ident)*) => {$(
        $crate::reference::gradient::operator::without_gradient!(
            $name,
            $crate::reference::gradient::kinds::GradientKind::Zero
        );
    )*};
}
pub(super) use zero_by_definition;

/// Of operators without a gradient, and why.
macro_rules! refused {
    ($($name:ident: $why:literal)*) => {$(
        $crate::reference::gradient::operator::without_gradient!(
            $name,
            $crate::reference::gradient::kinds::GradientKind::Refused($why)
        );
    )*};
}
pub(super) use refused;
