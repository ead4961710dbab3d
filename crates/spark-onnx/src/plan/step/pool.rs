//! Windowed maximum and average.

use super::conv::Window;
use super::lowered_step::LoweredStep;
use crate::graph::PoolKind;
use crate::plan::storage::Storage;
use crate::plan::view::View;

/// Windowed maximum or average of `[n, c, h, w]` with unit channel stride; the maximum of bytes too.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PoolStep {
    pub(crate) x: View,
    pub(crate) y: View,
    /// Whether windows give their maximum or their average.
    pub(crate) kind: PoolKind,
    pub(crate) window: Window,
    /// Border after the last row and column, which counts in averages that count padding.
    pub(crate) pad_end: [usize; 2],
    /// Whether padded elements count in an average.
    pub(crate) count_include_pad: bool,
}

impl LoweredStep for PoolStep {
    fn kind(&self) -> &'static str {
        "pool"
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
        let is_max_of_bytes = x == y && x.is_byte() && self.kind == PoolKind::Max;
        (x.is_float() && y.is_float()) || is_max_of_bytes
    }
}
