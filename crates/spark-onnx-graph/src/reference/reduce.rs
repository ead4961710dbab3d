//! Reductions over axes and running sums along one.

use super::index::{Lines, for_each_position, offset, strides};
use super::numbers::{Numbers, from_floats, from_numbers, from_whole, whole_numbers};
use super::operator::{Evaluate, Evaluated, Inputs, Working, one, times};
use super::unary::{larger, smaller};
use crate::graph::infer::op_error;
use crate::graph::{
    CumProd, CumSum, OpError, Reduce, ReduceKind, TensorType, resolve_axes, resolve_axis,
};
use crate::tensor::{DType, Tensor};

impl Evaluate for Reduce {
    fn evaluate(&self, inputs: Inputs<'_>, types: &[TensorType]) -> Evaluated {
        one(types, |ty| reduce(self, inputs, ty))
    }

    fn working_bytes(&self, working: &Working<'_>) -> usize {
        // A list of members for every result.
        let members = times(working.read(), 32);
        working.computed_with(members.saturating_add(times(working.written(), 64)))
    }
}

fn reduce(reduce: &Reduce, inputs: Inputs<'_>, ty: &TensorType) -> Result<Tensor, OpError> {
    let x = inputs.get(0)?;
    let members = members(reduce, inputs, ty)?;
    match Numbers::of(x) {
        Numbers::Float(x) => {
            let over = |set: &Vec<usize>| over_floats(reduce.kind, set.iter().map(|&i| x[i]));
            from_floats(ty, members.iter().map(over).collect())
        }
        Numbers::Whole(x) => {
            let over =
                |set: &Vec<usize>| over_whole(reduce.kind, ty.dtype, set.iter().map(|&i| x[i]));
            from_whole(ty, members.iter().map(over).collect::<Result<_, _>>()?)
        }
    }
}

/// The elements that each element of the result is made of.
pub(super) fn members(
    reduce: &Reduce,
    inputs: Inputs<'_>,
    ty: &TensorType,
) -> Result<Vec<Vec<usize>>, OpError> {
    let x = inputs.get(0)?;
    let rank = x.shape().len();
    let given: Vec<i64> = inputs
        .optional(1)
        .and_then(whole_numbers)
        .unwrap_or_default()
        .into_iter()
        .map(|axis| axis as i64)
        .collect();
    let axes = if given.is_empty() && !reduce.noop_with_empty_axes {
        (0..rank).collect()
    } else {
        resolve_axes(&given, rank)?
    };
    let kept_shape: Vec<usize> = (0..rank)
        .map(|axis| {
            if axes.contains(&axis) {
                1
            } else {
                x.shape()[axis]
            }
        })
        .collect();
    let mut result_strides = strides(&kept_shape);
    axes.iter().for_each(|&axis| result_strides[axis] = 0);

    let mut members: Vec<Vec<usize>> = vec![Vec::new(); ty.shape.iter().product()];
    let mut flat = 0;
    for_each_position(x.shape(), |at| {
        members[offset(at, &result_strides)].push(flat);
        flat += 1;
    });
    Ok(members)
}

/// Of nothing: 0, 1 for a product, the opposite infinity for an extreme, NaN for a mean.
fn over_floats(kind: ReduceKind, set: impl Iterator<Item = f64> + Clone) -> f64 {
    match kind {
        ReduceKind::Sum => set.sum(),
        ReduceKind::Mean => set.clone().sum::<f64>() / set.count() as f64,
        ReduceKind::Max => set.fold(f64::NEG_INFINITY, larger),
        ReduceKind::Min => set.fold(f64::INFINITY, smaller),
        ReduceKind::Prod => set.product(),
        ReduceKind::L1 => set.map(f64::abs).sum(),
        ReduceKind::L2 => set.map(|x| x * x).sum::<f64>().sqrt(),
        ReduceKind::SumSquare => set.map(|x| x * x).sum(),
        ReduceKind::LogSum => set.sum::<f64>().ln(),
        ReduceKind::LogSumExp => {
            let largest = set.clone().fold(f64::NEG_INFINITY, larger);
            if largest.is_infinite() {
                return largest;
            }
            largest + set.map(|x| (x - largest).exp()).sum::<f64>().ln()
        }
    }
}

