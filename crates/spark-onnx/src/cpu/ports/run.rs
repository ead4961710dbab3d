//! The edge of a run: the caller's tensors in, new tensors out, copied only where they must be.
//!
//! ```text
//! input   direct, and lies as the plan holds it      kernels read the caller's memory
//!         else                                       converted into the arena
//! output  direct                                     a step writes the caller's memory, or a new tensor
//!         else                                       converted out of the arena
//! ```
//!
//! Which ports are direct: `plan::ports`.
//!
//! Deliberately absent: names, and state that stays between runs.

use std::marker::PhantomData;
use std::sync::atomic::AtomicBool;

use super::transfer::{copy_output, read_output, write_input};
use crate::ModelError;
use crate::cpu::executor::Executor;
use crate::plan::Storage;
use crate::plan::ports::{check_input, check_output, has_layout_of, output_refused};
use crate::tensor::{Tensor, TensorData};
use crate::tensor_view::{Elements, TensorView, TensorViewMut};
use spark_onnx_graph::tensor::ElementsMut;

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
            // No port is held so.
            Storage::I8 | Storage::U8 | Storage::Bf16 => return None,
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

/// Bytes that a run moved between the caller's memory and its own. Of a network whose lengths hang on values, inputs count where its
/// head or the interpreter copies them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct PortTraffic {
    /// Bytes of the caller's inputs that were converted or copied; the others were read where they are.
    pub copied_in_bytes: usize,
    /// Bytes of the caller's outputs that were converted or copied; the others were written where they are.
    pub copied_out_bytes: usize,
}

/// A run that is being set up: the memory it is given is borrowed until it ends.
pub(crate) struct Frame<'e, 'd> {
    bound: Bound<'e>,
    /// Outputs to convert when the steps have run.
    late: Vec<(usize, TensorViewMut<'d>)>,
    traffic: PortTraffic,
    data: PhantomData<&'d mut [u8]>,
}

impl<'d> Frame<'_, 'd> {
    /// Gives input number `index`.
    ///
    /// # Errors
    ///
    /// [`ModelError::InputType`], [`ModelError::InputShape`] or [`ModelError::BeyondF32`] unless it is
    /// what the plan was made for.
    pub(crate) fn input(&mut self, index: usize, tensor: TensorView<'d>) -> Result<(), ModelError> {
        let executor = &mut *self.bound.0;
        let port = &executor.prepared.plan.inputs[index];
        check_input(port, &tensor)?;
        if !executor.prepared.direct_ports.inputs[index] || !has_layout_of(&tensor, &port.view) {
            self.traffic.copied_in_bytes += tensor.len() * tensor.dtype().size_bytes();
            executor.convert_input(index, &tensor);
            return Ok(());
        }
        let start = match tensor.elements() {
            Elements::F32(values) => values.as_ptr().cast_mut().cast::<u8>(),
            Elements::I64(values) => values.as_ptr().cast_mut().cast(),
            _ => unreachable!("held as declared"),
        };
        // SAFETY: the elements are borrowed for 'd, and the binding ends with the frame. The view is all
        // of its buffer, the tensor has the same shape and strides, so all elements of the buffer are
        // there; `DirectPorts` found that no step writes them.
        unsafe { executor.memory.bind(port.view.buffer, start) };
        Ok(())
    }

    /// Gives the memory for output number `index`, which keeps its old elements where the run fails
    /// before a step writes them.
    ///
    /// # Errors
    ///
    /// [`ModelError::OutputMemory`] unless it has the output's type and shape.
    pub(crate) fn output(
        &mut self,
        index: usize,
        memory: TensorViewMut<'d>,
    ) -> Result<(), ModelError> {
        let executor = &mut *self.bound.0;
        let port = &executor.prepared.plan.outputs[index];
        check_output(port, &memory)?;
        if !executor.prepared.direct_ports.outputs[index] {
            self.late.push((index, memory));
            return Ok(());
        }
        let start = match memory.into_elements() {
            ElementsMut::F32(values) => values.as_mut_ptr().cast::<u8>(),
            ElementsMut::I64(values) => values.as_mut_ptr().cast(),
            _ => unreachable!("held as declared"),
        };
        // SAFETY: the elements are borrowed mutably for 'd, so nothing else is there, and the binding ends
        // with the frame. There are as many as the buffer has; `DirectPorts` found that a step writes all
        // of them before any step reads one.
        unsafe { executor.memory.bind(port.view.buffer, start) };
        Ok(())
    }

