//! Element-wise functions of several operands, with broadcasting, and casts.

use super::index::{broadcast_strides, for_each_position, offset};
use super::movement::pick;
use super::numbers::{Numbers, from_floats, from_numbers, from_whole};
use super::operator::{Evaluate, Evaluated, Inputs, Working, make, one};
use super::unary::{larger, smaller};
use crate::graph::infer::{DIVIDED_BY_ZERO, op_error};
use crate::graph::{Binary, Cast, CastLike, Clip, OpError, TensorType, Variadic, Where};
use crate::tensor::{DType, Tensor, TensorData};

/// For every position of `shape` the offsets into two tensors that broadcast to it.
fn pairs(a: &[usize], b: &[usize], shape: &[usize]) -> Vec<(usize, usize)> {
    let (a, b) = (broadcast_strides(a, shape), broadcast_strides(b, shape));
    let mut pairs = Vec::with_capacity(shape.iter().product());
    for_each_position(shape, |at| pairs.push((offset(at, &a), offset(at, &b))));
    pairs
}

impl Evaluate for Binary {
    fn evaluate(&self, inputs: Inputs<'_>, types: &[TensorType]) -> Evaluated {
        one(types, |ty| binary(*self, inputs, ty))
    }

    fn working_bytes(&self, working: &Working<'_>) -> usize {
        working.computed()
    }
}

fn binary(f: Binary, inputs: Inputs<'_>, ty: &TensorType) -> Result<Tensor, OpError> {
    let (a, b) = (inputs.get(0)?, inputs.get(1)?);
    let pairs = pairs(a.shape(), b.shape(), &ty.shape).into_iter();
    match (Numbers::of(a), Numbers::of(b)) {
        (Numbers::Float(a), Numbers::Float(b)) => {
            from_floats(ty, pairs.map(|(i, j)| on_floats(f, a[i], b[j])).collect())
        }
        (Numbers::Whole(a), Numbers::Whole(b)) => {
            let values = pairs
                .map(|(i, j)| on_whole(f, a[i], b[j]))
                .collect::<Result<Vec<_>, _>>()?;
            from_whole(ty, values)
        }
        // Only Pow takes two kinds: the power is computed in f64.
        (Numbers::Float(a), Numbers::Whole(b)) => from_floats(
            ty,
            pairs
                .map(|(i, j)| on_floats(f, a[i], b[j] as f64))
                .collect(),
        ),
        (Numbers::Whole(a), Numbers::Float(b)) => from_floats(
            ty,
            pairs
                .map(|(i, j)| on_floats(f, a[i] as f64, b[j]))
                .collect(),
        ),
    }
}

fn on_floats(f: Binary, a: f64, b: f64) -> f64 {
    let truth = |condition| f64::from(u8::from(condition));
    match f {
        Binary::Add => a + b,
        Binary::Sub => a - b,
        Binary::Mul => a * b,
        Binary::Div => a / b,
        Binary::Pow => a.powf(b),
        Binary::Mod { fmod: true } => a % b,
        Binary::Mod { fmod: false } => match a % b {
            0.0 => 0f64.copysign(b),
            rest if (rest < 0.0) != (b < 0.0) => rest + b,
            rest => rest,
        },
        Binary::PRelu if a < 0.0 => a * b,
        Binary::PRelu => a,
        Binary::And => truth(a != 0.0 && b != 0.0),
        Binary::Or => truth(a != 0.0 || b != 0.0),
        Binary::Xor => truth((a != 0.0) != (b != 0.0)),
        Binary::BitwiseAnd | Binary::BitwiseOr | Binary::BitwiseXor | Binary::BitShift { .. } => {
            f64::NAN
        }
        Binary::Equal => truth(a == b),
        Binary::Less => truth(a < b),
        Binary::LessOrEqual => truth(a <= b),
        Binary::Greater => truth(a > b),
        Binary::GreaterOrEqual => truth(a >= b),
    }
}

