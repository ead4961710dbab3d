//! Which GEMM and convolutions can be fused with the depthwise convolution behind them.
//!
//! ```text
//! x [h w, k] --Linear or Conv--> [h w, c], c several times k --depthwise--> y
//! ```
//!
//! The feature map between the two is the largest of a mobile network and is read once. An executor
//! may compute a block of it at a time and never store the whole. Then `x` has to live as long as
//! the second convolution runs: such an executor says so to [`super::ArenaLayout::of`].
//!
//! Deliberately absent: the projection behind the convolution.

use super::{Plan, Step, View};

/// Elements of a feature map below which fusing is not profitable: what an L1 cache holds.
const SMALL: usize = 8 << 10;

impl Plan {
    /// Whether step `index` is a GEMM or convolution whose result nothing but the depthwise
    /// convolution at `index + 1` reads, and is more than an L1 cache holds.
    pub(crate) fn can_fuse_with_depthwise(&self, index: usize) -> bool {
        let (Some(expand), Some(next)) = (self.steps.get(index), self.steps.get(index + 1)) else {
            return false;
        };
        let Step::Conv(conv) = &next.step else {
            return false;
        };
        let [n, c, h, w] = std::array::from_fn(|axis| conv.x.axes[axis].extent);
        let row_major = [h * w * c, 1, w * c, c].map(|stride| stride as isize);
        let is_row_major = |view: &View| {
            let mut axes = view.axes.iter().zip(row_major);
            axes.all(|(axis, stride)| axis.extent == 1 || axis.stride == stride)
        };
        let (y, makes_whole_images) = match &expand.step {
            Step::Linear(linear) => (
                &linear.y,
                linear.epilogue.residual.is_none()
                    && [linear.y.axes[0].extent, linear.y.axes[1].extent] == [n * h * w, c]
                    && linear.y.axes[0].stride == c as isize,
            ),
            Step::Conv(made) => (
                &made.y,
                made.epilogue.residual.is_none()
                    && made.weights.groups == 1
                    && made.y.shape() == conv.x.shape()
                    && is_row_major(&made.y),
            ),
            _ => return false,
        };
        let residual = conv.epilogue.residual.as_ref();
        conv.is_depthwise()
            && !conv.transposed
            && conv.x.len() > SMALL
            && makes_whole_images
            && is_row_major(&conv.x)
            && (conv.x.buffer, conv.x.offset) == (y.buffer, y.offset)
            && residual.is_none_or(|r| r.buffer != y.buffer)
            && self.is_read_once(y.buffer.0, index)
    }

    /// Whether buffer `feature_map` is written by step `index` and read by the next one only.
    fn is_read_once(&self, feature_map: usize, index: usize) -> bool {
        let elsewhere = self.steps.iter().enumerate().any(|(at, planned)| {
            let touches =
                |views: Vec<&super::View>| views.iter().any(|v| v.buffer.0 == feature_map);
            (at != index + 1 && touches(planned.step.views_read()))
                || (at != index && touches(planned.step.views_written()))
        });
        let ports = self.inputs.iter().chain(&self.outputs);
        !elsewhere
            && ports
                .into_iter()
                .all(|port| port.view.buffer.0 != feature_map)
    }
}
