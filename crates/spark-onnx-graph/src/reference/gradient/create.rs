//! Gradients of operators that make elements from shapes, counts and positions.

use super::super::index::Lines;
use super::kinds::{Asked, GradientKind};
use super::operator::{At, Differentiate, Differentiated, zero_by_definition};
use crate::graph::infer::op_error;
use crate::graph::{
    ConstantOfShape, EyeLike, NonZero, OneHot, RandomLike, Range, Shape, Size, resolve_axis,
};
use crate::tensor::{Tensor, TensorData};

zero_by_definition!(Shape Size ConstantOfShape EyeLike NonZero RandomLike);

/// The first element and the step have one; where the range ends is a comparison.
impl Differentiate for Range {
    fn kind(&self, asked: Asked) -> GradientKind {
        match asked.operand {
            0 | 2 => GradientKind::Computed,
            _ => GradientKind::Zero,
        }
    }

    fn gradient(&self, at: &At<'_>, operand: usize) -> Differentiated {
        let weighted = at.dy()?.iter().enumerate().map(|(i, dy)| match operand {
            0 => *dy,
            _ => i as f64 * dy,
        });
        Ok(vec![weighted.sum()])
    }
}

/// The two values have one; indices and depth say where they stand.
impl Differentiate for OneHot {
    fn kind(&self, asked: Asked) -> GradientKind {
        match asked.operand {
            2 => GradientKind::Computed,
            _ => GradientKind::Zero,
        }
    }

    fn gradient(&self, at: &At<'_>, _: usize) -> Differentiated {
        let Some(axis) = at.types.first().map(|ty| ty.shape.len()) else {
            return Err(op_error!("makes one result"));
        };
        let axis = resolve_axis(self.axis, axis)?;
        let indices: Vec<i128> = whole(at.inputs.get(0)?);
        let (mut indices, dy) = (indices.into_iter(), at.dy()?);
        let mut gradient = at.zeros(2)?;
        Lines::new(at.y_shape(), axis).for_each(|line| {
            let index = indices.next().unwrap_or_default();
            let from_front = if index < 0 {
                index + line.len() as i128
            } else {
                index
            };
            for (place, &i) in line.iter().enumerate() {
                gradient[usize::from(place as i128 == from_front)] += dy[i];
            }
        });
        Ok(gradient)
    }
}

/// Indices, fractions of which are cut off.
fn whole(indices: &Tensor) -> Vec<i128> {
    match indices.data() {
        TensorData::I64(values) => values.iter().map(|&v| v.into()).collect(),
        TensorData::U64(values) => values.iter().map(|&v| v.into()).collect(),
        // All others are exact as f64.
        _ => indices.to_f64().into_iter().map(|v| v as i128).collect(),
    }
}
