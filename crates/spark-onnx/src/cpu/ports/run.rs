//! The edge of a run: the caller's tensors in, new tensors out, copied only where they must be.
//!
//! ```text
//! input   lies as the plan holds it, and no step writes it      kernels read the caller's memory
//!         else                                                  converted into the arena
//! output  row-major, and one step writes all of it first        that step writes the new tensor
//!         else                                                  converted out of the arena
//! ```
//!
//! Deliberately absent: results in memory of the caller's, and state that stays between runs.

use super::transfer::{read_output, write_input};
use crate::ModelError;
use crate::cpu::Executor;
use crate::plan::Storage;
use crate::plan::ports::{check_input, has_layout_of, output_refused};
use crate::tensor::{Tensor, TensorData};
use crate::tensor_view::{Elements, TensorView};

/// A new tensor's elements, not yet set.
enum Fresh {
    F32(Vec<f32>),
    I64(Vec<i64>),
}

impl Fresh {
    /// Memory for `len` elements, or nothing where the system refuses.
    fn with_capacity(storage: Storage, len: usize) -> Option<Self> {
        fn reserved<T>(len: usize) -> Option<Vec<T>> {
            let mut values = Vec::new();
            values.try_reserve_exact(len).ok()?;
            Some(values)
        }
        Some(match storage {
            Storage::F32 => Self::F32(reserved(len)?),
            Storage::I64 => Self::I64(reserved(len)?),
        })
    }

    fn start(&mut self) -> *mut u8 {
        match self {
            Self::F32(values) => values.as_mut_ptr().cast(),
            Self::I64(values) => values.as_mut_ptr().cast(),
        }
    }

    /// The elements, all of them set.
    ///
    /// # Safety
    ///
    /// The first `len` elements from [`Fresh::start`] must have been written.
    unsafe fn into_data(self, len: usize) -> TensorData {
        match self {
            Self::F32(mut values) => {
                // SAFETY: guaranteed by the caller; memory for as many was reserved.
                unsafe { values.set_len(len) };
                TensorData::F32(values)
            }
            Self::I64(mut values) => {
                // SAFETY: as above.
                unsafe { values.set_len(len) };
                TensorData::I64(values)
            }
        }
    }
}

/// Puts buffers back into the arena when a run ends, also by a panic.
struct Bound<'e>(&'e mut Executor);

impl Drop for Bound<'_> {
    fn drop(&mut self) {
        self.0.memory.unbind();
    }
}

impl Executor {
    /// Runs every step on `inputs`, one per input of the plan, and returns its outputs.
    ///
    /// # Errors
    ///
    /// [`ModelError::InputType`], [`ModelError::InputShape`] or [`ModelError::BeyondF32`] unless the
    /// inputs are what the plan was made for; [`ModelError::OutOfMemory`] if the system has no memory
    /// for an output; as [`Executor::run`].
    pub(crate) fn run_on(&mut self, inputs: &[TensorView<'_>]) -> Result<Vec<Tensor>, ModelError> {
        self.check_inputs(inputs)?;
        let bound = Bound(self);
        for (index, tensor) in inputs.iter().enumerate() {
            let port = &bound.0.plan.inputs[index];
            if !bound.0.direct_ports.inputs[index] || !has_layout_of(tensor, &port.view) {
                bound.0.convert_input(index, tensor);
                continue;
            }
            let start = match tensor.elements() {
                Elements::F32(values) => values.as_ptr().cast_mut().cast::<u8>(),
                Elements::I64(values) => values.as_ptr().cast_mut().cast(),
                _ => unreachable!("held as declared"),
            };
            // SAFETY: `inputs` outlives the binding, which ends with `bound`. The view is all of its
            // buffer, the tensor has the same shape and strides, so all elements of the buffer are
            // there; `DirectPorts` found that no step writes them.
            unsafe { bound.0.memory.bind(port.view.buffer, start) };
        }
        // Dropped before `bound` where the run fails: a binding that dangles until then is not followed.
        let mut outputs = bound.0.fresh_outputs()?;
        for (port, fresh) in bound.0.plan.outputs.iter().zip(&mut outputs) {
            if let Some(fresh) = fresh {
                // SAFETY: there is memory for the whole buffer, used by nothing else until the run has
                // ended; `DirectPorts` found that a step writes all of it before any step reads it.
                unsafe { bound.0.memory.bind(port.view.buffer, fresh.start()) };
            }
        }
        bound.0.run()?;
        let ports = bound.0.plan.outputs.iter().zip(outputs);
        ports
            .map(|(port, fresh)| match fresh {
                // SAFETY: the run has written every element, as `DirectPorts` found.
                Some(fresh) => Tensor::new(port.shape.clone(), unsafe {
                    fresh.into_data(port.view.len())
                }),
                None => read_output(port, &bound.0.plan, &bound.0.memory, &bound.0.pool),
            })
            .collect()
    }

    /// Writes input number `index` into the arena, where it stays for the runs that follow.
    ///
    /// # Errors
    ///
    /// [`ModelError::InputType`], [`ModelError::InputShape`] or [`ModelError::BeyondF32`] unless it is
    /// what the plan was made for.
    pub(crate) fn set_input<'t>(
        &mut self,
        index: usize,
        tensor: impl Into<TensorView<'t>>,
    ) -> Result<(), ModelError> {
        let tensor = tensor.into();
        check_input(&self.plan.inputs[index], &tensor)?;
        self.convert_input(index, &tensor);
        Ok(())
    }

    /// Refuses inputs that the plan was not made for, before anything is changed.
    fn check_inputs(&self, inputs: &[TensorView<'_>]) -> Result<(), ModelError> {
        assert_eq!(inputs.len(), self.plan.inputs.len(), "one tensor per input");
        let mut ports = self.plan.inputs.iter().zip(inputs);
        ports.try_for_each(|(port, tensor)| check_input(port, tensor))
    }

    fn convert_input(&self, index: usize, tensor: &TensorView<'_>) {
        write_input(&self.plan.inputs[index], tensor, &self.memory, &self.pool);
        if let Some(runs) = &self.input_rounds[index] {
            runs.round(self.cpu(), &self.memory);
        }
    }

    /// Memory for every output that a step writes directly.
    fn fresh_outputs(&self) -> Result<Vec<Option<Fresh>>, ModelError> {
        let ports = self.plan.outputs.iter().zip(&self.direct_ports.outputs);
        ports
            .map(|(port, &is_direct)| {
                let storage = self.memory.storage(&port.view);
                let refused = || output_refused(port, &self.plan);
                is_direct
                    .then(|| Fresh::with_capacity(storage, port.view.len()).ok_or_else(refused))
                    .transpose()
            })
            .collect()
    }

    /// Output number `index` of the plan, as the model declares it, after a run on inputs that were
    /// set one by one.
    ///
    /// # Errors
    ///
    /// [`ModelError::OutOfMemory`] if the system has no memory for it.
    pub(crate) fn output(&self, index: usize) -> Result<Tensor, ModelError> {
        read_output(
            &self.plan.outputs[index],
            &self.plan,
            &self.memory,
            &self.pool,
        )
    }
}
