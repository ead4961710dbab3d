//! Which convolutions Winograd's transform computes in f32: by the shapes of one image alone.
//!
//! The choice of a format needs this as well, since transformed weights are f32.

use crate::plan::ConvStep;

/// Fewest channels in and out: with fewer the transforms cost more than the products they save.
const LEAST_CHANNELS: usize = 32;
/// Fewest tiles of an image: with fewer the transformed weights, which are 16/9 of the plain
/// ones, take longer to come from memory than the products they save.
pub(crate) const LEAST_TILES: usize = 32;

/// Whether the transform can compute such a step and is the fastest way in f32, by the shapes of one
/// image alone.
pub(crate) fn has_shape(step: &ConvStep) -> bool {
    let (window, weights) = (&step.window, &step.weights);
    window.kernel == [3, 3]
        && window.stride == [1, 1]
        && window.dilation == [1, 1]
        && !step.transposed
        && weights.groups == 1
        && weights.in_per_group.min(weights.out_per_group) >= LEAST_CHANNELS
        && tiles(step).iter().product::<usize>() >= LEAST_TILES
}

/// Tiles of an image, down and across.
pub(crate) fn tiles(step: &ConvStep) -> [usize; 2] {
    [2, 3].map(|axis| step.y.axes[axis].extent.div_ceil(2))
}
