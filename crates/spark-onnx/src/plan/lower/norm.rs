//! Normalisations and softmax: statistics over rows, or over groups of channels.

use std::sync::Arc;

use super::*;
use crate::graph::{
    GroupNormalization, InstanceNormalization, LayerNormalization, LpNormalization, Lrn,
    MaskedSoftmax, ReduceKind, RmsNormalization, Softmax,
};

/// What [`Op::MaskedSoftmax`] computes for rows that are not all hidden.
const MASKED_SOFTMAX: Softmax = Softmax {
    axis: -1,
    log: false,
    flatten: false,
};

impl Lower for LayerNormalization {
    fn lower(&self, lowering: &mut Lowering<'_>, node: &Node) -> Result<(), OpError> {
        lowering.layer_norm(node, self.axis, self.epsilon, NormKind::MeanVariance)
    }
}

impl Lower for RmsNormalization {
    fn lower(&self, lowering: &mut Lowering<'_>, node: &Node) -> Result<(), OpError> {
        lowering.layer_norm(node, self.axis, self.epsilon, NormKind::MeanSquare)
    }
}

impl Lower for InstanceNormalization {
    fn lower(&self, lowering: &mut Lowering<'_>, node: &Node) -> Result<(), OpError> {
        lowering.group_norm(node, None, self.epsilon)
    }

    fn works_on_images(&self) -> bool {
        true
    }
}

impl Lower for GroupNormalization {
    fn lower(&self, lowering: &mut Lowering<'_>, node: &Node) -> Result<(), OpError> {
        lowering.group_norm(node, Some(self.groups), self.epsilon)
    }

    fn works_on_images(&self) -> bool {
        true
    }
}

impl Lower for LpNormalization {
    fn lower(&self, lowering: &mut Lowering<'_>, node: &Node) -> Result<(), OpError> {
        lowering.lp_norm(node, self.axis, self.p)
    }
}

impl Lower for Lrn {
    fn lower(&self, lowering: &mut Lowering<'_>, node: &Node) -> Result<(), OpError> {
        lowering.lrn(node, self)
    }

    fn works_on_images(&self) -> bool {
        true
    }

    fn table_bytes(&self, _: &[usize], written: &[usize]) -> usize {
        // Where every result, at most twice the channels of them, takes which channels from.
        let channels = written.get(1).copied().unwrap_or(0);
        let taps = channels.saturating_mul(2).min(self.size);
        channels.saturating_mul(taps).saturating_mul(8)
    }
}

impl Lower for Softmax {
    fn lower(&self, lowering: &mut Lowering<'_>, node: &Node) -> Result<(), OpError> {
        lowering.softmax(node, *self, false)
    }
}

impl Lower for MaskedSoftmax {
    fn lower(&self, lowering: &mut Lowering<'_>, node: &Node) -> Result<(), OpError> {
        lowering.softmax(node, MASKED_SOFTMAX, true)
    }
}

