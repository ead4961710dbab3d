//! What a plan is: buffers, steps in their order, and the ports at its edge.

use std::sync::Arc;

use super::step::{ControlStep, Step};
use super::storage::Storage;
use super::view::View;
use crate::tensor::DType;

/// Elements known at load.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ConstantData {
    /// Floats, booleans and 8-bit integers, converted to f32 at load.
    F32(Arc<Vec<f32>>),
    /// Wider integers, converted to i64 at load.
    I64(Arc<Vec<i64>>),
}

/// Where a buffer's elements are.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Place {
    /// Set or computed by every run: in the executor's arena, where its [`super::ArenaLayout`] says.
    Arena,
    /// Known at load, outside of the arena.
    Constant(ConstantData),
}

/// A run of elements of one type.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Buffer {
    /// How every element is held.
    pub(crate) storage: Storage,
    pub(crate) len: usize,
    /// Where the elements are while the plan runs.
    pub(crate) place: Place,
}

/// A named tensor at the plan's edge.
#[derive(Debug, Clone)]
pub(crate) struct Port {
    /// Name in the model.
    pub(crate) name: String,
    /// Element type in the model; the edge converts.
    pub(crate) dtype: DType,
    /// Shape in the model.
    pub(crate) shape: Vec<usize>,
    /// Where it is held.
    pub(crate) view: View,
}

/// One step with the node it came from.
#[derive(Debug, Clone)]
pub(crate) struct PlannedStep {
    /// Name of the (last) node lowered into this step.
    pub(crate) name: String,
    /// What the step computes, with the views it reads and writes.
    pub(crate) step: Step,
}

/// A network lowered for one set of shapes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Plan {
    /// All buffers; a `BufferId` is a position here.
    pub(crate) buffers: Vec<Buffer>,
    /// Steps in the order in which they run.
    pub(crate) steps: Vec<PlannedStep>,
    /// What the caller provides.
    pub(crate) inputs: Vec<Port>,
    /// What the caller gets.
    pub(crate) outputs: Vec<Port>,
    /// Bytes that running it may take in all.
    pub(crate) budget_bytes: usize,
}

impl Plan {
    /// Whether some steps are run again, or left out.
    pub(crate) fn has_control_flow(&self) -> bool {
        let mut steps = self.steps.iter();
        steps.any(|planned| matches!(planned.step, Step::Control(_)))
    }

    /// By step, whether every run gets there: no control flow goes past it.
    pub(crate) fn always_run(&self) -> Vec<bool> {
        let labelled = self.labelled();
        let mut always = vec![true; self.steps.len()];
        for (index, planned) in self.steps.iter().enumerate() {
            let Step::Control(control) = &planned.step else {
                continue;
            };
            let Some(label) = control.action.goes_to() else {
                continue;
            };
            let end = labelled.get(label).copied().unwrap_or(always.len());
            if let Some(passed) = always.get_mut(index + 1..end) {
                passed.fill(false);
            }
        }
        always
    }

    /// By label, the step that has it.
    pub(crate) fn labelled(&self) -> Vec<usize> {
        let mut places = Vec::new();
        for (index, planned) in self.steps.iter().enumerate() {
            if let Step::Control(ControlStep {
                label: Some(label), ..
            }) = planned.step
            {
                places.resize(places.len().max(label + 1), self.steps.len());
                places[label] = index;
            }
        }
        places
    }

    /// How the elements of `view` are held.
    pub(crate) fn storage(&self, view: &View) -> Storage {
        self.buffers[view.buffer.0].storage
    }

    /// Bytes of all constants, weights included, in the storage steps read them from.
    pub(crate) fn constant_bytes(&self) -> usize {
        let buffers = self.buffers.iter().map(|b| match b.place {
            Place::Constant(_) => b.len * b.storage.size_bytes(),
            Place::Arena => 0,
        });
        let weights = self.steps.iter().map(|s| s.step.weight_bytes());
        buffers.sum::<usize>() + weights.sum::<usize>()
    }
}
