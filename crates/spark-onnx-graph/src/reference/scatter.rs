//! Writing updates into a copy of the operand, in the order they are listed.

use super::index::{for_each_position, offset, strides};
use super::movement::{nd_starts, pick, resolve_indices};
use super::numbers::{Numbers, from_numbers};
use super::operator::{Evaluate, Evaluated, Inputs, Working, one, times};
use super::unary::{larger, smaller};
use crate::graph::infer::op_error;
use crate::graph::{
    OpError, ScatterElements, ScatterNd, ScatterReduction, TensorType, resolve_axis,
};
use crate::tensor::Tensor;

impl Evaluate for ScatterElements {
    fn evaluate(&self, inputs: Inputs<'_>, types: &[TensorType]) -> Evaluated {
        one(types, |ty| {
            scatter_elements(self.axis, self.reduction, inputs, ty)
        })
    }

    fn working_bytes(&self, working: &Working<'_>) -> usize {
        working.computed_with(times(working.read(), 32))
    }
}

fn scatter_elements(
    axis: i64,
    reduction: ScatterReduction,
    inputs: Inputs<'_>,
    ty: &TensorType,
) -> Result<Tensor, OpError> {
    write(reduction, inputs, &elements_targets(axis, inputs)?, ty)
}

/// Where every update goes.
pub(super) fn elements_targets(axis: i64, inputs: Inputs<'_>) -> Result<Vec<usize>, OpError> {
    let (x, indices) = (inputs.get(0)?, inputs.get(1)?);
    let axis = resolve_axis(axis, x.shape().len())?;
    let strides = strides(x.shape());
    let mut resolved = resolve_indices(indices, x.shape()[axis])?.into_iter();
    let mut targets = Vec::with_capacity(indices.len());
    for_each_position(indices.shape(), |at| {
        let index = resolved.next().unwrap_or_default();
        targets.push(offset(at, &strides) - at[axis] * strides[axis] + index * strides[axis]);
    });
    Ok(targets)
}

impl Evaluate for ScatterNd {
    fn evaluate(&self, inputs: Inputs<'_>, types: &[TensorType]) -> Evaluated {
        one(types, |ty| scatter_nd(self.reduction, inputs, ty))
    }

    fn working_bytes(&self, working: &Working<'_>) -> usize {
        working.computed_with(times(working.read(), 32))
    }
}

fn scatter_nd(
    reduction: ScatterReduction,
    inputs: Inputs<'_>,
    ty: &TensorType,
) -> Result<Tensor, OpError> {
    write(reduction, inputs, &nd_targets(inputs)?, ty)
}

/// Where every update goes.
pub(super) fn nd_targets(inputs: Inputs<'_>) -> Result<Vec<usize>, OpError> {
    let (x, indices) = (inputs.get(0)?, inputs.get(1)?);
    let depth = indices.shape()[indices.shape().len() - 1];
    let rest: usize = x.shape()[depth..].iter().product();
    let starts = nd_starts(x.shape(), indices, 0)?.into_iter();
    Ok(starts.flat_map(|start| start..start + rest).collect())
}

/// Operand 0 with update `i`, of operand 2, written to element `targets[i]`.
fn write(
    reduction: ScatterReduction,
    inputs: Inputs<'_>,
    targets: &[usize],
    ty: &TensorType,
) -> Result<Tensor, OpError> {
    let (x, updates) = (inputs.get(0)?, inputs.get(2)?);
    if reduction == ScatterReduction::None {
        let mut sources: Vec<(usize, usize)> = (0..x.len()).map(|i| (0, i)).collect();
        for (update, &target) in targets.iter().enumerate() {
            sources[target] = (1, update);
        }
        return pick(&[x, updates], &sources, ty);
    }
    match (Numbers::of(x), Numbers::of(updates)) {
        (Numbers::Float(mut x), Numbers::Float(updates)) => {
            for (&target, &u) in targets.iter().zip(&updates) {
                let y = x[target];
                x[target] = match reduction {
                    ScatterReduction::None => u,
                    ScatterReduction::Add => y + u,
                    ScatterReduction::Mul => y * u,
                    ScatterReduction::Max => larger(y, u),
                    ScatterReduction::Min => smaller(y, u),
                };
            }
            from_numbers(ty, Numbers::Float(x))
        }
        (Numbers::Whole(mut x), Numbers::Whole(updates)) => {
            for (&target, &u) in targets.iter().zip(&updates) {
                let y = x[target];
                x[target] = match reduction {
                    ScatterReduction::None => u,
                    ScatterReduction::Add => y + u,
                    ScatterReduction::Mul => y.wrapping_mul(u),
                    ScatterReduction::Max => y.max(u),
                    ScatterReduction::Min => y.min(u),
                };
            }
            from_numbers(ty, Numbers::Whole(x))
        }
        _ => Err(op_error!("`x` and `updates` differ in type")),
    }
}
