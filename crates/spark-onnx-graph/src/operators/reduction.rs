//! Reductions, positions of extremes, sorting, cumulative sums.

use super::operator::{Exported, Inferred, KnownDType, Operator};
use crate::file::export::attributes::Attributes;
use crate::file::import::call::{Call, Translated, Translator};
use crate::graph::infer::{
    Operands, check_float, check_index, check_numeric, check_scalar, constant_int, constant_ints,
    one, op_error,
};
use crate::graph::{
    ArgReduce, CumProd, CumSum, Op, Reduce, ReduceKind, TensorType, TopK, resolve_axes,
    resolve_axis,
};
use crate::tensor::{DType, Tensor};

impl Operator for Reduce {
    const IMPORTS: &'static [Translator] = &[
        ("ReduceL1", reduce),
        ("ReduceL2", reduce),
        ("ReduceLogSum", reduce),
        ("ReduceLogSumExp", reduce),
        ("ReduceMax", reduce),
        ("ReduceMean", reduce),
        ("ReduceMin", reduce),
        ("ReduceProd", reduce),
        ("ReduceSum", reduce),
        ("ReduceSumSquare", reduce),
    ];

    fn name(&self) -> &'static str {
        self.kind.name()
    }

    fn infer(&self, operands: &Operands<'_>) -> Inferred {
        operands.expect(1, 2, 1)?;
        let x = operands.required(0, "x")?;
        match self.kind {
            ReduceKind::L2 | ReduceKind::LogSum | ReduceKind::LogSumExp => check_float("x", &x)?,
            ReduceKind::Max | ReduceKind::Min => {}
            _ => check_numeric("x", &x)?,
        }
        let given = match operands.optional(1) {
            Some(axes) => constant_ints("axes", &axes)?,
            None => Vec::new(),
        };
        if given.is_empty() && self.noop_with_empty_axes {
            return one(x.dtype, x.shape);
        }
        let mut reduced = vec![given.is_empty(); x.rank()];
        for axis in resolve_axes(&given, x.rank())? {
            reduced[axis] = true;
        }
        one(x.dtype, reduced_shape(x.shape, &reduced, self.keep_dims))
    }

    fn deciding_operands(&self) -> &'static [usize] {
        &[1]
    }

    fn attributes(&self) -> Exported<'_> {
        Ok(Attributes::default()
            .flag("keepdims", self.keep_dims)
            .flag("noop_with_empty_axes", self.noop_with_empty_axes))
    }
}

impl Operator for ArgReduce {
    const IMPORTS: &'static [Translator] = &[("ArgMax", arg_reduce), ("ArgMin", arg_reduce)];

    fn name(&self) -> &'static str {
        if self.max { "ArgMax" } else { "ArgMin" }
    }

    fn infer(&self, operands: &Operands<'_>) -> Inferred {
        operands.expect(1, 1, 1)?;
        let x = operands.required(0, "x")?;
        check_numeric("x", &x)?;
        let axis = resolve_axis(self.axis, x.rank())?;
        if x.shape[axis] == 0 {
            return Err(op_error!(
                "axis {axis} of `x` of shape {:?} is empty",
                x.shape
            ));
        }
        let mut reduced = vec![false; x.rank()];
        reduced[axis] = true;
        one(DType::I64, reduced_shape(x.shape, &reduced, self.keep_dims))
    }

    fn result_dtype(&self, _: usize, _: KnownDType<'_>) -> Option<DType> {
        Some(DType::I64)
    }

    fn attributes(&self) -> Exported<'_> {
        Ok(Attributes::default()
            .int("axis", self.axis)
            .flag("keepdims", self.keep_dims)
            .flag("select_last_index", self.select_last))
    }
}

impl Operator for TopK {
    const IMPORTS: &'static [Translator] = &[("TopK", top_k)];

    fn name(&self) -> &'static str {
        "TopK"
    }

    fn infer(&self, operands: &Operands<'_>) -> Inferred {
        operands.expect(2, 2, 2)?;
        let x = operands.required(0, "x")?;
        check_numeric("x", &x)?;
        let axis = resolve_axis(self.axis, x.rank())?;
        let k = constant_int("k", &operands.required(1, "k")?)?;
        let mut shape = x.shape.to_vec();
        match usize::try_from(k) {
            Ok(k) if k <= shape[axis] => shape[axis] = k,
            _ => return Err(op_error!("k is {k}, wanted 0 to {}", shape[axis])),
        }
        let values = TensorType {
            dtype: x.dtype,
            shape: shape.clone(),
        };
        let indices = TensorType {
            dtype: DType::I64,
            shape,
        };
        Ok([values, indices]
            .into_iter()
            .take(operands.n_outputs)
            .collect())
    }

    fn result_dtype(&self, output: usize, operand: KnownDType<'_>) -> Option<DType> {
        match output {
            1 => Some(DType::I64),
            _ => operand(0),
        }
    }

    fn deciding_operands(&self) -> &'static [usize] {
        &[1]
    }

    fn attributes(&self) -> Exported<'_> {
        Ok(Attributes::default()
            .int("axis", self.axis)
            .flag("largest", self.largest)
            .flag("sorted", self.sorted))
    }
}

impl Operator for CumSum {
    const IMPORTS: &'static [Translator] = &[("CumSum", cumulative_sum)];

    fn name(&self) -> &'static str {
        "CumSum"
    }

    fn infer(&self, operands: &Operands<'_>) -> Inferred {
        infer_running(operands)
    }

    fn deciding_operands(&self) -> &'static [usize] {
        &[1]
    }

    fn attributes(&self) -> Exported<'_> {
        Ok(Attributes::default()
            .flag("exclusive", self.exclusive)
            .flag("reverse", self.reverse))
    }
}

