//! Linear quantisation to integers and back.

use super::elementwise::{stated_dtype, stated_narrow};
use super::narrow::{clipped, rounded};
use super::operator::{Exported, Inferred, KnownDType, OPERATOR_SET, Operator};
use crate::ModelError;
use crate::file::export::attributes::Attributes;
use crate::file::export::nodes::NodeExport;
use crate::file::import::call::{Call, Translated, Translator};
use crate::file::narrow::{number_of_float, operator_set_of, small_float};
use crate::file::tensors::{dtype_of_element, number_of};
use crate::graph::infer::{Operands, check_float, check_same_dtype, check_shape, one, op_error};
use crate::graph::{
    ConstantOfShape, DequantizeLinear, Op, OpError, Operand, QuantizeLinear, RoundFloat, Shape,
    ValueId, resolve_axis,
};
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
        check_scale_shape(self.axis, self.block_size, &x, &scale)?;
        let Some(zero_point) = operands.optional(2) else {
            let without = self.float.map_or(DType::U8, |_| DType::F16);
            return one(without, x.shape);
        };
        let (fits, wanted) = match (self.float, zero_point.dtype) {
            (Some(_), dtype) => (dtype == DType::F16, "f16, as floats of 8 bits are held"),
            (None, DType::I8 | DType::U8 | DType::I16 | DType::U16) => (true, ""),
            (None, _) => (false, "i8, u8, i16 or u16"),
        };
        if !fits {
            return Err(op_error!(
                "`zero_point` is {}, wanted {wanted}",
                zero_point.dtype
            ));
        }
        check_zero_point_shape(self.block_size, &zero_point, &scale)?;
        one(zero_point.dtype, x.shape)
    }

    fn result_dtype(&self, _: usize, operand: KnownDType<'_>) -> Option<DType> {
        match self.float {
            Some(_) => Some(DType::F16),
            None => operand(2).or(Some(DType::U8)),
        }
    }

    fn attributes(&self) -> Exported<'_> {
        let attributes = granularity(self.axis, self.block_size);
        Ok(match self.float {
            Some(RoundFloat { format, saturate }) => attributes
                .int("output_dtype", number_of_float(format))
                .flag("saturate", saturate),
            None => attributes,
        })
    }

    fn operator_set(&self) -> i64 {
        let format = self.float.map(|float| operator_set_of(float.format));
        format.unwrap_or_default().max(OPERATOR_SET)
    }

    /// Floats of 8 bits exist in a file between this node and casts to f16.
    fn export<'g>(&'g self, node: &mut NodeExport<'_, 'g>) -> Result<(), String> {
        let Some(float) = self.float else {
            return node.finish(self.name(), self.attributes()?);
        };
        if node.inputs.len() > 2 {
            node.inputs[2] = rounded(node, float, 2, "zero_point");
        }
        let quantized = node.made("quantized");
        let inputs = std::mem::take(&mut node.inputs);
        let name = format!("{}/quantized", node.name);
        let attributes = self.attributes()?;
        node.step(name, self.name(), attributes, inputs, quantized.clone());
        node.inputs = vec![quantized];
        let held = Attributes::default().int("to", i64::from(number_of(DType::F16)));
        node.finish("Cast", held)
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
        let (fits, wanted) = match (self.float, x.dtype) {
            (Some(_), dtype) => (dtype == DType::F16, "f16, as floats of 8 bits are held"),
            (None, DType::I8 | DType::U8 | DType::I16 | DType::U16 | DType::I32) => (true, ""),
            (None, _) => (false, "i8, u8, i16, u16 or i32"),
        };
        if !fits {
            return Err(op_error!("`x` is {}, wanted {wanted}", x.dtype));
        }
        check_float("scale", &scale)?;
        check_scale_shape(self.axis, self.block_size, &x, &scale)?;
        if let Some(zero_point) = operands.optional(2) {
            check_same_dtype("zero_point", &zero_point, x.dtype)?;
            check_zero_point_shape(self.block_size, &zero_point, &scale)?;
        }
        one(scale.dtype, x.shape)
    }

    fn result_dtype(&self, _: usize, operand: KnownDType<'_>) -> Option<DType> {
        operand(1)
    }

    fn attributes(&self) -> Exported<'_> {
        Ok(granularity(self.axis, self.block_size))
    }

    fn operator_set(&self) -> i64 {
        self.float.map_or(OPERATOR_SET, |format| {
            operator_set_of(format).max(OPERATOR_SET)
        })
    }

    /// Floats of 8 bits exist in a file between casts and this node.
    fn export<'g>(&'g self, node: &mut NodeExport<'_, 'g>) -> Result<(), String> {
        if let Some(format) = self.float {
            let saturate = true;
            let float = RoundFloat { format, saturate };
            node.inputs[0] = rounded(node, float, 0, "quantized");
            if node.inputs.len() > 2 {
                node.inputs[2] = rounded(node, float, 2, "zero_point");
            }
        }
        node.finish(self.name(), self.attributes()?)
    }
}

