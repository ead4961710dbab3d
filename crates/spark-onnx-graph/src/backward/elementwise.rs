//! Element-wise functions of several operands, summed where an operand was broadcast.
//!
//! Where a slope jumps, the value there is the reference's (`reference/gradient/elementwise.rs`).

use super::operator::{At, Backward};
use crate::building::{Builder, Built};
use crate::graph::infer::op_error;
use crate::graph::{
    Binary, Cast, CastLike, Clip, CountedDropout, ReduceKind, Unary, ValueId, Variadic, Where,
};

impl Backward for Binary {
    fn backward(&self, at: &mut At<'_>, operand: usize) -> Built {
        let (x, z, y, dy) = (at.operand(0)?, at.operand(1)?, at.result()?, at.dy()?);
        let shape = at.shape(operand)?;
        let b = &mut *at.builder;
        let gradient = match operand {
            0 => by_first(*self, b, (x, z), dy)?,
            _ => by_second(*self, b, (x, z, y), dy)?,
        };
        b.sum_to(gradient, &shape)
    }
}

fn by_first(f: Binary, b: &mut Builder, (x, z): (ValueId, ValueId), dy: ValueId) -> Built {
    match f {
        Binary::Add | Binary::Sub | Binary::Mod { .. } => Ok(dy),
        Binary::Mul => b.mul(dy, z),
        Binary::Div => b.div(dy, z),
        Binary::Pow => {
            let z = b.cast_like(z, x)?;
            let lower = b.add_number(z, -1.0)?;
            let power = b.binary(Binary::Pow, x, lower)?;
            let slope = b.mul(z, power)?;
            let is_constant = b.compare(Binary::Equal, z, 0.0)?;
            let slope = b.keep_unless(is_constant, slope, 0.0)?;
            b.mul(dy, slope)
        }
        Binary::PRelu => {
            let is_off = b.compare(Binary::LessOrEqual, x, 0.0)?;
            let leaked = b.mul(dy, z)?;
            b.select(is_off, leaked, dy)
        }
        _ => Err(op_error!("its results are no floats")),
    }
}

fn by_second(
    f: Binary,
    b: &mut Builder,
    (x, z, y): (ValueId, ValueId, ValueId),
    dy: ValueId,
) -> Built {
    match f {
        Binary::Add => Ok(dy),
        Binary::Sub => b.unary(Unary::Neg, dy),
        Binary::Mul => b.mul(dy, x),
        Binary::Div => {
            let slope = b.div(y, z)?;
            let gradient = b.mul(dy, slope)?;
            b.unary(Unary::Neg, gradient)
        }
        Binary::Pow => {
            // Of a base of 0 the exponent has no gradient, unless the power is infinite.
            let is_zero = b.compare(Binary::Equal, x, 0.0)?;
            let is_no_pole = b.compare(Binary::GreaterOrEqual, z, 0.0)?;
            let is_flat = b.binary(Binary::And, is_zero, is_no_pole)?;
            let log = b.unary(Unary::Log, x)?;
            let slope = b.mul(y, log)?;
            let slope = b.keep_unless(is_flat, slope, 0.0)?;
            let gradient = b.mul(dy, slope)?;
            b.cast_like(gradient, z)
        }
        Binary::Mod { .. } => {
            // What the remainder leaves, in whole multiples of the divisor.
            let multiples = b.sub(x, y)?;
            let quotient = b.div(multiples, z)?;
            let whole = b.unary(Unary::Round, quotient)?;
            let gradient = b.mul(dy, whole)?;
            b.unary(Unary::Neg, gradient)
        }
        Binary::PRelu => {
            let is_off = b.compare(Binary::LessOrEqual, x, 0.0)?;
            let gradient = b.mul(dy, x)?;
            b.keep_where(is_off, gradient, 0.0)
        }
        _ => Err(op_error!("its results are no floats")),
    }
}

impl Backward for Variadic {
    fn backward(&self, at: &mut At<'_>, operand: usize) -> Built {
        let (y, dy) = (at.result()?, at.dy()?);
        let shape = at.shape(operand)?;
        let n_operands = at.node.inputs.len();
        let gradient = match self {
            Self::Sum => dy,
            Self::Mean => at.builder.times(dy, 1.0 / n_operands as f64)?,
            Self::Max | Self::Min => {
                let mut is_extreme = Vec::with_capacity(n_operands);
                for other in 0..n_operands {
                    let x = at.operand(other)?;
                    let is_equal = at.builder.binary(Binary::Equal, x, y)?;
                    let dtype = at.builder.dtype(dy);
                    is_extreme.push(at.builder.cast(is_equal, dtype)?);
                }
                let b = &mut *at.builder;
                let count = b.sum(&is_extreme)?;
                let share = b.div(dy, count)?;
                b.mul(share, is_extreme[operand])?
            }
        };
        at.builder.sum_to(gradient, &shape)
    }
}

