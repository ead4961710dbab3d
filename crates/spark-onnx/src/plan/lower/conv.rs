//! Convolutions and pooling over one or two spatial axes; those over three are in `volume`.
//!
//! One spatial axis is lowered as two, the first of extent 1.

use std::sync::Arc;

use super::*;
use crate::graph::{Conv, GlobalPool, Padding, Pool, PoolKind, ReduceKind};
use crate::plan::step::int8_storage;
use spark_onnx_graph::MOST_COMPUTED_TAPS;

/// Constant weights as the file holds them, one spatial axis made two.
pub(super) struct Filters {
    pub(super) constant: Arc<Tensor>,
    pub(super) shape: Vec<usize>,
    pub(super) bias: Option<Arc<Vec<f32>>>,
}

impl Lower for Conv {
    fn lower(&self, lowering: &mut Lowering<'_>, node: &Node) -> Result<(), OpError> {
        lowering.conv(node, self)
    }

    fn works_on_images(&self) -> bool {
        true
    }
}

impl Lower for Pool {
    fn lower(&self, lowering: &mut Lowering<'_>, node: &Node) -> Result<(), OpError> {
        lowering.pool(node, self)
    }

    fn works_on_images(&self) -> bool {
        true
    }
}

impl Lower for GlobalPool {
    fn lower(&self, lowering: &mut Lowering<'_>, node: &Node) -> Result<(), OpError> {
        lowering.global_pool(node, self.kind)
    }

    fn works_on_images(&self) -> bool {
        true
    }
}

