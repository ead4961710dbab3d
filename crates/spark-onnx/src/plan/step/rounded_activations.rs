//! Activations as tensor cores of few bits are given them.

use super::lowered_step::{LoweredStep, shapes};
use crate::graph::RoundedActivations;
use crate::plan::storage::Storage;
use crate::plan::view::View;

/// What an operand of a GEMM or convolution of few bits goes through, written down.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RoundedActivationsStep {
    /// Dense, with the axis of channels innermost, and, if that is another, the first axis outermost.
    pub(crate) x: View,
    /// Lies as `x` does.
    pub(crate) y: View,
    /// The axis of channels.
    pub(crate) axis: usize,
    pub(crate) op: RoundedActivations,
}

impl LoweredStep for RoundedActivationsStep {
    fn kind(&self) -> &'static str {
        "rounded-activations"
    }

    fn views_read(&self) -> Vec<&View> {
        vec![&self.x]
    }

    fn views_written(&self) -> Vec<&View> {
        vec![&self.y]
    }

    fn views_mut(&mut self) -> Vec<&mut View> {
        vec![&mut self.x, &mut self.y]
    }

    fn is_held_rightly(&self, storage: &dyn Fn(&View) -> Storage) -> bool {
        let floats = [&self.x, &self.y];
        floats.iter().all(|view| storage(view) == Storage::F32)
    }

    fn describe(&self) -> String {
        let shape = shapes(&[&self.x]);
        format!("{shape} -> {shape}, {:?}", self.op.format)
    }
}
