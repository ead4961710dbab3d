//! Which ports of a plan the caller's memory can stand in for.
//!
//! ```text
//! input   in the model's own type, and nothing writes or rounds it
//! output  in the model's own type, row-major, and one step writes all of it before any reads it;
//!         of a plan without control flow, in a buffer of no other port
//! ```
//!
//! What an executor must do with it: decide once, when a plan is made ready ([`DirectPorts::of`]); at every run
//! use the caller's memory for an input only if its bit is set and the tensor has the layout of the
//! port's view ([`has_layout_of`]), and for the length of the run only; convert every other port.
//! Memory for an output need not be set before the run, as a step writes all of it first.

use crate::DType;
use crate::plan::{Place, Plan, Port, Storage, View};
use crate::tensor_view::TensorView;

/// Which ports of a plan the caller's memory can stand in for.
#[derive(Debug)]
pub(crate) struct DirectPorts {
    /// By input: whether a run may read it from the caller's memory.
    pub(crate) inputs: Vec<bool>,
    /// By output: whether a run may write it to a new tensor's memory, or the caller's.
    pub(crate) outputs: Vec<bool>,
}

impl DirectPorts {
    /// Finds them for `plan`; `changes_input` says of each input, by its number, whether the executor
    /// changes its elements after they are set, as rounding them does.
    pub(crate) fn of(plan: &Plan, changes_input: impl Fn(usize) -> bool) -> Self {
        let inputs = plan.inputs.iter().enumerate();
        let inputs = inputs
            .map(|(index, port)| {
                !changes_input(index)
                    && is_held_as_declared(plan, port)
                    && !is_written(plan, &port.view)
            })
            .collect();
        let outputs = plan.outputs.iter().enumerate();
        let outputs = outputs
            .map(|(index, port)| {
                let buffer = port.view.buffer;
                let mut others = plan.outputs.iter().enumerate();
                // Where a step may be left out, it is not for the first of them to say.
                !plan.has_control_flow()
                    && is_held_as_declared(plan, port)
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

/// Whether each element of `tensor`, which has the shape of `view`, lies where `view` says.
pub(crate) fn has_layout_of(tensor: &TensorView<'_>, view: &View) -> bool {
    let mut axes = view.axes.iter().enumerate();
    axes.all(|(index, axis)| {
        let stride = tensor.stride(index);
        axis.extent == 1 || usize::try_from(axis.stride).is_ok_and(|own| own == stride)
    })
}
