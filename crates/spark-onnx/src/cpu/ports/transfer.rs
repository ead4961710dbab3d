//! Tensors in and out of the arena: element types converted, layouts changed, in one pass.

use spark_parallel::Pool;

use crate::budget::{self, Asker};
use crate::cpu::data_movement::copy::{Nest, strides};
use crate::cpu::memory::{Memory, storage};
use crate::plan::{Plan, Port, Storage};
use crate::tensor::{Tensor, TensorData, checked_elements};
use crate::tensor_view::{TensorView, for_each_slice, row_major};
use crate::{DType, ModelError};

/// An element as it is held in the arena.
trait Held: Copy {
    fn f32(self) -> f32;
    fn i64(self) -> i64;
}

macro_rules! held {
    ($($t:ty),*) => {$(
        impl Held for $t {
            fn f32(self) -> f32 { self as f32 }
            fn i64(self) -> i64 { self as i64 }
        }
    )*};
}
held!(f32, f64, i8, i16, i32, i64, u8, u16, u32, u64);

impl Held for bool {
    fn f32(self) -> f32 {
        f32::from(u8::from(self))
    }
    fn i64(self) -> i64 {
        i64::from(self)
    }
}

impl Held for half::f16 {
    fn f32(self) -> f32 {
        self.to_f32()
    }
    fn i64(self) -> i64 {
        self.to_f32() as i64
    }
}

impl Held for half::bf16 {
    fn f32(self) -> f32 {
        self.to_f32()
    }
    fn i64(self) -> i64 {
        self.to_f32() as i64
    }
}

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

/// Writes `tensor`, which [`check_input`] let pass, where `port` is held.
pub(crate) fn write_input(
    port: &Port,
    tensor: &TensorView<'_>,
    plan: &Plan,
    memory: &Memory,
    pool: &Pool,
) {
    if tensor.is_empty() {
        return;
    }
    let nest = Nest::new(
        &port.shape,
        &signed(&tensor.strides()),
        &strides(&port.view),
    );
    let wide = storage(plan, &port.view) == Storage::I64;
    for_each_slice!(tensor.elements(), values => {
        // SAFETY: every index of the view lies inside its slice and its shape is the port's; the
        // port's view was checked at load and has no element twice.
        unsafe {
            if wide {
                nest.copy_shared(values.as_ptr(), memory.i64(&port.view), Held::i64, pool);
            } else {
                nest.copy_shared(values.as_ptr(), memory.f32(&port.view), Held::f32, pool);
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

/// That the system has no memory for the tensor of an output.
pub(crate) fn output_refused(port: &Port, plan: &Plan) -> ModelError {
    let asker = Asker {
        node: &port.name,
        op: "output",
        what: "its tensor",
    };
    asker.refused(plan.output_bytes(port))
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
        &signed(&row_major(&port.shape)),
    );
    if storage(plan, &port.view) == Storage::I64 {
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
        return integers(port, values);
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
    match port.dtype {
        DType::F32 => Tensor::from_f32(port.shape.clone(), values),
        dtype => {
            let wide = values.into_iter().map(f64::from).collect();
            Tensor::from_f64(dtype, port.shape.clone(), wide)
        }
    }
}

fn integers(port: &Port, values: Vec<i64>) -> Result<Tensor, ModelError> {
    let data = match port.dtype {
        DType::I16 => TensorData::I16(values.into_iter().map(|v| v as i16).collect()),
        DType::I32 => TensorData::I32(values.into_iter().map(|v| v as i32).collect()),
        DType::U16 => TensorData::U16(values.into_iter().map(|v| v as u16).collect()),
        DType::U32 => TensorData::U32(values.into_iter().map(|v| v as u32).collect()),
        DType::U64 => TensorData::U64(values.into_iter().map(|v| v as u64).collect()),
        _ => TensorData::I64(values),
    };
    Tensor::new(port.shape.clone(), data)
}
