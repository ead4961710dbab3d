//! Products of 8-bit integers, with zero points and scales.
//!
//! Per row and per column mean lists: a zero point or scale of one value is for all, of one axis for the rows of
//! the left operand (output channels of a convolution) or the columns of the right one.
//!
//! Source: ONNX operators ConvInteger and MatMulInteger (version 10), QLinearConv (10), QLinearMatMul (21),
//! DynamicQuantizeLinear (11).
//!
//! Deliberately absent: zero points and scales per matrix of a batch, and floats of 8 bits.

use super::convolution::{conv_parameters, conv_shape, window_attributes};
use super::operator::{Exported, Inferred, KnownDType, Operator};
use super::products::matmul_shape;
use crate::file::export::attributes::Attributes;
use crate::file::import::call::{Call, Translated, Translator};
use crate::graph::infer::{
    Operands, check_float, check_rank, check_rank_at_least, check_same_dtype, check_shape, one,
    op_error,
};
use crate::graph::{
    Binary, Cast, Clip, ConvInteger, MatMulInteger, Op, OpError, Operand, QLinearConv,
    QLinearMatMul, QuantizeLinear, Reduce, ReduceKind, Unary, Variadic, Where,
};
use crate::tensor::{DType, Tensor};

/// Operators of a file that are short for others.
pub(super) const SPELLED_OUT: &[Translator] = &[("DynamicQuantizeLinear", dynamic_quantize)];

impl Operator for ConvInteger {
    const IMPORTS: &'static [Translator] = &[("ConvInteger", conv_integer)];

    fn name(&self) -> &'static str {
        "ConvInteger"
    }

    fn infer(&self, operands: &Operands<'_>) -> Inferred {
        operands.expect(2, 4, 1)?;
        let (x, w) = (operands.required(0, "x")?, operands.required(1, "w")?);
        check_images(&x, &w)?;
        let shape = conv_shape(&self.conv, &x, &w)?;
        check_zero_point("x_zero_point", operands.optional(2), &x, None)?;
        check_zero_point("w_zero_point", operands.optional(3), &w, Some(w.shape[0]))?;
        one(DType::I32, shape)
    }

    fn result_dtype(&self, _: usize, _: KnownDType<'_>) -> Option<DType> {
        Some(DType::I32)
    }

    fn attributes(&self) -> Exported<'_> {
        Ok(window_attributes(&self.conv))
    }
}

impl Operator for MatMulInteger {
    const IMPORTS: &'static [Translator] = &[("MatMulInteger", mat_mul_integer)];

    fn name(&self) -> &'static str {
        "MatMulInteger"
    }

    fn infer(&self, operands: &Operands<'_>) -> Inferred {
        operands.expect(2, 4, 1)?;
        let (a, b) = (operands.required(0, "a")?, operands.required(1, "b")?);
        check_bytes("a", &a)?;
        check_bytes("b", &b)?;
        let shape = matmul_shape(&a, &b)?;
        check_zero_point("a_zero_point", operands.optional(2), &a, rows(&a))?;
        check_zero_point("b_zero_point", operands.optional(3), &b, columns(&b))?;
        one(DType::I32, shape)
    }

    fn result_dtype(&self, _: usize, _: KnownDType<'_>) -> Option<DType> {
        Some(DType::I32)
    }

    fn attributes(&self) -> Exported<'_> {
        Ok(Attributes::default())
    }
}

impl Operator for QLinearConv {
    const IMPORTS: &'static [Translator] = &[("QLinearConv", q_linear_conv)];

