//! Convolutions and pooling over three spatial axes, by the steps that there are for two.
//!
//! ```text
//! pool    over height and width of every slice, then over depth:   [n d, c, h, w], then [n, c, d, h w]
//! conv    the slices that a window reads of the depth become channels, and the depth a batch:
//!         [n, c, d, h, w] --a copy per tap--> [n d', taps c, h, w] --conv--> [n d', m, h', w']
//!
//! transposed   the same with zeros between the slices, as many as the stride leaves, and the taps in the
//!              opposite order; height and width by the transposed convolution of two axes
//! ```
//!
//! An average over a box is the average over its depth of averages over its slices, whether padding
//! counts or not, as every slice of a box counts as many elements.
//!
//! Deliberately absent: epilogues.

use std::sync::Arc;

use super::*;
use crate::graph::{
    Conv, ConvTranspose, Pool, WindowAxis, conv_transpose_windows, conv_windows, pool_windows,
};
use crate::tensor::MAX_ELEMENTS;

/// Batch, depth, height, width, channels.
const SLICES: [usize; 5] = [0, 2, 3, 4, 1];
/// A convolution takes a copy per tap along the depth; a file of few bytes has no more.
const MAX_DEPTH: usize = 64;

impl Lowering<'_> {
    /// A pooling of `[n, c, d, h, w]`.
    pub(super) fn pool_volume(
        &mut self,
        node: &Node,
        params: &Pool,
        out: ValueId,
    ) -> Result<(), OpError> {
        let x_id = self.operand(node, 0)?;
        let mut x = self.view(x_id)?;
        if !x.is_dense_in(&SLICES) {
            x = self.copied(&node.name, &x, &SLICES);
        }
        let [n, c, d, h, w] = x.shape()[..] else {
            return fail("five axes wanted");
        };
        let windows = pool_windows(params, &[d, h, w])?;
        let [depth, height, width] = windows[..] else {
            return fail("three windows wanted");
        };
        let flat = [height, width];
        let slices = joined(&x.permuted(&SLICES), &[n * d, h, w, c])?.permuted(&[0, 3, 1, 2]);
        let shape = [n * d, c, height.output, width.output];
        if elements(&shape) > MAX_ELEMENTS {
            return fail(format!(
                "{shape:?} elements between two windows are too many"
            ));
        }
        let pooled = self.dense_buffer(Storage::F32, &shape, &image_order(4));
        let step = PoolStep {
            x: slices,
            y: pooled.clone(),
            kind: params.kind,
            window: window_of(flat),
            pad_end: flat.map(|axis| axis.pad_end),
            count_include_pad: params.count_include_pad,
        };
        self.emit(&node.name, Step::Pool(step));
        let pixels = height.output * width.output;
        let columns = joined(&pooled.permuted(&[0, 2, 3, 1]), &[n, d, pixels, c])?;
        let y = self.dense_buffer(
            Storage::F32,
            &[n, c, depth.output, height.output, width.output],
            &SLICES,
        );
        let result = joined(&y.permuted(&SLICES), &[n, depth.output, pixels, c])?;
        let along = [depth, whole(pixels)];
        let step = PoolStep {
            x: columns.permuted(&[0, 3, 1, 2]),
            y: result.permuted(&[0, 3, 1, 2]),
            kind: params.kind,
            window: window_of(along),
            pad_end: along.map(|axis| axis.pad_end),
            count_include_pad: params.count_include_pad,
        };
        self.emit(&node.name, Step::Pool(step));
        self.set(out, y);
        Ok(())
    }

    /// A convolution of `[n, c, d, h, w]`.
    pub(super) fn conv_volume(
        &mut self,
        node: &Node,
        params: &Conv,
        out: ValueId,
    ) -> Result<(), OpError> {
        let filters = self.weights_and_bias(node)?;
        let [m, per_group, kd, kh, kw] = filters.shape[..] else {
            return fail("weights need five axes");
        };
        if kd > MAX_DEPTH {
            return fail(format!(
                "a kernel {kd} deep, at most {MAX_DEPTH} are supported"
            ));
        }
        let x_id = self.operand(node, 0)?;
        let x = self.view(x_id)?;
        let [n, c, d, h, w] = x.shape()[..] else {
            return fail("five axes wanted");
        };
        let windows = conv_windows(params, &[d, h, w], &[kd, kh, kw])?;
        let [depth, height, width] = windows[..] else {
            return fail("three windows wanted");
        };
        let groups = params.groups;
        let taken = [n, depth.output, groups, kd, per_group, h, w];
        if elements(&taken) > MAX_ELEMENTS {
            return fail(format!("windows of {taken:?} elements are too many"));
        }
        let slices = self.slices_as_channels(&node.name, &x, &taken, depth)?;
        let (mut slices, mut groups) = (slices, groups);
        if groups > 1 && kd * per_group == 1 && m > groups {
            slices = self.repeated_channels(&node.name, &slices, m / groups);
            groups = m;
        }
        debug_assert_eq!(c, params.groups * per_group);
        let shape = [n, m, depth.output, height.output, width.output];
        let y = self.dense_buffer(Storage::F32, &shape, &SLICES);
        let batch = n * depth.output;
        let image = joined(
            &y.permuted(&SLICES),
            &[batch, height.output, width.output, m],
        )?;
        let image = image.permuted(&[0, 3, 1, 2]);
        let weights = depth_beside_channels(&filters.constant, [m, per_group, kd, kh * kw])?;
        self.constant_bytes += weights.size_bytes();
        let extents = [groups, kh * kw, kd * per_group, m / groups];
        let weights = Weights::new(Arc::new(weights), 0, WeightOrder::OutputsFirst, extents);
        self.convolve(
            &node.name,
            [slices, image],
            window_of([height, width]),
            weights,
            filters.bias,
        );
        self.set(out, y);
        Ok(())
    }

    /// A transposed convolution of `[n, c, d, h, w]`.
    pub(super) fn conv_transpose_volume(
        &mut self,
        node: &Node,
        params: &ConvTranspose,
        out: ValueId,
    ) -> Result<(), OpError> {
        let filters = self.weights_and_bias(node)?;
        let [c, per_group_out, kd, kh, kw] = filters.shape[..] else {
            return fail("weights need five axes");
        };
        if kd > MAX_DEPTH {
            return fail(format!(
                "a kernel {kd} deep, at most {MAX_DEPTH} are supported"
            ));
        }
        let x_id = self.operand(node, 0)?;
        let x = self.view(x_id)?;
        let [n, _, d, h, w] = x.shape()[..] else {
            return fail("five axes wanted");
        };
        let windows = conv_transpose_windows(params, &[d, h, w], &[kd, kh, kw])?;
        let [depth, height, width] = windows[..] else {
            return fail("three windows wanted");
        };
        let groups = params.conv.groups;
        let per_group = c / groups;
        let depths = depth.output;
        let spread = (d - 1).saturating_mul(depth.stride).saturating_add(1);
        let taken = [n, depths, groups, kd, per_group, h, w];
        for needed in [&taken[..], &[n, c, spread, h, w]] {
            if elements(needed) > MAX_ELEMENTS {
                return fail(format!("windows of {needed:?} elements are too many"));
            }
        }
        let x = self.spread_slices(&node.name, x, spread, depth.stride);
        // Slice `z` of the result reads slices `z + pad - tap * dilation` of what was spread.
        let reach = (kd - 1) * depth.dilation;
        let before = reach.saturating_sub(depth.pad_begin);
        let dropped = depth.pad_begin.saturating_sub(reach).min(spread);
        let x = x.sliced(2, dropped, 1, spread - dropped);
        let along = WindowAxis {
            input: spread - dropped,
            output: depths,
            kernel: kd,
            stride: 1,
            dilation: depth.dilation,
            pad_begin: before,
            pad_end: (depths + reach).saturating_sub(before + spread - dropped),
        };
        let slices = self.slices_as_channels(&node.name, &x, &taken, along)?;
        let m = groups * per_group_out;
        let shape = [n, m, depths, height.output, width.output];
        let y = self.dense_buffer(Storage::F32, &shape, &SLICES);
        let image = joined(
            &y.permuted(&SLICES),
            &[n * depths, height.output, width.output, m],
        )?;
        let extents = [groups, kd, per_group, per_group_out * kh * kw];
        let weights = taps_reversed(&filters.constant, extents)?;
        self.constant_bytes += weights.size_bytes();
        let extents = [groups, kh * kw, kd * per_group, per_group_out];
        let step = ConvStep {
            x: slices,
            y: image.permuted(&[0, 3, 1, 2]),
            weights: Weights::new(Arc::new(weights), 0, WeightOrder::InputsFirst, extents),
            window: window_of([height, width]),
            transposed: true,
            epilogue: Epilogue {
                bias: filters.bias,
                ..Epilogue::default()
            },
        };
        self.emit(&node.name, Step::Conv(step));
        self.set(out, y);
        Ok(())
    }

    /// The slices of `x` `stride` apart, zeros between them.
    fn spread_slices(&mut self, name: &str, x: View, spread: usize, stride: usize) -> View {
        if stride == 1 || x.axes[2].extent < 2 {
            return x;
        }
        let [n, c, d, h, w] = x.shape()[..] else {
            return x;
        };
        let y = self.dense_buffer(Storage::F32, &[n, c, spread, h, w], &SLICES);
        let zeros = y.clone();
        self.emit(
            name,
            Step::Fill(FillStep {
                y: zeros,
                value: 0.0,
            }),
        );
        let places = y.sliced(2, 0, stride as isize, d);
        self.emit(name, Step::Copy(CopyStep { x, y: places }));
        y
    }

    /// What every window reads of the depth, as channels of a picture each: `x` is
    /// `[n, groups c, d, h, w]`, the result `[n d', groups taps c, h, w]`, zero in the padding.
    fn slices_as_channels(
        &mut self,
        name: &str,
        x: &View,
        taken: &[usize; 7],
        depth: WindowAxis,
    ) -> Result<View, OpError> {
        let &[n, depths, groups, taps, per_group, h, w] = taken;
        let x = joined(x, &[n, groups, per_group, depth.input, h, w])?;
        let x = x.permuted(&[0, 3, 1, 2, 4, 5]);
        let y = self.dense_buffer(Storage::F32, taken, &[0, 1, 5, 6, 2, 3, 4]);
        if depth.pad_begin + depth.pad_end > 0 {
            let y = y.clone();
            self.emit(name, Step::Fill(FillStep { y, value: 0.0 }));
        }
        for tap in 0..taps {
            // Windows whose slice at this tap lies inside `x`.
            let ahead = tap * depth.dilation;
            let first = depth.pad_begin.saturating_sub(ahead).div_ceil(depth.stride);
            let end = (depth.pad_begin + depth.input)
                .saturating_sub(ahead)
                .div_ceil(depth.stride)
                .min(depths);
            if first >= end {
                continue;
            }
            let from = first * depth.stride + ahead - depth.pad_begin;
            let part = x.sliced(1, from, depth.stride as isize, end - first);
            let mut to = y.sliced(3, tap, 1, 1).sliced(1, first, 1, end - first);
            to.axes.remove(3);
            self.emit(name, Step::Copy(CopyStep { x: part, y: to }));
        }
        let pixels = y.permuted(&[0, 1, 5, 6, 2, 3, 4]);
        let channels = groups * taps * per_group;
        Ok(joined(&pixels, &[n * depths, h, w, channels])?.permuted(&[0, 3, 1, 2]))
    }
}

