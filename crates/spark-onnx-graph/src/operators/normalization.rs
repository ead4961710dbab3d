//! Normalisations and softmax.

use super::operator::{Exported, Inferred, Operator};
use crate::ModelError;
use crate::file::export::attributes::Attributes;
use crate::file::export::nodes::NodeExport;
use crate::file::import::call::{Call, Translated, Translator};
use crate::graph::infer::{
    Operands, check_broadcasts_to, check_float, check_rank_at_least, check_same_dtype, check_shape,
    one, op_error,
};
use crate::graph::{
    ArgReduce, BatchNormalization, Binary, Cast, CastLike, Flatten, GroupNormalization,
    InstanceNormalization, LayerNormalization, LpNormalization, Lrn, MaskedSoftmax, OneHot, Op,
    OpError, Range, Reduce, ReduceKind, Reshape, RmsNormalization, Shape, Size, Softmax, Unary,
    ValueId, resolve_axis,
};
use crate::tensor::{DType, Tensor};

/// Operators of a file that are short for others, or for a constant.
pub(super) const SPELLED_OUT: &[Translator] = &[
    ("Hardmax", hardmax),
    ("MeanVarianceNormalization", mean_variance),
];

impl Operator for BatchNormalization {
    const IMPORTS: &'static [Translator] = &[("BatchNormalization", batch)];

    fn name(&self) -> &'static str {
        "BatchNormalization"
    }

    fn infer(&self, operands: &Operands<'_>) -> Inferred {
        operands.expect(5, 5, 1)?;
        let x = operands.required(0, "x")?;
        check_float("x", &x)?;
        check_rank_at_least("x", &x, 2)?;
        for (index, what) in [(1, "scale"), (2, "bias"), (3, "mean"), (4, "variance")] {
            // Statistics may be kept in a wider format than the data.
            let operand = operands.required(index, what)?;
            check_float(what, &operand)?;
            check_shape(what, operand.shape, &x.shape[1..2])?;
        }
        one(x.dtype, x.shape)
    }

    fn attributes(&self) -> Exported<'_> {
        Ok(Attributes::default().float("epsilon", self.epsilon))
    }
}

impl Operator for LayerNormalization {
    const IMPORTS: &'static [Translator] = &[("LayerNormalization", layer)];

    fn name(&self) -> &'static str {
        "LayerNormalization"
    }

    fn infer(&self, operands: &Operands<'_>) -> Inferred {
        infer_layer(self.axis, 2, 3, operands)
    }

    fn attributes(&self) -> Exported<'_> {
        Ok(Attributes::default()
            .int("axis", self.axis)
            .float("epsilon", self.epsilon))
    }
}

impl Operator for RmsNormalization {
    const IMPORTS: &'static [Translator] = &[("RMSNormalization", rms)];

    fn name(&self) -> &'static str {
        "RMSNormalization"
    }

    fn infer(&self, operands: &Operands<'_>) -> Inferred {
        infer_layer(self.axis, 2, 2, operands)
    }

    fn attributes(&self) -> Exported<'_> {
        Ok(Attributes::default()
            .int("axis", self.axis)
            .float("epsilon", self.epsilon))
    }

    fn operator_set(&self) -> i64 {
        23
    }
}

impl Operator for InstanceNormalization {
    const IMPORTS: &'static [Translator] = &[("InstanceNormalization", instance)];

    fn name(&self) -> &'static str {
        "InstanceNormalization"
    }

    fn infer(&self, operands: &Operands<'_>) -> Inferred {
        operands.expect(3, 3, 1)?;
        let x = operands.required(0, "x")?;
        check_float("x", &x)?;
        check_rank_at_least("x", &x, 3)?;
        per_channel(operands, x.dtype, x.shape[1])?;
        one(x.dtype, x.shape)
    }

    fn attributes(&self) -> Exported<'_> {
        Ok(Attributes::default().float("epsilon", self.epsilon))
    }
}

impl Operator for GroupNormalization {
    const IMPORTS: &'static [Translator] = &[("GroupNormalization", group)];

