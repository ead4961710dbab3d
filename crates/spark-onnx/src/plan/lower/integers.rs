//! Products of 8-bit integers.
//!
//! ```text
//! picture [n, c, h, w] of bytes, channels last    Int8Step, one picture per sample
//! rows    [m, k] of bytes                         a picture of one row of m pixels of k channels
//! batches [b, m, k] [b, k, n]                     b such pictures, each with weights of its own
//! ```
//!
//! Zero points and scales are known at load, or all of a node are read while it runs.

use std::sync::Arc;

use super::conv::{window, with_height};
use super::*;
use crate::graph::{Conv, ConvInteger, MatMulInteger, QLinearConv, QLinearMatMul};
use crate::tensor::DType;
use spark_gemm::int8::MAX_DEPTH;

/// Where a node has its operands; `scales` are those of both factors and of the result.
struct Places {
    x: usize,
    x_zero: usize,
    w: usize,
    w_zero: usize,
    bias: Option<usize>,
    scales: Option<[usize; 3]>,
    y_zero: Option<usize>,
}

impl Places {
    const INTEGER: Self = Self {
        x: 0,
        x_zero: 2,
        w: 1,
        w_zero: 3,
        bias: None,
        scales: None,
        y_zero: None,
    };
    const Q_LINEAR: Self = Self {
        x: 0,
        x_zero: 2,
        w: 3,
        w_zero: 5,
        bias: Some(8),
        scales: Some([1, 4, 6]),
        y_zero: Some(7),
    };
}

impl Lower for ConvInteger {
    fn lower(&self, lowering: &mut Lowering<'_>, node: &Node) -> Result<(), OpError> {
        lowering.lower_result(node, |l, out| {
            l.int8_conv(node, &self.conv, &Places::INTEGER, out)
        })
    }

    fn works_on_images(&self) -> bool {
        true
    }
}

impl Lower for QLinearConv {
    fn lower(&self, lowering: &mut Lowering<'_>, node: &Node) -> Result<(), OpError> {
        lowering.lower_result(node, |l, out| {
            l.int8_conv(node, &self.conv, &Places::Q_LINEAR, out)
        })
    }

    fn works_on_images(&self) -> bool {
        true
    }
}

impl Lower for MatMulInteger {
    fn lower(&self, lowering: &mut Lowering<'_>, node: &Node) -> Result<(), OpError> {
        lowering.lower_result(node, |l, out| l.int8_matmul(node, &Places::INTEGER, out))
    }
}

impl Lower for QLinearMatMul {
    fn lower(&self, lowering: &mut Lowering<'_>, node: &Node) -> Result<(), OpError> {
        lowering.lower_result(node, |l, out| l.int8_matmul(node, &Places::Q_LINEAR, out))
    }
}