/// Exact but for products and powers beyond 128 bits, whose low bits are kept:
/// the result wraps to at most 64 bits anyway.
fn on_whole(f: Binary, a: i128, b: i128) -> Result<i128, OpError> {
    let by_zero = || op_error!("{DIVIDED_BY_ZERO}");
    Ok(match f {
        Binary::Add => a + b,
        Binary::Sub => a - b,
        Binary::Mul => a.wrapping_mul(b),
        Binary::Div => a.checked_div(b).ok_or_else(by_zero)?,
        Binary::Pow => power(a, b).ok_or_else(by_zero)?,
        Binary::Mod { fmod: true } => a.checked_rem(b).ok_or_else(by_zero)?,
        Binary::Mod { fmod: false } => {
            let rest = a.checked_rem(b).ok_or_else(by_zero)?;
            if rest != 0 && (rest < 0) != (b < 0) {
                rest + b
            } else {
                rest
            }
        }
        Binary::PRelu => {
            if a < 0 {
                a.wrapping_mul(b)
            } else {
                a
            }
        }
        Binary::And | Binary::BitwiseAnd => a & b,
        Binary::Or | Binary::BitwiseOr => a | b,
        Binary::Xor | Binary::BitwiseXor => a ^ b,
        // No integer has more than 64 bits, so that no shift is longer than this.
        Binary::BitShift { right: true } => a >> if (0..64).contains(&b) { b } else { 127 },
        Binary::BitShift { right: false } if (0..64).contains(&b) => a << b,
        Binary::BitShift { right: false } => 0,
        Binary::Equal => i128::from(a == b),
        Binary::Less => i128::from(a < b),
        Binary::LessOrEqual => i128::from(a <= b),
        Binary::Greater => i128::from(a > b),
        Binary::GreaterOrEqual => i128::from(a >= b),
    })
}

/// `base^exponent`; fractions truncate to zero, and 0 has no negative power.
fn power(base: i128, exponent: i128) -> Option<i128> {
    if exponent < 0 {
        return match base {
            0 => None,
            1 => Some(1),
            -1 if exponent % 2 == 0 => Some(1),
            -1 => Some(-1),
            _ => Some(0),
        };
    }
    let (mut result, mut square, mut left) = (1i128, base, exponent);
    while left > 0 {
        if left & 1 == 1 {
            result = result.wrapping_mul(square);
        }
        square = square.wrapping_mul(square);
        left >>= 1;
    }
    Some(result)
}

impl Evaluate for Variadic {
    fn evaluate(&self, inputs: Inputs<'_>, types: &[TensorType]) -> Evaluated {
        one(types, |ty| variadic(*self, inputs, ty))
    }

    fn working_bytes(&self, working: &Working<'_>) -> usize {
        working.computed()
    }
}

fn variadic(f: Variadic, inputs: Inputs<'_>, ty: &TensorType) -> Result<Tensor, OpError> {
    let n = inputs.0.len();
    let mut result: Option<Numbers> = None;
    for index in 0..n {
        let x = inputs.get(index)?;
        let at: Vec<usize> = pairs(x.shape(), &[], &ty.shape)
            .into_iter()
            .map(|(i, _)| i)
            .collect();
        result = Some(match (result, Numbers::of(x)) {
            (Some(Numbers::Float(mut so_far)), Numbers::Float(x)) => {
                for (y, &i) in so_far.iter_mut().zip(&at) {
                    *y = match f {
                        Variadic::Sum | Variadic::Mean => *y + x[i],
                        Variadic::Max => larger(*y, x[i]),
                        Variadic::Min => smaller(*y, x[i]),
                    };
                }
                Numbers::Float(so_far)
            }
            (Some(Numbers::Whole(mut so_far)), Numbers::Whole(x)) => {
                for (y, &i) in so_far.iter_mut().zip(&at) {
                    *y = match f {
                        Variadic::Sum | Variadic::Mean => *y + x[i],
                        Variadic::Max => x[i].max(*y),
                        Variadic::Min => x[i].min(*y),
                    };
                }
                Numbers::Whole(so_far)
            }
            (_, Numbers::Float(x)) => Numbers::Float(at.iter().map(|&i| x[i]).collect()),
            (_, Numbers::Whole(x)) => Numbers::Whole(at.iter().map(|&i| x[i]).collect()),
        });
    }
    match result {
        Some(Numbers::Float(sums)) if f == Variadic::Mean => {
            from_floats(ty, sums.into_iter().map(|s| s / n as f64).collect())
        }
        Some(result) => from_numbers(ty, result),
        None => Err(op_error!("no operands")),
    }
}

