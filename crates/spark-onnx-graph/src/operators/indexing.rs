//! Operators that pick or place elements by index.

use super::operator::{Exported, Inferred, KnownDType, Operator};
use crate::ModelError;
use crate::file::export::attributes::Attributes;
use crate::file::import::call::{Call, Translated, Translator};
use crate::graph::infer::{
    Operands, check_index, check_numeric, check_rank_at_least, check_same_dtype, check_scalar,
    check_shape, distinct, one, op_error,
};
use crate::graph::{
    Binary, Cast, Concat, Expand, Gather, GatherElements, GatherNd, NonZero, OneHot, Op, OpError,
    Operand, Range, Reshape, ScatterElements, ScatterNd, ScatterReduction, Shape, Squeeze,
    TensorType, Unique, Unsqueeze, Where, resolve_axis,
};
use crate::tensor::{DType, MAX_ELEMENTS, Tensor, TensorData};

/// Operators of a file that are short for others, or for a constant.
pub(super) const SPELLED_OUT: &[Translator] = &[
    ("Compress", compress),
    ("ReverseSequence", reverse_sequence),
];

impl Operator for Gather {
    const IMPORTS: &'static [Translator] = &[("Gather", gather)];

    fn name(&self) -> &'static str {
        "Gather"
    }

    fn infer(&self, operands: &Operands<'_>) -> Inferred {
        operands.expect(2, 2, 1)?;
        let x = operands.required(0, "x")?;
        let indices = operands.required(1, "indices")?;
        let axis = resolve_axis(self.axis, x.rank())?;
        check_indices(&indices, x.shape[axis])?;
        one(
            x.dtype,
            [&x.shape[..axis], indices.shape, &x.shape[axis + 1..]].concat(),
        )
    }

    fn attributes(&self) -> Exported<'_> {
        Ok(Attributes::default().int("axis", self.axis))
    }
}

impl Operator for GatherElements {
    const IMPORTS: &'static [Translator] = &[("GatherElements", gather_elements)];

    fn name(&self) -> &'static str {
        "GatherElements"
    }

    fn infer(&self, operands: &Operands<'_>) -> Inferred {
        operands.expect(2, 2, 1)?;
        let x = operands.required(0, "x")?;
        let indices = operands.required(1, "indices")?;
        let axis = resolve_axis(self.axis, x.rank())?;
        check_indices(&indices, x.shape[axis])?;
        check_inside(&indices, &x, axis)?;
        one(x.dtype, indices.shape)
    }

    fn attributes(&self) -> Exported<'_> {
        Ok(Attributes::default().int("axis", self.axis))
    }
}

impl Operator for GatherNd {
    const IMPORTS: &'static [Translator] = &[("GatherND", gather_nd)];

    fn name(&self) -> &'static str {
        "GatherND"
    }

    fn infer(&self, operands: &Operands<'_>) -> Inferred {
        operands.expect(2, 2, 1)?;
        let x = operands.required(0, "x")?;
        let indices = operands.required(1, "indices")?;
        let rest = nd_rest(&x, &indices, self.batch_dims)?;
        let outer = &indices.shape[..indices.rank() - 1];
        one(x.dtype, [outer, rest].concat())
    }

    fn attributes(&self) -> Exported<'_> {
        Ok(Attributes::default().int("batch_dims", self.batch_dims as i64))
    }
}

impl Operator for ScatterElements {
    const IMPORTS: &'static [Translator] = &[
        ("Scatter", scatter_elements),
        ("ScatterElements", scatter_elements),
    ];

    fn name(&self) -> &'static str {
        "ScatterElements"
    }

    fn infer(&self, operands: &Operands<'_>) -> Inferred {
        operands.expect(3, 3, 1)?;
        let x = operands.required(0, "x")?;
        let indices = operands.required(1, "indices")?;
        let updates = operands.required(2, "updates")?;
        check_scatter_dtype(&x, self.reduction)?;
        let axis = resolve_axis(self.axis, x.rank())?;
        check_indices(&indices, x.shape[axis])?;
        check_inside(&indices, &x, axis)?;
        check_same_dtype("updates", &updates, x.dtype)?;
        check_shape("updates", updates.shape, indices.shape)?;
        one(x.dtype, x.shape)
    }

    fn attributes(&self) -> Exported<'_> {
        Ok(Attributes::default()
            .int("axis", self.axis)
            .text("reduction", reduction_name(self.reduction)))
    }
}

impl Operator for ScatterNd {
    const IMPORTS: &'static [Translator] = &[("ScatterND", scatter_nd)];

