//! What lowering and running a plan take, held against the budget of memory.
//!
//! ```text
//! before a node is lowered   tables and copies of constants that lowering makes of it
//! when it is made ready      constants + tables, which all executors read
//! by each executor           arena + outputs
//! ```
//!
//! Whoever takes memory asks first.
//!
//! Views of what is repeated (`Expand`) take nothing; an output made of one does.
//!
//! Deliberately absent: packed weights and scratch, which an executor knows (`crate::cpu`).

use super::{Place, Plan, Port, Storage};
use crate::ModelError;
use crate::budget::{Asker, ModelBudget};
use crate::graph::{Node, StaticGraph};

/// Bytes that the constants among the operands of `node` take as wide numbers.
fn constant_bytes(graph: &StaticGraph, node: &Node) -> usize {
    let operands = node.inputs.iter().flatten().map(|&id| graph.value(id));
    let constants = operands
        .filter_map(|value| value.constant.as_ref())
        .map(|tensor| tensor.len().saturating_mul(16));
    constants.fold(0, usize::saturating_add)
}

/// Checks what `node` is lowered in, its constants as wide numbers and tables of `table_bytes`,
/// beside the constants made so far.
pub(super) fn check_node(
    graph: &StaticGraph,
    node: &Node,
    constants: usize,
    table_bytes: usize,
) -> Result<(), ModelError> {
    let asker = Asker {
        node: &node.name,
        op: node.op.name(),
        what: "lowering it",
    };
    let wanted = constants
        .saturating_add(constant_bytes(graph, node))
        .saturating_add(table_bytes);
    ModelBudget::new(graph.budget_bytes()).check(asker, wanted)
}

impl Plan {
    /// Takes what one executor of the plan needs besides scratch from `budget`: its arena of `arena_bytes`,
    /// and the outputs that it makes.
    ///
    /// # Errors
    ///
    /// [`ModelError::OverBudget`] or [`ModelError::OutOfMemory`], naming the step with the largest
    /// result or the output.
    pub(crate) fn take_for_a_run(
        &self,
        arena_bytes: usize,
        budget: &mut ModelBudget,
    ) -> Result<(), ModelError> {
        budget.take(self.largest("the arena of all steps"), arena_bytes)?;
        self.outputs.iter().try_for_each(|port| {
            let asker = Asker {
                node: &port.name,
                op: "output",
                what: "its tensor",
            };
            budget.take(asker, self.output_bytes(port))
        })
    }

    /// Takes the plan's constants and tables, which all executors read, from `budget`.
    ///
    /// # Errors
    ///
    /// As [`Plan::take_for_a_run`].
    pub(crate) fn take_constants(&self, budget: &mut ModelBudget) -> Result<(), ModelError> {
        let constants = self.buffers.iter().map(|buffer| match buffer.place {
            Place::Constant(_) => buffer.len.saturating_mul(buffer.storage.size_bytes()),
            Place::Arena => 0,
        });
        let constants = constants.fold(0, usize::saturating_add);
        budget.take(self.largest("the constants of all steps"), constants)?;
        budget.take(self.largest("the tables of all steps"), self.table_bytes())
    }

    /// Bytes of the tables of all steps.
    pub(crate) fn table_bytes(&self) -> usize {
        let tables = self.steps.iter().map(|planned| planned.step.table_bytes());
        tables.fold(0, usize::saturating_add)
    }

    /// Bytes that reading an output takes: as it is held, wide, and as the model declares it.
    pub(crate) fn output_bytes(&self, port: &Port) -> usize {
        let len = port
            .shape
            .iter()
            .fold(1, |n: usize, &d| n.saturating_mul(d));
        let held = self.buffers[port.view.buffer.0].storage;
        let declared = port.dtype.size_bytes();
        let each = match (held, port.dtype) {
            (Storage::F32, crate::DType::F32) => 4,
            (Storage::F32, _) => 4 + 8 + declared,
            (Storage::I64, crate::DType::I64) => 8,
            (Storage::I64, _) => 8 + declared,
            (Storage::I8 | Storage::U8, _) => 1 + 8 + declared,
            (Storage::Bf16, _) => 2 + 8 + declared,
        };
        len.saturating_mul(each)
    }

    /// The step that writes the largest buffer, which stands for all of them in an error.
    fn largest(&self, what: &'static str) -> Asker<'_> {
        let size = |buffer: usize| {
            let buffer = &self.buffers[buffer];
            match buffer.place {
                Place::Arena => buffer.len.saturating_mul(buffer.storage.size_bytes()),
                Place::Constant(_) => 0,
            }
        };
        let written = self.steps.iter().flat_map(|planned| {
            let views = planned.step.views_written().into_iter();
            views.map(move |view| (size(view.buffer.0), &*planned.name, planned.step.kind()))
        });
        let given = self.inputs.iter();
        let given = given.map(|port| (size(port.view.buffer.0), &*port.name, "input"));
        let (_, node, op) = given
            .chain(written)
            .max_by_key(|(size, ..)| *size)
            .unwrap_or_default();
        Asker { node, op, what }
    }
}
