//! Casts to types that tensors do not have: floats of 8 bits and fewer, integers below 8.
//!
//! ```text
//! to a float      RoundFloat, Cast to f16
//! to an integer   Cast to i32, then the low bits; of signed types the highest of them is the sign
//! ```
//!
//! Source: ONNX operator Cast, version 25. What becomes of a float beyond the range of an integer it leaves open; the
//! low bits are what the suite has.

use super::operator::{Exported, Inferred, Operator};
use crate::ModelError;
use crate::file::export::attributes::Attributes;
use crate::file::export::nodes::NodeExport;
use crate::file::import::call::{Call, Translated, Translator};
use crate::file::narrow::{number_of_float, operator_set_of, range_of, small_float};
use crate::file::tensors::{dtype_of_element, number_of};
use crate::graph::infer::{Operands, check_float, one};
use crate::graph::{Binary, Cast, Clip, Op, RoundFloat, ValueId};
use crate::tensor::{DType, Tensor};
use spark_onnx_proto::{NarrowType, Text};

impl Operator for RoundFloat {
    const IMPORTS: &'static [Translator] = &[];

    fn name(&self) -> &'static str {
        "RoundFloat"
    }

    fn infer(&self, operands: &Operands<'_>) -> Inferred {
        operands.expect(1, 1, 1)?;
        let x = operands.required(0, "x")?;
        check_float("x", &x)?;
        one(x.dtype, x.shape)
    }

    fn attributes(&self) -> Exported<'_> {
        Ok(rounding(*self))
    }

    fn operator_set(&self) -> i64 {
        operator_set_of(self.format).max(super::operator::OPERATOR_SET)
    }

    /// A cast there and one back.
    fn export<'g>(&'g self, node: &mut NodeExport<'_, 'g>) -> Result<(), String> {
        let Some(dtype) = node.first_dtype else {
            return Err("the element type of its operand is not known".to_owned());
        };
        node.inputs = vec![rounded(node, *self, 0, "rounded")];
        let back = Attributes::default().int("to", i64::from(number_of(dtype)));
        node.finish("Cast", back)
    }
}

/// The attributes of a cast to a float.
fn rounding(op: RoundFloat) -> Attributes<'static> {
    Attributes::default()
        .int("to", number_of_float(op.format))
        .flag("saturate", op.saturate)
}

/// Writes a cast of operand `index` to a float, and gives its result.
pub(super) fn rounded<'g>(
    node: &mut NodeExport<'_, 'g>,
    op: RoundFloat,
    index: usize,
    suffix: &str,
) -> Text<'g> {
    let result = node.made(suffix);
    let name = format!("{}/{suffix}", node.name);
    let operand = node.inputs[index].clone();
    node.step(name, "Cast", rounding(op), vec![operand], result.clone());
    result
}

/// Ends a node that casts its first operand to `narrow`.
pub(super) fn cast_to(call: &mut Call<'_, '_>, narrow: NarrowType, saturate: bool) -> Translated {
    let x = call.required(0)?;
    let dtype = call.builder.dtype(x);
    let to = dtype_of_element(narrow.held_as());
    match small_float(narrow) {
        Some(format) => {
            let x = match dtype.is_some_and(DType::is_float) {
                true => x,
                false => call.step(Op::Cast(Cast { to: DType::F32 }), &[Some(x)])?,
            };
            let round = Op::RoundFloat(RoundFloat { format, saturate });
            let x = call.step(round, &[Some(x)])?;
            call.finish(Op::Cast(Cast { to }), vec![Some(x)])?;
        }
        None => {
            let whole = call.step(Op::Cast(Cast { to: DType::I32 }), &[Some(x)])?;
            let x = call.step(Op::Cast(Cast { to }), &[Some(whole)])?;
            low_bits(call, narrow, x)?;
        }
    }
    call.set_narrow_result(narrow);
    Ok(())
}

/// Ends a node with the numbers of `x` brought into the range of an integer.
pub(super) fn clipped(call: &mut Call<'_, '_>, narrow: NarrowType, x: ValueId) -> Translated {
    let (low, high) = range_of(narrow);
    let low = number(call, narrow, "low", low)?;
    let high = number(call, narrow, "high", high)?;
    call.finish(Op::Clip(Clip), vec![Some(x), Some(low), Some(high)])
}

/// Ends a node with the lowest bits of `x`: `((x & mask) ^ sign) - sign`.
fn low_bits(call: &mut Call<'_, '_>, narrow: NarrowType, x: ValueId) -> Translated {
    let (low, high) = range_of(narrow);
    let mask = number(call, narrow, "mask", high - low)?;
    let x = call.binary_step(Binary::BitwiseAnd, x, mask)?;
    let sign = number(call, narrow, "sign", -low)?;
    let x = call.binary_step(Binary::BitwiseXor, x, sign)?;
    call.finish(Op::Binary(Binary::Sub), vec![Some(x), Some(sign)])
}

fn number(
    call: &mut Call<'_, '_>,
    narrow: NarrowType,
    suffix: &str,
    value: f64,
) -> Result<ValueId, ModelError> {
    let dtype = dtype_of_element(narrow.held_as());
    call.new_constant(suffix, Tensor::from_f64(dtype, [], vec![value])?)
}