impl Lowering<'_> {
    /// Layer and root-mean-square normalisation over axes `axis..`.
    fn layer_norm(
        &mut self,
        node: &Node,
        axis: i64,
        epsilon: f32,
        kind: NormKind,
    ) -> Result<(), OpError> {
        if node.outputs.iter().skip(1).any(Option::is_some) {
            return fail("the mean and deviation results are not supported");
        }
        let Some(out) = self.result(node, 0) else {
            return Ok(());
        };
        let x_id = self.operand(node, 0)?;
        let shape = self.ty(x_id).shape.clone();
        let axis = axis_index(axis, shape.len())?;
        let width: usize = shape[axis..].iter().product();
        let view = self.view(x_id)?;
        let rows = view.len() / width.max(1);
        let x = self.rows(&node.name, view, rows, width);
        let scale = self.norm_vector(node, 1, &shape[axis..])?;
        let bias = self.norm_vector(node, 2, &shape[axis..])?;
        let y = self.row_major_buffer(Storage::F32, &shape);
        let step = NormStep {
            x,
            y: View::dense(y.buffer, &[rows, width], &[0, 1]),
            scale,
            bias,
            kind,
            epsilon,
        };
        self.emit(&node.name, Step::Norm(step));
        self.set(out, y);
        Ok(())
    }

    /// Scale or bias of a normalisation over `shape`, expanded to all its elements.
    fn norm_vector(
        &mut self,
        node: &Node,
        index: usize,
        shape: &[usize],
    ) -> Result<Option<View>, OpError> {
        let Some(id) = self.optional(node, index) else {
            return Ok(None);
        };
        let view = self.view(id)?;
        if view.rank() > shape.len() {
            return fail("scale has more axes than are normalised");
        }
        let width = shape.iter().product();
        let full = view.broadcast_to(shape);
        let flat = self.reshaped(&node.name, full, &[width]);
        Ok(Some(self.unit_stride(&node.name, flat, 0)))
    }

    /// Instance (`groups` left out) and group normalisation.
    fn group_norm(
        &mut self,
        node: &Node,
        groups: Option<usize>,
        epsilon: f32,
    ) -> Result<(), OpError> {
        let Some(out) = self.result(node, 0) else {
            return Ok(());
        };
        let x_id = self.operand(node, 0)?;
        let shape = self.ty(x_id).shape.clone();
        let (n, c) = (shape[0], shape[1]);
        let positions = shape[2..].iter().product();
        let view = self.view(x_id)?;
        let flat = [n, c, positions];
        // As the operand lies, unless its positions are not one axis there.
        let mut order = view.memory_order();
        let alike = View::dense(view.buffer, &shape, &order);
        if alike.reshaped(&flat).is_none() {
            order = (0..shape.len()).collect();
        }
        let y = self.dense_buffer(Storage::F32, &shape, &order);
        let x = self.reshaped(&node.name, view, &flat);
        let Some(y_flat) = y.reshaped(&flat) else {
            return fail("the result cannot be seen as batch, channels and positions");
        };
        let (scale, bias) = (self.operand(node, 1)?, self.operand(node, 2)?);
        let step = GroupNormStep {
            x,
            y: y_flat,
            scale: self.view(scale)?,
            bias: self.view(bias)?,
            groups: groups.unwrap_or(c),
            epsilon,
        };
        self.emit(&node.name, Step::GroupNorm(step));
        self.set(out, y);
        Ok(())
    }

    /// A softmax; where it is `masked`, rows of nothing but minus infinity give zeros.
    fn softmax(&mut self, node: &Node, params: Softmax, masked: bool) -> Result<(), OpError> {
        let Some(out) = self.result(node, 0) else {
            return Ok(());
        };
        let x_id = self.operand(node, 0)?;
        let shape = self.ty(x_id).shape.clone();
        let rank = shape.len();
        let view = self.view(x_id)?;
        if rank == 0 {
            return fail("a scalar has no axis");
        }
        let axis = axis_index(params.axis, rank)?;
        let mut order: Vec<usize> = (0..rank).collect();
        let width = if params.flatten {
            shape[axis..].iter().product()
        } else {
            order.remove(axis);
            order.push(axis);
            shape[axis]
        };
        let rows = view.len() / width.max(1);
        let permuted = view.permuted(&order);
        let y = self.row_major_buffer(Storage::F32, &permuted.shape());
        let step = SoftmaxStep {
            x: self.rows(&node.name, permuted, rows, width),
            y: View::dense(y.buffer, &[rows, width], &[0, 1]),
            log: params.log,
            masked,
        };
        self.emit(&node.name, Step::Softmax(step));
        let mut back = vec![0; rank];
        for (to, &from) in order.iter().enumerate() {
            back[from] = to;
        }
        self.set(out, y.permuted(&back));
        Ok(())
    }

    /// `x / norm(x)` along an axis, zero where the norm is.
    fn lp_norm(&mut self, node: &Node, axis: i64, p: u8) -> Result<(), OpError> {
        let Some(out) = self.result(node, 0) else {
            return Ok(());
        };
        let x_id = self.operand(node, 0)?;
        let x = self.view(x_id)?;
        let axis = axis_index(axis, x.rank())?;
        let mut shape = x.shape();
        shape[axis] = 1;
        let norm = self.dense_buffer(Storage::F32, &shape, &x.memory_order());
        let kind = match p {
            1 => ReduceKind::L1,
            _ => ReduceKind::L2,
        };
        let step = ReduceStep {
            x: x.clone(),
            y: norm.clone(),
            kind,
        };
        self.emit(&node.name, Step::Reduce(step));
        self.defer_views(&node.name, out, vec![x, norm], &mut |e, x| {
            let y = e.push(PointOp::Div, &[x[0], x[1]]);
            let zero = e.push(PointOp::ConstantF32(0.0), &[]);
            e.push(PointOp::Select, &[x[1], y, zero])
        })
    }

    /// `x / (bias + alpha / size * sum of squares over `size` channels)^beta`.
    fn lrn(&mut self, node: &Node, params: &Lrn) -> Result<(), OpError> {
        let Lrn {
            alpha,
            beta,
            bias,
            size,
        } = *params;
        let Some(out) = self.result(node, 0) else {
            return Ok(());
        };
        let x_id = self.operand(node, 0)?;
        let x = self.view(x_id)?;
        let shape = x.shape();
        let order = x.memory_order();
        let mut squares = Deferred {
            expression: Expression::default(),
            inputs: vec![x.clone()],
            name: node.name.clone(),
        };
        let load = squares.expression.load(0, RegisterKind::F32);
        squares.expression.push(PointOp::Mul, &[load, load]);
        let squares = self.emit_pointwise(squares, &shape);
        // No window reaches further than from the first channel to the last.
        let channels = shape[1];
        let furthest = channels.saturating_sub(1);
        let (before, behind) = (((size - 1) / 2).min(furthest), (size / 2).min(furthest));
        let taps = before + 1 + behind;
        let mut index = Vec::with_capacity(channels * taps);
        let mut weight = Vec::with_capacity(channels * taps);
        for c in 0..channels {
            for tap in 0..taps {
                let from = (c + tap)
                    .checked_sub(before)
                    .filter(|&from| from < channels);
                index.push(from.unwrap_or(0) as u32);
                weight.push(if from.is_some() {
                    alpha / size as f32
                } else {
                    0.0
                });
            }
        }
        let sums = self.dense_buffer(Storage::F32, &shape, &order);
        let step = ResampleStep {
            x: squares,
            y: sums.clone(),
            axis: 1,
            taps,
            index: Arc::new(index),
            weight: Some(Arc::new(weight)),
        };
        self.emit(&node.name, Step::Resample(step));
        self.defer_views(&node.name, out, vec![x, sums], &mut |e, x| {
            let bias = e.push(PointOp::ConstantF32(bias), &[]);
            let base = e.push(PointOp::Add, &[x[1], bias]);
            let exponent = e.push(PointOp::ConstantF32(beta), &[]);
            let power = e.push(PointOp::Pow, &[base, exponent]);
            e.push(PointOp::Div, &[x[0], power])
        })
    }
}