impl Backward for Where {
    fn backward(&self, at: &mut At<'_>, operand: usize) -> Built {
        let (condition, dy) = (at.operand(0)?, at.dy()?);
        let shape = at.shape(operand)?;
        let gradient = match operand {
            1 => at.builder.keep_where(condition, dy, 0.0)?,
            _ => at.builder.keep_unless(condition, dy, 0.0)?,
        };
        at.builder.sum_to(gradient, &shape)
    }
}

impl Backward for Clip {
    fn backward(&self, at: &mut At<'_>, operand: usize) -> Built {
        let (x, low, high) = (at.operand(0)?, at.optional(1), at.optional(2));
        let (dy, shape) = (at.dy()?, at.shape(operand)?);
        let b = &mut *at.builder;
        let compare = |b: &mut Builder, f, bound: Option<ValueId>| {
            bound.map(|bound| b.binary(f, x, bound)).transpose()
        };
        let is_low = compare(b, Binary::Less, low)?;
        let is_high = compare(b, Binary::Greater, high)?;
        let crossed = match (low, high) {
            (Some(low), Some(high)) => Some(b.binary(Binary::GreaterOrEqual, low, high)?),
            _ => None,
        };
        let gradient = match operand {
            0 => {
                let kept = is_low.map_or(Ok(dy), |is_low| b.keep_unless(is_low, dy, 0.0))?;
                is_high.map_or(Ok(kept), |is_high| b.keep_unless(is_high, kept, 0.0))?
            }
            1 => {
                let is_low = is_low.ok_or_else(|| op_error!("no lower bound"))?;
                let kept = b.keep_where(is_low, dy, 0.0)?;
                crossed.map_or(Ok(kept), |crossed| b.keep_unless(crossed, kept, 0.0))?
            }
            _ => {
                let is_high = is_high.ok_or_else(|| op_error!("no upper bound"))?;
                let replaced = match (low, high) {
                    (Some(low), Some(high)) => {
                        let crossed = b.binary(Binary::Less, high, low)?;
                        b.binary(Binary::Or, is_high, crossed)?
                    }
                    _ => is_high,
                };
                b.keep_where(replaced, dy, 0.0)?
            }
        };
        match operand {
            0 => Ok(gradient),
            _ => b.sum_to(gradient, &shape),
        }
    }
}

impl Backward for Cast {
    fn backward(&self, at: &mut At<'_>, _: usize) -> Built {
        cast_back(at)
    }
}

impl Backward for CastLike {
    fn backward(&self, at: &mut At<'_>, _: usize) -> Built {
        cast_back(at)
    }
}

fn cast_back(at: &mut At<'_>) -> Built {
    let (x, dy) = (at.operand(0)?, at.dy()?);
    at.builder.cast_like(dy, x)
}

impl Builder {
    /// A value in the element type of another, if that is a float.
    pub(super) fn cast_like(&mut self, x: ValueId, like: ValueId) -> Built {
        match self.dtype(like) {
            dtype if dtype.is_float() => self.cast(x, dtype),
            _ => Ok(x),
        }
    }

    /// An equal part of `dy` for each of the extremes `y` of sets along axes.
    pub(super) fn shared_by_equals(
        &mut self,
        x: ValueId,
        (y, dy): (ValueId, ValueId),
        axes: &[usize],
    ) -> Built {
        let is_extreme = self.binary(Binary::Equal, x, y)?;
        let dtype = self.dtype(dy);
        let is_extreme = self.cast(is_extreme, dtype)?;
        let count = self.reduce(ReduceKind::Sum, is_extreme, axes)?;
        let share = self.div(dy, count)?;
        self.mul(share, is_extreme)
    }
}

impl Backward for CountedDropout {
    /// The same elements are dropped: the mask is made a second time, not held.
    fn backward(&self, at: &mut At<'_>, _: usize) -> Built {
        let (pass, dy) = (at.operand(1)?, at.dy()?);
        at.builder.op(*self, &[dy, pass])
    }
}
