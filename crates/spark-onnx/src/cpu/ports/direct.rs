//! Which ports of a plan the caller's memory can stand in for.
//!
//! ```text
//! input   in the model's own type, and no step writes it
//! output  in the model's own type, row-major, and one step writes all of it before any reads it
//! ```

use crate::DType;
use crate::cpu::rounding::Runs;
use crate::plan::{Place, Plan, Port, Storage, View};
use crate::tensor_view::TensorView;

/// Which ports of a plan the caller's memory can stand in for.
#[derive(Debug)]
pub(crate) struct DirectPorts {
    /// By input.
    pub(crate) inputs: Vec<bool>,
    /// By output.
    pub(crate) outputs: Vec<bool>,
}

impl DirectPorts {
    /// Decided once, when the plan is prepared; `rounds` says which inputs are rounded after they
    /// are set, which writes them.
    pub(crate) fn of(plan: &Plan, rounds: &[Option<Runs>]) -> Self {
        let inputs = plan.inputs.iter().zip(rounds);
        let inputs = inputs
            .map(|(port, rounds)| {
                rounds.is_none() && is_held_as_declared(plan, port) && !is_written(plan, &port.view)
            })
            .collect();
        let outputs = plan.outputs.iter().enumerate();
        let outputs = outputs
            .map(|(index, port)| {
                let buffer = port.view.buffer;
                let mut others = plan.outputs.iter().enumerate();
                is_held_as_declared(plan, port)
                    && port.view.is_row_major()
                    && plan.inputs.iter().all(|input| input.view.buffer != buffer)
                    && others.all(|(i, other)| i == index || other.view.buffer != buffer)
                    && is_written_whole_first(plan, &port.view)
            })
            .collect();
        Self { inputs, outputs }
    }
}

/// Whether the elements of `port` are held in the type that the model declares, side by side, in a
/// buffer of the arena that has no others.
fn is_held_as_declared(plan: &Plan, port: &Port) -> bool {
    let buffer = &plan.buffers[port.view.buffer.0];
    let is_same_type = matches!(
        (buffer.storage, port.dtype),
        (Storage::F32, DType::F32) | (Storage::I64, DType::I64)
    );
    is_same_type && matches!(buffer.place, Place::Arena) && is_whole(&port.view, buffer.len)
}

/// Whether `view` is all of a buffer of `len` elements, each of them once.
fn is_whole(view: &View, len: usize) -> bool {
    !view.is_empty()
        && view.offset == 0
        && view.len() == len
        && view.is_dense_in(&view.memory_order())
}

/// Whether any step writes the buffer of `view`.
fn is_written(plan: &Plan, view: &View) -> bool {
    let mut written = plan.steps.iter().flat_map(|s| s.step.views_written());
    written.any(|other| other.buffer == view.buffer)
}

/// Whether the first step that touches the buffer of `view` writes all of it and reads nothing of it:
/// memory that nobody has set is not read then, and none of it is left unset.
fn is_written_whole_first(plan: &Plan, view: &View) -> bool {
    let is_of_buffer = |other: &&View| other.buffer == view.buffer;
    let len = plan.buffers[view.buffer.0].len;
    for planned in &plan.steps {
        if planned.step.views_read().iter().any(is_of_buffer) {
            return false;
        }
        let written = planned.step.views_written();
        if let Some(first) = written.iter().find(|other| is_of_buffer(other)) {
            return is_whole(first, len);
        }
    }
    false
}

/// Whether `tensor` lies in memory as `view` does.
pub(crate) fn lies_as(tensor: &TensorView<'_>, view: &View) -> bool {
    let axes = view.axes.iter().zip(tensor.strides());
    axes.into_iter().all(|(axis, stride)| {
        axis.extent == 1 || usize::try_from(axis.stride).is_ok_and(|own| own == stride)
    })
}