    fn name(&self) -> &'static str {
        "GroupNormalization"
    }

    fn infer(&self, operands: &Operands<'_>) -> Inferred {
        operands.expect(3, 3, 1)?;
        let x = operands.required(0, "x")?;
        check_float("x", &x)?;
        check_rank_at_least("x", &x, 2)?;
        if self.groups == 0 || !x.shape[1].is_multiple_of(self.groups) {
            return Err(op_error!(
                "{} channels do not split into {} groups",
                x.shape[1],
                self.groups
            ));
        }
        per_channel(operands, x.dtype, x.shape[1])?;
        one(x.dtype, x.shape)
    }

    fn attributes(&self) -> Exported<'_> {
        Ok(Attributes::default()
            .float("epsilon", self.epsilon)
            .int("num_groups", self.groups as i64))
    }
}

impl Operator for LpNormalization {
    const IMPORTS: &'static [Translator] = &[("LpNormalization", lp)];

    fn name(&self) -> &'static str {
        "LpNormalization"
    }

    fn infer(&self, operands: &Operands<'_>) -> Inferred {
        operands.expect(1, 1, 1)?;
        let x = operands.required(0, "x")?;
        check_float("x", &x)?;
        resolve_axis(self.axis, x.rank())?;
        if !matches!(self.p, 1 | 2) {
            return Err(op_error!("norm of order {}, wanted 1 or 2", self.p));
        }
        one(x.dtype, x.shape)
    }

    fn attributes(&self) -> Exported<'_> {
        Ok(Attributes::default()
            .int("axis", self.axis)
            .int("p", i64::from(self.p)))
    }
}

impl Operator for Lrn {
    const IMPORTS: &'static [Translator] = &[("LRN", local_response)];

    fn name(&self) -> &'static str {
        "LRN"
    }

    fn infer(&self, operands: &Operands<'_>) -> Inferred {
        operands.expect(1, 1, 1)?;
        let x = operands.required(0, "x")?;
        check_float("x", &x)?;
        check_rank_at_least("x", &x, 2)?;
        if self.size == 0 {
            return Err(op_error!("the number of channels summed over is zero"));
        }
        one(x.dtype, x.shape)
    }

    fn attributes(&self) -> Exported<'_> {
        let Ok(size) = i64::try_from(self.size) else {
            return Err(format!("a size of {} is beyond 63 bits", self.size));
        };
        Ok(Attributes::default()
            .float("alpha", self.alpha)
            .float("beta", self.beta)
            .float("bias", self.bias)
            .int("size", size))
    }
}

impl Operator for Softmax {
    const IMPORTS: &'static [Translator] = &[("Softmax", softmax), ("LogSoftmax", softmax)];

    fn name(&self) -> &'static str {
        if self.log { "LogSoftmax" } else { "Softmax" }
    }

    fn infer(&self, operands: &Operands<'_>) -> Inferred {
        infer_softmax(self.axis, operands)
    }

    fn attributes(&self) -> Exported<'_> {
        if self.flatten && self.axis != -1 {
            return Err("a softmax over several axes is no single operator".to_owned());
        }
        Ok(Attributes::default().int("axis", self.axis))
    }

    /// Operator sets from 13 on have no softmax over several axes:
    /// `Reshape(Softmax(Flatten(x, axis), 1), Shape(x))`.
    fn export<'g>(&'g self, node: &mut NodeExport<'_, 'g>) -> Result<(), String> {
        if !self.flatten || self.axis == -1 {
            return node.finish(self.name(), self.attributes()?);
        }
        let [shape, flat, normal] = ["shape", "flat", "softmax"].map(|suffix| node.made(suffix));
        let x = node.inputs.clone();
        let whole = Attributes::default().int("start", 0);
        let flatten = Attributes::default().int("axis", self.axis);
        let softmax = Attributes::default().int("axis", 1);
        let steps = [
            ("Shape", whole, x.clone(), &shape),
            ("Flatten", flatten, x, &flat),
            (self.name(), softmax, vec![flat.clone()], &normal),
        ];
        for (op_type, attributes, inputs, output) in steps {
            let name = format!("{}/{op_type}", node.name);
            node.step(name, op_type, attributes, inputs, output.clone());
        }
        node.inputs = vec![normal, shape];
        // An axis of no elements stays one.
        node.finish("Reshape", Attributes::default().flag("allowzero", true))
    }
}