impl Lowering<'_> {
    /// `id` as `[n, c, h, w]` with unit channel stride.
    pub(super) fn image(&mut self, name: &str, id: ValueId) -> Result<View, OpError> {
        let view = self.view(id)?;
        let view = match view.rank() {
            4 => view,
            3 => with_height(&view),
            rank => {
                return fail(format!(
                    "{} spatial axes; one or two are supported",
                    rank.saturating_sub(2)
                ));
            }
        };
        if view.axes[1].extent == 1 || view.axes[1].stride == 1 {
            return Ok(view);
        }
        Ok(self.copied(name, &view, &image_order(4)))
    }

    /// A fresh channels-last result for `out`, as `[n, c, h, w]`, set as its value.
    pub(super) fn image_result(&mut self, out: ValueId) -> View {
        let shape = self.ty(out).shape.clone();
        let view = self.image_buffer(Storage::F32, &shape);
        self.set(out, view.clone());
        match shape.len() {
            3 => with_height(&view),
            _ => view,
        }
    }

    /// Every channel of an image `times` over, side by side.
    pub(super) fn repeated_channels(&mut self, name: &str, x: &View, times: usize) -> View {
        let mut shape = x.shape();
        let mut wide = x.clone();
        wide.axes.insert(
            2,
            Axis {
                extent: times,
                stride: 0,
            },
        );
        let copy = self.copied(name, &wide, &[0, 3, 4, 1, 2]);
        shape[1] *= times;
        View::dense(copy.buffer, &shape, &image_order(4))
    }

    pub(super) fn weights_and_bias(&mut self, node: &Node) -> Result<Filters, OpError> {
        let w = self.operand(node, 1)?;
        let Some(weights) = self.constant(w) else {
            return fail(format!(
                "computed weights of more than {MOST_COMPUTED_TAPS} taps are not supported"
            ));
        };
        let bias = match self.optional(node, 2) {
            None => None,
            Some(id) => match self.constant(id) {
                Some(t) => Some(Arc::new(t.to_f32())),
                None => return fail("a computed bias of so large a window is not supported"),
            },
        };
        let mut shape = weights.shape().to_vec();
        if shape.len() == 3 {
            shape.insert(2, 1);
        }
        Ok(Filters {
            constant: Arc::clone(weights),
            shape,
            bias,
        })
    }

    fn conv(&mut self, node: &Node, params: &Conv) -> Result<(), OpError> {
        let Some(out) = self.result(node, 0) else {
            return Ok(());
        };
        let x_id = self.operand(node, 0)?;
        if self.ty(x_id).shape.len() == 5 {
            return self.conv_volume(node, params, out);
        }
        let mut x = self.image(&node.name, x_id)?;
        let filters = self.weights_and_bias(node)?;
        let [m, per_group, kh, kw] = filters.shape[..] else {
            return fail("weights need four axes");
        };
        let mut groups = params.groups;
        if groups > 1 && per_group == 1 && m > groups {
            // Several filters per channel: repeat the channel, and each sees only itself.
            x = self.repeated_channels(&node.name, &x, m / groups);
            groups = m;
        }
        let y = self.image_result(out);
        let window = window(
            &params.strides,
            &params.dilations,
            [kh, kw],
            &params.padding,
            &x,
            &y,
        )?;
        let extents = [groups, kh * kw, per_group, m / groups];
        let weights = Weights::new(filters.constant, 0, WeightOrder::OutputsFirst, extents);
        let step = self.convolve(&node.name, [x, y], window, weights, filters.bias);
        let channel_axis = 1;
        self.producer.insert(out, Producer { step, channel_axis });
        Ok(())
    }

    /// The step of a convolution of pictures, `[n, c, h, w]` both; its number.
    pub(super) fn convolve(
        &mut self,
        name: &str,
        [x, y]: [View; 2],
        window: Window,
        weights: Weights,
        bias: Option<Arc<Vec<f32>>>,
    ) -> usize {
        match pixels_as_rows(&window, &weights, &x, &y) {
            Some((x, y)) => self.linear(name, x, y, weights, bias),
            None => {
                let step = ConvStep {
                    x,
                    y,
                    weights,
                    window,
                    transposed: false,
                    epilogue: Epilogue {
                        bias,
                        ..Epilogue::default()
                    },
                };
                self.emit(name, Step::Conv(step))
            }
        }
    }

    fn pool(&mut self, node: &Node, params: &Pool) -> Result<(), OpError> {
        let Some(out) = self.result(node, 0) else {
            return Ok(());
        };
        if self.result(node, 1).is_some() {
            return fail("the indices of a maximum pool are not supported");
        }
        let x_id = self.operand(node, 0)?;
        if self.ty(x_id).shape.len() == 5 {
            return self.pool_volume(node, params, out);
        }
        let (x, y) = match params.kind {
            // As floats, a window that is wholly padding would give what is no byte.
            PoolKind::Max if int8_storage(self.ty(x_id).dtype).is_byte() => {
                self.pictures_of_bytes(node, x_id, out)?
            }
            _ => {
                let x = self.image(&node.name, x_id)?;
                (x, self.image_result(out))
            }
        };
        let kernel = pair(&params.kernel)?;
        let window = window(
            &params.strides,
            &params.dilations,
            kernel,
            &params.padding,
            &x,
            &y,
        )?;
        let pad_end = match &params.padding {
            Padding::Explicit(pads) if pads.len() == 4 => [pads[2], pads[3]],
            Padding::Explicit(pads) if pads.len() == 2 => [0, pads[1]],
            Padding::Explicit(_) | Padding::Valid => [0, 0],
            _ => std::array::from_fn(|i| {
                total_pad(&window, i, x.axes[2 + i].extent, y.axes[2 + i].extent) - window.pad[i]
            }),
        };
        let step = PoolStep {
            x,
            y,
            kind: params.kind,
            window,
            pad_end,
            count_include_pad: params.count_include_pad,
        };
        self.emit(&node.name, Step::Pool(step));
        Ok(())
    }

    /// Operand and a fresh result, both as bytes `[n, c, h, w]`.
    fn pictures_of_bytes(
        &mut self,
        node: &Node,
        x_id: ValueId,
        out: ValueId,
    ) -> Result<(View, View), OpError> {
        let x = self.picture_of_bytes(&node.name, x_id)?;
        let shape = self.ty(out).shape.clone();
        let whole = self.int8_result(out, &shape, &image_order(shape.len()));
        let y = match shape.len() {
            3 => with_height(&whole),
            _ => whole,
        };
        Ok((x, y))
    }

    fn global_pool(&mut self, node: &Node, kind: PoolKind) -> Result<(), OpError> {
        let Some(out) = self.result(node, 0) else {
            return Ok(());
        };
        let x_id = self.operand(node, 0)?;
        let shape = self.ty(out).shape.clone();
        if kind == PoolKind::Average
            && let Some(bytes) = self.dequantised(x_id)
            && !bytes.x.is_empty()
        {
            let reduced: Vec<bool> = (0..shape.len()).map(|axis| axis >= 2).collect();
            return self.mean_of_bytes(node, bytes, &reduced, true, out);
        }
        let x = self.view(x_id)?;
        let y = self.image_buffer(Storage::F32, &shape);
        self.set(out, y.clone());
        let kind = match kind {
            PoolKind::Max => ReduceKind::Max,
            PoolKind::Average => ReduceKind::Mean,
        };
        self.emit(&node.name, Step::Reduce(ReduceStep { x, y, kind }));
        Ok(())
    }
}

