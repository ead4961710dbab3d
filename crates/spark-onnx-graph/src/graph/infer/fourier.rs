//! What a discrete Fourier transform reads and makes.

use super::{Operand, constant_int, op_error, resolve_axis};
use crate::graph::OpError;
use crate::graph::op::Dft;
use crate::tensor::MAX_ELEMENTS;

/// The axis of a transform.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DftAxis {
    /// Position of the axis, counted from the front.
    pub axis: usize,
    /// Points of the transform.
    pub length: usize,
    /// Elements of the operand's axis that are read; what is missing counts as zeros.
    pub taken: usize,
    /// Extent of the result's axis.
    pub output: usize,
    /// Numbers per element of the operand: 1 if real, 2 if complex.
    pub parts: usize,
    /// Numbers per element of the result.
    pub output_parts: usize,
}

/// What a transform of `x_shape` reads and makes.
///
/// # Errors
///
/// [`OpError`] for a last axis other than 1 or 2, for an axis out of range or the last, for a length or axis that is
/// not constant, a length below 1, an operand without elements along the axis, and for one side of what has two:
/// numbers to transform that are complex, or to transform back that are real.
pub fn resolve_dft(
    op: Dft,
    x_shape: &[usize],
    length: Option<Operand<'_>>,
    axis: Option<Operand<'_>>,
) -> Result<DftAxis, OpError> {
    let [rest @ .., parts @ 1..=2] = x_shape else {
        return Err(op_error!(
            "`x` of shape {x_shape:?} must have a last axis of 1 or 2"
        ));
    };
    if op.one_sided && (*parts == 2) != op.inverse {
        return Err(op_error!(
            "one side of {} numbers, transformed {}",
            if *parts == 2 { "complex" } else { "real" },
            if op.inverse { "back" } else { "forth" }
        ));
    }
    let axis = match axis {
        None => -2,
        Some(axis) => constant_int("axis", &axis)?,
    };
    let axis = resolve_axis(axis, x_shape.len())?;
    let Some(&extent) = rest.get(axis) else {
        return Err(op_error!("the last axis cannot be transformed"));
    };
    if extent == 0 {
        return Err(op_error!(
            "`x` of shape {x_shape:?} has nothing to transform"
        ));
    }
    let to_real = op.one_sided && op.inverse;
    let length = match length {
        Some(length) => constant_int("length", &length)?,
        None if to_real => 2 * (extent as i64 - 1),
        None => extent as i64,
    };
    if !(1..=MAX_ELEMENTS as i64).contains(&length) {
        return Err(op_error!("a transform of {length} points"));
    }
    let length = length as usize;
    let one_side = length / 2 + 1;
    Ok(DftAxis {
        axis,
        length,
        taken: extent.min(if to_real { one_side } else { length }),
        output: if op.one_sided && !op.inverse {
            one_side
        } else {
            length
        },
        parts: *parts,
        output_parts: if to_real { 1 } else { 2 },
    })
}
