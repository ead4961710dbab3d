//! Linear quantisation.
//!
//! ```text
//! quantize    q = saturate(round_half_even(x / scale) + zero_point), of floats round(x / scale + zero_point)
//! dequantize  x = (q - zero_point) * scale
//! ```
//!
//! The quotient is rounded to the type of the scale before it is rounded to a whole
//! number, as ONNX says (attribute `precision`); that decides ties.

use super::index::Lines;
use super::numbers::from_floats;
use super::operator::{Evaluate, Evaluated, Inputs, Working, one};
use super::round_float::rounded;
use crate::graph::{DequantizeLinear, OpError, QuantizeLinear, TensorType, resolve_axis};
use crate::tensor::Tensor;

/// Scale and zero point of every element, as positions in their operands.
pub(super) fn parameter_of(
    axis: i64,
    block_size: usize,
    shape: &[usize],
    scale: &Tensor,
) -> Result<impl Fn(usize) -> usize, OpError> {
    let is_blocked = block_size > 0;
    let axis = match scale.len() == 1 && !is_blocked {
        true => None,
        false => Some(resolve_axis(axis, shape.len())?),
    };
    let lines = axis.map(|axis| Lines::new(shape, axis));
    Ok(move |i: usize| {
        let Some(Lines { extent, inner, .. }) = lines else {
            return 0;
        };
        let at = i / inner % extent;
        match is_blocked {
            true => {
                let outer = i / inner / extent;
                (outer * extent.div_ceil(block_size) + at / block_size) * inner + i % inner
            }
            false => at,
        }
    })
}

pub(super) fn zero_points(inputs: Inputs<'_>, n: usize) -> Vec<f64> {
    inputs
        .optional(2)
        .map_or_else(|| vec![0.0; n], Tensor::to_f64)
}

impl Evaluate for QuantizeLinear {
    fn evaluate(&self, inputs: Inputs<'_>, types: &[TensorType]) -> Evaluated {
        one(types, |ty| quantize(*self, inputs, ty))
    }

    fn working_bytes(&self, working: &Working<'_>) -> usize {
        working.computed()
    }
}

fn quantize(op: QuantizeLinear, inputs: Inputs<'_>, ty: &TensorType) -> Result<Tensor, OpError> {
    let (x, scale) = (inputs.get(0)?, inputs.get(1)?);
    let parameter_of = parameter_of(op.axis, op.block_size, x.shape(), scale)?;
    let zero_points = zero_points(inputs, scale.len());
    let (scale_dtype, scale) = (scale.dtype(), scale.to_f64());
    let quotients = x.to_f64().into_iter().enumerate();
    let quotients = quotients.map(|(i, x)| x / scale[parameter_of(i)]).collect();
    let quotients = from_floats(
        &TensorType {
            dtype: scale_dtype,
            shape: ty.shape.clone(),
        },
        quotients,
    )?;
    let quotients = quotients.to_f64().into_iter().enumerate();
    let quantized = quotients.map(|(i, quotient)| {
        let zero_point = zero_points[parameter_of(i)];
        match op.float {
            Some(float) => rounded(quotient + zero_point, float),
            None => quotient.round_ties_even() + zero_point,
        }
    });
    // The conversion saturates.
    from_floats(ty, quantized.collect())
}

impl Evaluate for DequantizeLinear {
    fn evaluate(&self, inputs: Inputs<'_>, types: &[TensorType]) -> Evaluated {
        one(types, |ty| dequantize(*self, inputs, ty))
    }

    fn working_bytes(&self, working: &Working<'_>) -> usize {
        working.computed()
    }
}

/// Differences of integers of 32 bits are exact in f64, those of floats of 8 bits too.
fn dequantize(
    op: DequantizeLinear,
    inputs: Inputs<'_>,
    ty: &TensorType,
) -> Result<Tensor, OpError> {
    let (x, scale) = (inputs.get(0)?, inputs.get(1)?);
    let parameter_of = parameter_of(op.axis, op.block_size, x.shape(), scale)?;
    let zero_points = zero_points(inputs, scale.len());
    let scale = scale.to_f64();
    let dequantized = x.to_f64().into_iter().enumerate().map(|(i, q)| {
        let p = parameter_of(i);
        (q - zero_points[p]) * scale[p]
    });
    from_floats(ty, dequantized.collect())
}
