//! Linear quantisation, and rounding to floats of 8 bits and fewer: element by element.
//!
//! ```text
//! scale per tensor   part of the program where it is known
//! per axis           a view that broadcasts
//! per block          each scale as often as its block is long, which takes a copy
//! ```

use super::elementwise::Build;
use super::*;
use crate::graph::{
    DequantizeLinear, QuantizeLinear, RoundFloat, RoundedActivations, Unary, resolve_axis,
};
use crate::plan::pointwise::PointOp;
use crate::tensor::DType;

impl Lower for RoundFloat {
    fn lower(&self, lowering: &mut Lowering<'_>, node: &Node) -> Result<(), OpError> {
        lowering.lower_result(node, |l, out| {
            let x = l.operand(node, 0)?;
            l.defer(&node.name, out, &[x], &mut |e, x| {
                e.push(PointOp::RoundFloat(*self), &[x[0]])
            })
        })
    }
}

impl Lower for RoundedActivations {
    fn lower(&self, lowering: &mut Lowering<'_>, node: &Node) -> Result<(), OpError> {
        lowering.lower_view(node, |l, _| {
            let x = l.operand(node, 0)?;
            let mut x = l.view(x)?;
            let axis = resolve_axis(self.axis, x.rank())?;
            // Pixels may lie in any order, but those of a position of the first axis side by side.
            let mut order = x.memory_order();
            order.retain(|&other| other != axis);
            order.sort_by_key(|&other| other != 0);
            order.push(axis);
            if !x.is_dense_in(&order) {
                x = l.copied(&node.name, &x, &order);
            }
            let y = l.dense_buffer(Storage::F32, &x.shape(), &order);
            let step = RoundedActivationsStep {
                x,
                y: y.clone(),
                axis,
                op: *self,
            };
            l.emit(&node.name, Step::RoundedActivations(step));
            Ok(y)
        })
    }
}

impl Lower for QuantizeLinear {
    fn lower(&self, lowering: &mut Lowering<'_>, node: &Node) -> Result<(), OpError> {
        lowering.lower_result(node, |l, out| l.quantize(node, self, out))
    }
}

impl Lower for DequantizeLinear {
    fn lower(&self, lowering: &mut Lowering<'_>, node: &Node) -> Result<(), OpError> {
        lowering.lower_result(node, |l, out| l.dequantize(node, self, out))
    }
}

/// Which elements share a scale.
#[derive(Clone, Copy)]
struct Granularity {
    axis: i64,
    block_size: usize,
}

impl Lowering<'_> {
    /// Scales or zero points, shaped so that they broadcast to `shape`.
    fn scales(
        &mut self,
        name: &str,
        id: ValueId,
        Granularity { axis, block_size }: Granularity,
        shape: &[usize],
    ) -> Result<View, OpError> {
        let view = self.view(id)?;
        let rank = shape.len();
        if block_size > 0 {
            if rank >= MAX_RANK {
                return fail(format!("blocks of {rank} axes, at most {}", MAX_RANK - 1));
            }
            let axis = axis_index(axis, rank)?;
            let mut blocks = view;
            let extent = block_size.min(shape[axis]);
            blocks.axes.insert(axis + 1, Axis { extent, stride: 0 });
            let mut repeated = shape.to_vec();
            repeated[axis] = blocks.axes[axis].extent * extent;
            let repeated = self.reshaped(name, blocks, &repeated);
            return Ok(repeated.sliced(axis, 0, 1, shape[axis]));
        }
        if view.len() == 1 {
            return Ok(self.reshaped("", view, &[]));
        }
        let mut along = vec![1; rank];
        along[axis_index(axis, rank)?] = view.len();
        Ok(self.reshaped("", view, &along))
    }

    fn quantize(&mut self, node: &Node, op: &QuantizeLinear, out: ValueId) -> Result<(), OpError> {
        let (x, scale) = (self.operand(node, 0)?, self.operand(node, 1)?);
        let to = self.ty(out).dtype;
        let range = match to {
            DType::U8 => Some((0.0, 255.0)),
            DType::I8 => Some((-128.0, 127.0)),
            DType::U16 => Some((0.0, 65535.0)),
            DType::I16 => Some((-32768.0, 32767.0)),
            _ => None,
        };
        if !self.ty(x).dtype.is_float() {
            return fail(format!("quantising {} is not supported", self.ty(x).dtype));
        }
        let is_wide = Storage::of(to) == Storage::I64;
        let build: Build<'_> = &mut |e, x| {
            let scaled = e.push(PointOp::Div, &[x[0], x[1]]);
            let mut y = match op.float {
                Some(_) => scaled,
                None => e.push(PointOp::Unary(Unary::Round), &[scaled]),
            };
            if let Some(&zero) = x.get(2) {
                let zero = match is_wide {
                    true => e.push(PointOp::ToF32, &[zero]),
                    false => zero,
                };
                y = e.push(PointOp::Add, &[y, zero]);
            }
            match (op.float, range) {
                (Some(float), _) => y = e.push(PointOp::RoundFloat(float), &[y]),
                (None, Some((low, high))) => y = e.push(PointOp::ToByte { low, high }, &[y]),
                (None, None) => {}
            }
            match is_wide {
                true => e.push(PointOp::ToI64, &[y]),
                false => y,
            }
        };
        let granularity = Granularity {
            axis: op.axis,
            block_size: op.block_size,
        };
        self.defer_quantised(node, [x, scale], granularity, out, build)
    }

    fn dequantize(
        &mut self,
        node: &Node,
        op: &DequantizeLinear,
        out: ValueId,
    ) -> Result<(), OpError> {
        let (x, scale) = (self.operand(node, 0)?, self.operand(node, 1)?);
        let wide = Storage::of(self.ty(x).dtype) == Storage::I64;
        let build: Build<'_> = &mut |e, x| {
            let mut y = x[0];
            if let Some(&zero) = x.get(2) {
                y = e.push(PointOp::Sub, &[y, zero]);
            }
            if wide {
                y = e.push(PointOp::ToF32, &[y]);
            }
            e.push(PointOp::Mul, &[y, x[1]])
        };
        let granularity = Granularity {
            axis: op.axis,
            block_size: op.block_size,
        };
        self.defer_quantised(node, [x, scale], granularity, out, build)
    }

    /// Defers a function of `x`, its scale and its zero point, if it has one. Known and alike for all elements,
    /// these are part of the program, which may then take over that of `x`.
    fn defer_quantised(
        &mut self,
        node: &Node,
        [x, scale]: [ValueId; 2],
        granularity: Granularity,
        out: ValueId,
        build: Build<'_>,
    ) -> Result<(), OpError> {
        let zero = self.optional(node, 2);
        let is_one = |id: ValueId| self.constant(id).is_some_and(|t| t.len() == 1);
        if is_one(scale) && zero.is_none_or(is_one) {
            let operands: Vec<ValueId> = [x, scale].into_iter().chain(zero).collect();
            return self.defer(&node.name, out, &operands, build);
        }
        let shape = self.ty(x).shape.clone();
        let mut views = vec![self.held(x)?];
        for id in [Some(scale), zero].into_iter().flatten() {
            views.push(self.scales(&node.name, id, granularity, &shape)?);
        }
        self.defer_views(&node.name, out, views, build)
    }
}
