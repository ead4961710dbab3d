//! Gradients of linear quantisation.
//!
//! ```text
//! quantize     zero by definition; straight through, of q = round(x / scale) + zero within the type's range:
//!              dx = dq / scale,  dscale -= dq * x / scale^2,  dzero += dq       beyond the range nothing
//! dequantize   dq = dx * scale,  dscale += dx * (q - zero),  dzero -= dx * scale
//! activations  straight through always, for that is what the operator is for; what a given scale clips has none
//! ```
//!
//! As in PyTorch it is the rounded number that decides whether an element is within the range.

use super::super::quantize::{parameter_of, zero_points};
use super::super::round_float::is_within;
use super::kinds::{Asked, GradientKind};
use super::operator::{At, Differentiate, Differentiated};
use crate::graph::{DequantizeLinear, OpError, QuantizeLinear, RoundFloat, RoundedActivations};
use crate::tensor::DType;

fn through_rounding(asked: Asked) -> GradientKind {
    match asked.options.straight_through {
        true => GradientKind::Computed,
        false => GradientKind::Zero,
    }
}

impl Differentiate for QuantizeLinear {
    fn kind(&self, asked: Asked) -> GradientKind {
        through_rounding(asked)
    }

    fn gradient(&self, at: &At<'_>, operand: usize) -> Differentiated {
        let (x, scale, dq) = (at.floats(0)?, at.floats(1)?, at.dy()?);
        let parameter = parameter_of(self.axis, self.block_size, at.shape(0)?, at.inputs.get(1)?)?;
        let zero_points = zero_points(at.inputs, scale.len());
        let counts = |x: f64, p: usize| match (self.float, at.types.first()) {
            (Some(float), _) => Ok(is_within(x / scale[p] + zero_points[p], float.format)),
            (None, Some(ty)) => {
                let (least, most) = range(ty.dtype)?;
                let q = (x / scale[p]).round_ties_even() + zero_points[p];
                Ok((least..=most).contains(&q))
            }
            (None, None) => Ok(false),
        };
        let mut gradient = at.zeros(operand)?;
        for (i, (&x, dq)) in x.iter().zip(dq).enumerate() {
            let p = parameter(i);
            if !counts(x, p)? {
                continue;
            }
            match operand {
                0 => gradient[i] = dq / scale[p],
                1 => gradient[p] -= dq * x / (scale[p] * scale[p]),
                _ => gradient[p] += dq,
            }
        }
        Ok(gradient)
    }
}

/// Smallest and largest number of what is quantised to.
fn range(dtype: DType) -> Result<(f64, f64), OpError> {
    match dtype {
        DType::I8 => Ok((i8::MIN.into(), i8::MAX.into())),
        DType::U8 => Ok((u8::MIN.into(), u8::MAX.into())),
        DType::I16 => Ok((i16::MIN.into(), i16::MAX.into())),
        DType::U16 => Ok((u16::MIN.into(), u16::MAX.into())),
        other => Err(OpError {
            reason: format!("quantised to {other}"),
        }),
    }
}

impl Differentiate for DequantizeLinear {
    fn kind(&self, _: Asked) -> GradientKind {
        GradientKind::Computed
    }

    fn gradient(&self, at: &At<'_>, operand: usize) -> Differentiated {
        let (q, scale, dx) = (at.floats(0)?, at.floats(1)?, at.dy()?);
        let parameter = parameter_of(self.axis, self.block_size, at.shape(0)?, at.inputs.get(1)?)?;
        let zero_points = zero_points(at.inputs, scale.len());
        let mut gradient = at.zeros(operand)?;
        for (i, (q, dx)) in q.iter().zip(dx).enumerate() {
            let p = parameter(i);
            match operand {
                0 => gradient[i] = dx * scale[p],
                1 => gradient[p] += dx * (q - zero_points[p]),
                _ => gradient[p] -= dx * scale[p],
            }
        }
        Ok(gradient)
    }
}

impl Differentiate for RoundFloat {
    fn kind(&self, asked: Asked) -> GradientKind {
        through_rounding(asked)
    }

    fn gradient(&self, at: &At<'_>, _: usize) -> Differentiated {
        let (x, dy) = (at.floats(0)?, at.dy()?.iter());
        let handed_on = x
            .iter()
            .zip(dy)
            .map(|(&x, &dy)| if is_within(x, self.format) { dy } else { 0.0 });
        Ok(handed_on.collect())
    }
}

impl Differentiate for RoundedActivations {
    fn kind(&self, asked: Asked) -> GradientKind {
        asked.first_alone()
    }

    fn gradient(&self, at: &At<'_>, _: usize) -> Differentiated {
        let dy = at.dy()?;
        let Some(most) = self.clips_beyond() else {
            return Ok(dy.to_vec());
        };
        let (x, dy) = (at.floats(0)?, dy.iter());
        let handed_on = x
            .iter()
            .zip(dy)
            .map(|(&x, &dy)| match x.abs() <= f64::from(most) {
                true => dy,
                false => 0.0,
            });
        Ok(handed_on.collect())
    }
}
