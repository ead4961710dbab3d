//! Linear quantisation to integers and back.

use super::elementwise::stated_dtype;
use super::operator::{Exported, Inferred, KnownDType, Operator};
use crate::file::export::attributes::Attributes;
use crate::file::import::call::{Call, Translated, Translator};
use crate::graph::infer::{Operands, check_float, check_same_dtype, check_shape, one, op_error};
use crate::graph::{DequantizeLinear, Op, OpError, Operand, QuantizeLinear, ValueId, resolve_axis};
use crate::tensor::{DType, Tensor, checked_elements};

impl Operator for QuantizeLinear {
    const IMPORTS: &'static [Translator] = &[("QuantizeLinear", quantize)];

    fn name(&self) -> &'static str {
        "QuantizeLinear"
    }

    fn infer(&self, operands: &Operands<'_>) -> Inferred {
        operands.expect(2, 3, 1)?;
        let x = operands.required(0, "x")?;
        let scale = operands.required(1, "scale")?;
        if x.dtype != DType::I32 {
            check_float("x", &x)?;
        }
        check_float("scale", &scale)?;
        check_scale_shape(self.axis, &x, &scale)?;
        let Some(zero_point) = operands.optional(2) else {
            return one(DType::U8, x.shape);
        };
        if !matches!(
            zero_point.dtype,
            DType::I8 | DType::U8 | DType::I16 | DType::U16
        ) {
            return Err(op_error!(
                "`zero_point` is {}, wanted i8, u8, i16 or u16",
                zero_point.dtype
            ));
        }
        check_shape("zero_point", zero_point.shape, scale.shape)?;
        one(zero_point.dtype, x.shape)
    }

    fn result_dtype(&self, _: usize, operand: KnownDType<'_>) -> Option<DType> {
        operand(2).or(Some(DType::U8))
    }

    fn attributes(&self) -> Exported<'_> {
        Ok(Attributes::default().int("axis", self.axis))
    }
}

impl Operator for DequantizeLinear {
    const IMPORTS: &'static [Translator] = &[("DequantizeLinear", dequantize)];

    fn name(&self) -> &'static str {
        "DequantizeLinear"
    }

    fn infer(&self, operands: &Operands<'_>) -> Inferred {
        operands.expect(2, 3, 1)?;
        let x = operands.required(0, "x")?;
        let scale = operands.required(1, "scale")?;
        if !matches!(
            x.dtype,
            DType::I8 | DType::U8 | DType::I16 | DType::U16 | DType::I32
        ) {
            return Err(op_error!(
                "`x` is {}, wanted i8, u8, i16, u16 or i32",
                x.dtype
            ));
        }
        check_float("scale", &scale)?;
        check_scale_shape(self.axis, &x, &scale)?;
        if let Some(zero_point) = operands.optional(2) {
            check_same_dtype("zero_point", &zero_point, x.dtype)?;
            check_shape("zero_point", zero_point.shape, scale.shape)?;
        }
        one(scale.dtype, x.shape)
    }

    fn result_dtype(&self, _: usize, operand: KnownDType<'_>) -> Option<DType> {
        operand(1)
    }

    fn attributes(&self) -> Exported<'_> {
        Ok(Attributes::default().int("axis", self.axis))
    }
}

fn no_blocks(call: &Call<'_, '_>) -> Translated {
    match call.int_or("block_size", 0)? {
        0 => Ok(()),
        n => Err(call.error(format!("blocks of {n} with a scale each are not supported"))),
    }
}

/// Exporters give one scale as a scalar or as a list of one, and the zero point as
/// either, whichever the scale is. Here one scale is a scalar, and the zero point has
/// the scale's shape. Both are constants in practice; others are left as they are.
fn same_shapes(call: &mut Call<'_, '_>, inputs: &mut [Option<ValueId>]) -> Translated {
    let constant = |index: usize| {
        let tensor = call.constant(index)?;
        Some((tensor.shape().to_vec(), tensor.clone()))
    };
    let (scale, zero_point) = (constant(1), constant(2));
    let Some((scale_shape, scale)) = scale else {
        return Ok(());
    };
    let single = scale.len() == 1;
    if single && !scale_shape.is_empty() {
        inputs[1] = Some(call.new_constant("scale", scale.reshaped([])?)?);
    }
    let wanted = if single { Vec::new() } else { scale_shape };
    if let Some((shape, zero_point)) = zero_point
        && zero_point.len() == 1
        && shape != wanted
    {
        let n = checked_elements(&wanted).unwrap_or(0);
        let value = zero_point.to_f64()[0];
        let zeros = Tensor::from_f64(zero_point.dtype(), wanted, vec![value; n])?;
        inputs[2] = Some(call.new_constant("zero_point", zeros)?);
    }
    Ok(())
}

/// A stated result type without a zero point is a zero point of that type.
pub(super) fn quantize(call: &mut Call<'_, '_>) -> Translated {
    call.operands(2, 3)?;
    no_blocks(call)?;
    // Concerns floats of 8 bits, and the type of the division, which is never below f32.
    call.ignore(&["saturate", "precision"]);
    let op = Op::QuantizeLinear(QuantizeLinear {
        axis: call.int_or("axis", 1)?,
    });
    let mut inputs = call.inputs();
    same_shapes(call, &mut inputs)?;
    match stated_dtype(call, "output_dtype")? {
        None | Some(DType::U8) => {}
        Some(dtype) => match call.input(2) {
            None => {
                let scale = inputs[1].and_then(|s| call.builder.constant_of(s));
                let scale_shape = scale.map(|s| s.shape().to_vec());
                let Some(shape) = scale_shape else {
                    return Err(call.error("`output_dtype` with a computed scale is not supported"));
                };
                let zero = Tensor::zeros(dtype, shape)?;
                inputs.push(Some(call.new_constant("zero_point", zero)?));
            }
            Some(zero_point) => {
                if call.builder.dtype(zero_point).is_some_and(|d| d != dtype) {
                    return Err(call.error("`output_dtype` is not the type of the zero point"));
                }
            }
        },
    }
    call.finish(op, inputs)
}

pub(super) fn dequantize(call: &mut Call<'_, '_>) -> Translated {
    call.operands(2, 3)?;
    no_blocks(call)?;
    if let Some(dtype) = stated_dtype(call, "output_dtype")? {
        let scale = call.required(1)?;
        if call.builder.dtype(scale) != Some(dtype) {
            return Err(call.error("`output_dtype` must be the type of the scale"));
        }
    }
    let op = Op::DequantizeLinear(DequantizeLinear {
        axis: call.int_or("axis", 1)?,
    });
    let mut inputs = call.inputs();
    same_shapes(call, &mut inputs)?;
    call.finish(op, inputs)
}

/// One scale for all, or one per position of `axis`.
fn check_scale_shape(axis: i64, x: &Operand<'_>, scale: &Operand<'_>) -> Result<(), OpError> {
    match scale.shape {
        [] | [1] => Ok(()),
        [n] => {
            let axis = resolve_axis(axis, x.rank())?;
            check_shape("scale", &[*n], &[x.shape[axis]])
        }
        _ => Err(op_error!(
            "`scale` of shape {:?}: scales per block are not supported, only per tensor or axis",
            scale.shape
        )),
    }
}