impl Operator for CumProd {
    const IMPORTS: &'static [Translator] = &[("CumProd", cumulative_product)];

    fn name(&self) -> &'static str {
        "CumProd"
    }

    fn infer(&self, operands: &Operands<'_>) -> Inferred {
        infer_running(operands)
    }

    fn deciding_operands(&self) -> &'static [usize] {
        &[1]
    }

    fn attributes(&self) -> Exported<'_> {
        Ok(Attributes::default()
            .flag("exclusive", self.exclusive)
            .flag("reverse", self.reverse))
    }

    fn operator_set(&self) -> i64 {
        26
    }
}

/// Of running sums and products.
fn infer_running(operands: &Operands<'_>) -> Inferred {
    operands.expect(2, 2, 1)?;
    let x = operands.required(0, "x")?;
    check_numeric("x", &x)?;
    let axis = operands.required(1, "axis")?;
    check_index("axis", &axis)?;
    check_scalar("axis", &axis)?;
    if axis.constant.is_some() {
        resolve_axis(constant_int("axis", &axis)?, x.rank())?;
    }
    one(x.dtype, x.shape)
}

/// Axes are a parameter before operator set 18, of ReduceSum before 13.
fn reduce(call: &mut Call<'_, '_>) -> Translated {
    let (kind, axes_operand_since) = match call.op_type() {
        "ReduceL1" => (ReduceKind::L1, 18),
        "ReduceL2" => (ReduceKind::L2, 18),
        "ReduceLogSum" => (ReduceKind::LogSum, 18),
        "ReduceLogSumExp" => (ReduceKind::LogSumExp, 18),
        "ReduceMax" => (ReduceKind::Max, 18),
        "ReduceMean" => (ReduceKind::Mean, 18),
        "ReduceMin" => (ReduceKind::Min, 18),
        "ReduceProd" => (ReduceKind::Prod, 18),
        "ReduceSum" => (ReduceKind::Sum, 13),
        _ => (ReduceKind::SumSquare, 18),
    };
    let axes_are_operand = call.opset() >= axes_operand_since;
    let op = Op::Reduce(Reduce {
        kind,
        keep_dims: call.flag("keepdims", true)?,
        noop_with_empty_axes: axes_are_operand && call.flag("noop_with_empty_axes", false)?,
    });
    if axes_are_operand {
        call.operands(1, 2)?;
        return call.finish_as_is(op);
    }
    call.operands(1, 1)?;
    let mut inputs = call.inputs();
    if let Some(axes) = call.ints("axes")?.filter(|a| !a.is_empty()) {
        inputs.push(Some(call.new_ints("axes", axes)?));
    }
    call.finish(op, inputs)
}

fn arg_reduce(call: &mut Call<'_, '_>) -> Translated {
    call.operands(1, 1)?;
    let op = ArgReduce {
        max: call.op_type() == "ArgMax",
        axis: call.int_or("axis", 0)?,
        keep_dims: call.flag("keepdims", true)?,
        select_last: call.flag("select_last_index", false)?,
    };
    call.finish_as_is(Op::ArgReduce(op))
}

/// The number of results is a parameter before operator set 10.
fn top_k(call: &mut Call<'_, '_>) -> Translated {
    let op = Op::TopK(TopK {
        axis: call.int_or("axis", -1)?,
        largest: call.flag("largest", true)?,
        sorted: call.flag("sorted", true)?,
    });
    if call.opset() >= 10 {
        call.operands(2, 2)?;
        return call.finish_as_is(op);
    }
    call.operands(1, 1)?;
    let Some(k) = call.int("k")? else {
        return Err(call.error("attribute `k` is missing"));
    };
    let mut inputs = call.inputs();
    inputs.push(Some(
        call.new_constant("k", Tensor::from_i64([1], vec![k])?)?,
    ));
    call.finish(op, inputs)
}

fn cumulative_sum(call: &mut Call<'_, '_>) -> Translated {
    call.operands(2, 2)?;
    let op = Op::CumSum(CumSum {
        exclusive: call.flag("exclusive", false)?,
        reverse: call.flag("reverse", false)?,
    });
    call.finish_as_is(op)
}

fn cumulative_product(call: &mut Call<'_, '_>) -> Translated {
    call.operands(2, 2)?;
    let op = Op::CumProd(CumProd {
        exclusive: call.flag("exclusive", false)?,
        reverse: call.flag("reverse", false)?,
    });
    call.finish_as_is(op)
}

fn reduced_shape(shape: &[usize], reduced: &[bool], keep_dims: bool) -> Vec<usize> {
    shape
        .iter()
        .zip(reduced)
        .filter(|&(_, &reduced)| keep_dims || !reduced)
        .map(|(&extent, &reduced)| if reduced { 1 } else { extent })
        .collect()
}

impl ReduceKind {
    /// The operator's name in the ONNX specification.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Sum => "ReduceSum",
            Self::Mean => "ReduceMean",
            Self::Max => "ReduceMax",
            Self::Min => "ReduceMin",
            Self::Prod => "ReduceProd",
            Self::L1 => "ReduceL1",
            Self::L2 => "ReduceL2",
            Self::SumSquare => "ReduceSumSquare",
            Self::LogSum => "ReduceLogSum",
            Self::LogSumExp => "ReduceLogSumExp",
        }
    }
}