    fn name(&self) -> &'static str {
        "ScatterND"
    }

    fn infer(&self, operands: &Operands<'_>) -> Inferred {
        operands.expect(3, 3, 1)?;
        let x = operands.required(0, "x")?;
        let indices = operands.required(1, "indices")?;
        let updates = operands.required(2, "updates")?;
        check_scatter_dtype(&x, self.reduction)?;
        let rest = nd_rest(&x, &indices, 0)?;
        let outer = &indices.shape[..indices.rank() - 1];
        check_same_dtype("updates", &updates, x.dtype)?;
        check_shape("updates", updates.shape, &[outer, rest].concat())?;
        one(x.dtype, x.shape)
    }

    fn attributes(&self) -> Exported<'_> {
        Ok(Attributes::default().text("reduction", reduction_name(self.reduction)))
    }
}

impl Operator for OneHot {
    const IMPORTS: &'static [Translator] = &[("OneHot", one_hot)];

    fn name(&self) -> &'static str {
        "OneHot"
    }

    fn infer(&self, operands: &Operands<'_>) -> Inferred {
        operands.expect(3, 3, 1)?;
        let indices = operands.required(0, "indices")?;
        let depth = operands.required(1, "depth")?;
        let values = operands.required(2, "values")?;
        check_numeric("indices", &indices)?;
        check_numeric("depth", &depth)?;
        check_scalar("depth", &depth)?;
        check_shape("values", values.shape, &[2])?;
        let depth = depth
            .constant
            .ok_or_else(|| op_error!("`depth` must be constant: the result's shape depends on it"))?
            .to_f64()[0];
        if !(depth >= 1.0 && depth <= MAX_ELEMENTS as f64) {
            return Err(op_error!("depth {depth}, wanted 1 to {MAX_ELEMENTS}"));
        }
        let axis = resolve_axis(self.axis, indices.rank() + 1)?;
        let mut shape = indices.shape.to_vec();
        shape.insert(axis, depth as usize);
        one(values.dtype, shape)
    }

    fn result_dtype(&self, _: usize, operand: KnownDType<'_>) -> Option<DType> {
        operand(2)
    }

    fn deciding_operands(&self) -> &'static [usize] {
        &[1]
    }

    fn attributes(&self) -> Exported<'_> {
        Ok(Attributes::default().int("axis", self.axis))
    }
}

impl Operator for Unique {
    const IMPORTS: &'static [Translator] = &[("Unique", unique)];

    fn name(&self) -> &'static str {
        "Unique"
    }

    fn infer(&self, operands: &Operands<'_>) -> Inferred {
        operands.expect(1, 1, 4)?;
        let x = operands.required(0, "x")?;
        let constant = x
            .constant
            .ok_or_else(|| op_error!("`x` must be constant: the result's shape depends on it"))?;
        let distinct = distinct(*self, constant)?;
        let n = distinct.first.len();
        let mut shape = vec![n];
        if let Some(axis) = self.axis {
            shape = x.shape.to_vec();
            shape[resolve_axis(axis, x.rank())?] = n;
        }
        let first = TensorType {
            dtype: x.dtype,
            shape,
        };
        let list = |n| TensorType {
            dtype: DType::I64,
            shape: vec![n],
        };
        let mut types = vec![first, list(n), list(distinct.kind.len()), list(n)];
        types.truncate(operands.n_outputs);
        Ok(types)
    }

    fn result_dtype(&self, output: usize, operand: KnownDType<'_>) -> Option<DType> {
        match output {
            0 => operand(0),
            _ => Some(DType::I64),
        }
    }

    fn deciding_operands(&self) -> &'static [usize] {
        &[0]
    }

    fn attributes(&self) -> Exported<'_> {
        let sorted = Attributes::default().flag("sorted", self.sorted);
        Ok(match self.axis {
            Some(axis) => sorted.int("axis", axis),
            None => sorted,
        })
    }
}

fn unique(call: &mut Call<'_, '_>) -> Translated {
    call.operands(1, 1)?;
    let op = Op::Unique(Unique {
        axis: call.int("axis")?,
        sorted: call.flag("sorted", true)?,
    });
    call.finish_as_is(op)
}

fn gather(call: &mut Call<'_, '_>) -> Translated {
    call.operands(2, 2)?;
    let axis = call.int_or("axis", 0)?;
    call.finish_as_is(Op::Gather(Gather { axis }))
}