/// `view` under a shape that its strides can say.
fn joined(view: &View, shape: &[usize]) -> Result<View, OpError> {
    match view.reshaped(shape) {
        Some(view) => Ok(view),
        None => fail(format!("{:?} does not lie as {shape:?}", view.shape())),
    }
}

fn window_of(axes: [WindowAxis; 2]) -> Window {
    Window {
        kernel: axes.map(|axis| axis.kernel),
        stride: axes.map(|axis| axis.stride),
        dilation: axes.map(|axis| axis.dilation),
        pad: axes.map(|axis| axis.pad_begin),
    }
}

/// Windows of one element.
fn whole(extent: usize) -> WindowAxis {
    WindowAxis {
        input: extent,
        output: extent,
        kernel: 1,
        stride: 1,
        dilation: 1,
        pad_begin: 0,
        pad_end: 0,
    }
}

/// `[m, c, taps, plane]` as `[m, taps, c, plane]`.
fn depth_beside_channels(weights: &Tensor, extents: [usize; 4]) -> Result<Tensor, OpError> {
    let [m, c, taps, plane] = extents;
    let values = weights.to_f32();
    let mut moved = Vec::with_capacity(values.len());
    for filter in 0..m {
        for tap in 0..taps {
            for channel in 0..c {
                let first = ((filter * c + channel) * taps + tap) * plane;
                moved.extend_from_slice(&values[first..first + plane]);
            }
        }
    }
    Tensor::from_f32([m, taps * c, plane, 1], moved).map_err(|error| OpError {
        reason: error.to_string(),
    })
}

/// `[groups, c, m, taps, plane]` as `[groups, taps, c, m, plane]`, the taps in the opposite order. `extents` are
/// groups, taps, c and the product of m and plane; the plane follows from the weights.
fn taps_reversed(weights: &Tensor, extents: [usize; 4]) -> Result<Tensor, OpError> {
    let [groups, taps, c, rest] = extents;
    let plane: usize = weights.shape()[3..].iter().product();
    let m = rest / plane.max(1);
    let values = weights.to_f32();
    let mut moved = Vec::with_capacity(values.len());
    for group in 0..groups {
        for tap in (0..taps).rev() {
            for channel in 0..c {
                for filter in 0..m {
                    let row = (group * c + channel) * m + filter;
                    let first = (row * taps + tap) * plane;
                    moved.extend_from_slice(&values[first..first + plane]);
                }
            }
        }
    }
    Tensor::from_f32([groups * taps * c, m, plane], moved).map_err(|error| OpError {
        reason: error.to_string(),
    })
}
