//! Linear quantisation to integers and back.

use super::Translator;
use super::call::{Call, Translated};
use super::elementwise::stated_dtype;
use crate::graph::Op;
use crate::tensor::{DType, Tensor};

pub(super) const OPERATORS: &[Translator] = &[
    ("QuantizeLinear", quantize),
    ("DequantizeLinear", dequantize),
];

fn no_blocks(call: &Call<'_, '_>) -> Translated {
    match call.int_or("block_size", 0)? {
        0 => Ok(()),
        n => Err(call.error(format!("blocks of {n} with a scale each are not supported"))),
    }
}

/// A stated result type without a zero point is a zero point of that type.
pub(super) fn quantize(call: &mut Call<'_, '_>) -> Translated {
    call.operands(2, 3)?;
    no_blocks(call)?;
    // Concerns floats of 8 bits, and the type of the division, which is never below f32.
    call.ignore(&["saturate", "precision"]);
    let op = Op::QuantizeLinear {
        axis: call.int_or("axis", 1)?,
    };
    let mut inputs = call.inputs();
    match stated_dtype(call, "output_dtype")? {
        None | Some(DType::U8) => {}
        Some(dtype) => match call.input(2) {
            None => {
                let scale_shape = call.constant(1).map(|s| s.shape().to_vec());
                let Some(shape) = scale_shape else {
                    return Err(call.error("`output_dtype` with a computed scale is not supported"));
                };
                let zero = Tensor::zeros(dtype, shape)?;
                inputs.push(Some(call.new_constant("zero_point", zero)));
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
    let op = Op::DequantizeLinear {
        axis: call.int_or("axis", 1)?,
    };
    call.finish_as_is(op)
}