fn gather_elements(call: &mut Call<'_, '_>) -> Translated {
    call.operands(2, 2)?;
    let axis = call.int_or("axis", 0)?;
    call.finish_as_is(Op::GatherElements(GatherElements { axis }))
}

fn gather_nd(call: &mut Call<'_, '_>) -> Translated {
    call.operands(2, 2)?;
    let batch_dims = call.int_or("batch_dims", 0)?;
    match usize::try_from(batch_dims) {
        Ok(batch_dims) => call.finish_as_is(Op::GatherNd(GatherNd { batch_dims })),
        Err(_) => Err(call.error(format!("attribute `batch_dims` is {batch_dims}"))),
    }
}

fn reduction(call: &Call<'_, '_>) -> Result<ScatterReduction, ModelError> {
    call.choice(
        "reduction",
        ScatterReduction::None,
        &[
            ("none", ScatterReduction::None),
            ("add", ScatterReduction::Add),
            ("mul", ScatterReduction::Mul),
            ("max", ScatterReduction::Max),
            ("min", ScatterReduction::Min),
        ],
    )
}

/// Scatter is its name before operator set 11.
fn scatter_elements(call: &mut Call<'_, '_>) -> Translated {
    call.operands(3, 3)?;
    let op = Op::ScatterElements(ScatterElements {
        axis: call.int_or("axis", 0)?,
        reduction: reduction(call)?,
    });
    call.finish_as_is(op)
}

fn scatter_nd(call: &mut Call<'_, '_>) -> Translated {
    call.operands(3, 3)?;
    let reduction = reduction(call)?;
    call.finish_as_is(Op::ScatterNd(ScatterNd { reduction }))
}

fn one_hot(call: &mut Call<'_, '_>) -> Translated {
    call.operands(3, 3)?;
    let axis = call.int_or("axis", -1)?;
    call.finish_as_is(Op::OneHot(OneHot { axis }))
}

/// The slices where a list of booleans is true: those at the indices that NonZero makes of it. Without an
/// axis, of all elements in one list.
fn compress(call: &mut Call<'_, '_>) -> Translated {
    call.operands(2, 2)?;
    let mut x = call.required(0)?;
    let condition = call.required(1)?;
    if call
        .builder
        .dtype(condition)
        .is_some_and(|d| d != DType::Bool)
    {
        return Err(call.error("`condition` must be bool"));
    }
    let axis = match call.int("axis")? {
        Some(axis) => axis,
        None => {
            let flat = call.new_ints("flat", &[-1])?;
            let reshape = Op::Reshape(Reshape { allow_zero: false });
            x = call.step(reshape, &[Some(x), Some(flat)])?;
            0
        }
    };
    // Of one row only if the condition is a list.
    let rows = call.step(Op::NonZero(NonZero), &[Some(condition)])?;
    let first = call.new_ints("first", &[0])?;
    let indices = call.step(Op::Squeeze(Squeeze), &[Some(rows), Some(first)])?;
    call.finish(Op::Gather(Gather { axis }), vec![Some(x), Some(indices)])
}

/// The first `lengths[b]` steps of every sample in the opposite order:
///
/// ```text
/// y[t, b] = x[t < lengths[b] ? lengths[b] - 1 - t : t, b]        or with both axes swapped
/// ```
fn reverse_sequence(call: &mut Call<'_, '_>) -> Translated {
    call.operands(2, 2)?;
    let x = call.required(0)?;
    let lengths = call.required(1)?;
    let time_first = match (call.int_or("time_axis", 0)?, call.int_or("batch_axis", 1)?) {
        (0, 1) => true,
        (1, 0) => false,
        (time, batch) => {
            let reason = format!("time axis {time} and batch axis {batch}, not 0 and 1 or 1 and 0");
            return Err(call.error(reason));
        }
    };
    let leading = Op::Shape(Shape {
        start: 0,
        end: Some(2),
    });
    let extents = call.step(leading, &[Some(x)])?;
    let zero = call.new_constant("zero", Tensor::from_i64([], vec![0])?)?;
    let one = call.new_constant("one", Tensor::from_i64([], vec![1])?)?;
    // Positions along the first axis as a column, those along the second as a row.
    let mut positions = [zero; 2];
    for (axis, position) in [0, 1].into_iter().zip(&mut positions) {
        let axis = call.new_constant("axis", Tensor::from_i64([], vec![axis])?)?;
        let extent = call.step(Op::Gather(Gather { axis: 0 }), &[Some(extents), Some(axis)])?;
        let range = [Some(zero), Some(extent), Some(one)];
        *position = call.step(Op::Range(Range), &range)?;
    }
    let column = call.new_ints("column", &[-1, 1])?;
    let reshape = Op::Reshape(Reshape { allow_zero: false });
    positions[0] = call.step(reshape.clone(), &[Some(positions[0]), Some(column)])?;
    let mut lengths = call.step(Op::Cast(Cast { to: DType::I64 }), &[Some(lengths)])?;
    if !time_first {
        lengths = call.step(reshape, &[Some(lengths), Some(column)])?;
    }
    let time = positions[usize::from(!time_first)];
    let inside = call.binary_step(Binary::Less, time, lengths)?;
    let last = call.binary_step(Binary::Sub, lengths, one)?;
    let mirrored = call.binary_step(Binary::Sub, last, time)?;
    positions[usize::from(!time_first)] = call.step(
        Op::Where(Where),
        &[Some(inside), Some(mirrored), Some(time)],
    )?;
    let behind = call.new_ints("behind", &[-1])?;
    for position in &mut positions {
        let wide = call.step(Op::Expand(Expand), &[Some(*position), Some(extents)])?;
        *position = call.step(Op::Unsqueeze(Unsqueeze), &[Some(wide), Some(behind)])?;
    }
    let pairs = Op::Concat(Concat { axis: -1 });
    let pairs = call.step(pairs, &positions.map(Some))?;
    let gather = Op::GatherNd(GatherNd { batch_dims: 0 });
    call.finish(gather, vec![Some(x), Some(pairs)])
}

