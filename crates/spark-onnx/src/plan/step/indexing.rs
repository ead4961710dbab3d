//! Gathers and scatters: positions known only while running.

use super::lowered_step::LoweredStep;
use crate::graph::ScatterReduction;
use crate::plan::storage::Storage;
use crate::plan::view::View;

/// Indexing along one axis: `y[.., i, ..] = x[.., index[i], ..]`, negative indices counting
/// from the end. `x` is `[outer, extent, inner]`, `index` `[count]`, `y` `[outer, count, inner]`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct GatherStep {
    pub(crate) x: View,
    /// Positions along the axis, i64.
    pub(crate) index: View,
    pub(crate) y: View,
}

impl LoweredStep for GatherStep {
    fn kind(&self) -> &'static str {
        "gather"
    }

    fn views_read(&self) -> Vec<&View> {
        vec![&self.x, &self.index]
    }

    fn views_written(&self) -> Vec<&View> {
        vec![&self.y]
    }

    fn views_mut(&mut self) -> Vec<&mut View> {
        vec![&mut self.x, &mut self.index, &mut self.y]
    }

    fn is_held_rightly(&self, storage: &dyn Fn(&View) -> Storage) -> bool {
        storage(&self.x) == storage(&self.y) && storage(&self.index) == Storage::I64
    }
}

/// `y[i...] = x[i... with index[i...] along axis]`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct GatherElementsStep {
    pub(crate) x: View,
    /// i64, of the result's shape.
    pub(crate) index: View,
    pub(crate) y: View,
    /// Axis of `x` that the index points into.
    pub(crate) axis: usize,
}

impl LoweredStep for GatherElementsStep {
    fn kind(&self) -> &'static str {
        "gather_elements"
    }

    fn views_read(&self) -> Vec<&View> {
        vec![&self.x, &self.index]
    }

    fn views_written(&self) -> Vec<&View> {
        vec![&self.y]
    }

    fn views_mut(&mut self) -> Vec<&mut View> {
        vec![&mut self.x, &mut self.index, &mut self.y]
    }

    fn is_held_rightly(&self, storage: &dyn Fn(&View) -> Storage) -> bool {
        storage(&self.x) == storage(&self.y) && storage(&self.index) == Storage::I64
    }
}

/// Index tuples along the last axis of `index`; see ONNX GatherND. `y`'s axes are the batch and
/// index axes, then what remains of `x`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct GatherNdStep {
    pub(crate) x: View,
    /// Tuples of positions, i64.
    pub(crate) index: View,
    pub(crate) y: View,
    /// Leading axes that `x` and `index` share.
    pub(crate) batch_dims: usize,
}

impl LoweredStep for GatherNdStep {
    fn kind(&self) -> &'static str {
        "gather_nd"
    }

    fn views_read(&self) -> Vec<&View> {
        vec![&self.x, &self.index]
    }

    fn views_written(&self) -> Vec<&View> {
        vec![&self.y]
    }

    fn views_mut(&mut self) -> Vec<&mut View> {
        vec![&mut self.x, &mut self.index, &mut self.y]
    }

    fn is_held_rightly(&self, storage: &dyn Fn(&View) -> Storage) -> bool {
        storage(&self.x) == storage(&self.y) && storage(&self.index) == Storage::I64
    }
}

/// Writes `updates` into `y`, which already holds the operand.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ScatterElementsStep {
    /// Positions along the axis, i64.
    pub(crate) index: View,
    /// Same shape as `index`.
    pub(crate) updates: View,
    /// The operand, which updates are written into.
    pub(crate) y: View,
    /// Axis of `y` that the index points into.
    pub(crate) axis: usize,
    /// How an update meets what is there.
    pub(crate) reduction: ScatterReduction,
}

impl LoweredStep for ScatterElementsStep {
    fn kind(&self) -> &'static str {
        "scatter_elements"
    }

    fn views_read(&self) -> Vec<&View> {
        vec![&self.index, &self.updates]
    }

    fn views_written(&self) -> Vec<&View> {
        vec![&self.y]
    }

    fn views_mut(&mut self) -> Vec<&mut View> {
        vec![&mut self.index, &mut self.updates, &mut self.y]
    }

    fn is_held_rightly(&self, storage: &dyn Fn(&View) -> Storage) -> bool {
        storage(&self.updates) == storage(&self.y) && storage(&self.index) == Storage::I64
    }
}

/// Writes blocks of `updates` into `y`, which already holds the operand; see ONNX ScatterND.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ScatterNdStep {
    /// Tuples of positions, i64.
    pub(crate) index: View,
    /// Blocks, one per tuple of `index`.
    pub(crate) updates: View,
    /// The operand, which updates are written into.
    pub(crate) y: View,
    /// How an update meets what is there.
    pub(crate) reduction: ScatterReduction,
}

impl LoweredStep for ScatterNdStep {
    fn kind(&self) -> &'static str {
        "scatter_nd"
    }

    fn views_read(&self) -> Vec<&View> {
        vec![&self.index, &self.updates]
    }

    fn views_written(&self) -> Vec<&View> {
        vec![&self.y]
    }

    fn views_mut(&mut self) -> Vec<&mut View> {
        vec![&mut self.index, &mut self.updates, &mut self.y]
    }

    fn is_held_rightly(&self, storage: &dyn Fn(&View) -> Storage) -> bool {
        storage(&self.updates) == storage(&self.y) && storage(&self.index) == Storage::I64
    }
}