impl Evaluate for Where {
    fn evaluate(&self, inputs: Inputs<'_>, types: &[TensorType]) -> Evaluated {
        one(types, |ty| select(inputs, ty))
    }

    fn working_bytes(&self, working: &Working<'_>) -> usize {
        working.computed()
    }
}

fn select(inputs: Inputs<'_>, ty: &TensorType) -> Result<Tensor, OpError> {
    let (condition, a, b) = (inputs.get(0)?, inputs.get(1)?, inputs.get(2)?);
    let condition_strides = broadcast_strides(condition.shape(), &ty.shape);
    let condition = condition.to_f64();
    let strides = [a, b].map(|t| broadcast_strides(t.shape(), &ty.shape));
    let mut sources = Vec::with_capacity(ty.shape.iter().product());
    for_each_position(&ty.shape, |at| {
        let which = usize::from(condition[offset(at, &condition_strides)] == 0.0);
        sources.push((which, offset(at, &strides[which])));
    });
    pick(&[a, b], &sources, ty)
}

impl Evaluate for Clip {
    fn evaluate(&self, inputs: Inputs<'_>, types: &[TensorType]) -> Evaluated {
        one(types, |ty| clip(inputs, ty))
    }

    fn working_bytes(&self, working: &Working<'_>) -> usize {
        working.computed()
    }
}

/// `min(max(x, lower), upper)`; the upper bound wins where they cross.
fn clip(inputs: Inputs<'_>, ty: &TensorType) -> Result<Tensor, OpError> {
    let bound = |index| inputs.optional(index).map(Numbers::of);
    match (Numbers::of(inputs.get(0)?), bound(1), bound(2)) {
        (Numbers::Float(mut x), low, high) => {
            if let Some(Numbers::Float(low)) = low {
                x.iter_mut()
                    .for_each(|x| *x = if *x < low[0] { low[0] } else { *x });
            }
            if let Some(Numbers::Float(high)) = high {
                x.iter_mut()
                    .for_each(|x| *x = if *x > high[0] { high[0] } else { *x });
            }
            from_floats(ty, x)
        }
        (Numbers::Whole(mut x), low, high) => {
            if let Some(Numbers::Whole(low)) = low {
                x.iter_mut().for_each(|x| *x = low[0].max(*x));
            }
            if let Some(Numbers::Whole(high)) = high {
                x.iter_mut().for_each(|x| *x = high[0].min(*x));
            }
            from_whole(ty, x)
        }
    }
}

impl Evaluate for Cast {
    fn evaluate(&self, inputs: Inputs<'_>, types: &[TensorType]) -> Evaluated {
        one(types, |ty| cast(inputs, ty))
    }

    fn working_bytes(&self, working: &Working<'_>) -> usize {
        working.cast()
    }
}

impl Evaluate for CastLike {
    fn evaluate(&self, inputs: Inputs<'_>, types: &[TensorType]) -> Evaluated {
        one(types, |ty| cast(inputs, ty))
    }

    fn working_bytes(&self, working: &Working<'_>) -> usize {
        working.cast()
    }
}

fn cast(inputs: Inputs<'_>, ty: &TensorType) -> Result<Tensor, OpError> {
    let x = inputs.get(0)?;
    if x.dtype() == ty.dtype {
        return make(ty, x.data().clone());
    }
    // Widening is exact, and what folding stored weights mostly does.
    if ty.dtype == DType::F32 && matches!(x.dtype(), DType::F16 | DType::BF16) {
        return make(ty, TensorData::F32(x.to_f32()));
    }
    from_numbers(ty, Numbers::of(x))
}
