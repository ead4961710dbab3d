//! Linear quantisation.
//!
//! ```text
//! quantize    q = saturate(round_half_even(x / scale) + zero_point)
//! dequantize  x = (q - zero_point) * scale
//! ```
//!
//! The quotient is rounded to the type of the scale before it is rounded to a whole
//! number, as ONNX says (attribute `precision`); that decides ties.

use super::numbers::{Numbers, from_floats, whole_numbers};
use super::operator::{Evaluate, Evaluated, Inputs, Working, one};
use crate::graph::infer::op_error;
use crate::graph::{DequantizeLinear, OpError, QuantizeLinear, TensorType, resolve_axis};
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

impl Evaluate for QuantizeLinear {
    fn evaluate(&self, inputs: Inputs<'_>, types: &[TensorType]) -> Evaluated {
        one(types, |ty| quantize(self.axis, inputs, ty))
    }

    fn working_bytes(&self, working: &Working<'_>) -> usize {
        working.computed()
    }
}

fn quantize(axis: i64, inputs: Inputs<'_>, ty: &TensorType) -> Result<Tensor, OpError> {
    let (x, scale) = (inputs.get(0)?, inputs.get(1)?);
    let parameter_of = parameter_of(axis, x.shape(), scale)?;
    let zero_points = zero_points(inputs, scale.len())?;
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
    let quantized = quotients
        .to_f64()
        .into_iter()
        .enumerate()
        .map(|(i, quotient)| quotient.round_ties_even() + zero_points[parameter_of(i)] as f64);
    // The conversion saturates.
    from_floats(ty, quantized.collect())
}

impl Evaluate for DequantizeLinear {
    fn evaluate(&self, inputs: Inputs<'_>, types: &[TensorType]) -> Evaluated {
        one(types, |ty| dequantize(self.axis, inputs, ty))
    }

    fn working_bytes(&self, working: &Working<'_>) -> usize {
        working.computed()
    }
}

fn dequantize(axis: i64, inputs: Inputs<'_>, ty: &TensorType) -> Result<Tensor, OpError> {
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