impl Lowering<'_> {
    fn int8_conv(
        &mut self,
        node: &Node,
        conv: &Conv,
        places: &Places,
        out: ValueId,
    ) -> Result<(), OpError> {
        let (x_id, w_id) = (self.operand(node, places.x)?, self.operand(node, places.w)?);
        let x = self.picture_of_bytes(&node.name, x_id)?;
        let mut w_shape = self.ty(w_id).shape.clone();
        if w_shape.len() == 3 {
            w_shape.insert(2, 1);
        }
        let [m, per_group, kh, kw] = w_shape[..] else {
            return fail("weights need four axes");
        };
        // A window of no channels has taps all the same.
        check_depth(kh.saturating_mul(kw).saturating_mul(per_group.max(1)))?;
        let groups = conv.groups;
        let weights = match self.constant(w_id) {
            Some(constant) => {
                let extents = [groups, kh * kw, per_group, m / groups];
                let constant = Arc::clone(constant);
                Int8Weights::Known(Weights::new(
                    constant,
                    0,
                    WeightOrder::OutputsFirst,
                    extents,
                ))
            }
            None => {
                let view = self.view(w_id)?;
                let mut view = match view.rank() {
                    3 => with_height(&view),
                    _ => view,
                };
                view.axes.insert(0, ONE);
                Int8Weights::Computed { view, groups }
            }
        };
        let quantisation = self.quantisation(node, places)?;
        let shape = self.ty(out).shape.clone();
        let whole = self.int8_result(out, &shape, &image_order(shape.len()));
        let y = match shape.len() {
            3 => with_height(&whole),
            _ => whole,
        };
        let window = window(
            &conv.strides,
            &conv.dilations,
            [kh, kw],
            &conv.padding,
            &x,
            &y,
        )?;
        let mut step = Int8Step {
            x,
            y,
            x_type: self.ty(x_id).dtype,
            weights,
            w_type: self.ty(w_id).dtype,
            window,
            quantisation,
            y_type: self.ty(out).dtype,
        };
        // Pictures of one pixel each, rows of a matrix, are the pixels of one picture.
        let is_pixel = |view: &View| view.axes[2..].iter().all(|axis| axis.extent == 1);
        let has_one_tap = step.taps() == 1 && step.window.pad == [0, 0];
        if is_pixel(&step.x) && is_pixel(&step.y) && has_one_tap {
            step.x.axes.swap(0, 3);
            step.y.axes.swap(0, 3);
            step.window.stride = [1, 1];
        }
        self.emit(&node.name, Step::Int8(Box::new(step)));
        Ok(())
    }

    /// Value `id` as bytes `[n, c, h, w]` with unit channel stride.
    pub(super) fn picture_of_bytes(&mut self, name: &str, id: ValueId) -> Result<View, OpError> {
        let rank = self.ty(id).shape.len();
        if !(3..=4).contains(&rank) {
            return fail(format!(
                "{} spatial axes; one or two are supported",
                rank.saturating_sub(2)
            ));
        }
        let view = self.bytes(id, &image_order(rank))?;
        let view = match rank {
            3 => with_height(&view),
            _ => view,
        };
        if view.axes[1].extent == 1 || view.axes[1].stride == 1 {
            return Ok(view);
        }
        Ok(self.copied(name, &view, &image_order(4)))
    }

    /// A fresh buffer for the result of a product, set as its value.
    pub(super) fn int8_result(&mut self, out: ValueId, shape: &[usize], order: &[usize]) -> View {
        let storage = int8_storage(self.ty(out).dtype);
        let view = self.dense_buffer(storage, shape, order);
        self.set_held(out, view.clone());
        view
    }

    fn int8_matmul(&mut self, node: &Node, places: &Places, out: ValueId) -> Result<(), OpError> {
        let (a_id, b_id) = (self.operand(node, places.x)?, self.operand(node, places.w)?);
        let a_shape = self.ty(a_id).shape.clone();
        let b_shape = self.ty(b_id).shape.clone();
        let depth = a_shape.last().copied().unwrap_or(1);
        check_depth(depth)?;
        let quantisation = self.quantisation(node, places)?;
        let row_major: Vec<usize> = (0..a_shape.len()).collect();
        let a = self.bytes(a_id, &row_major)?;
        let shape = self.ty(out).shape.clone();
        let elements: usize = shape.iter().product();
        let (x, y_shape, weights) = match self.constant(b_id) {
            Some(constant) if b_shape.len() == 2 => {
                let n = b_shape[1];
                let rows = elements / n.max(1);
                let x = self.rows(&node.name, a, rows, depth);
                let constant = Arc::clone(constant);
                let weights = Weights::new(constant, 0, WeightOrder::InputsFirst, [1, 1, depth, n]);
                (as_pixels(&x), [1, rows, n], Int8Weights::Known(weights))
            }
            _ => {
                let b = self.held(b_id)?;
                let (x, view, y_shape) = self.batched(node, [a, b], &shape)?;
                let weights = Int8Weights::Computed { view, groups: 1 };
                (x, y_shape, weights)
            }
        };
        let storage = int8_storage(self.ty(out).dtype);
        let y = self.row_major_buffer(storage, &y_shape);
        let whole: Vec<usize> = (0..shape.len()).collect();
        self.set_held(out, View::dense(y.buffer, &shape, &whole));
        let [batch, m, n] = [y.axes[0], y.axes[1], y.axes[2]];
        let step = Int8Step {
            x,
            y: View {
                axes: vec![batch, n, ONE, m],
                ..y
            },
            x_type: self.ty(a_id).dtype,
            weights,
            w_type: self.ty(b_id).dtype,
            window: Window {
                kernel: [1, 1],
                stride: [1, 1],
                dilation: [1, 1],
                pad: [0, 0],
            },
            quantisation,
            y_type: self.ty(out).dtype,
        };
        self.emit(&node.name, Step::Int8(Box::new(step)));
        Ok(())
    }

    /// Two matrices, or batches of them, as pictures `[batch, k, 1, m]` and weights
    /// `[batch, n, k, 1, 1]`, with batch, rows and columns of the result.
    fn batched(
        &mut self,
        node: &Node,
        [mut a, mut b]: [View; 2],
        shape: &[usize],
    ) -> Result<(View, View, [usize; 3]), OpError> {
        let mut full = shape.to_vec();
        if a.rank() == 1 {
            a.axes.insert(0, ONE);
            full.insert(full.len() + 1 - b.rank().min(2), 1);
        }
        if b.rank() == 1 {
            b.axes.push(ONE);
            full.push(1);
        }
        let rank = full.len();
        if rank > MAX_RANK {
            return fail(format!("{rank} axes, at most {MAX_RANK}"));
        }
        let (m, n) = (full[rank - 2], full[rank - 1]);
        let batch = &full[..rank - 2];
        let k = a.axes[a.rank() - 1].extent;
        let count: usize = batch.iter().product();
        // Alike for all batches, weights are packed once.
        let alike = b.axes[..b.rank() - 2].iter().all(|axis| axis.extent == 1);
        let a = a.broadcast_to(&[batch, &[m, k]].concat());
        let a = self.reshaped(&node.name, a, &[count, m, k]);
        let a = self.unit_stride(&node.name, a, 2);
        let b = match alike {
            true => {
                let last = b.axes[b.rank() - 2..].to_vec();
                View {
                    axes: [vec![ONE], last].concat(),
                    ..b
                }
            }
            false => {
                let b = b.broadcast_to(&[batch, &[k, n]].concat());
                self.reshaped(&node.name, b, &[count, k, n])
            }
        };
        let weights = View {
            axes: vec![b.axes[0], b.axes[2], b.axes[1], ONE, ONE],
            ..b
        };
        let x = View {
            axes: vec![a.axes[0], a.axes[2], ONE, a.axes[1]],
            ..a
        };
        Ok((x, weights, [count, m, n]))
    }

    /// Zero points, bias and scales of a node: known if all are, else all are read while it runs.
    fn quantisation(&mut self, node: &Node, places: &Places) -> Result<Quantisation, OpError> {
        let at = |l: &Self, place: Option<usize>| place.and_then(|place| l.optional(node, place));
        let x_zero = at(self, Some(places.x_zero));
        let w_zero = at(self, Some(places.w_zero));
        let bias = at(self, places.bias);
        let y_zero = at(self, places.y_zero);
        let scales = places
            .scales
            .map(|scales| scales.map(|at| self.operand(node, at)));
        let scales = match scales {
            None => Vec::new(),
            Some([x, w, y]) => vec![x?, w?, y?],
        };
        let single = [
            x_zero,
            y_zero,
            scales.first().copied(),
            scales.get(2).copied(),
        ];
        if single.into_iter().flatten().any(|id| self.count(id) > 1) {
            return fail("zero points and scales per row are not supported");
        }
        let all = [x_zero, w_zero, bias, y_zero].into_iter().flatten();
        if all
            .chain(scales.clone())
            .all(|id| self.constant(id).is_some())
        {
            let whole = |id: Option<ValueId>| -> Vec<i32> {
                let tensor = id.and_then(|id| self.constant(id));
                tensor.map_or_else(Vec::new, |tensor| {
                    tensor.to_f64().into_iter().map(|v| v as i32).collect()
                })
            };
            let floats = |id: ValueId| self.constant(id).map_or_else(Vec::new, |t| t.to_f32());
            let multipliers = match scales[..] {
                [x, w, y] => {
                    let (x, y) = (floats(x), floats(y));
                    floats(w).into_iter().map(|w| x[0] * w / y[0]).collect()
                }
                _ => Vec::new(),
            };
            let first = |list: Vec<i32>| list.first().copied().unwrap_or(0);
            let bounds = match y_zero.map(|id| self.ty(id).dtype) {
                Some(DType::I8) => (-128, 127),
                _ => (0, 255),
            };
            return Ok(Quantisation::Known(KnownQuantisation {
                x_zero: first(whole(x_zero)),
                w_zero: Arc::new(whole(w_zero)),
                bias: Arc::new(whole(bias)),
                multipliers: Arc::new(multipliers),
                y_zero: first(whole(y_zero)),
                bounds,
                float_bias: Arc::default(),
                activation: Activation::None,
            }));
        }
        let scales = scales.into_iter().map(|id| self.list(id));
        let scales = scales.collect::<Result<Vec<View>, OpError>>()?;
        let mut list = |id: Option<ValueId>| id.map(|id| self.list(id)).transpose();
        Ok(Quantisation::Computed(ComputedQuantisation {
            x_zero: list(x_zero)?,
            w_zero: list(w_zero)?,
            bias: list(bias)?,
            scales,
            y_zero: list(y_zero)?,
        }))
    }

    fn count(&self, id: ValueId) -> usize {
        self.ty(id).shape.iter().product()
    }

    /// A scalar or list as a view of one axis.
    fn list(&mut self, id: ValueId) -> Result<View, OpError> {
        let view = self.view(id)?;
        let len = view.len();
        Ok(self.reshaped("", view, &[len]))
    }
}

/// An axis of one position.
const ONE: Axis = Axis {
    extent: 1,
    stride: 0,
};

/// Rows `[m, k]` as a picture `[1, k, 1, m]`.
fn as_pixels(rows: &View) -> View {
    View {
        axes: vec![ONE, rows.axes[1], ONE, rows.axes[0]],
        ..rows.clone()
    }
}

/// Refuses sums that may not fit 32 bits.
fn check_depth(depth: usize) -> Result<(), OpError> {
    match depth <= MAX_DEPTH {
        true => Ok(()),
        false => fail(format!(
            "sums of {depth} products of bytes may not fit 32 bits; at most {MAX_DEPTH} do"
        )),
    }
}