fn granularity(axis: i64, block_size: usize) -> Attributes<'static> {
    let axis = Attributes::default().int("axis", axis);
    match block_size {
        0 => axis,
        n => axis.int("block_size", n as i64),
    }
}

/// How many neighbours share a scale; 0 where that is not how scales are given.
fn block_size(call: &Call<'_, '_>) -> Result<usize, ModelError> {
    let n = call.int_or("block_size", 0)?;
    usize::try_from(n).map_err(|_| call.error(format!("attribute `block_size` is {n}")))
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
    // The type of the division, which is never below f32.
    call.ignore(&["precision"]);
    let saturate = call.flag("saturate", true)?;
    let stated = stated_narrow(call, "output_dtype")?;
    let narrow = match (call.input(2), call.narrow(2)) {
        (None, _) => stated,
        (Some(_), of_zero_point) => {
            if stated.is_some_and(|stated| Some(stated) != of_zero_point) {
                return Err(call.error("`output_dtype` is not the type of the zero point"));
            }
            of_zero_point
        }
    };
    let format = narrow.and_then(small_float);
    let op = QuantizeLinear {
        axis: call.int_or("axis", 1)?,
        block_size: block_size(call)?,
        float: format.map(|format| RoundFloat { format, saturate }),
    };
    let mut inputs = call.inputs();
    if op.block_size == 0 {
        same_shapes(call, &mut inputs)?;
    }
    let held = narrow.map(|narrow| dtype_of_element(narrow.held_as()));
    let stated = match held {
        Some(held) => Some(held).filter(|_| op.float.is_none()),
        None => stated_dtype(call, "output_dtype")?,
    };
    match (stated, call.input(2)) {
        (None | Some(DType::U8), None) => {}
        (Some(dtype), None) => {
            let whole = Shape {
                start: 0,
                end: None,
            };
            let shape = call.step(Op::Shape(whole), &inputs[1..2])?;
            let value = Tensor::zeros(dtype, [1])?;
            let zeros = Op::ConstantOfShape(ConstantOfShape { value });
            inputs.push(Some(call.step(zeros, &[Some(shape)])?));
        }
        (Some(dtype), Some(zero_point)) => {
            if call.builder.dtype(zero_point).is_some_and(|d| d != dtype) {
                return Err(call.error("`output_dtype` is not the type of the zero point"));
            }
        }
        (None, Some(_)) => {}
    }
    match narrow {
        // What saturates at fewer bits may saturate at 8 before.
        Some(narrow) if op.float.is_none() => {
            let bytes = call.step(Op::QuantizeLinear(op), &inputs)?;
            clipped(call, narrow, bytes)?;
        }
        _ => call.finish(Op::QuantizeLinear(op), inputs)?,
    }
    if let Some(narrow) = narrow {
        call.set_narrow_result(narrow);
    }
    Ok(())
}

pub(super) fn dequantize(call: &mut Call<'_, '_>) -> Translated {
    call.operands(2, 3)?;
    if let Some(dtype) = stated_dtype(call, "output_dtype")? {
        let scale = call.required(1)?;
        if call.builder.dtype(scale) != Some(dtype) {
            return Err(call.error("`output_dtype` must be the type of the scale"));
        }
    }
    let op = DequantizeLinear {
        axis: call.int_or("axis", 1)?,
        block_size: block_size(call)?,
        float: call.narrow(0).and_then(small_float),
    };
    let mut inputs = call.inputs();
    if op.block_size == 0 {
        same_shapes(call, &mut inputs)?;
    }
    call.finish(Op::DequantizeLinear(op), inputs)
}

/// One scale for all, one per position of `axis`, or one per block along it.
fn check_scale_shape(
    axis: i64,
    block_size: usize,
    x: &Operand<'_>,
    scale: &Operand<'_>,
) -> Result<(), OpError> {
    if block_size > 0 {
        let axis = resolve_axis(axis, x.rank())?;
        let mut shape = x.shape.to_vec();
        shape[axis] = shape[axis].div_ceil(block_size);
        return check_shape("scale", scale.shape, &shape);
    }
    match scale.shape {
        [] | [1] => Ok(()),
        [n] => {
            let axis = resolve_axis(axis, x.rank())?;
            check_shape("scale", &[*n], &[x.shape[axis]])
        }
        _ => Err(op_error!(
            "`scale` of shape {:?} without a block size, which scales per block have",
            scale.shape
        )),
    }
}

/// As many as there are scales; of one each, either may be a scalar and the other a list.
fn check_zero_point_shape(
    block_size: usize,
    zero_point: &Operand<'_>,
    scale: &Operand<'_>,
) -> Result<(), OpError> {
    if block_size == 0 && zero_point.len() == 1 && scale.len() == 1 {
        return Ok(());
    }
    check_shape("zero_point", zero_point.shape, scale.shape)
}