    fn name(&self) -> &'static str {
        "QLinearConv"
    }

    fn infer(&self, operands: &Operands<'_>) -> Inferred {
        operands.expect(8, 9, 1)?;
        let (x, w) = (operands.required(0, "x")?, operands.required(3, "w")?);
        check_images(&x, &w)?;
        let shape = conv_shape(&self.conv, &x, &w)?;
        let channels = w.shape[0];
        check_scale("x_scale", &operands.required(1, "x_scale")?, None)?;
        check_scale("w_scale", &operands.required(4, "w_scale")?, Some(channels))?;
        check_scale("y_scale", &operands.required(6, "y_scale")?, None)?;
        check_zero_point("x_zero_point", operands.optional(2), &x, None)?;
        check_zero_point("w_zero_point", operands.optional(5), &w, Some(channels))?;
        let y_zero = operands.required(7, "y_zero_point")?;
        check_bytes("y_zero_point", &y_zero)?;
        check_list("y_zero_point", &y_zero, None)?;
        if let Some(bias) = operands.optional(8) {
            if bias.dtype != DType::I32 {
                return Err(op_error!("`bias` is {}, wanted i32", bias.dtype));
            }
            check_shape("bias", bias.shape, &[channels])?;
        }
        one(y_zero.dtype, shape)
    }

    fn result_dtype(&self, _: usize, operand: KnownDType<'_>) -> Option<DType> {
        operand(7)
    }

    fn attributes(&self) -> Exported<'_> {
        Ok(window_attributes(&self.conv))
    }
}

impl Operator for QLinearMatMul {
    const IMPORTS: &'static [Translator] = &[("QLinearMatMul", q_linear_mat_mul)];

    fn name(&self) -> &'static str {
        "QLinearMatMul"
    }

    fn infer(&self, operands: &Operands<'_>) -> Inferred {
        operands.expect(8, 8, 1)?;
        let (a, b) = (operands.required(0, "a")?, operands.required(3, "b")?);
        check_bytes("a", &a)?;
        check_bytes("b", &b)?;
        let shape = matmul_shape(&a, &b)?;
        check_scale("a_scale", &operands.required(1, "a_scale")?, rows(&a))?;
        check_scale("b_scale", &operands.required(4, "b_scale")?, columns(&b))?;
        check_scale("y_scale", &operands.required(6, "y_scale")?, rows(&a))?;
        check_zero_point("a_zero_point", operands.optional(2), &a, rows(&a))?;
        check_zero_point("b_zero_point", operands.optional(5), &b, columns(&b))?;
        let y_zero = operands.required(7, "y_zero_point")?;
        check_bytes("y_zero_point", &y_zero)?;
        check_list("y_zero_point", &y_zero, rows(&a))?;
        one(y_zero.dtype, shape)
    }

    fn result_dtype(&self, _: usize, operand: KnownDType<'_>) -> Option<DType> {
        operand(7)
    }

    fn attributes(&self) -> Exported<'_> {
        Ok(Attributes::default())
    }
}

/// Rows of a left operand, if it has any.
fn rows(a: &Operand<'_>) -> Option<usize> {
    a.shape.len().checked_sub(2).map(|axis| a.shape[axis])
}

/// Columns of a right operand, if it has any.
fn columns(b: &Operand<'_>) -> Option<usize> {
    b.shape.last().copied().filter(|_| b.rank() >= 2)
}

fn check_bytes(what: &str, operand: &Operand<'_>) -> Result<(), OpError> {
    match operand.dtype {
        DType::I8 | DType::U8 => Ok(()),
        other => Err(op_error!("`{what}` is {other}, wanted i8 or u8")),
    }
}

/// Operands of a convolution.
fn check_images(x: &Operand<'_>, w: &Operand<'_>) -> Result<(), OpError> {
    check_bytes("x", x)?;
    check_bytes("w", w)?;
    check_rank_at_least("x", x, 3)?;
    check_rank("w", w, x.rank())
}

/// One value, or as many as `count`.
fn check_list(what: &str, list: &Operand<'_>, count: Option<usize>) -> Result<(), OpError> {
    match list.shape {
        [] | [1] => Ok(()),
        [n] if Some(*n) == count => Ok(()),
        shape => Err(op_error!(
            "`{what}` of shape {shape:?}, wanted one value{}",
            count.map_or_else(String::new, |count| format!(" or {count}"))
        )),
    }
}