/// Image and result of a pointwise convolution as matrices of one pixel per row, where
/// strides can say so.
fn pixels_as_rows(window: &Window, weights: &Weights, x: &View, y: &View) -> Option<(View, View)> {
    let pointwise = window.kernel == [1, 1] && window.stride == [1, 1] && window.pad == [0, 0];
    // Padding after the last row or column would make the result larger than the image.
    let same = (2..4).all(|a| x.axes[a].extent == y.axes[a].extent);
    (pointwise && same && weights.groups == 1).then_some(())?;
    let rows = |v: &View| {
        let (n, c) = (v.axes[0].extent, v.axes[1].extent);
        let pixels = n * v.axes[2].extent * v.axes[3].extent;
        let flat = v.permuted(&[0, 2, 3, 1]).reshaped(&[pixels, c])?;
        (c == 1 || flat.axes[1].stride == 1).then_some(flat)
    };
    Some((rows(x)?, rows(y)?))
}

/// `[n, c, w]` as `[n, c, 1, w]`.
pub(super) fn with_height(view: &View) -> View {
    let mut view = view.clone();
    view.axes.insert(
        2,
        Axis {
            extent: 1,
            stride: 0,
        },
    );
    view
}

/// Height and width of a parameter; one number is the width, none is `[1, 1]`.
pub(super) fn pair(list: &[usize]) -> Result<[usize; 2], OpError> {
    match list {
        [] => Ok([1, 1]),
        [w] => Ok([1, *w]),
        [h, w] => Ok([*h, *w]),
        _ => fail(format!(
            "{} spatial axes; one or two are supported",
            list.len()
        )),
    }
}

/// Padding on both sides that `y` windows over `x` positions need.
fn total_pad(window: &Window, axis: usize, x: usize, y: usize) -> usize {
    let reach = (window.kernel[axis] - 1) * window.dilation[axis] + 1;
    (y.saturating_sub(1) * window.stride[axis] + reach).saturating_sub(x)
}

pub(super) fn window(
    strides: &[usize],
    dilations: &[usize],
    kernel: [usize; 2],
    padding: &Padding,
    x: &View,
    y: &View,
) -> Result<Window, OpError> {
    let mut window = Window {
        kernel,
        stride: pair(strides)?,
        dilation: pair(dilations)?,
        pad: [0, 0],
    };
    window.pad = match padding {
        Padding::Explicit(pads) if pads.len() == 4 => [pads[0], pads[1]],
        Padding::Explicit(pads) if pads.len() == 2 => [0, pads[0]],
        Padding::Explicit(_) | Padding::Valid => [0, 0],
        Padding::SameUpper | Padding::SameLower => std::array::from_fn(|i| {
            let total = total_pad(&window, i, x.axes[2 + i].extent, y.axes[2 + i].extent);
            match padding {
                Padding::SameUpper => total / 2,
                _ => total.div_ceil(2),
            }
        }),
    };
    Ok(window)
}