impl Operator for MaskedSoftmax {
    const IMPORTS: &'static [Translator] = &[];

    fn name(&self) -> &'static str {
        "MaskedSoftmax"
    }

    fn infer(&self, operands: &Operands<'_>) -> Inferred {
        infer_softmax(-1, operands)
    }

    fn attributes(&self) -> Exported<'_> {
        Err("a softmax with zeros for hidden rows is no single operator".to_owned())
    }

    /// `Where(IsInf(ReduceMax(x)), 0, Softmax(x))`, where only minus infinity counts. A reader of
    /// ours joins it again when the graph is lowered.
    fn export<'g>(&'g self, node: &mut NodeExport<'_, 'g>) -> Result<(), String> {
        let made = |suffix| node.made(suffix);
        let [axes, greatest, hidden, zero, zero_like, weights] =
            ["axes", "greatest", "hidden", "zero", "zero_like", "softmax"].map(made);
        let x = node.inputs[0].clone();
        let none = Attributes::default;
        let last = none().ints("value_ints", vec![-1]);
        let negative = none().flag("detect_positive", false);
        let softmax = none().int("axis", -1);
        let steps = [
            ("Constant", last, vec![], &axes),
            (
                "ReduceMax",
                none().flag("keepdims", true),
                vec![x.clone(), axes.clone()],
                &greatest,
            ),
            ("IsInf", negative, vec![greatest.clone()], &hidden),
            ("Constant", none().float("value_float", 0.0), vec![], &zero),
            (
                "CastLike",
                none(),
                vec![zero.clone(), x.clone()],
                &zero_like,
            ),
            ("Softmax", softmax, vec![x], &weights),
        ];
        for (op_type, attributes, inputs, output) in steps {
            let name = format!("{output}/{op_type}");
            node.step(name, op_type, attributes, inputs, output.clone());
        }
        node.inputs = vec![hidden, zero_like, weights];
        node.finish("Where", none())
    }
}

const EPSILON: f32 = 1e-5;

fn batch(call: &mut Call<'_, '_>) -> Translated {
    call.operands(5, 5)?;
    if !call.flag("spatial", true)? {
        return Err(call.error("attribute `spatial` 0 (a mean per element) is not supported"));
    }
    let epsilon = call.float_or("epsilon", EPSILON)?;
    let op = Op::BatchNormalization(BatchNormalization { epsilon });
    // Before operator set 7 training was what a parameter turned off.
    let trained = call.opset() < 7 && !call.flag("is_test", false)?;
    if call.flag("training_mode", false)? {
        return batch_in_training(call, op);
    }
    call.only_results(1)?;
    call.ignore(&["momentum"]);
    match trained {
        true => Err(call.error("training mode is not supported before operator set 14")),
        false => call.finish_as_is(op),
    }
}

