//! Which products are computed together with the depthwise convolution behind them.
//!
//! ```text
//! x [h w, k] --Linear--> [h w, c], c several times k --depthwise--> y
//! ```
//!
//! The map between the two is the largest of a mobile network and is read once. An executor
//! computes a block of it at a time and never stores the whole. Then `x` has to live as long as the convolution runs, which [`super::arena`]
//! sees to.
//!
//! Deliberately absent: the projection behind the convolution.

use super::{LinearStep, Plan, Step};

/// Elements below which a map is not worth it: what the nearest cache holds.
const SMALL: usize = 8 << 10;

impl Plan {
    /// Whether step `index` is a product whose result nothing but the depthwise convolution at
    /// `index + 1` reads, and is too large to wait in a cache.
    pub fn expands(&self, index: usize) -> bool {
        let (Some(expand), Some(next)) = (self.steps.get(index), self.steps.get(index + 1)) else {
            return false;
        };
        let (Step::Linear(linear), Step::Conv(conv)) = (&expand.step, &next.step) else {
            return false;
        };
        let map = linear.y.buffer;
        let [n, c, h, w] = std::array::from_fn(|axis| conv.x.axes[axis].extent);
        let row_major = [h * w * c, 1, w * c, c].map(|stride| stride as isize);
        let is_whole_image = conv.x.buffer == map
            && conv.x.offset == linear.y.offset
            && [linear.y.axes[0].extent, linear.y.axes[1].extent] == [n * h * w, c]
            && linear.y.axes[0].stride == c as isize
            && (0..4).all(|axis| {
                let axis_of = &conv.x.axes[axis];
                axis_of.extent == 1 || axis_of.stride == row_major[axis]
            });
        conv.is_depthwise()
            && !conv.transposed
            && conv.x.len() > SMALL
            && is_whole_image
            && is_alone(linear)
            && conv
                .epilogue
                .residual
                .as_ref()
                .is_none_or(|r| r.buffer != map)
            && self.is_read_once(map.0, index)
    }

    /// Whether buffer `map` is written by step `index` and read by the next one only.
    fn is_read_once(&self, map: usize, index: usize) -> bool {
        let elsewhere = self.steps.iter().enumerate().any(|(at, planned)| {
            let touches = |views: Vec<&super::View>| views.iter().any(|v| v.buffer.0 == map);
            (at != index + 1 && touches(planned.step.views_read()))
                || (at != index && touches(planned.step.views_written()))
        });
        let ports = self.inputs.iter().chain(&self.outputs);
        !elsewhere && ports.into_iter().all(|port| port.view.buffer.0 != map)
    }
}

/// Whether the product reads nothing but its operand.
fn is_alone(linear: &LinearStep) -> bool {
    linear.epilogue.residual.is_none()
}
