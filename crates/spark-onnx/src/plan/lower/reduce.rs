//! Reductions, extreme positions, sorted prefixes and running sums.

use super::lowering::Dequantised;
use super::*;
use crate::graph::{ArgReduce, CumProd, CumSum, Reduce, ReduceKind, TopK};
use crate::tensor::DType;

impl Lower for Reduce {
    fn lower(&self, lowering: &mut Lowering<'_>, node: &Node) -> Result<(), OpError> {
        lowering.reduce(node, *self)
    }
}

impl Lower for ArgReduce {
    fn lower(&self, lowering: &mut Lowering<'_>, node: &Node) -> Result<(), OpError> {
        lowering.arg_reduce(node, *self)
    }
}

impl Lower for TopK {
    fn lower(&self, lowering: &mut Lowering<'_>, node: &Node) -> Result<(), OpError> {
        lowering.top_k(node, self.axis, self.largest)
    }
}

impl Lower for CumSum {
    fn lower(&self, lowering: &mut Lowering<'_>, node: &Node) -> Result<(), OpError> {
        lowering.running(node, *self, false)
    }
}

impl Lower for CumProd {
    fn lower(&self, lowering: &mut Lowering<'_>, node: &Node) -> Result<(), OpError> {
        let order = CumSum {
            exclusive: self.exclusive,
            reverse: self.reverse,
        };
        lowering.running(node, order, true)
    }
}