/// Normalises with the mean and the variance of `x` itself, as weights are standardised too; what
/// becomes of the running ones are results 1 and 2:
///
/// ```text
/// running = momentum * given + (1 - momentum) * own
/// ```
fn batch_in_training(call: &mut Call<'_, '_>, op: Op) -> Translated {
    call.only_results(3)?;
    let momentum = call.float_or("momentum", 0.9)?;
    let x = call.required(0)?;
    let to = match call.builder.dtype(x) {
        Some(DType::F64) => DType::F64,
        _ => DType::F32,
    };
    let cast = Op::Cast(Cast { to });
    let reshape = Op::Reshape(Reshape { allow_zero: false });
    let mean_op = Op::Reduce(Reduce {
        kind: ReduceKind::Mean,
        keep_dims: true,
        noop_with_empty_axes: false,
    });
    // Samples, channels, and all other axes as one.
    let three = call.new_ints("three_axes", &[0, 0, -1])?;
    let list = call.new_ints("list", &[-1])?;
    let axes = call.new_ints("axes", &[0, 2])?;
    let rows = call.step(reshape.clone(), &[Some(x), Some(three)])?;
    let rows = call.step(cast.clone(), &[Some(rows)])?;
    let mean = call.step(mean_op.clone(), &[Some(rows), Some(axes)])?;
    let centred = call.binary_step(Binary::Sub, rows, mean)?;
    let squares = call.binary_step(Binary::Mul, centred, centred)?;
    let variance = call.step(mean_op, &[Some(squares), Some(axes)])?;
    let mean = call.step(reshape.clone(), &[Some(mean), Some(list)])?;
    let variance = call.step(reshape, &[Some(variance), Some(list)])?;
    for (result, own) in [(1, mean), (2, variance)] {
        if !call.wants(result) {
            continue;
        }
        let given = call.required(result + 2)?;
        let before = call.step(cast.clone(), &[Some(given)])?;
        let [kept, added] = [momentum, 1.0 - momentum].map(f64::from);
        let kept = call.scalar_like("momentum", kept, own)?;
        let added = call.scalar_like("rest", added, own)?;
        let kept = call.binary_step(Binary::Mul, before, kept)?;
        let added = call.binary_step(Binary::Mul, own, added)?;
        let running = call.binary_step(Binary::Add, kept, added)?;
        let same_type = Op::CastLike(CastLike);
        call.finish_result(result, same_type, vec![Some(running), Some(given)])?;
    }
    let [scale, bias] = [call.required(1)?, call.required(2)?];
    let operands = [x, scale, bias, mean, variance].map(Some);
    call.finish_result(0, op, operands.to_vec())
}

pub(super) fn layer(call: &mut Call<'_, '_>) -> Translated {
    call.operands(2, 3)?;
    call.only_results(3)?;
    // The type of the two further results and of sums; ours are never narrower than f32.
    let stash = call.int_or("stash_type", 1)?;
    let axis = call.int_or("axis", -1)?;
    let epsilon = call.float_or("epsilon", EPSILON)?;
    let op = Op::LayerNormalization(LayerNormalization { axis, epsilon });
    if !call.wants(1) && !call.wants(2) {
        return call.finish_as_is(op);
    }
    if stash != 1 {
        return Err(call.error(format!(
            "statistics of element type {stash} are not supported"
        )));
    }
    let x = call.required(0)?;
    let wide = call.step(Op::Cast(Cast { to: DType::F32 }), &[Some(x)])?;
    let axes = axes_from(call, x, axis)?;
    let mean_op = Op::Reduce(Reduce {
        kind: ReduceKind::Mean,
        keep_dims: true,
        noop_with_empty_axes: false,
    });
    let mean = call.step(mean_op.clone(), &[Some(wide), Some(axes)])?;
    let centred = call.binary_step(Binary::Sub, wide, mean)?;
    let squares = call.binary_step(Binary::Mul, centred, centred)?;
    let variance = call.step(mean_op, &[Some(squares), Some(axes)])?;
    let small = Tensor::from_f32([], vec![epsilon])?;
    let small = call.new_constant("epsilon", small)?;
    let above_zero = call.binary_step(Binary::Add, variance, small)?;
    let deviation = call.step(Op::Unary(Unary::Sqrt), &[Some(above_zero)])?;
    call.finish_value(1, mean)?;
    call.finish_result(2, Op::Unary(Unary::Reciprocal), vec![Some(deviation)])?;
    let inputs = call.inputs();
    call.finish_result(0, op, inputs)
}