/// As for floats, but an extreme of nothing is the type's opposite end and a mean
/// truncates; there is no mean of nothing.
fn over_whole(
    kind: ReduceKind,
    dtype: DType,
    set: impl Iterator<Item = i128> + Clone,
) -> Result<i128, OpError> {
    Ok(match kind {
        ReduceKind::Sum => set.sum(),
        ReduceKind::Mean => {
            let n = set.clone().count() as i128;
            set.sum::<i128>()
                .checked_div(n)
                .ok_or_else(|| op_error!("mean of no integers"))?
        }
        ReduceKind::Max => set.max().unwrap_or(whole_range(dtype).0),
        ReduceKind::Min => set.min().unwrap_or(whole_range(dtype).1),
        ReduceKind::Prod => set.fold(1, i128::wrapping_mul),
        ReduceKind::L1 => set.map(i128::abs).sum(),
        ReduceKind::SumSquare => set.fold(0, |sum, x| sum.wrapping_add(x.wrapping_mul(x))),
        ReduceKind::L2 | ReduceKind::LogSum | ReduceKind::LogSumExp => {
            return Err(op_error!("{} has no integer form", kind.name()));
        }
    })
}

/// Smallest and largest value of an integer type.
fn whole_range(dtype: DType) -> (i128, i128) {
    match dtype {
        DType::I8 => (i8::MIN.into(), i8::MAX.into()),
        DType::I16 => (i16::MIN.into(), i16::MAX.into()),
        DType::I32 => (i32::MIN.into(), i32::MAX.into()),
        DType::I64 => (i64::MIN.into(), i64::MAX.into()),
        DType::U8 => (0, u8::MAX.into()),
        DType::U16 => (0, u16::MAX.into()),
        DType::U32 => (0, u32::MAX.into()),
        DType::U64 => (0, u64::MAX.into()),
        DType::Bool => (0, 1),
        DType::F32 | DType::F64 | DType::F16 | DType::BF16 => (i128::MIN, i128::MAX),
    }
}

impl Evaluate for CumSum {
    fn evaluate(&self, inputs: Inputs<'_>, types: &[TensorType]) -> Evaluated {
        one(types, |ty| {
            running(inputs, ty, |x, line| match x {
                Numbers::Float(x) => over_line(x, line, *self, 0.0, |a, b| a + b),
                Numbers::Whole(x) => over_line(x, line, *self, 0, |a, b| a + b),
            })
        })
    }

    fn working_bytes(&self, working: &Working<'_>) -> usize {
        working.computed()
    }
}

impl Evaluate for CumProd {
    fn evaluate(&self, inputs: Inputs<'_>, types: &[TensorType]) -> Evaluated {
        let order = CumSum {
            exclusive: self.exclusive,
            reverse: self.reverse,
        };
        one(types, |ty| {
            running(inputs, ty, |x, line| match x {
                Numbers::Float(x) => over_line(x, line, order, 1.0, |a, b| a * b),
                // The low bits are kept, as the result wraps to at most 64 of them.
                Numbers::Whole(x) => over_line(x, line, order, 1, i128::wrapping_mul),
            })
        })
    }

    fn working_bytes(&self, working: &Working<'_>) -> usize {
        working.computed()
    }
}

/// `over` of every line along the axis that the second operand says.
fn running(
    inputs: Inputs<'_>,
    ty: &TensorType,
    over: impl Fn(&mut Numbers, &[usize]),
) -> Result<Tensor, OpError> {
    let axis = inputs.get(1).map(whole_numbers)?;
    let axis = axis
        .and_then(|a| a.first().copied())
        .ok_or_else(|| op_error!("no axis"))?;
    let lines = Lines::new(&ty.shape, resolve_axis(axis as i64, ty.shape.len())?);
    let mut x = Numbers::of(inputs.get(0)?);
    lines.for_each(|line| over(&mut x, line));
    from_numbers(ty, x)
}

/// Joins one element after another to those before it, beginning with `none`.
fn over_line<T: Copy>(
    x: &mut [T],
    line: &[usize],
    order: CumSum,
    none: T,
    join: impl Fn(T, T) -> T,
) {
    let mut joined = none;
    for step in 0..line.len() {
        let at = if order.reverse {
            line[line.len() - 1 - step]
        } else {
            line[step]
        };
        let with_own = join(joined, x[at]);
        x[at] = if order.exclusive { joined } else { with_own };
        joined = with_own;
    }
}