fn check_scatter_dtype(x: &Operand<'_>, reduction: ScatterReduction) -> Result<(), OpError> {
    match reduction {
        ScatterReduction::None => Ok(()),
        _ => check_numeric("x", x),
    }
}

/// Refuses constant indices outside `-extent..extent`; others are checked when they flow.
fn check_indices(indices: &Operand<'_>, extent: usize) -> Result<(), OpError> {
    check_index("indices", indices)?;
    let out_of_range = |&v: &i64| v < -(extent as i64) || v >= extent as i64;
    let bad = match indices.constant.map(Tensor::data) {
        Some(TensorData::I64(v)) => v.iter().copied().find(out_of_range),
        Some(TensorData::I32(v)) => v.iter().map(|&i| i64::from(i)).find(out_of_range),
        _ => None,
    };
    match bad {
        Some(bad) => Err(op_error!(
            "index {bad} is out of range for an axis of {extent}"
        )),
        None => Ok(()),
    }
}

/// `indices` must not reach beyond `x` on any axis but `axis`.
fn check_inside(indices: &Operand<'_>, x: &Operand<'_>, axis: usize) -> Result<(), OpError> {
    let inside = |(i, &d): (usize, &usize)| i == axis || d <= x.shape[i];
    if indices.rank() == x.rank() && indices.shape.iter().enumerate().all(inside) {
        return Ok(());
    }
    Err(op_error!(
        "`indices` of shape {:?} do not fit `x` of shape {:?}",
        indices.shape,
        x.shape
    ))
}

/// Axes of `x` behind those that the last axis of `indices` speaks of.
fn nd_rest<'a>(
    x: &Operand<'a>,
    indices: &Operand<'_>,
    batch_dims: usize,
) -> Result<&'a [usize], OpError> {
    if !matches!(indices.dtype, DType::I64 | DType::I32) {
        return Err(op_error!("`indices` is {}, wanted i64", indices.dtype));
    }
    check_rank_at_least("x", x, 1)?;
    check_rank_at_least("indices", indices, 1)?;
    let Some((&depth, outer)) = indices.shape.split_last() else {
        return Err(op_error!("`indices` is a scalar"));
    };
    if batch_dims > outer.len()
        || batch_dims > x.rank()
        || x.shape[..batch_dims] != outer[..batch_dims]
    {
        return Err(op_error!(
            "`x` of shape {:?} and `indices` of shape {:?} do not share {batch_dims} axes",
            x.shape,
            indices.shape
        ));
    }
    if depth > x.rank() - batch_dims {
        return Err(op_error!(
            "{depth} indices for {} axes",
            x.rank() - batch_dims
        ));
    }
    Ok(&x.shape[batch_dims + depth..])
}

fn reduction_name(reduction: ScatterReduction) -> &'static str {
    match reduction {
        ScatterReduction::None => "none",
        ScatterReduction::Add => "add",
        ScatterReduction::Mul => "mul",
        ScatterReduction::Max => "max",
        ScatterReduction::Min => "min",
    }
}
