//! Which types an operator's results have, given those of its operands.
//!
//! ```text
//! infer(op, operands: [(dtype, shape, elements if constant)], n_outputs) -> [(dtype, shape)]
//! ```
//!
//! Everything about an operator that can be wrong before data flows is refused
//! here and nowhere else: operand counts, element types, ranks, channel counts,
//! axes, windows larger than their input, sizes that overflow. The interpreter
//! and the executors call this (or stand behind someone who did) and index freely.
//!
//! Where a result's shape hangs on an operand's elements (`Reshape`, `Slice`,
//! `Resize`, ...), that operand must be constant. The functions that read such
//! operands ([`resolve_slice`], [`conv_windows`], ...) are public, so that
//! nobody below reads them a second way.
//!
//! Source: shape and type rules of the ONNX operator specification.
//!
//! Deliberately absent: symbolic extents (see [`super::bind`]) and guesses.

mod create;
mod elementwise;
mod gather;
mod matrix;
mod movement;
mod normalise;
mod resample;
mod window;

pub(crate) use create::shape_part;
pub(crate) use elementwise::DIVIDED_BY_ZERO;
pub use matrix::{EinsumLabels, parse_einsum};
pub use movement::{PadAxis, SliceAxis, resolve_pads, resolve_slice};
pub use resample::{ResizeAxis, nearest_sources, resolve_resize};
pub use window::{WindowAxis, conv_transpose_windows, conv_windows, pool_windows};

use super::op::*;
use super::{OpError, TensorType};
use crate::tensor::{DType, MAX_ELEMENTS, Tensor, TensorData, checked_elements};

/// An [`OpError`] from a format string.
macro_rules! op_error {
    ($($arg:tt)*) => {
        $crate::graph::OpError { reason: format!($($arg)*) }
    };
}
pub(crate) use op_error;

/// What is known of an operand before data flows.
#[derive(Debug, Clone, Copy)]
pub struct Operand<'a> {
    /// Element type.
    pub dtype: DType,
    /// Extents.
    pub shape: &'a [usize],
    /// The elements, if the operand is constant.
    pub constant: Option<&'a Tensor>,
}

impl<'a> Operand<'a> {
    /// A constant operand.
    pub fn constant(tensor: &'a Tensor) -> Self {
        Self {
            dtype: tensor.dtype(),
            shape: tensor.shape(),
            constant: Some(tensor),
        }
    }

    /// Number of axes.
    fn rank(&self) -> usize {
        self.shape.len()
    }

    /// Number of elements; the shape was checked on entry.
    fn len(&self) -> usize {
        self.shape.iter().product()
    }
}

/// The operands of one node, with the checks every operator starts with.
struct Operands<'a> {
    list: &'a [Option<Operand<'a>>],
    n_outputs: usize,
}

impl<'a> Operands<'a> {
    /// Between `min` and `max` operands and between 1 and `max_outputs` results.
    fn expect(&self, min: usize, max: usize, max_outputs: usize) -> Result<(), OpError> {
        // Trailing operands may be spelled out as absent.
        let given = self
            .list
            .iter()
            .rposition(Option::is_some)
            .map_or(0, |i| i + 1);
        if given < min || given > max {
            let want = if min == max {
                format!("{min}")
            } else {
                format!("{min} to {max}")
            };
            return Err(op_error!("takes {want} operands, got {given}"));
        }
        if self.n_outputs == 0 || self.n_outputs > max_outputs {
            return Err(op_error!(
                "makes up to {max_outputs} results, {} wanted",
                self.n_outputs
            ));
        }
        Ok(())
    }

    fn optional(&self, index: usize) -> Option<Operand<'a>> {
        self.list.get(index).copied().flatten()
    }

    fn required(&self, index: usize, what: &str) -> Result<Operand<'a>, OpError> {
        self.optional(index)
            .ok_or_else(|| op_error!("operand {index} (`{what}`) is missing"))
    }
}

