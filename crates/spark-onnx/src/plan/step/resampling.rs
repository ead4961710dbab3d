//! Weighted sums of positions along an axis, and sampling at a grid.

use std::sync::Arc;

use super::lowered_step::LoweredStep;
use crate::graph::{GridPadding, Interpolation};
use crate::plan::storage::Storage;
use crate::plan::view::View;

/// Weighted sums of positions along one axis:
/// `y[.., o, ..] = sum over t of weight[o, t] * x[.., index[o, t], ..]`.
/// Interpolation, padding by reflection or edge, and nearest-neighbour resizing are all this.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ResampleStep {
    /// Operand.
    pub(crate) x: View,
    /// Result; equal to `x` in every other axis.
    pub(crate) y: View,
    /// The axis.
    pub(crate) axis: usize,
    /// Positions per result.
    pub(crate) taps: usize,
    /// `[extent of y][taps]`.
    pub(crate) index: Arc<Vec<u32>>,
    /// `[extent of y][taps]`; `None` means all ones with one tap (a plain copy).
    pub(crate) weight: Option<Arc<Vec<f32>>>,
}

impl LoweredStep for ResampleStep {
    fn kind(&self) -> &'static str {
        "resample"
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
        let held = storage(&self.x);
        held == storage(&self.y) && (self.weight.is_none() || held == Storage::F32)
    }

    fn table_bytes(&self) -> usize {
        let weights = self.weight.as_ref().map_or(0, |weights| weights.len());
        (self.index.len() + weights).saturating_mul(4)
    }
}

/// Samples `[n, c, h, w]` at `grid` `[n, oh, ow, 2]` (x then y, in -1..1).
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct GridSampleStep {
    /// Image.
    pub(crate) x: View,
    /// Coordinates.
    pub(crate) grid: View,
    /// Result.
    pub(crate) y: View,
    /// Interpolation.
    pub(crate) mode: Interpolation,
    /// What lies outside.
    pub(crate) padding: GridPadding,
    /// Whether -1 and 1 are corner centres.
    pub(crate) align_corners: bool,
}

impl LoweredStep for GridSampleStep {
    fn kind(&self) -> &'static str {
        "grid_sample"
    }

    fn views_read(&self) -> Vec<&View> {
        vec![&self.x, &self.grid]
    }

    fn views_written(&self) -> Vec<&View> {
        vec![&self.y]
    }

    fn views_mut(&mut self) -> Vec<&mut View> {
        vec![&mut self.x, &mut self.grid, &mut self.y]
    }
}
