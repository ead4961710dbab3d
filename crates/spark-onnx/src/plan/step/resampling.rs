//! Weighted sums of positions along an axis, and sampling at a grid or in regions.

use std::sync::Arc;

use super::lowered_step::LoweredStep;
use crate::graph::{GridPadding, Interpolation, RoiAlign};
use crate::plan::storage::Storage;
use crate::plan::view::View;

/// Weighted sums of positions along one axis:
/// `y[.., o, ..] = sum over t of weight[o, t] * x[.., index[o, t], ..]`.
/// Interpolation, padding by reflection or edge, and nearest-neighbour resizing are all this.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ResampleStep {
    pub(crate) x: View,
    /// Result; equal to `x` in every other axis.
    pub(crate) y: View,
    /// Axis that is resampled.
    pub(crate) axis: usize,
    /// Positions of `x` per position of `y`.
    pub(crate) taps: usize,
    /// Positions of `x`, `[extent of y][taps]`.
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
    pub(crate) x: View,
    pub(crate) grid: View,
    pub(crate) y: View,
    /// How samples between elements are made.
    pub(crate) mode: Interpolation,
    /// What positions outside of `x` give.
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

/// Averages or maxima of the cells of `regions` `[m, 4]` of `x` `[n, c, h, w]`, each of sample `samples[m]`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RoiAlignStep {
    pub(crate) x: View,
    pub(crate) regions: View,
    /// Whole numbers, as i64.
    pub(crate) samples: View,
    /// `[m, c, rows, columns]`.
    pub(crate) y: View,
    /// Where regions are sampled, and what is taken of it.
    pub(crate) op: RoiAlign,
}

impl LoweredStep for RoiAlignStep {
    fn kind(&self) -> &'static str {
        "roi_align"
    }

    fn views_read(&self) -> Vec<&View> {
        vec![&self.x, &self.regions, &self.samples]
    }

    fn views_written(&self) -> Vec<&View> {
        vec![&self.y]
    }

    fn views_mut(&mut self) -> Vec<&mut View> {
        vec![
            &mut self.x,
            &mut self.regions,
            &mut self.samples,
            &mut self.y,
        ]
    }

    fn is_held_rightly(&self, storage: &dyn Fn(&View) -> Storage) -> bool {
        let mut floats = [&self.x, &self.regions, &self.y].into_iter();
        floats.all(|view| storage(view) == Storage::F32) && storage(&self.samples) == Storage::I64
    }
}
