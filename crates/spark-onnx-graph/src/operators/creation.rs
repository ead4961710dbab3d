//! Operators that make elements from shapes, counts and positions, and constants.

use super::elementwise::stated_dtype;
use super::operator::{Exported, Inferred, KnownDType, Operator};
use crate::file::export::attributes::Attributes;
use crate::file::import::call::{Call, Translated, Translator};
use crate::file::tensors::{number_of, read_sparse_tensor};
use crate::graph::infer::{
    Operands, check_numeric, check_rank, check_same_dtype, check_scalar, constant_extents,
    for_each_non_zero, one, op_error, shape_part,
};
use crate::graph::{ConstantOfShape, EyeLike, NonZero, Op, Range, Shape, Size};
use crate::tensor::{DType, MAX_ELEMENTS, Tensor, TensorData};
use spark_onnx_proto::is_graph;

/// Operators of a file that are short for others, or for a constant.
pub(super) const SPELLED_OUT: &[Translator] = &[("Constant", constant)];

impl Operator for Shape {
    const IMPORTS: &'static [Translator] = &[("Shape", shape)];

    fn name(&self) -> &'static str {
        "Shape"
    }

    fn infer(&self, operands: &Operands<'_>) -> Inferred {
        operands.expect(1, 1, 1)?;
        let x = operands.required(0, "x")?;
        one(
            DType::I64,
            [shape_part(x.shape, self.start, self.end).len()],
        )
    }

    fn result_dtype(&self, _: usize, _: KnownDType<'_>) -> Option<DType> {
        Some(DType::I64)
    }

    fn attributes(&self) -> Exported<'_> {
        let start = Attributes::default().int("start", self.start);
        Ok(match self.end {
            Some(end) => start.int("end", end),
            None => start,
        })
    }
}

impl Operator for Size {
    const IMPORTS: &'static [Translator] = &[("Size", size)];

    fn name(&self) -> &'static str {
        "Size"
    }

    fn infer(&self, operands: &Operands<'_>) -> Inferred {
        operands.expect(1, 1, 1)?;
        operands.required(0, "x")?;
        one(DType::I64, [])
    }

    fn result_dtype(&self, _: usize, _: KnownDType<'_>) -> Option<DType> {
        Some(DType::I64)
    }

    fn attributes(&self) -> Exported<'_> {
        Ok(Attributes::default())
    }
}

impl Operator for ConstantOfShape {
    const IMPORTS: &'static [Translator] = &[("ConstantOfShape", constant_of_shape)];

    fn name(&self) -> &'static str {
        "ConstantOfShape"
    }

    fn infer(&self, operands: &Operands<'_>) -> Inferred {
        operands.expect(1, 1, 1)?;
        let shape = constant_extents("shape", &operands.required(0, "shape")?)?;
        if self.value.len() != 1 {
            return Err(op_error!(
                "the value has {} elements, wanted one",
                self.value.len()
            ));
        }
        one(self.value.dtype(), shape)
    }

    fn result_dtype(&self, _: usize, _: KnownDType<'_>) -> Option<DType> {
        Some(self.value.dtype())
    }

    fn deciding_operands(&self) -> &'static [usize] {
        &[0]
    }

    fn attributes(&self) -> Exported<'_> {
        Ok(Attributes::default().tensor("value", &self.value))
    }
}

impl Operator for Range {
    const IMPORTS: &'static [Translator] = &[("Range", range)];

    fn name(&self) -> &'static str {
        "Range"
    }

    fn infer(&self, operands: &Operands<'_>) -> Inferred {
        operands.expect(3, 3, 1)?;
        let start = operands.required(0, "start")?;
        check_numeric("start", &start)?;
        let mut bounds = Vec::with_capacity(3);
        for (index, what) in ["start", "limit", "delta"].into_iter().enumerate() {
            let bound = operands.required(index, what)?;
            check_same_dtype(what, &bound, start.dtype)?;
            check_scalar(what, &bound)?;
            let constant = bound.constant.ok_or_else(|| {
                op_error!("`{what}` must be constant: the result's shape depends on it")
            })?;
            bounds.push(constant);
        }
        let n = match [bounds[0].data(), bounds[1].data(), bounds[2].data()] {
            [TensorData::I64(a), TensorData::I64(b), TensorData::I64(d)] => {
                let (distance, step) = (i128::from(b[0]) - i128::from(a[0]), i128::from(d[0]));
                let whole = distance
                    .checked_div(step)
                    .ok_or_else(|| op_error!("delta is zero"))?;
                let more = distance % step != 0 && (distance > 0) == (step > 0);
                (whole + i128::from(more)) as f64
            }
            _ => {
                let [a, b, d] = [0, 1, 2].map(|i| bounds[i].to_f64()[0]);
                ((b - a) / d).ceil()
            }
        };
        if n.is_nan() || n > MAX_ELEMENTS as f64 || bounds[2].to_f64()[0] == 0.0 {
            return Err(op_error!("a range of {n} elements"));
        }
        // Negative counts, the limit lying behind, saturate to none.
        one(start.dtype, [n as usize])
    }

    fn deciding_operands(&self) -> &'static [usize] {
        &[0, 1, 2]
    }

    fn attributes(&self) -> Exported<'_> {
        Ok(Attributes::default())
    }
}

impl Operator for NonZero {
    const IMPORTS: &'static [Translator] = &[("NonZero", non_zero)];