    /// Runs every step until `stop` is set, and converts what was not written where it belongs. All inputs
    /// must have been given.
    ///
    /// # Errors
    ///
    /// As [`Executor::run_until`].
    pub(crate) fn run(mut self, stop: &AtomicBool) -> Result<PortTraffic, ModelError> {
        self.bound.0.run_until(stop)?;
        let executor = &*self.bound.0;
        for (index, memory) in self.late {
            let port = &executor.prepared.plan.outputs[index];
            let elements = memory.into_elements();
            self.traffic.copied_out_bytes += elements.len() * port.dtype.size_bytes();
            copy_output(
                port,
                elements,
                &executor.memory,
                &executor.prepared.target.pool,
            );
        }
        Ok(self.traffic)
    }
}

impl Executor {
    /// A run to be set up, on memory of the caller's.
    pub(crate) fn frame<'d>(&mut self) -> Frame<'_, 'd> {
        Frame {
            bound: Bound(self),
            late: Vec::new(),
            traffic: PortTraffic::default(),
            data: PhantomData,
        }
    }

    /// Runs every step on `inputs`, one per input of the plan, and returns its outputs.
    ///
    /// # Errors
    ///
    /// [`ModelError::InputType`], [`ModelError::InputShape`] or [`ModelError::BeyondF32`] unless the
    /// inputs are what the plan was made for; [`ModelError::OutOfMemory`] if the system has no memory
    /// for an output; as [`Executor::run`].
    pub(crate) fn run_on(
        &mut self,
        inputs: &[TensorView<'_>],
        stop: &AtomicBool,
    ) -> Result<(Vec<Tensor>, PortTraffic), ModelError> {
        self.check_inputs(inputs)?;
        let mut frame = self.frame();
        for (index, &tensor) in inputs.iter().enumerate() {
            frame.input(index, tensor)?;
        }
        let bound = &mut frame.bound;
        // Dropped before `frame` where the run fails: a binding that dangles until then is not followed.
        let mut outputs = bound.0.fresh_outputs()?;
        for (port, fresh) in bound.0.prepared.plan.outputs.iter().zip(&mut outputs) {
            if let Some(fresh) = fresh {
                // SAFETY: there is memory for the whole buffer, used by nothing else until the run has
                // ended; `DirectPorts` found that a step writes all of it before any step reads it.
                unsafe { bound.0.memory.bind(port.view.buffer, fresh.start()) };
            }
        }
        bound.0.run_until(stop)?;
        let executor = &*bound.0;
        let Executor {
            prepared, memory, ..
        } = executor;
        let mut traffic = frame.traffic;
        let mut tensors = Vec::with_capacity(outputs.len());
        for (port, fresh) in prepared.plan.outputs.iter().zip(outputs) {
            tensors.push(match fresh {
                // SAFETY: the run has written every element, as `DirectPorts` found.
                Some(fresh) => Tensor::new(port.shape.clone(), unsafe {
                    fresh.into_data(port.view.len())
                })?,
                None => {
                    traffic.copied_out_bytes += port.view.len() * port.dtype.size_bytes();
                    read_output(port, &prepared.plan, memory, &prepared.target.pool)?
                }
            });
        }
        Ok((tensors, traffic))
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
        check_input(&self.prepared.plan.inputs[index], &tensor)?;
        self.convert_input(index, &tensor);
        Ok(())
    }

    /// Refuses inputs that the plan was not made for, before anything is changed.
    fn check_inputs(&self, inputs: &[TensorView<'_>]) -> Result<(), ModelError> {
        assert_eq!(
            inputs.len(),
            self.prepared.plan.inputs.len(),
            "one tensor per input"
        );
        let mut ports = self.prepared.plan.inputs.iter().zip(inputs);
        ports.try_for_each(|(port, tensor)| check_input(port, tensor))
    }

    fn convert_input(&self, index: usize, tensor: &TensorView<'_>) {
        write_input(
            &self.prepared.plan.inputs[index],
            tensor,
            &self.memory,
            self.prepared.cpu(),
        );
        if let Some(runs) = &self.prepared.input_rounds[index] {
            runs.round(self.prepared.cpu(), &self.memory);
        }
    }

    /// Memory for every output that a step writes directly.
    fn fresh_outputs(&self) -> Result<Vec<Option<Fresh>>, ModelError> {
        let ports = self
            .prepared
            .plan
            .outputs
            .iter()
            .zip(&self.prepared.direct_ports.outputs);
        ports
            .map(|(port, &is_direct)| {
                let storage = self.memory.storage(&port.view);
                let refused = || output_refused(port, &self.prepared.plan);
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
            &self.prepared.plan.outputs[index],
            &self.prepared.plan,
            &self.memory,
            &self.prepared.target.pool,
        )
    }
}
