//! Whether a tensor, or memory for one, is what a port was made for, and the error for an output without memory.

use crate::ModelError;
use crate::budget::Asker;
use crate::plan::{Plan, Port};
use crate::tensor_view::{TensorView, TensorViewMut};

/// Refuses a tensor that is not what `port` was made for.
///
/// # Errors
///
/// [`ModelError::InputType`], [`ModelError::InputShape`] or [`ModelError::BeyondF32`].
pub(crate) fn check_input(port: &Port, tensor: &TensorView<'_>) -> Result<(), ModelError> {
    if tensor.dtype() != port.dtype {
        return Err(ModelError::InputType {
            name: port.name.clone(),
            got: tensor.dtype(),
            want: port.dtype,
        });
    }
    if tensor.shape() != port.shape {
        return Err(ModelError::InputShape {
            name: port.name.clone(),
            got: tensor.shape().to_vec(),
            want: format!("{:?}", port.shape),
        });
    }
    match tensor.first_beyond_f32() {
        Some(value) => Err(ModelError::BeyondF32 {
            what: "input",
            name: port.name.clone(),
            value,
        }),
        None => Ok(()),
    }
}

/// Refuses memory that the output of `port` does not fit.
///
/// # Errors
///
/// [`ModelError::OutputMemory`].
pub(crate) fn check_output(port: &Port, memory: &TensorViewMut<'_>) -> Result<(), ModelError> {
    match memory.dtype() == port.dtype && memory.shape() == port.shape {
        true => Ok(()),
        false => Err(ModelError::OutputMemory {
            name: port.name.clone(),
            want: port.dtype,
            want_shape: port.shape.clone(),
            got: memory.dtype(),
            got_shape: memory.shape().to_vec(),
        }),
    }
}

/// That the system has no memory for the tensor of an output.
pub(crate) fn output_refused(port: &Port, plan: &Plan) -> ModelError {
    let asker = Asker {
        node: &port.name,
        op: "output",
        what: "its tensor",
    };
    asker.refused(plan.output_bytes(port))
}
