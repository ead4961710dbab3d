//! Normalisations and softmax.

use super::Translator;
use super::call::{Call, Translated};
use crate::graph::{
    BatchNormalization, Binary, GroupNormalization, InstanceNormalization, LayerNormalization,
    LpNormalization, Lrn, Op, Reduce, ReduceKind, Reshape, RmsNormalization, Shape, Softmax, Unary,
};

pub(super) const OPERATORS: &[Translator] = &[
    ("BatchNormalization", batch),
    ("LayerNormalization", layer),
    ("RMSNormalization", rms),
    ("InstanceNormalization", instance),
    ("GroupNormalization", group),
    ("MeanVarianceNormalization", mean_variance),
    ("LpNormalization", lp),
    ("LRN", local_response),
    ("Softmax", softmax),
    ("LogSoftmax", softmax),
];

const EPSILON: f32 = 1e-5;

fn batch(call: &mut Call<'_, '_>) -> Translated {
    call.operands(5, 5)?;
    call.only_results(1)?;
    call.ignore(&["momentum"]);
    // Before operator set 7 training was what a parameter turned off.
    let trains = call.opset() < 7 && !call.flag("is_test", false)?;
    if trains || call.flag("training_mode", false)? {
        return Err(call.error("training mode is not supported"));
    }
    if !call.flag("spatial", true)? {
        return Err(call.error("attribute `spatial` 0 (a mean per element) is not supported"));
    }
    let epsilon = call.float_or("epsilon", EPSILON)?;
    call.finish_as_is(Op::BatchNormalization(BatchNormalization { epsilon }))
}

pub(super) fn layer(call: &mut Call<'_, '_>) -> Translated {
    call.operands(2, 3)?;
    call.only_results(1)?;
    // The type of the two further results and of sums; ours are never narrower than f32.
    call.ignore(&["stash_type"]);
    let axis = call.int_or("axis", -1)?;
    let epsilon = call.float_or("epsilon", EPSILON)?;
    call.finish_as_is(Op::LayerNormalization(LayerNormalization { axis, epsilon }))
}

pub(super) fn rms(call: &mut Call<'_, '_>) -> Translated {
    call.operands(2, 2)?;
    call.only_results(1)?;
    call.ignore(&["stash_type"]);
    let axis = call.int_or("axis", -1)?;
    let epsilon = call.float_or("epsilon", EPSILON)?;
    call.finish_as_is(Op::RmsNormalization(RmsNormalization { axis, epsilon }))
}

fn instance(call: &mut Call<'_, '_>) -> Translated {
    call.operands(3, 3)?;
    let epsilon = call.float_or("epsilon", EPSILON)?;
    call.finish_as_is(Op::InstanceNormalization(InstanceNormalization { epsilon }))
}

/// Before operator set 21 scale and bias are per group: an instance normalisation of
/// `[n, groups, rest]`.
fn group(call: &mut Call<'_, '_>) -> Translated {
    call.operands(3, 3)?;
    call.ignore(&["stash_type"]);
    let groups = call.count("num_groups", 0)?;
    if groups == 0 {
        return Err(call.error("attribute `num_groups` is missing"));
    }
    let epsilon = call.float_or("epsilon", EPSILON)?;
    if call.opset() >= 21 {
        return call.finish_as_is(Op::GroupNormalization(GroupNormalization {
            epsilon,
            groups,
        }));
    }
    let x = call.required(0)?;
    let reshape = Op::Reshape(Reshape { allow_zero: false });
    let whole = Op::Shape(Shape {
        start: 0,
        end: None,
    });
    let shape = call.step(whole, &[Some(x)])?;
    let grouped = call.new_ints("grouped", &[0, groups as i64, -1])?;
    let parts = call.step(reshape.clone(), &[Some(x), Some(grouped)])?;
    let operands = [Some(parts), call.input(1), call.input(2)];
    let normal = call.step(
        Op::InstanceNormalization(InstanceNormalization { epsilon }),
        &operands,
    )?;
    call.finish(reshape, vec![Some(normal), Some(shape)])
}

/// `(x - mean) / (sqrt(mean of squares of that) + 1e-9)`.
fn mean_variance(call: &mut Call<'_, '_>) -> Translated {
    call.operands(1, 1)?;
    let x = call.required(0)?;
    let axes = call.ints("axes")?.unwrap_or(&[0, 2, 3]);
    let axes = Some(call.new_ints("axes", axes)?);
    let mean_op = Op::Reduce(Reduce {
        kind: ReduceKind::Mean,
        keep_dims: true,
        noop_with_empty_axes: false,
    });
    let mean = call.step(mean_op.clone(), &[Some(x), axes])?;
    let centred = call.binary_step(Binary::Sub, x, mean)?;
    let squares = call.binary_step(Binary::Mul, centred, centred)?;
    let variance = call.step(mean_op, &[Some(squares), axes])?;
    let deviation = call.step(Op::Unary(Unary::Sqrt), &[Some(variance)])?;
    let epsilon = call.scalar_like("epsilon", 1e-9, x)?;
    let divisor = call.binary_step(Binary::Add, deviation, epsilon)?;
    call.finish(Op::Binary(Binary::Div), vec![Some(centred), Some(divisor)])
}

fn lp(call: &mut Call<'_, '_>) -> Translated {
    call.operands(1, 1)?;
    let axis = call.int_or("axis", -1)?;
    let p = match call.int_or("p", 2)? {
        1 => 1,
        2 => 2,
        other => return Err(call.error(format!("attribute `p` is {other}, not 1 or 2"))),
    };
    call.finish_as_is(Op::LpNormalization(LpNormalization { axis, p }))
}

fn local_response(call: &mut Call<'_, '_>) -> Translated {
    call.operands(1, 1)?;
    let size = call.count("size", 0)?;
    if size == 0 {
        return Err(call.error("attribute `size` is missing"));
    }
    let op = Op::Lrn(Lrn {
        alpha: call.float_or("alpha", 1e-4)?,
        beta: call.float_or("beta", 0.75)?,
        bias: call.float_or("bias", 1.0)?,
        size,
    });
    call.finish_as_is(op)
}

/// Before operator set 13 all axes from `axis` on count as one. For the last axis
/// that makes no difference.
fn softmax(call: &mut Call<'_, '_>) -> Translated {
    call.operands(1, 1)?;
    let old = call.opset() < 13;
    let axis = call.int_or("axis", if old { 1 } else { -1 })?;
    let op = Softmax {
        axis,
        log: call.op_type() == "LogSoftmax",
        flatten: old && axis != -1,
    };
    call.finish_as_is(Op::Softmax(op))
}