/// All axes of `x` from `axis` on.
fn axes_from(call: &mut Call<'_, '_>, x: ValueId, axis: i64) -> Result<ValueId, ModelError> {
    /// No value has as many axes.
    const MANY: i64 = 1 << 10;
    if (-MANY..0).contains(&axis) {
        return call.new_ints("axes", &(axis..0).collect::<Vec<_>>());
    }
    let whole = Shape {
        start: 0,
        end: None,
    };
    let shape = call.step(Op::Shape(whole), &[Some(x)])?;
    let rank = call.step(Op::Size(Size), &[Some(shape)])?;
    let first = call.new_constant("first_axis", Tensor::from_i64([], vec![axis])?)?;
    let one = call.new_constant("one", Tensor::from_i64([], vec![1])?)?;
    call.step(Op::Range(Range), &[Some(first), Some(rank), Some(one)])
}

/// One at the first of the largest elements along an axis, zero elsewhere. Before operator set 13
/// all axes from `axis` on count as one.
fn hardmax(call: &mut Call<'_, '_>) -> Translated {
    call.operands(1, 1)?;
    let x = call.required(0)?;
    let old = call.opset() < 13;
    let mut axis = call.int_or("axis", if old { 1 } else { -1 })?;
    let flat = if old && axis != -1 {
        let flat = call.step(Op::Flatten(Flatten { axis }), &[Some(x)])?;
        axis = -1;
        Some(flat)
    } else {
        None
    };
    let rows = flat.unwrap_or(x);
    let largest = Op::ArgReduce(ArgReduce {
        max: true,
        axis,
        keep_dims: false,
        select_last: false,
    });
    let largest = call.step(largest, &[Some(rows)])?;
    let extent = Op::Shape(Shape {
        start: axis,
        end: axis.checked_add(1).filter(|&end| end != 0),
    });
    let depth = call.step(extent, &[Some(rows)])?;
    let dtype = call.builder.dtype(x);
    let values = Tensor::from_f64(dtype.unwrap_or(DType::F32), [2], vec![0.0, 1.0])?;
    let mut values = call.new_constant("off_and_on", values)?;
    if dtype.is_none() {
        values = call.step(Op::CastLike(CastLike), &[Some(values), Some(x)])?;
    }
    let one_hot = Op::OneHot(OneHot { axis });
    let operands = vec![Some(largest), Some(depth), Some(values)];
    if flat.is_none() {
        return call.finish(one_hot, operands);
    }
    let hot = call.step(one_hot, &operands)?;
    let whole = Shape {
        start: 0,
        end: None,
    };
    let shape = call.step(Op::Shape(whole), &[Some(x)])?;
    let reshape = Op::Reshape(Reshape { allow_zero: true });
    call.finish(reshape, vec![Some(hot), Some(shape)])
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
    call.form_since(6)?;
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

/// LayerNormalization and RMSNormalization: `scale` and `bias` broadcast to the
/// normalised axes.
fn infer_layer(axis: i64, min: usize, max: usize, operands: &Operands<'_>) -> Inferred {
    operands.expect(min, max, 1)?;
    let x = operands.required(0, "x")?;
    check_float("x", &x)?;
    resolve_axis(axis, x.rank())?;
    for (index, what) in [(1, "scale"), (2, "bias")] {
        if index >= min && operands.optional(index).is_none() {
            continue;
        }
        let operand = operands.required(index, what)?;
        check_same_dtype(what, &operand, x.dtype)?;
        check_broadcasts_to(what, operand.shape, x.shape)?;
    }
    one(x.dtype, x.shape)
}

fn infer_softmax(axis: i64, operands: &Operands<'_>) -> Inferred {
    operands.expect(1, 1, 1)?;
    let x = operands.required(0, "x")?;
    check_float("x", &x)?;
    resolve_axis(axis, x.rank())?;
    one(x.dtype, x.shape)
}

fn per_channel(operands: &Operands<'_>, dtype: DType, channels: usize) -> Result<(), OpError> {
    for (index, what) in [(1, "scale"), (2, "bias")] {
        let operand = operands.required(index, what)?;
        check_same_dtype(what, &operand, dtype)?;
        check_shape(what, operand.shape, &[channels])?;
    }
    Ok(())
}
