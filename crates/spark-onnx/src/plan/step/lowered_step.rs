//! What every step tells about itself.
//!
//! ```text
//! views     read, written, to be changed        lives of buffers, checks, rewrites
//! storage   how its kernel takes them to be     f32 ... -> f32 unless it says otherwise
//! costs     operations, weights, tables           profiles and budgets
//! ```
//!
//! A kernel that reads f32 where i64 lie gives garbage, and one that reads i64 where f32 lie reads
//! twice as far as there is memory: see [`LoweredStep::is_held_rightly`].

use crate::plan::storage::Storage;
use crate::plan::view::View;

/// A step of a plan, as its struct describes it. What most steps lack has a default.
pub(crate) trait LoweredStep {
    /// Short name for reports.
    fn kind(&self) -> &'static str;

    /// Views read; `views_written` of a scatter are read as well.
    fn views_read(&self) -> Vec<&View>;

    /// Views written, scratch included.
    fn views_written(&self) -> Vec<&View>;

    /// Every view, to be changed.
    fn views_mut(&mut self) -> Vec<&mut View>;

    /// Whether every view is held as the step's kernel takes it to be; all in f32 by default.
    fn is_held_rightly(&self, storage: &dyn Fn(&View) -> Storage) -> bool {
        let mut views = self.views_read().into_iter().chain(self.views_written());
        views.all(|view| storage(view) == Storage::F32)
    }

    /// Multiply-accumulate operations of its GEMM, convolution or attention.
    fn macs(&self) -> u64 {
        0
    }

    /// Bytes of the weights and biases it holds, as f32.
    fn weight_bytes(&self) -> usize {
        0
    }

    /// Bytes of positions and weights made when the step was.
    fn table_bytes(&self) -> usize {
        0
    }

    /// Drops weights, once an executor holds packed copies.
    fn forget_weights(&mut self) {}

    /// Shapes, geometry and what was fused, in one line for people:
    /// `1x64x32x64 -> 1x128x16x32, 3x3/2, +bias +residual Relu`.
    fn describe(&self) -> String {
        format!(
            "{} -> {}",
            shapes(&self.views_read()),
            shapes(&self.views_written())
        )
    }

    /// The step as what all of them are.
    fn as_lowered(&self) -> &(dyn LoweredStep + 'static)
    where
        Self: Sized + 'static,
    {
        self
    }

    /// The same, to be changed.
    fn as_lowered_mut(&mut self) -> &mut (dyn LoweredStep + 'static)
    where
        Self: Sized + 'static,
    {
        self
    }
}

/// Extents of `view`, for people.
pub(super) fn shape(view: &View) -> String {
    let extents: Vec<String> = view.axes.iter().map(|a| a.extent.to_string()).collect();
    match extents.is_empty() {
        true => "scalar".to_owned(),
        false => extents.join("x"),
    }
}

/// Extents of some views.
pub(super) fn shapes(views: &[&View]) -> String {
    let shapes: Vec<String> = views.iter().map(|view| shape(view)).collect();
    shapes.join(", ")
}
