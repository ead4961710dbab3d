//! Tensors in and out of the arena: element types converted, layouts changed, in one pass.

use half::bf16;
use spark_parallel::Pool;

use crate::ModelError;
use crate::budget;
use crate::cpu::data_movement::copy::{Nest, strides};
use crate::cpu::memory::Memory;
use crate::cpu::processor::Cpu;
use crate::plan::ports::{Declared, Held, HeldValues, output_refused, tensor_of};
use crate::plan::{Plan, Port, Storage};
use crate::tensor::{Tensor, checked_elements};
use crate::tensor_view::{Elements, TensorView, for_each_slice, for_each_slice_mut};
use spark_onnx_graph::row_major_strides;
use spark_onnx_graph::tensor::ElementsMut;

/// Writes `tensor`, which [`crate::plan::ports::check_input`] let pass, where `port` is held.
pub(crate) fn write_input(port: &Port, tensor: &TensorView<'_>, memory: &Memory, cpu: Cpu<'_>) {
    if tensor.is_empty() {
        return;
    }
    let nest = Nest::new(
        &port.shape,
        &signed(&tensor.strides()),
        &strides(&port.view),
    );
    let (storage, pool) = (memory.storage(&port.view), cpu.pool);
    if let (Storage::Bf16, Elements::F32(values)) = (storage, tensor.elements()) {
        let to = memory.floats(&port.view).cast::<bf16>();
        // SAFETY: as below.
        return unsafe { nest.narrow_shared(values.as_ptr(), to, cpu) };
    }
    for_each_slice!(tensor.elements(), values => {
        // SAFETY: every index of the view lies inside its slice and its shape is the port's; the
        // port's view was checked at load and has no element twice.
        unsafe {
            match storage {
                Storage::I64 => {
                    nest.copy_shared(values.as_ptr(), memory.i64(&port.view), Held::i64, pool);
                }
                Storage::Bf16 => {
                    let to = memory.floats(&port.view).cast::<bf16>();
                    nest.copy_shared(values.as_ptr(), to, |v| bf16::from_f32(v.f32()), pool);
                }
                _ => nest.copy_shared(values.as_ptr(), memory.f32(&port.view), Held::f32, pool),
            }
        }
    });
}

/// Strides as loop nests take them; a slice is never longer than `isize::MAX`, and an axis with a
/// longer stride has one position at most.
fn signed(strides: &[usize]) -> Vec<isize> {
    let signed = strides.iter().map(|&s| isize::try_from(s).unwrap_or(0));
    signed.collect()
}

/// Writes what is held at `port` to `elements`, as many as the port has, in row-major order.
pub(crate) fn copy_output(port: &Port, elements: ElementsMut<'_>, memory: &Memory, pool: &Pool) {
    if elements.is_empty() {
        return;
    }
    let nest = Nest::new(
        &port.shape,
        &strides(&port.view),
        &signed(&row_major_strides(&port.shape)),
    );
    let wide = memory.storage(&port.view) == Storage::I64;
    for_each_slice_mut!(elements, values => {
        // SAFETY: `values` holds the port's elements; the view was checked at load.
        unsafe {
            if wide {
                let from = memory.i64(&port.view).cast_const();
                nest.copy_shared(from, values.as_mut_ptr(), Declared::of_i64, pool);
            } else {
                let from = memory.f32(&port.view).cast_const();
                nest.copy_shared(from, values.as_mut_ptr(), Declared::of_f32, pool);
            }
        }
    });
}

/// The tensor held at `port`.
pub(crate) fn read_output(
    port: &Port,
    plan: &Plan,
    memory: &Memory,
    pool: &Pool,
) -> Result<Tensor, ModelError> {
    let Some(len) = checked_elements(&port.shape) else {
        return Err(ModelError::ElementCount {
            shape: port.shape.clone(),
            got: 0,
        });
    };
    let refused = || output_refused(port, plan);
    if !budget::can_get(plan.output_bytes(port)) {
        return Err(refused());
    }
    let nest = Nest::new(
        &port.shape,
        &strides(&port.view),
        &signed(&row_major_strides(&port.shape)),
    );
    if memory.storage(&port.view) == Storage::I64 {
        let mut values = budget::zeros::<i64>(len).ok_or_else(refused)?;
        if len > 0 {
            // SAFETY: `values` holds the port's elements; the view was checked at load.
            unsafe {
                nest.copy_shared(
                    memory.i64(&port.view).cast_const(),
                    values.as_mut_ptr(),
                    |v| v,
                    pool,
                )
            };
        }
        return tensor_of(port, HeldValues::I64(values));
    }
    let mut values = budget::zeros::<f32>(len).ok_or_else(refused)?;
    if len > 0 {
        // SAFETY: as above.
        unsafe {
            nest.copy_shared(
                memory.f32(&port.view).cast_const(),
                values.as_mut_ptr(),
                |v| v,
                pool,
            )
        };
    }
    tensor_of(port, HeldValues::F32(values))
}
