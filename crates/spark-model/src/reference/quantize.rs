//! Linear quantisation.
//!
//! ```text
//! quantize    q = saturate(round_half_even(x / scale) + zero_point)
//! dequantize  x = (q - zero_point) * scale
//! ```
//!
//! The quotient is formed in f64; onnxruntime forms it in f32, so that a value
//! within one f32 rounding of a tie may land one step apart.

use super::Inputs;
use super::numbers::{Numbers, from_floats, whole_numbers};
use crate::graph::infer::op_error;
use crate::graph::{OpError, TensorType, resolve_axis};
use crate::tensor::Tensor;

/// Scale and zero point of every element, as positions in their operands.
fn parameter_of(
    axis: i64,
    shape: &[usize],
    scale: &Tensor,
) -> Result<impl Fn(usize) -> usize, OpError> {
    let (extent, inner) = if scale.len() == 1 {
        (1, 1)
    } else {
        let axis = resolve_axis(axis, shape.len())?;
        (
            shape[axis],
            shape[axis + 1..].iter().product::<usize>().max(1),
        )
    };
    Ok(move |i: usize| i / inner % extent)
}

fn zero_points(inputs: Inputs<'_>, n: usize) -> Result<Vec<i128>, OpError> {
    match inputs.optional(2) {
        None => Ok(vec![0; n]),
        Some(zero_point) => {
            whole_numbers(zero_point).ok_or_else(|| op_error!("`zero_point` is not whole"))
        }
    }
}

pub(super) fn quantize(axis: i64, inputs: Inputs<'_>, ty: &TensorType) -> Result<Tensor, OpError> {
    let (x, scale) = (inputs.get(0)?, inputs.get(1)?);
    let parameter_of = parameter_of(axis, x.shape(), scale)?;
    let zero_points = zero_points(inputs, scale.len())?;
    let scale = scale.to_f64();
    let quantized = x.to_f64().into_iter().enumerate().map(|(i, x)| {
        let p = parameter_of(i);
        (x / scale[p]).round_ties_even() + zero_points[p] as f64
    });
    // The conversion saturates.
    from_floats(ty, quantized.collect())
}

pub(super) fn dequantize(
    axis: i64,
    inputs: Inputs<'_>,
    ty: &TensorType,
) -> Result<Tensor, OpError> {
    let (x, scale) = (inputs.get(0)?, inputs.get(1)?);
    let parameter_of = parameter_of(axis, x.shape(), scale)?;
    let zero_points = zero_points(inputs, scale.len())?;
    let scale = scale.to_f64();
    let Numbers::Whole(values) = Numbers::of(x) else {
        return Err(op_error!("`x` is not whole"));
    };
    let dequantized = values.into_iter().enumerate().map(|(i, q)| {
        let p = parameter_of(i);
        (q - zero_points[p]) as f64 * scale[p]
    });
    from_floats(ty, dequantized.collect())
}
