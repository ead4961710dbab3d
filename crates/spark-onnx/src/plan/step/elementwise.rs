//! Element by element: a program over broadcast operands, and dropout.

use super::lowered_step::{LoweredStep, shapes};
use crate::graph::CountedDropout;
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

/// Elements times 0, or times a number above 1, by their places in the model's order.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct DropoutStep {
    /// Dense, in any order of its axes.
    pub(crate) x: View,
    /// One i64.
    pub(crate) pass: View,
    /// Lies as `x` does.
    pub(crate) y: View,
    pub(crate) op: CountedDropout,
}

impl LoweredStep for DropoutStep {
    fn kind(&self) -> &'static str {
        "dropout"
    }

    fn views_read(&self) -> Vec<&View> {
        vec![&self.x, &self.pass]
    }

    fn views_written(&self) -> Vec<&View> {
        vec![&self.y]
    }

    fn views_mut(&mut self) -> Vec<&mut View> {
        vec![&mut self.x, &mut self.pass, &mut self.y]
    }

    fn is_held_rightly(&self, storage: &dyn Fn(&View) -> Storage) -> bool {
        let floats = [&self.x, &self.y];
        floats.iter().all(|view| storage(view) == Storage::F32)
            && storage(&self.pass) == Storage::I64
    }

    fn describe(&self) -> String {
        let shape = shapes(&[&self.x]);
        format!("{shape} -> {shape}, {} dropped", self.op.probability)
    }
}
