//! How a step's operands and results must be held: what its kernel takes for granted.
//!
//! ```text
//! arithmetic of layers     f32, f32 ...    -> f32
//! moved, reduced, sorted   as they are     -> the same
//! positions, indices       i64
//! element by element       any             (its program says which register is which)
//! ```
//!
//! Products, pictures, copies and programs take bf16 for f32 where an executor holds values so (`cpu::bf16_storage`).
//! A kernel that reads f32 where i64 lie gives garbage, and one that reads i64 where f32 lie reads twice
//! as far as there is memory. Lowering ends with this check, so that integers which no kernel multiplies are refused.

use super::{Plan, View};

impl Plan {
    /// The first step with a view that is held otherwise than its kernel takes it to be.
    pub(super) fn wrongly_held(&self) -> Option<&super::PlannedStep> {
        let storage = |view: &View| self.buffers[view.buffer.0].storage;
        self.steps
            .iter()
            .find(|planned| !planned.step.is_held_rightly(&storage))
    }
}
