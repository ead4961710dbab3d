//! Reductions, positions of extremes, sorting, cumulative sums.

use super::Translator;
use super::call::{Call, Translated};
use crate::graph::{ArgReduce, CumSum, Op, Reduce, ReduceKind, TopK};
use crate::tensor::Tensor;

pub(super) const OPERATORS: &[Translator] = &[
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
    ("ArgMax", arg_reduce),
    ("ArgMin", arg_reduce),
    ("TopK", top_k),
    ("CumSum", cumulative_sum),
];

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