    fn name(&self) -> &'static str {
        "NonZero"
    }

    fn infer(&self, operands: &Operands<'_>) -> Inferred {
        operands.expect(1, 1, 1)?;
        let x = operands.required(0, "x")?;
        let constant = x
            .constant
            .ok_or_else(|| op_error!("`x` must be constant: the result's shape depends on it"))?;
        let mut count = 0;
        for_each_non_zero(constant, |_| count += 1);
        one(DType::I64, [x.rank(), count])
    }

    fn result_dtype(&self, _: usize, _: KnownDType<'_>) -> Option<DType> {
        Some(DType::I64)
    }

    fn deciding_operands(&self) -> &'static [usize] {
        &[0]
    }

    fn attributes(&self) -> Exported<'_> {
        Ok(Attributes::default())
    }
}

impl Operator for EyeLike {
    const IMPORTS: &'static [Translator] = &[("EyeLike", eye_like)];

    fn name(&self) -> &'static str {
        "EyeLike"
    }

    fn infer(&self, operands: &Operands<'_>) -> Inferred {
        operands.expect(1, 1, 1)?;
        let x = operands.required(0, "x")?;
        check_rank("x", &x, 2)?;
        one(self.dtype.unwrap_or(x.dtype), x.shape)
    }

    fn result_dtype(&self, _: usize, operand: KnownDType<'_>) -> Option<DType> {
        self.dtype.or_else(|| operand(0))
    }

    fn attributes(&self) -> Exported<'_> {
        let diagonal = Attributes::default().int("k", self.k);
        Ok(match self.dtype {
            Some(dtype) => diagonal.int("dtype", i64::from(number_of(dtype))),
            None => diagonal,
        })
    }
}

/// One of the parameters holds the value; there is no node left.
fn constant(call: &mut Call<'_, '_>) -> Translated {
    call.operands(0, 0)?;
    let [(name, attribute)] = call.node.attributes[..] else {
        return Err(call.error("it must have one attribute"));
    };
    if is_graph(attribute) {
        return Err(call.error(format!("attribute `{name}` is a graph")));
    }
    let mut narrow = None;
    let tensor = match name {
        "value" => call.held_tensor(name)?.map(|(tensor, of_file)| {
            narrow = of_file;
            tensor
        }),
        "value_float" => match call.float(name)? {
            Some(value) => Some(Tensor::from_f32([], vec![value])?),
            None => None,
        },
        "value_floats" => match call.floats(name)? {
            Some(values) => Some(Tensor::from_f32([values.len()], values.to_vec())?),
            None => None,
        },
        "value_int" => match call.int(name)? {
            Some(value) => Some(Tensor::from_i64([], vec![value])?),
            None => None,
        },
        "value_ints" => match call.ints(name)? {
            Some(values) => Some(Tensor::from_i64([values.len()], values.to_vec())?),
            None => None,
        },
        "sparse_value" => {
            call.ignore(&[name]);
            match attribute.sparse_tensor.as_deref() {
                Some(sparse) => {
                    let (tensor, of_file) = read_sparse_tensor(sparse.clone(), call.source)?;
                    narrow = of_file;
                    Some(tensor)
                }
                None => None,
            }
        }
        "value_string" | "value_strings" => {
            return Err(call.error("texts are not supported"));
        }
        other => return Err(call.error(format!("attribute `{other}` is not known"))),
    };
    let Some(tensor) = tensor else {
        return Err(call.error(format!("attribute `{name}` holds no value")));
    };
    match call.node.outputs[..] {
        [ref output] if !output.is_empty() => {
            let id = call.builder.named_constant(output, tensor);
            call.builder.set_narrow(id, narrow);
            Ok(())
        }
        _ => Err(call.error("it must have one result")),
    }
}

fn constant_of_shape(call: &mut Call<'_, '_>) -> Translated {
    call.operands(1, 1)?;
    let value = match call.tensor("value")? {
        Some(value) if value.len() == 1 => value.reshaped([1])?,
        Some(value) => {
            let n = value.len();
            return Err(call.error(format!("attribute `value` has {n} elements, 1 wanted")));
        }
        None => Tensor::zeros(DType::F32, [1])?,
    };
    call.finish_as_is(Op::ConstantOfShape(ConstantOfShape { value }))
}

fn shape(call: &mut Call<'_, '_>) -> Translated {
    call.operands(1, 1)?;
    let op = Op::Shape(Shape {
        start: call.int_or("start", 0)?,
        end: call.int("end")?,
    });
    call.finish_as_is(op)
}

fn size(call: &mut Call<'_, '_>) -> Translated {
    call.operands(1, 1)?;
    call.finish_as_is(Op::Size(Size))
}

fn range(call: &mut Call<'_, '_>) -> Translated {
    call.operands(3, 3)?;
    call.finish_as_is(Op::Range(Range))
}

fn eye_like(call: &mut Call<'_, '_>) -> Translated {
    call.operands(1, 1)?;
    let dtype = stated_dtype(call, "dtype")?;
    let k = call.int_or("k", 0)?;
    call.finish_as_is(Op::EyeLike(EyeLike { dtype, k }))
}

fn non_zero(call: &mut Call<'_, '_>) -> Translated {
    call.operands(1, 1)?;
    call.finish_as_is(Op::NonZero(NonZero))
}
