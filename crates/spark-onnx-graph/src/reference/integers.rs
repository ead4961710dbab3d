//! Products of 8-bit integers.
//!
//! ```text
//! s = sum of (x - x_zero) (w - w_zero)  (+ bias)                    exact, then wrapped to i32
//! y = saturate(round_half_even(f32(s) * m) + y_zero)       m = x_scale * w_scale / y_scale
//! ```
//!
//! ONNX leaves open in which precision a sum is multiplied. Here `f32(s)`, both steps of `m` and the product are
//! rounded to f32, as in onnxruntime; that decides ties. A product that is no number gives the least result.

use super::conv;
use super::matrix;
use super::numbers::{Numbers, from_floats, from_whole, whole_numbers};
use super::operator::{Evaluate, Evaluated, Inputs, Working, one, times};
use crate::graph::infer::op_error;
use crate::graph::{
    Conv, ConvInteger, MatMulInteger, OpError, QLinearConv, QLinearMatMul, TensorType,
};
use crate::tensor::{DType, Tensor};

impl Evaluate for ConvInteger {
    fn evaluate(&self, inputs: Inputs<'_>, types: &[TensorType]) -> Evaluated {
        let operands = Factors::of(inputs, [0, 2, 1, 3])?;
        one(types, |ty| {
            from_whole(ty, conv_sums(&self.conv, &operands)?)
        })
    }

    fn working_bytes(&self, working: &Working<'_>) -> usize {
        working.computed_with(times(working.read(), 16))
    }

    fn reads_per_result(&self, work: &Working<'_>) -> usize {
        work.smaller_factor()
    }
}

impl Evaluate for MatMulInteger {
    fn evaluate(&self, inputs: Inputs<'_>, types: &[TensorType]) -> Evaluated {
        let operands = Factors::of(inputs, [0, 2, 1, 3])?;
        one(types, |ty| from_whole(ty, matmul_sums(&operands)?))
    }

    fn working_bytes(&self, working: &Working<'_>) -> usize {
        matmul_bytes(working)
    }

    fn reads_per_result(&self, work: &Working<'_>) -> usize {
        work.smaller_factor()
    }
}

impl Evaluate for QLinearConv {
    fn evaluate(&self, inputs: Inputs<'_>, types: &[TensorType]) -> Evaluated {
        let operands = Factors::of(inputs, [0, 2, 3, 5])?;
        let mut sums = conv_sums(&self.conv, &operands)?;
        let scales = Scales::of(inputs)?;
        one(types, |ty| {
            let channels = ty.shape[1];
            let plane = ty.shape[2..].iter().product::<usize>().max(1);
            let channel = |i: usize| i / plane % channels;
            if let Some(bias) = inputs.optional(8) {
                let bias = whole(bias)?;
                let sums = sums.iter_mut().enumerate();
                sums.for_each(|(i, sum)| *sum += bias[channel(i)]);
            }
            scales.requantised(ty, &sums, |i| (0, channel(i)))
        })
    }

    fn working_bytes(&self, working: &Working<'_>) -> usize {
        working.computed_with(times(working.read(), 16))
    }

    fn reads_per_result(&self, work: &Working<'_>) -> usize {
        work.read()
    }
}

impl Evaluate for QLinearMatMul {
    fn evaluate(&self, inputs: Inputs<'_>, types: &[TensorType]) -> Evaluated {
        let operands = Factors::of(inputs, [0, 2, 3, 5])?;
        let sums = matmul_sums(&operands)?;
        let scales = Scales::of(inputs)?;
        let columns = operands.columns();
        one(types, |ty| {
            let rows = operands.rows().max(1);
            let place = |i: usize| (i / columns % rows, i % columns);
            scales.requantised(ty, &sums, place)
        })
    }

    fn working_bytes(&self, working: &Working<'_>) -> usize {
        matmul_bytes(working)
    }

    fn reads_per_result(&self, work: &Working<'_>) -> usize {
        work.read()
    }
}

fn matmul_bytes(working: &Working<'_>) -> usize {
    let elements = working.read().saturating_add(working.written());
    working.computed_with(times(elements, 80))
}

fn whole(tensor: &Tensor) -> Result<Vec<i128>, OpError> {
    whole_numbers(tensor).ok_or_else(|| op_error!("an operand is not whole"))
}

/// Both factors of a product, with their zero points.
struct Factors<'a> {
    x: &'a Tensor,
    x_zero: Vec<i128>,
    w: &'a Tensor,
    w_zero: Vec<i128>,
}

