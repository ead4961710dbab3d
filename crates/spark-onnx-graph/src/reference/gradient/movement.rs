//! Operators whose every result element is some operand's element, or a fixed number.
//!
//! ```text
//! the operator moves positions instead of values:  from = op(1, 2, 3, ...)
//! gradient[from[j] - 1] += dy[j]                   0 comes from somewhere else
//! ```

use super::super::operator::{Evaluate, Inputs};
use super::kinds::{Asked, GradientKind};
use super::operator::{At, Differentiate, Differentiated};
use crate::graph::infer::op_error;
use crate::graph::{
    Concat, DepthToSpace, Expand, Flatten, Gather, GatherElements, GatherNd, OpError, Pad, Reshape,
    Slice, SpaceToDepth, Split, Squeeze, TensorType, Tile, Transpose, Trilu, Unsqueeze,
};
use crate::tensor::{DType, Tensor, TensorData};

/// The gradient by `operand` of an operator that moves the elements of the operands `moved`.
pub(super) fn by_positions(
    op: &impl Evaluate,
    at: &At<'_>,
    operand: usize,
    moved: &[usize],
) -> Differentiated {
    let mut numbered: Vec<Option<Tensor>> = vec![None; at.inputs.0.len()];
    for &which in moved {
        let Some(tensor) = at.inputs.optional(which) else {
            continue;
        };
        let positions = match which == operand {
            true => (1..=tensor.len() as i64).collect(),
            false => vec![0; tensor.len()],
        };
        numbered[which] = Some(whole(tensor.shape(), positions)?);
    }
    let inputs = at.inputs.0.iter().zip(&numbered);
    let inputs = inputs.map(|(given, numbered)| numbered.as_ref().or(*given));
    let inputs: Vec<Option<&Tensor>> = inputs.collect();
    let types = at.types.iter().map(|ty| TensorType {
        dtype: DType::I64,
        shape: ty.shape.clone(),
    });
    let results = op.evaluate(Inputs(&inputs), &types.collect::<Vec<_>>())?;
    let mut gradient = at.zeros(operand)?;
    for (from, dy) in results.iter().zip(at.gradients) {
        let (Some(from), Some(dy)) = (from.as_i64(), dy) else {
            continue;
        };
        for (&from, dy) in from.iter().zip(dy.iter()) {
            if let Some(from) = (from as usize).checked_sub(1) {
                gradient[from] += dy;
            }
        }
    }
    Ok(gradient)
}

fn whole(shape: &[usize], values: Vec<i64>) -> Result<Tensor, OpError> {
    Tensor::new(shape.to_vec(), TensorData::I64(values)).map_err(|error| op_error!("{error}"))
}

/// Operators that move the elements of their first operand; the others say where to.
macro_rules! moves_the_first {
    ($($name:ident)*) => {$(
        impl Differentiate for $name {
            fn kind(&self, asked: Asked) -> GradientKind {
                asked.first_alone()
            }

            fn gradient(&self, at: &At<'_>, operand: usize) -> Differentiated {
                by_positions(self, at, operand, &[0])
            }
        }
    )*};
}
moves_the_first! {
    Reshape Flatten Squeeze Unsqueeze Transpose Split Slice Gather GatherElements GatherNd Expand Tile DepthToSpace
    SpaceToDepth Trilu
}

impl Differentiate for Concat {
    fn kind(&self, _: Asked) -> GradientKind {
        GradientKind::Computed
    }

    fn gradient(&self, at: &At<'_>, operand: usize) -> Differentiated {
        let all: Vec<usize> = (0..at.inputs.0.len()).collect();
        by_positions(self, at, operand, &all)
    }
}

/// The number that constant borders are filled with has a gradient too.
impl Differentiate for Pad {
    fn kind(&self, asked: Asked) -> GradientKind {
        match asked.operand {
            0 | 2 => GradientKind::Computed,
            _ => GradientKind::Zero,
        }
    }

    fn gradient(&self, at: &At<'_>, operand: usize) -> Differentiated {
        by_positions(self, at, operand, &[0, 2])
    }
}