/// Types of `op`'s results, `n_outputs` of them.
///
/// Trailing operands may be missing or `None`. Results that the node does not
/// want still count in `n_outputs` if a later one is wanted.
///
/// # Errors
///
/// [`OpError`] saying what is wrong: a missing, superfluous or wrongly typed
/// operand, shapes that do not go together, an axis out of range, a window that
/// does not fit, a shape operand that is not constant, or a result of more than
/// [`MAX_ELEMENTS`] elements.
pub fn infer(
    op: &Op,
    inputs: &[Option<Operand<'_>>],
    n_outputs: usize,
) -> Result<Vec<TensorType>, OpError> {
    for operand in inputs.iter().flatten() {
        check_size(operand.shape)?;
        let differs = |c: &Tensor| c.dtype() != operand.dtype || c.shape() != operand.shape;
        if operand.constant.is_some_and(differs) {
            return Err(op_error!(
                "an operand's elements are not of its type and shape"
            ));
        }
    }
    let operands = Operands {
        list: inputs,
        n_outputs,
    };
    let types = dispatch(op, &operands)?;
    for ty in &types {
        check_size(&ty.shape)?;
    }
    debug_assert_eq!(types.len(), n_outputs);
    Ok(types)
}

fn dispatch(op: &Op, operands: &Operands<'_>) -> Result<Vec<TensorType>, OpError> {
    match op {
        Op::Unary(f) => elementwise::unary(*f, operands),
        Op::Binary(f) => elementwise::binary(*f, operands),
        Op::Variadic(f) => elementwise::variadic(*f, operands),
        Op::Where(Where) => elementwise::select(operands),
        Op::Clip(Clip) => elementwise::clip(operands),
        Op::Cast(Cast { to }) => elementwise::cast(*to, operands),
        Op::CastLike(CastLike) => elementwise::cast_like(operands),
        Op::QuantizeLinear(QuantizeLinear { axis }) => elementwise::quantize(*axis, operands),
        Op::DequantizeLinear(DequantizeLinear { axis }) => elementwise::dequantize(*axis, operands),

        Op::Conv(conv) => window::conv(conv, operands),
        Op::ConvTranspose(conv) => window::conv_transpose(conv, operands),
        Op::Pool(pool) => window::pool(pool, operands),
        Op::GlobalPool(GlobalPool { kind }) => window::global_pool(*kind, operands),

        Op::Gemm(gemm) => matrix::gemm(gemm, operands),
        Op::MatMul(MatMul) => matrix::matmul(operands),
        Op::Einsum(Einsum { equation }) => matrix::einsum(equation, operands),
        Op::Recurrent(recurrent) => matrix::recurrent(recurrent, operands),

        Op::BatchNormalization(_) => normalise::batch_normalization(operands),
        Op::LayerNormalization(LayerNormalization { axis, .. }) => {
            normalise::layer_normalization(*axis, 2, 3, operands)
        }
        Op::RmsNormalization(RmsNormalization { axis, .. }) => {
            normalise::layer_normalization(*axis, 2, 2, operands)
        }
        Op::InstanceNormalization(_) => normalise::instance_normalization(operands),
        Op::GroupNormalization(GroupNormalization { groups, .. }) => {
            normalise::group_normalization(*groups, operands)
        }
        Op::LpNormalization(LpNormalization { axis, p }) => {
            normalise::lp_normalization(*axis, *p, operands)
        }
        Op::Lrn(Lrn { size, .. }) => normalise::lrn(*size, operands),
        Op::Softmax(softmax) => normalise::softmax(softmax.axis, operands),
        Op::MaskedSoftmax(MaskedSoftmax) => normalise::softmax(-1, operands),
        Op::Reduce(reduce) => normalise::reduce(reduce, operands),
        Op::ArgReduce(arg) => normalise::arg_reduce(arg, operands),
        Op::TopK(TopK { axis, .. }) => normalise::top_k(*axis, operands),
        Op::CumSum(_) => normalise::cum_sum(operands),

        Op::Resize(resize) => resample::resize(resize, operands),
        Op::GridSample(_) => resample::grid_sample(operands),

        Op::Reshape(Reshape { allow_zero }) => movement::reshape(*allow_zero, operands),
        Op::Flatten(Flatten { axis }) => movement::flatten(*axis, operands),
        Op::Squeeze(Squeeze) => movement::squeeze(operands),
        Op::Unsqueeze(Unsqueeze) => movement::unsqueeze(operands),
        Op::Transpose(Transpose { perm }) => movement::transpose(perm.as_deref(), operands),
        Op::Concat(Concat { axis }) => movement::concat(*axis, operands),
        Op::Split(Split { axis }) => movement::split(*axis, operands),
        Op::Slice(Slice) => movement::slice(operands),
        Op::Gather(Gather { axis }) => gather::gather(*axis, operands),
        Op::GatherElements(GatherElements { axis }) => gather::gather_elements(*axis, operands),
        Op::GatherNd(GatherNd { batch_dims }) => gather::gather_nd(*batch_dims, operands),
        Op::ScatterElements(ScatterElements { axis, reduction }) => {
            gather::scatter_elements(*axis, *reduction, operands)
        }
        Op::ScatterNd(ScatterNd { reduction }) => gather::scatter_nd(*reduction, operands),
        Op::Expand(Expand) => movement::expand(operands),
        Op::Tile(Tile) => movement::tile(operands),
        Op::Pad(Pad { mode }) => movement::pad(*mode, operands),
        Op::Shape(Shape { start, end }) => create::shape(*start, *end, operands),
        Op::Size(Size) => create::size(operands),
        Op::ConstantOfShape(ConstantOfShape { value }) => {
            create::constant_of_shape(value, operands)
        }
        Op::Range(Range) => create::range(operands),
        Op::OneHot(OneHot { axis }) => create::one_hot(*axis, operands),
        Op::NonZero(NonZero) => create::non_zero(operands),
        Op::DepthToSpace(DepthToSpace { block, .. }) => movement::depth_to_space(*block, operands),
        Op::SpaceToDepth(SpaceToDepth { block }) => movement::space_to_depth(*block, operands),
        Op::Trilu(_) => movement::trilu(operands),
        Op::EyeLike(EyeLike { dtype, .. }) => create::eye_like(*dtype, operands),
    }
}

/// `axis` counted from the front.
///
/// # Errors
///
/// [`OpError`] unless `-rank <= axis < rank`.
pub fn resolve_axis(axis: i64, rank: usize) -> Result<usize, OpError> {
    let signed_rank = rank as i64;
    if axis < -signed_rank || axis >= signed_rank {
        return Err(op_error!("axis {axis} is out of range for {rank} axes"));
    }
    Ok(if axis < 0 { axis + signed_rank } else { axis } as usize)
}

/// Every axis counted from the front, in the order given.
///
/// # Errors
///
/// As [`resolve_axis`]; also if one is named twice.
pub fn resolve_axes(axes: &[i64], rank: usize) -> Result<Vec<usize>, OpError> {
    let mut seen = vec![false; rank];
    let mut resolved = Vec::with_capacity(axes.len().min(rank));
    for &axis in axes {
        let at = resolve_axis(axis, rank)?;
        if std::mem::replace(&mut seen[at], true) {
            return Err(op_error!("axis {axis} is named twice"));
        }
        resolved.push(at);
    }
    Ok(resolved)
}

/// The shape two operands broadcast to, by NumPy's rule.
///
/// # Errors
///
/// [`OpError`] where two extents differ and neither is 1.
pub fn broadcast_shapes(a: &[usize], b: &[usize]) -> Result<Vec<usize>, OpError> {
    let rank = a.len().max(b.len());
    let extent = |shape: &[usize], axis: usize| {
        (axis + shape.len())
            .checked_sub(rank)
            .map_or(1, |i| shape[i])
    };
    (0..rank)
        .map(|axis| match (extent(a, axis), extent(b, axis)) {
            (x, y) if x == y => Ok(x),
            (1, y) => Ok(y),
            (x, 1) => Ok(x),
            _ => Err(op_error!("shapes {a:?} and {b:?} do not broadcast")),
        })
        .collect()
}

/// The most axes a value may have, as in NumPy.
const MAX_RANK: usize = 64;

/// Refuses shapes of too many axes, and those of which [`checked_elements`] has no number.
fn check_size(shape: &[usize]) -> Result<(), OpError> {
    if shape.len() > MAX_RANK {
        return Err(op_error!(
            "{} axes, at most {MAX_RANK} are supported",
            shape.len()
        ));
    }
    match checked_elements(shape) {
        Some(_) => Ok(()),
        None => Err(op_error!(
            "shape {shape:?} has more than {MAX_ELEMENTS} elements"
        )),
    }
}

/// Refuses an operand that does not broadcast to `target` as it stands.
fn check_broadcasts_to(what: &str, shape: &[usize], target: &[usize]) -> Result<(), OpError> {
    match broadcast_shapes(shape, target) {
        Ok(joint) if joint == target => Ok(()),
        _ => Err(op_error!(
            "`{what}` of shape {shape:?} does not broadcast to {target:?}"
        )),
    }
}

fn check_shape(what: &str, shape: &[usize], want: &[usize]) -> Result<(), OpError> {
    if shape == want {
        return Ok(());
    }
    Err(op_error!("`{what}` has shape {shape:?}, wanted {want:?}"))
}

fn check_rank(what: &str, operand: &Operand<'_>, want: usize) -> Result<(), OpError> {
    if operand.rank() == want {
        return Ok(());
    }
    Err(op_error!(
        "`{what}` of shape {:?} must have {want} axes",
        operand.shape
    ))
}

fn check_rank_at_least(what: &str, operand: &Operand<'_>, want: usize) -> Result<(), OpError> {
    if operand.rank() >= want {
        return Ok(());
    }
    Err(op_error!(
        "`{what}` of shape {:?} must have at least {want} axes",
        operand.shape
    ))
}

/// One element, whatever the rank: ONNX says scalar, exporters also write `[1]`.
fn check_scalar(what: &str, operand: &Operand<'_>) -> Result<(), OpError> {
    if operand.len() == 1 {
        return Ok(());
    }
    Err(op_error!(
        "`{what}` of shape {:?} must have one element",
        operand.shape
    ))
}

fn check_same_dtype(what: &str, operand: &Operand<'_>, want: DType) -> Result<(), OpError> {
    if operand.dtype == want {
        return Ok(());
    }
    Err(op_error!(
        "`{what}` is {}, wanted {want} as of the first operand",
        operand.dtype
    ))
}

fn check_float(what: &str, operand: &Operand<'_>) -> Result<(), OpError> {
    if operand.dtype.is_float() {
        return Ok(());
    }
    Err(op_error!(
        "`{what}` is {}, wanted a float type",
        operand.dtype
    ))
}

fn check_numeric(what: &str, operand: &Operand<'_>) -> Result<(), OpError> {
    if operand.dtype != DType::Bool {
        return Ok(());
    }
    Err(op_error!("`{what}` is bool, wanted a number type"))
}

fn check_bool(what: &str, operand: &Operand<'_>) -> Result<(), OpError> {
    if operand.dtype == DType::Bool {
        return Ok(());
    }
    Err(op_error!("`{what}` is {}, wanted bool", operand.dtype))
}

/// i32 or i64, as ONNX wants of index operands.
fn check_index(what: &str, operand: &Operand<'_>) -> Result<(), OpError> {
    if matches!(operand.dtype, DType::I32 | DType::I64) {
        return Ok(());
    }
    Err(op_error!(
        "`{what}` is {}, wanted i32 or i64",
        operand.dtype
    ))
}

/// The elements of a constant i32 or i64 operand of at most one axis.
fn constant_ints(what: &str, operand: &Operand<'_>) -> Result<Vec<i64>, OpError> {
    check_index(what, operand)?;
    if operand.rank() > 1 {
        return Err(op_error!(
            "`{what}` of shape {:?} must have one axis",
            operand.shape
        ));
    }
    match operand.constant.map(Tensor::data) {
        Some(TensorData::I64(v)) => Ok(v.clone()),
        Some(TensorData::I32(v)) => Ok(v.iter().map(|&x| i64::from(x)).collect()),
        _ => Err(op_error!(
            "`{what}` must be constant: the result's shape depends on it"
        )),
    }
}

/// The single element of a constant i32 or i64 operand.
fn constant_int(what: &str, operand: &Operand<'_>) -> Result<i64, OpError> {
    check_scalar(what, operand)?;
    Ok(constant_ints(what, operand)?[0])
}

/// One result of the given type.
fn one(dtype: DType, shape: impl Into<Vec<usize>>) -> Result<Vec<TensorType>, OpError> {
    Ok(vec![TensorType {
        dtype,
        shape: shape.into(),
    }])
}

#[cfg(test)]
mod tests;
