//! One result of many elements along an axis: sums, extremes, running sums, the greatest few.

use super::lowered_step::LoweredStep;
use crate::graph::{ArgReduce, ReduceKind};
use crate::plan::storage::Storage;
use crate::plan::view::View;

/// Reduction over some axes of `x`; `y` has those axes with extent 1. Means of bytes are f32.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ReduceStep {
    pub(crate) x: View,
    /// Result, of the same rank.
    pub(crate) y: View,
    /// What is taken over the reduced axes.
    pub(crate) kind: ReduceKind,
}

impl LoweredStep for ReduceStep {
    fn kind(&self) -> &'static str {
        "reduce"
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
        let (x, y) = (storage(&self.x), storage(&self.y));
        let is_mean = self.kind == ReduceKind::Mean && y == Storage::F32;
        match x.is_byte() {
            true => is_mean,
            false => x == y,
        }
    }
}

/// Position of the extreme value along an axis; `y` is i64 with that axis of extent 1.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ArgReduceStep {
    pub(crate) x: View,
    /// Result, of the same rank.
    pub(crate) y: View,
    /// Which extreme; `axis` is not negative.
    pub(crate) params: ArgReduce,
}

impl LoweredStep for ArgReduceStep {
    fn kind(&self) -> &'static str {
        "arg_reduce"
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
        storage(&self.y) == Storage::I64
    }
}

/// Running sum or product along an axis.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CumSumStep {
    pub(crate) x: View,
    pub(crate) y: View,
    pub(crate) axis: usize,
    /// Leave the element itself out.
    pub(crate) exclusive: bool,
    /// Whether they run from the end of the axis.
    pub(crate) reverse: bool,
    /// Products instead of sums.
    pub(crate) product: bool,
}

impl LoweredStep for CumSumStep {
    fn kind(&self) -> &'static str {
        "cumsum"
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
        storage(&self.x) == storage(&self.y)
    }
}

/// The `k` extreme values along an axis, ordered, first positions winning ties.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TopKStep {
    pub(crate) x: View,
    /// The values themselves, if they are wanted.
    pub(crate) values: Option<View>,
    /// i64 positions, if wanted.
    pub(crate) indices: Option<View>,
    pub(crate) axis: usize,
    /// Whether the largest values are taken, or the smallest.
    pub(crate) largest: bool,
}

impl LoweredStep for TopKStep {
    fn kind(&self) -> &'static str {
        "top_k"
    }

    fn views_read(&self) -> Vec<&View> {
        vec![&self.x]
    }

    fn views_written(&self) -> Vec<&View> {
        self.values.iter().chain(&self.indices).collect()
    }

    fn views_mut(&mut self) -> Vec<&mut View> {
        let results = self.values.iter_mut().chain(&mut self.indices);
        std::iter::once(&mut self.x).chain(results).collect()
    }

    fn is_held_rightly(&self, storage: &dyn Fn(&View) -> Storage) -> bool {
        let values = self.values.iter();
        let mut indices = self.indices.iter();
        values.map(storage).all(|held| held == storage(&self.x))
            && indices.all(|view| storage(view) == Storage::I64)
    }
}