impl Lowering<'_> {
    fn reduce(&mut self, node: &Node, params: Reduce) -> Result<(), OpError> {
        let Some(out) = self.result(node, 0) else {
            return Ok(());
        };
        let x_id = self.operand(node, 0)?;
        let rank = self.ty(x_id).shape.len();
        let axes = match self.optional(node, 1) {
            Some(id) => self.constant_i64(id, "axes")?,
            None => Vec::new(),
        };
        let mut reduced = vec![axes.is_empty() && !params.noop_with_empty_axes; rank];
        for axis in axes {
            reduced[axis_index(axis, rank)?] = true;
        }
        if params.kind == ReduceKind::Mean
            && let Some(bytes) = self.dequantised(x_id)
            && !bytes.x.is_empty()
        {
            return self.mean_of_bytes(node, bytes, &reduced, params.keep_dims, out);
        }
        let x = self.view(x_id)?;
        let storage = self.storage(&x);
        let exact = matches!(
            params.kind,
            ReduceKind::Sum | ReduceKind::Max | ReduceKind::Min | ReduceKind::Prod
        );
        if storage == Storage::I64 && !exact {
            return fail(format!("{:?} of integers is not supported", params.kind));
        }
        if self.ty(x_id).dtype == DType::U64
            && matches!(params.kind, ReduceKind::Max | ReduceKind::Min)
        {
            return fail("extremes of u64 are not supported");
        }
        let n_terms = (0..rank).filter(|&a| reduced[a]);
        let n_terms: usize = n_terms.map(|a| x.axes[a].extent).product();
        match params.kind {
            ReduceKind::Sum | ReduceKind::L1 => exact_in_f32(self.ty(x_id).dtype, n_terms)?,
            ReduceKind::SumSquare => {
                exact_in_f32(self.ty(x_id).dtype, n_terms.saturating_mul(255))?;
            }
            ReduceKind::Prod => exact_in_f32(self.ty(x_id).dtype, usize::MAX)?,
            _ => {}
        }
        let nothing = (0..rank).any(|a| reduced[a] && x.axes[a].extent == 0);
        if nothing && !self.ty(x_id).dtype.is_float() {
            return fail("a reduction of no integers is not supported");
        }
        let shape: Vec<usize> = (0..rank)
            .map(|a| if reduced[a] { 1 } else { x.axes[a].extent })
            .collect();
        let y = self.dense_buffer(storage, &shape, &x.memory_order());
        let step = ReduceStep {
            x,
            y: y.clone(),
            kind: params.kind,
        };
        self.emit(&node.name, Step::Reduce(step));
        self.set_wrapped(node, out, without_axes(y, &reduced, params.keep_dims))
    }

    /// The mean of dequantised bytes, dequantised only then: their sum is exact, and a quarter of the memory is read.
    pub(super) fn mean_of_bytes(
        &mut self,
        node: &Node,
        bytes: Dequantised,
        reduced: &[bool],
        keep_dims: bool,
        out: ValueId,
    ) -> Result<(), OpError> {
        let Dequantised { x, zero, scale } = bytes;
        let extents = x.axes.iter().zip(reduced);
        let shape: Vec<usize> = extents
            .map(|(axis, &reduced)| if reduced { 1 } else { axis.extent })
            .collect();
        let y = self.dense_buffer(Storage::F32, &shape, &x.memory_order());
        let step = ReduceStep {
            x,
            y: y.clone(),
            kind: ReduceKind::Mean,
        };
        self.emit(&node.name, Step::Reduce(step));
        let mean = without_axes(y, reduced, keep_dims);
        self.defer_views(&node.name, out, vec![mean], &mut |e, x| {
            let zero = e.push(PointOp::ConstantF32(zero), &[]);
            let centred = e.push(PointOp::Sub, &[x[0], zero]);
            let scale = e.push(PointOp::ConstantF32(scale), &[]);
            e.push(PointOp::Mul, &[centred, scale])
        })
    }

    /// `out` is `view`, whose sums or products of integers still have to wrap to their type.
    pub(super) fn set_wrapped(
        &mut self,
        node: &Node,
        out: ValueId,
        view: View,
    ) -> Result<(), OpError> {
        let dtype = self.ty(out).dtype;
        let is_narrow = !dtype.is_float() && !matches!(dtype, DType::I64 | DType::U64);
        if !is_narrow || dtype == DType::Bool {
            self.set(out, view);
            return Ok(());
        }
        self.defer_views(&node.name, out, vec![view], &mut |e, x| {
            elementwise::wrapped(e, x[0], dtype)
        })
    }

    fn arg_reduce(&mut self, node: &Node, params: ArgReduce) -> Result<(), OpError> {
        let Some(out) = self.result(node, 0) else {
            return Ok(());
        };
        let x_id = self.operand(node, 0)?;
        if self.ty(x_id).dtype == DType::U64 {
            return fail("the order of u64 is not supported");
        }
        let x = self.view(x_id)?;
        let axis = axis_index(params.axis, x.rank())?;
        let mut shape = x.shape();
        shape[axis] = 1;
        let y = self.dense_buffer(Storage::I64, &shape, &x.memory_order());
        let step = ArgReduceStep {
            x,
            y: y.clone(),
            params: ArgReduce {
                axis: axis as i64,
                ..params
            },
        };
        self.emit(&node.name, Step::ArgReduce(step));
        let mut reduced = vec![false; shape.len()];
        reduced[axis] = true;
        self.set(out, without_axes(y, &reduced, params.keep_dims));
        Ok(())
    }

    fn top_k(&mut self, node: &Node, axis: i64, largest: bool) -> Result<(), OpError> {
        let x_id = self.operand(node, 0)?;
        if self.ty(x_id).dtype == DType::U64 {
            return fail("the order of u64 is not supported");
        }
        let x = self.view(x_id)?;
        let axis = axis_index(axis, x.rank())?;
        let storage = self.storage(&x);
        let mut results = [None, None];
        for (slot, storage) in [(0, storage), (1, Storage::I64)] {
            if let Some(out) = self.result(node, slot) {
                let shape = self.ty(out).shape.clone();
                let y = self.row_major_buffer(storage, &shape);
                self.set(out, y.clone());
                results[slot] = Some(y);
            }
        }
        let [values, indices] = results;
        let step = TopKStep {
            x,
            values,
            indices,
            axis,
            largest,
        };
        self.emit(&node.name, Step::TopK(step));
        Ok(())
    }

    /// Running sums in the order given, or products.
    fn running(&mut self, node: &Node, order: CumSum, product: bool) -> Result<(), OpError> {
        let Some(out) = self.result(node, 0) else {
            return Ok(());
        };
        let (x_id, axis_id) = (self.operand(node, 0)?, self.operand(node, 1)?);
        let x = self.view(x_id)?;
        let axis = match self.constant_i64(axis_id, "axis")?[..] {
            [axis] => axis_index(axis, x.rank())?,
            _ => return fail("the axis must be one number"),
        };
        let n_terms = if product {
            usize::MAX
        } else {
            x.axes[axis].extent
        };
        exact_in_f32(self.ty(x_id).dtype, n_terms)?;
        let y = self.dense_buffer(self.storage(&x), &x.shape(), &x.memory_order());
        let step = CumSumStep {
            x,
            y: y.clone(),
            axis,
            exclusive: order.exclusive,
            reverse: order.reverse,
            product,
        };
        self.emit(&node.name, Step::CumSum(step));
        self.set_wrapped(node, out, y)
    }
}

/// Integers of 8 bits are held as f32: a sum of too many, or a product, would be rounded before
/// it wraps to its type.
pub(super) fn exact_in_f32(dtype: DType, n_terms: usize) -> Result<(), OpError> {
    let is_held_as_f32 = matches!(dtype, DType::I8 | DType::U8);
    match is_held_as_f32 && n_terms > (1 << 24) / 255 {
        true => fail(format!("this many terms of {dtype} are not supported")),
        false => Ok(()),
    }
}

/// `view` without the axes marked, unless they are to remain.
fn without_axes(view: View, marked: &[bool], keep: bool) -> View {
    if keep {
        return view;
    }
    let axes = view
        .axes
        .iter()
        .zip(marked)
        .filter(|(_, m)| !**m)
        .map(|(&a, _)| a)
        .collect();
    View { axes, ..view }
}
