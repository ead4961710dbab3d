//! Linear quantisation, and roundings whose gradients go straight through.

use super::operator::{At, Backward};
use crate::building::{Builder, Built};
use crate::graph::infer::op_error;
use crate::graph::{
    Binary, DequantizeLinear, Gather, OpError, QuantizeLinear, RoundFloat, RoundedActivations,
    Unary, ValueId, resolve_axis,
};
use crate::reference::rounds_within;
use crate::tensor::DType;

impl Backward for RoundFloat {
    fn backward(&self, at: &mut At<'_>, _: usize) -> Built {
        let (x, dy) = (at.operand(0)?, at.dy()?);
        let b = &mut *at.builder;
        let is_within = within(b, x, *self)?;
        b.keep_where(is_within, dy, 0.0)
    }
}

impl Backward for RoundedActivations {
    /// As it is, but of what a given scale clips.
    fn backward(&self, at: &mut At<'_>, _: usize) -> Built {
        let dy = at.dy()?;
        let Some(most) = self.clips_beyond() else {
            return Ok(dy);
        };
        let x = at.operand(0)?;
        let b = &mut *at.builder;
        let size = b.unary(Unary::Abs, x)?;
        let is_within = b.compare(Binary::LessOrEqual, size, f64::from(most))?;
        b.keep_where(is_within, dy, 0.0)
    }
}

/// Whether elements round to numbers of the format.
fn within(b: &mut Builder, x: ValueId, float: RoundFloat) -> Built {
    let size = b.unary(Unary::Abs, x)?;
    let (bound, is_inside) = rounds_within(float.format);
    let f = if is_inside {
        Binary::LessOrEqual
    } else {
        Binary::Less
    };
    b.compare(f, size, bound)
}

impl Backward for QuantizeLinear {
    /// Of what lies within the range: `dq / scale`, and by the scale `-dq * x / scale^2`.
    fn backward(&self, at: &mut At<'_>, operand: usize) -> Built {
        let (x, scale, dq) = (at.operand(0)?, at.operand(1)?, at.dy()?);
        let (result, shape) = (at.builder.dtype(at.result()?), at.shape(operand)?);
        let zero = at.optional(2);
        let b = &mut *at.builder;
        let factors = spread_out(b, scale, x, self.axis, self.block_size)?;
        let dq = b.cast_like(dq, x)?;
        let factors = b.cast_like(factors, x)?;
        let quotient = b.div(x, factors)?;
        let shifted = |b: &mut Builder, quotient| match zero {
            None => Ok(quotient),
            Some(zero) => {
                let zero = spread_out(b, zero, x, self.axis, self.block_size)?;
                let dtype = b.dtype(x);
                let zero = b.cast(zero, dtype)?;
                b.add(quotient, zero)
            }
        };
        let is_within = match self.float {
            Some(float) => {
                let quotient = shifted(b, quotient)?;
                within(b, quotient, float)?
            }
            None => {
                let (least, most) = range(result)?;
                let rounded = b.unary(Unary::Round, quotient)?;
                let q = shifted(b, rounded)?;
                let is_low = b.compare(Binary::GreaterOrEqual, q, least)?;
                let is_high = b.compare(Binary::LessOrEqual, q, most)?;
                b.binary(Binary::And, is_low, is_high)?
            }
        };
        let gradient = b.div(dq, factors)?;
        let gradient = match operand {
            0 => gradient,
            1 if self.block_size == 0 => {
                let by_scale = b.mul(gradient, quotient)?;
                b.unary(Unary::Neg, by_scale)?
            }
            _ => return Err(of_blocks_and_zeros()),
        };
        let gradient = b.keep_where(is_within, gradient, 0.0)?;
        match operand {
            0 => Ok(gradient),
            _ => gathered(b, gradient, &shape, self.axis, scale),
        }
    }
}

fn of_blocks_and_zeros() -> OpError {
    op_error!("by zero points, and by scales of blocks, it is not written in operators yet")
}

/// Smallest and largest number of what is quantised to.
fn range(dtype: DType) -> Result<(f64, f64), OpError> {
    match dtype {
        DType::I8 => Ok((i8::MIN.into(), i8::MAX.into())),
        DType::U8 => Ok((u8::MIN.into(), u8::MAX.into())),
        DType::I16 => Ok((i16::MIN.into(), i16::MAX.into())),
        DType::U16 => Ok((u16::MIN.into(), u16::MAX.into())),
        other => Err(op_error!("quantised to {other}")),
    }
}

/// A parameter for every element of `x`, or one that broadcasts to them.
fn spread_out(
    b: &mut Builder,
    parameter: ValueId,
    x: ValueId,
    axis: i64,
    block_size: usize,
) -> Built {
    let shape = b.shape(x);
    if block_size > 0 {
        let axis = resolve_axis(axis, shape.len())?;
        let blocks = (0..shape[axis]).map(|i| (i / block_size) as i64);
        let blocks = b.list(blocks.collect())?;
        return b.op(Gather { axis: axis as i64 }, &[parameter, blocks]);
    }
    let aligned = aligned(b, parameter, &shape, axis)?;
    b.reshape(parameter, &aligned)
}

/// The shape in which one number, or one for each position of an axis, broadcasts.
fn aligned(
    b: &Builder,
    parameter: ValueId,
    shape: &[usize],
    axis: i64,
) -> Result<Vec<usize>, OpError> {
    let n: usize = b.ty(parameter).shape.iter().product();
    if n == 1 {
        return Ok(Vec::new());
    }
    let mut aligned = vec![1; shape.len()];
    aligned[resolve_axis(axis, shape.len())?] = n;
    Ok(aligned)
}

/// The sum over all elements that share a parameter, in the parameter's shape and type.
fn gathered(b: &mut Builder, x: ValueId, shape: &[usize], axis: i64, parameter: ValueId) -> Built {
    let of_x = b.shape(x);
    let aligned = aligned(b, parameter, &of_x, axis)?;
    let sums = b.sum_to(x, &aligned)?;
    let sums = b.reshape(sums, shape)?;
    b.cast_like(sums, parameter)
}

impl Backward for DequantizeLinear {
    fn backward(&self, at: &mut At<'_>, operand: usize) -> Built {
        let (q, scale, dx) = (at.operand(0)?, at.operand(1)?, at.dy()?);
        let (zero, shape) = (at.optional(2), at.shape(operand)?);
        let b = &mut *at.builder;
        if operand == 0 {
            let factors = spread_out(b, scale, q, self.axis, self.block_size)?;
            let factors = b.cast_like(factors, dx)?;
            return b.mul(dx, factors);
        }
        if operand > 1 || self.block_size > 0 {
            return Err(of_blocks_and_zeros());
        }
        let dtype = b.dtype(dx);
        let mut steps = b.cast(q, dtype)?;
        if let Some(zero) = zero {
            let zero = spread_out(b, zero, q, self.axis, self.block_size)?;
            let zero = b.cast(zero, dtype)?;
            steps = b.sub(steps, zero)?;
        }
        let gradient = b.mul(dx, steps)?;
        gathered(b, gradient, &shape, self.axis, scale)
    }
}
