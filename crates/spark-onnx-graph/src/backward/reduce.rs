//! Reductions over axes, and running sums along one.

use super::operator::{At, Backward, not_written};
use crate::building::Built;
use crate::graph::infer::op_error;
use crate::graph::{
    Binary, CumProd, CumSum, OpError, Reduce, ReduceKind, TopK, Unary, ValueId, resolve_axes,
};

impl Backward for Reduce {
    fn backward(&self, at: &mut At<'_>, _: usize) -> Built {
        let (x, y, dy, shape) = (at.operand(0)?, at.result()?, at.dy()?, at.shape(0)?);
        let axes = self.axes(at, shape.len())?;
        let mut kept = shape.clone();
        axes.iter().for_each(|&axis| kept[axis] = 1);
        let n: usize = axes.iter().map(|&axis| shape[axis]).product();
        let b = &mut *at.builder;
        let y = b.reshape(y, &kept)?;
        let dy = b.reshape(dy, &kept)?;
        let slope = match self.kind {
            ReduceKind::Sum => return b.expand(dy, &shape),
            ReduceKind::Mean => {
                let share = b.times(dy, 1.0 / n as f64)?;
                return b.expand(share, &shape);
            }
            ReduceKind::LogSum => {
                let negative = b.unary(Unary::Neg, y)?;
                let slope = b.unary(Unary::Exp, negative)?;
                let gradient = b.mul(dy, slope)?;
                return b.expand(gradient, &shape);
            }
            ReduceKind::Max | ReduceKind::Min => return b.shared_by_equals(x, (y, dy), &axes),
            ReduceKind::Prod => products_of_others(at, x, &axes)?,
            ReduceKind::L1 => b.unary(Unary::Sign, x)?,
            ReduceKind::L2 => {
                let is_zero = b.compare(Binary::Equal, y, 0.0)?;
                let divisor = b.keep_unless(is_zero, y, 1.0)?;
                b.div(x, divisor)?
            }
            ReduceKind::SumSquare => b.times(x, 2.0)?,
            ReduceKind::LogSumExp => {
                // From the largest, not from `y`: of large numbers that has lost the digits that their differences have.
                let largest = b.reduce(ReduceKind::Max, x, &axes)?;
                let below = b.sub(x, largest)?;
                let likely = b.unary(Unary::Exp, below)?;
                let sum = b.reduce(ReduceKind::Sum, likely, &axes)?;
                b.div(likely, sum)?
            }
        };
        at.builder.mul(dy, slope)
    }
}

impl Reduce {
    fn axes(&self, at: &At<'_>, rank: usize) -> Result<Vec<usize>, OpError> {
        let given = match at.optional(1) {
            None => Vec::new(),
            Some(axes) => {
                let axes = at.builder.constant_of(axes);
                let axes = axes.as_ref().and_then(|axes| axes.as_i64());
                axes.ok_or_else(|| op_error!("its axes are no constants"))?
                    .to_vec()
            }
        };
        match given.is_empty() && !self.noop_with_empty_axes {
            true => Ok((0..rank).collect()),
            false => resolve_axes(&given, rank),
        }
    }
}

/// For every element the product of all others: with one zero among them only the zero has one that is not 0.
fn products_of_others(at: &mut At<'_>, x: ValueId, axes: &[usize]) -> Built {
    let b = &mut *at.builder;
    let is_zero = b.compare(Binary::Equal, x, 0.0)?;
    let others = b.keep_unless(is_zero, x, 1.0)?;
    let product = b.reduce(ReduceKind::Prod, others, axes)?;
    let dtype = b.dtype(x);
    let zeros = b.cast(is_zero, dtype)?;
    let n_zeros = b.reduce(ReduceKind::Sum, zeros, axes)?;
    let other_zeros = b.sub(n_zeros, zeros)?;
    let slope = b.div(product, others)?;
    let is_whole = b.compare(Binary::Equal, other_zeros, 0.0)?;
    b.keep_where(is_whole, slope, 0.0)
}

impl Backward for CumSum {
    fn backward(&self, at: &mut At<'_>, _: usize) -> Built {
        let (axis, dy) = (at.operand(1)?, at.dy()?);
        let back = Self {
            reverse: !self.reverse,
            ..*self
        };
        at.builder.op(back, &[dy, axis])
    }
}

/// Each value that was chosen hands its gradient to where it stood.
impl Backward for TopK {
    fn backward(&self, at: &mut At<'_>, _: usize) -> Built {
        let (x, count, dy, shape) = (at.operand(0)?, at.operand(1)?, at.dy()?, at.shape(0)?);
        let named = at.node.outputs.get(1).copied().flatten();
        let b = &mut *at.builder;
        let places = match named {
            Some(places) => places,
            None => b.ops(*self, &[Some(x), Some(count)], 2)?[1],
        };
        super::windows::scattered(b, &shape, self.axis, places, dy)
    }
}

not_written!(CumProd);