fn check_scale(what: &str, scale: &Operand<'_>, count: Option<usize>) -> Result<(), OpError> {
    check_float(what, scale)?;
    check_list(what, scale, count)
}

/// A zero point that may be left out, of the type of `of`.
fn check_zero_point(
    what: &str,
    zero_point: Option<Operand<'_>>,
    of: &Operand<'_>,
    count: Option<usize>,
) -> Result<(), OpError> {
    let Some(zero_point) = zero_point else {
        return Ok(());
    };
    check_same_dtype(what, &zero_point, of.dtype)?;
    check_list(what, &zero_point, count)
}

fn conv_integer(call: &mut Call<'_, '_>) -> Translated {
    call.operands(2, 4)?;
    let conv = conv_parameters(call, 1)?;
    call.finish_as_is(Op::ConvInteger(ConvInteger { conv }))
}

fn mat_mul_integer(call: &mut Call<'_, '_>) -> Translated {
    call.operands(2, 4)?;
    call.finish_as_is(Op::MatMulInteger(MatMulInteger))
}

fn q_linear_conv(call: &mut Call<'_, '_>) -> Translated {
    call.operands(8, 9)?;
    let conv = conv_parameters(call, 3)?;
    call.finish_as_is(Op::QLinearConv(QLinearConv { conv }))
}

fn q_linear_mat_mul(call: &mut Call<'_, '_>) -> Translated {
    call.operands(8, 8)?;
    call.finish_as_is(Op::QLinearMatMul(QLinearMatMul))
}

/// `(x)` to `(y, scale, zero_point)`: the range of the values with 0 in it, as 256 steps.
///
/// ```text
/// scale = (max(x, 0) - min(x, 0)) / 255        1 / 255 where all are 0
/// zero  = round(clip(0 - min(x, 0) / scale, 0, 255))
/// y     = QuantizeLinear(x, scale, zero)
/// ```
fn dynamic_quantize(call: &mut Call<'_, '_>) -> Translated {
    call.operands(1, 1)?;
    call.only_results(3)?;
    let x = call.required(0)?;
    let scalar = |value: f32| Tensor::from_f32([], vec![value]);
    let zero = call.new_constant("zero", scalar(0.0)?)?;
    let one = call.new_constant("one", scalar(1.0)?)?;
    let most = call.new_constant("most", scalar(255.0)?)?;
    let reduced = |kind| {
        Op::Reduce(Reduce {
            kind,
            keep_dims: false,
            noop_with_empty_axes: false,
        })
    };
    let least = call.step(reduced(ReduceKind::Min), &[Some(x)])?;
    let greatest = call.step(reduced(ReduceKind::Max), &[Some(x)])?;
    let least = call.step(Op::Variadic(Variadic::Min), &[Some(least), Some(zero)])?;
    let greatest = call.step(Op::Variadic(Variadic::Max), &[Some(greatest), Some(zero)])?;
    let range = call.binary_step(Binary::Sub, greatest, least)?;
    let is_zero = call.binary_step(Binary::Equal, range, zero)?;
    let range = call.step(Op::Where(Where), &[Some(is_zero), Some(one), Some(range)])?;
    let scale = call.binary_step(Binary::Div, range, most)?;
    let least = call.binary_step(Binary::Div, least, scale)?;
    let zero_point = call.binary_step(Binary::Sub, zero, least)?;
    let clip = [Some(zero_point), Some(zero), Some(most)];
    let zero_point = call.step(Op::Clip(Clip), &clip)?;
    let zero_point = call.step(Op::Unary(Unary::Round), &[Some(zero_point)])?;
    let to_byte = Op::Cast(Cast { to: DType::U8 });
    let zero_point = call.step(to_byte, &[Some(zero_point)])?;
    call.finish_value(1, scale)?;
    call.finish_value(2, zero_point)?;
    let quantize = Op::QuantizeLinear(QuantizeLinear::along(1));
    call.finish_result(0, quantize, vec![Some(x), Some(scale), Some(zero_point)])
}
