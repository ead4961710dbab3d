//! Gradients of operators that make elements from shapes, counts and positions, or drop them by those.

use super::super::random::mask;
use super::kinds::{Asked, GradientKind};
use super::movement::by_positions;
use super::operator::{At, Differentiate, Differentiated, zero_by_definition};
use crate::graph::{
    ConstantOfShape, CountedDropout, EyeLike, NonZero, OneHot, RandomLike, Range, Shape, Size,
};

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

    fn gradient(&self, at: &At<'_>, operand: usize) -> Differentiated {
        by_positions(self, at, operand, &[2])
    }
}

/// Of what is kept, times what it is multiplied by.
impl Differentiate for CountedDropout {
    fn kind(&self, asked: Asked) -> GradientKind {
        match asked.operand {
            0 => GradientKind::Computed,
            _ => GradientKind::Zero,
        }
    }

    fn gradient(&self, at: &At<'_>, _: usize) -> Differentiated {
        let dy = at.dy()?;
        let mask = mask(self, at.inputs, dy.len())?;
        Ok(dy
            .iter()
            .zip(mask)
            .map(|(dy, factor)| dy * factor)
            .collect())
    }
}
