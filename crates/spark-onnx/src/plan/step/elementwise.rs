//! Element by element: a program over broadcast operands.

use super::lowered_step::{LoweredStep, shapes};
use crate::plan::pointwise::Program;
use crate::plan::storage::Storage;
use crate::plan::view::View;

/// Element-wise program over broadcast operands.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PointwiseStep {
    /// Operands, already broadcast to the result's shape.
    pub(crate) inputs: Vec<View>,
    /// Result; dense, and may be the very view of an operand.
    pub(crate) y: View,
    /// What every element of the result is computed by.
    pub(crate) program: Program,
}

impl LoweredStep for PointwiseStep {
    fn kind(&self) -> &'static str {
        "pointwise"
    }

    fn views_read(&self) -> Vec<&View> {
        self.inputs.iter().collect()
    }

    fn views_written(&self) -> Vec<&View> {
        vec![&self.y]
    }

    fn views_mut(&mut self) -> Vec<&mut View> {
        self.inputs.iter_mut().chain([&mut self.y]).collect()
    }

    /// The program says which register is which.
    fn is_held_rightly(&self, _: &dyn Fn(&View) -> Storage) -> bool {
        true
    }

    fn describe(&self) -> String {
        format!(
            "{} -> {}, {} operations",
            shapes(&self.views_read()),
            shapes(&self.views_written()),
            self.program.instructions.len()
        )
    }
}