impl<'a> Factors<'a> {
    /// From the operands at these positions: both factors, each before its zero point.
    fn of(inputs: Inputs<'a>, [x, x_zero, w, w_zero]: [usize; 4]) -> Result<Self, OpError> {
        let zero = |at: usize| inputs.optional(at).map_or(Ok(vec![0]), whole);
        Ok(Self {
            x: inputs.get(x)?,
            x_zero: zero(x_zero)?,
            w: inputs.get(w)?,
            w_zero: zero(w_zero)?,
        })
    }

    /// Rows of the left matrix, one for a vector.
    fn rows(&self) -> usize {
        let shape = self.x.shape();
        shape.len().checked_sub(2).map_or(1, |axis| shape[axis])
    }

    /// Columns of the right matrix, one for a vector.
    fn columns(&self) -> usize {
        let shape = self.w.shape();
        let last = shape.last().copied().filter(|_| shape.len() >= 2);
        last.unwrap_or(1).max(1)
    }
}

/// Every element without the zero point that `which` gives for its position.
fn centred(
    tensor: &Tensor,
    zeros: &[i128],
    which: impl Fn(usize) -> usize,
) -> Result<Vec<i128>, OpError> {
    let values = whole(tensor)?.into_iter().enumerate();
    let zero = |i| zeros[if zeros.len() == 1 { 0 } else { which(i) }];
    Ok(values.map(|(i, value)| value - zero(i)).collect())
}

fn conv_sums(parameters: &Conv, factors: &Factors<'_>) -> Result<Vec<i128>, OpError> {
    let Factors { x, w, .. } = *factors;
    let per_filter = w.shape()[1..].iter().product::<usize>().max(1);
    let floats = |values: Vec<i128>| values.into_iter().map(|v| v as f64).collect::<Vec<_>>();
    let x_values = floats(centred(x, &factors.x_zero, |_| 0)?);
    let w_values = floats(centred(w, &factors.w_zero, |i| i / per_filter)?);
    // Exact: products of 16 bits, of which an f64 holds the sum of 2^37.
    let sums = conv::sums(
        parameters,
        (x.shape(), &x_values),
        (w.shape(), &w_values),
        None,
    )?;
    Ok(sums.into_iter().map(|sum| sum as i128).collect())
}

fn matmul_sums(factors: &Factors<'_>) -> Result<Vec<i128>, OpError> {
    let (rows, columns) = (factors.rows().max(1), factors.columns());
    let depth = factors.x.shape().last().copied().unwrap_or(1).max(1);
    let tensor = |of: &Tensor, values: Vec<i128>| {
        let ty = TensorType {
            dtype: DType::I32,
            shape: of.shape().to_vec(),
        };
        from_whole(&ty, values)
    };
    let x = centred(factors.x, &factors.x_zero, |i| i / depth % rows)?;
    let w = centred(factors.w, &factors.w_zero, |i| i % columns)?;
    let (x, w) = (tensor(factors.x, x)?, tensor(factors.w, w)?);
    match matrix::product([&x, &w])? {
        Numbers::Whole(sums) => Ok(sums),
        Numbers::Float(_) => Err(op_error!("an operand is not whole")),
    }
}

/// The scales of a product and its result, in f32.
struct Scales {
    x: Vec<f32>,
    w: Vec<f32>,
    y: Vec<f32>,
    y_zero: Vec<i128>,
}

impl Scales {
    fn of(inputs: Inputs<'_>) -> Result<Self, OpError> {
        let scale = |at| inputs.get(at).map(Tensor::to_f32);
        Ok(Self {
            x: scale(1)?,
            w: scale(4)?,
            y: scale(6)?,
            y_zero: whole(inputs.get(7)?)?,
        })
    }

    /// The sums as results; `place` gives the row and the column of a position.
    fn requantised(
        &self,
        ty: &TensorType,
        sums: &[i128],
        place: impl Fn(usize) -> (usize, usize),
    ) -> Result<Tensor, OpError> {
        fn pick<T: Copy>(list: &[T], at: usize) -> T {
            list[if list.len() == 1 { 0 } else { at }]
        }
        let least = if ty.dtype == DType::I8 { -128.0 } else { 0.0 };
        let results = sums.iter().enumerate().map(|(i, &sum)| {
            let (row, column) = place(i);
            let multiplier = pick(&self.x, row) * pick(&self.w, column) / pick(&self.y, row);
            let product = (sum as i32) as f32 * multiplier;
            match product.is_nan() {
                true => least,
                false => f64::from(product.round_ties_even()) + pick(&self.y_zero, row) as f64,
            }
        });
        // The conversion saturates.
        from_floats(ty, results.collect())
    }
}
