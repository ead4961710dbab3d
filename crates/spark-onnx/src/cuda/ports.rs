//! The edge of a session: tensors into the block of inputs, and out of that of outputs.

use half::f16;
use spark_mem::kernel::zerocopy::IntoBytes;

use super::blocks::{STATUS_BYTES, Shared, Stored};
use crate::graph::DIVIDED_BY_ZERO;
use crate::plan::ports::{Held, HeldValues, check_input, tensor_of};
use crate::plan::{Plan, Port, Step};
use crate::tensor::TensorData;
use crate::{ModelError, Tensor, TensorView};

/// Runs `$body` with `$v` bound to the elements of a tensor, whatever their type.
macro_rules! for_each_type {
    ($data:expr, $v:ident => $body:expr) => {
        match $data {
            TensorData::F32($v) => $body,
            TensorData::F64($v) => $body,
            TensorData::F16($v) => $body,
            TensorData::BF16($v) => $body,
            TensorData::I8($v) => $body,
            TensorData::I16($v) => $body,
            TensorData::I32($v) => $body,
            TensorData::I64($v) => $body,
            TensorData::U8($v) => $body,
            TensorData::U16($v) => $body,
            TensorData::U32($v) => $body,
            TensorData::U64($v) => $body,
            TensorData::Bool($v) => $body,
        }
    };
}

/// Writes `tensor` into the block of inputs, as `shared` says.
///
/// # Errors
///
/// [`ModelError::InputType`], [`ModelError::InputShape`], [`ModelError::BeyondF32`].
pub(super) fn write_input(
    port: &Port,
    shared: &Shared,
    tensor: &Tensor,
    block: &mut [u8],
) -> Result<(), ModelError> {
    check_input(port, &TensorView::from(tensor))?;
    let to = &mut block[shared.bytes()];
    match (shared.held.stored, tensor.data()) {
        (Stored::F32, TensorData::F32(values)) => to.copy_from_slice(values.as_bytes()),
        (Stored::I64, TensorData::I64(values)) => to.copy_from_slice(values.as_bytes()),
        (Stored::U8, TensorData::U8(values)) => to.copy_from_slice(values),
        (Stored::U8, TensorData::Bool(values)) => write(to, values, |v| [u8::from(v)]),
        (Stored::I8, TensorData::I8(values)) => to.copy_from_slice(values.as_bytes()),
        (Stored::F16, TensorData::F16(values)) => write(to, values, f16::to_ne_bytes),
        (Stored::I64, data) => {
            for_each_type!(data, values => write(to, values, |v| v.i64().to_ne_bytes()));
        }
        // Types that have a storage of their own came before; all others are held as f32.
        (_, data) => for_each_type!(data, values => write(to, values, |v| v.f32().to_ne_bytes())),
    }
    Ok(())
}

/// Writes `values` as `bytes` makes them.
fn write<T: Copy, const N: usize>(to: &mut [u8], values: &[T], bytes: impl Fn(T) -> [u8; N]) {
    for (to, &value) in to.chunks_exact_mut(N).zip(values) {
        to.copy_from_slice(&bytes(value));
    }
}

/// The tensor of an output.
///
/// # Errors
///
/// [`ModelError::ElementCount`].
pub(super) fn read_output(
    port: &Port,
    shared: &Shared,
    block: &[u8],
) -> Result<Tensor, ModelError> {
    let from = &block[shared.bytes()];
    let values = match shared.held.stored {
        Stored::I64 => HeldValues::I64(read(from, i64::from_ne_bytes)),
        _ => HeldValues::F32(read(from, f32::from_ne_bytes)),
    };
    tensor_of(port, values)
}

fn read<T, const N: usize>(from: &[u8], value: impl Fn([u8; N]) -> T) -> Vec<T> {
    let chunks = from.chunks_exact(N);
    let values = chunks.map(|chunk| {
        let mut bytes = [0; N];
        bytes.copy_from_slice(chunk);
        value(bytes)
    });
    values.collect()
}

/// Reasons in the status, as `kernels/plan_views.cuh` has them.
const INDEX_OUTSIDE: u32 = 1;

/// What the status at the start of the outputs says of the run.
///
/// # Errors
///
/// [`ModelError::IndexOutside`], [`ModelError::Operator`] for an integer divided by zero.
pub(super) fn check_status(plan: &Plan, outputs: &[u8]) -> Result<(), ModelError> {
    let status = &outputs[..STATUS_BYTES];
    let words = read(&status[..12], u32::from_ne_bytes);
    let value = read(&status[16..24], i64::from_ne_bytes)[0];
    let [step, reason, extent] = words[..] else {
        return Ok(());
    };
    let Some(step) = step.checked_sub(1) else {
        return Ok(());
    };
    let planned = &plan.steps[step as usize];
    if reason == INDEX_OUTSIDE {
        return Err(ModelError::IndexOutside {
            node: planned.name.clone(),
            index: value,
            extent: extent as usize,
        });
    }
    let divisions = match &planned.step {
        Step::Pointwise(step) => &step.program.divisions[..],
        _ => &[],
    };
    let mut divisions = divisions.iter();
    let division = divisions.find(|division| i64::from(division.instruction) == value);
    Err(ModelError::Operator {
        node: division
            .map_or(&planned.name, |division| &division.node)
            .clone(),
        op: division
            .map_or(planned.step.kind(), |division| &division.op)
            .to_owned(),
        reason: DIVIDED_BY_ZERO.to_owned(),
    })
}
