//! How a step's operands and results must be held: what its kernel takes for granted.
//!
//! ```text
//! arithmetic of layers     f32, f32 ...    -> f32
//! moved, reduced, sorted   as they are     -> the same
//! positions, indices       i64
//! element by element       any             (its program says which register is which)
//! ```
//!
//! A kernel that reads f32 where i64 lie gives garbage, and one that reads i64 where f32 lie reads twice
//! as far as there is memory. Lowering ends with this check, so that integers which no kernel multiplies are refused.

use super::{Plan, Step, Storage, View};

impl Step {
    /// Whether every view is held as the step's kernel takes it to be.
    pub(super) fn is_held_rightly(&self, storage: impl Fn(&View) -> Storage) -> bool {
        let all = |views: &[&View], want: Storage| views.iter().all(|view| storage(view) == want);
        let alike = |a: &View, b: &View| storage(a) == storage(b);
        match self {
            Self::Conv(_)
            | Self::Linear(_)
            | Self::MatMul(_)
            | Self::Attention(_)
            | Self::Pool(_)
            | Self::Softmax(_)
            | Self::Norm(_)
            | Self::GroupNorm(_)
            | Self::GridSample(_)
            | Self::Recurrent(_) => {
                all(&self.views_read(), Storage::F32) && all(&self.views_written(), Storage::F32)
            }
            Self::Pointwise(_) | Self::Fill { .. } => true,
            Self::Reduce(s) => alike(&s.x, &s.y),
            Self::CumSum(s) => alike(&s.x, &s.y),
            Self::Copy { x, y } => alike(x, y),
            Self::ArgReduce(s) => storage(&s.y) == Storage::I64,
            Self::Gather(s) => alike(&s.x, &s.y) && storage(&s.index) == Storage::I64,
            Self::GatherElements(s) => alike(&s.x, &s.y) && storage(&s.index) == Storage::I64,
            Self::GatherNd(s) => alike(&s.x, &s.y) && storage(&s.index) == Storage::I64,
            Self::ScatterElements(s) => {
                alike(&s.updates, &s.y) && storage(&s.index) == Storage::I64
            }
            Self::ScatterNd(s) => alike(&s.updates, &s.y) && storage(&s.index) == Storage::I64,
            Self::Resample(s) => {
                alike(&s.x, &s.y) && (s.weight.is_none() || storage(&s.x) == Storage::F32)
            }
            Self::TopK(s) => {
                s.values.iter().all(|values| alike(&s.x, values))
                    && s.indices.iter().all(|i| storage(i) == Storage::I64)
            }
        }
    }
}

impl Plan {
    /// The first step with a view that is held otherwise than its kernel takes it to be.
    pub(super) fn wrongly_held(&self) -> Option<&super::PlannedStep> {
        let storage = |view: &View| self.buffers[view.buffer.0].storage;
        self.steps
            .iter()
            .find(|planned| !planned.step.is_held_rightly(storage))
    }
}
