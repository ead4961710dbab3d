//! The reference interpreter: every operator computed the obvious way.
//!
//! ```text
//! evaluate(op, operands) -> results        one operator
//! run(graph, inputs)     -> outputs        a whole network, each result rounded to its type
//! run_wide(graph, ...)   -> outputs        the same with every float carried as f64
//! ```
//!
//! This is the oracle the executors are tested against, and what folds constants.
//! Floats are computed and summed in f64 and rounded once, to nearest even, when
//! an operator's result is stored. Integers are computed in 128 bits and wrap to
//! their type; they never pass through a float.
//!
//! Source: ONNX operator specification. Where it leaves a case open, the comment
//! at that operator says what is done here.
//!
//! Deliberately absent: speed, threads, and any code shared with the executors.
//! Shapes and operand checks come from [`crate::graph::infer`], the one place that
//! knows them.

mod conv;
mod create;
mod elementwise;
mod grid_sample;
mod index;
mod matrix;
mod movement;
mod normalise;
mod numbers;
mod pool;
mod quantize;
mod recurrent;
mod reduce;
mod resize;
mod run;
mod scatter;
mod search;
mod unary;
mod working;

pub use run::{run, run_wide};

use crate::ModelError;
use crate::budget;
use crate::graph::{
    BatchNormalization, CastLike, Clip, Concat, ConstantOfShape, CumSum, DepthToSpace,
    DequantizeLinear, Einsum, Expand, EyeLike, Gather, GatherElements, GatherNd, GlobalPool,
    GridSample, GroupNormalization, InstanceNormalization, LayerNormalization, LpNormalization,
    Lrn, MaskedSoftmax, MatMul, NonZero, OneHot, Op, OpError, Operand, Pad, QuantizeLinear, Range,
    RmsNormalization, ScatterElements, ScatterNd, Shape, Size, Slice, SpaceToDepth, Split, Squeeze,
    TensorType, Tile, TopK, Transpose, Trilu, Unsqueeze, Where, infer,
};
use crate::tensor::{Tensor, TensorData};
use working::working_bytes;

/// Why an operator was not evaluated.
#[derive(Debug)]
pub(crate) enum Unevaluated {
    /// Its operands are not right.
    Refused(OpError),
    /// It would take more bytes than are left, or than the system gives.
    Memory {
        /// Bytes it may take.
        bytes: usize,
    },
}

impl From<OpError> for Unevaluated {
    fn from(error: OpError) -> Self {
        Self::Refused(error)
    }
}

/// The operands of one evaluation; their number and types have been checked.
#[derive(Clone, Copy)]
struct Inputs<'a>(&'a [Option<&'a Tensor>]);

impl<'a> Inputs<'a> {
    fn optional(&self, index: usize) -> Option<&'a Tensor> {
        self.0.get(index).copied().flatten()
    }

    fn get(&self, index: usize) -> Result<&'a Tensor, OpError> {
        self.optional(index).ok_or_else(|| OpError {
            reason: format!("operand {index} is missing"),
        })
    }

    /// An optional operand as [`infer`] wants it.
    fn operand(&self, index: usize) -> Option<Operand<'a>> {
        self.optional(index).map(Operand::constant)
    }
}

/// The results of `op`, `n_outputs` of them; all operands are known.
///
/// # Rounding
///
/// Float results are computed in f64 and rounded once to their type, to nearest
/// even; overflow gives an infinity. Integer results wrap. Float to integer
/// conversions truncate and saturate, NaN becomes 0.
///
/// # Errors
///
/// [`OpError`] where [`infer`] refuses the operands; also for an index or a
/// sequence length out of range and an integer division by zero, and if evaluating takes more than
/// 64 times the bytes of the operands plus 1 GiB, or than the system has.
pub fn evaluate(
    op: &Op,
    inputs: &[Option<&Tensor>],
    n_outputs: usize,
) -> Result<Vec<Tensor>, OpError> {
    let given = inputs.iter().flatten().map(|t| t.size_bytes());
    let left = budget::by_file(given.fold(0, usize::saturating_add));
    evaluate_within(op, inputs, n_outputs, left).map_err(|error| match error {
        Unevaluated::Refused(error) => error,
        Unevaluated::Memory { bytes } => OpError {
            reason: format!("takes up to {bytes} bytes, the budget has {left}"),
        },
    })
}

/// [`evaluate`] in at most `left` bytes.
pub(crate) fn evaluate_within(
    op: &Op,
    inputs: &[Option<&Tensor>],
    n_outputs: usize,
    left: usize,
) -> Result<Vec<Tensor>, Unevaluated> {
    let operands: Vec<Option<Operand<'_>>> = inputs
        .iter()
        .map(|tensor| tensor.map(Operand::constant))
        .collect();
    let types = infer(op, &operands, n_outputs)?;
    if op.computes_nothing(types.iter().map(|ty| &ty.shape[..])) {
        let empty = types.into_iter().map(|ty| {
            let TensorType { dtype, shape } = ty;
            Tensor::zeros(dtype, shape).map_err(|error| OpError {
                reason: error.to_string(),
            })
        });
        return Ok(empty.collect::<Result<_, _>>()?);
    }
    let bytes = working_bytes(op, inputs, &types);
    if bytes > left || !budget::can_get(bytes) {
        return Err(Unevaluated::Memory { bytes });
    }
    Ok(evaluate_typed(op, Inputs(inputs), n_outputs, &types)?)
}

/// The results of `op`, whose types are `types`.
fn evaluate_typed(
    op: &Op,
    inputs: Inputs<'_>,
    n_outputs: usize,
    types: &[TensorType],
) -> Result<Vec<Tensor>, OpError> {
    match op {
        Op::Split(Split { axis }) => return movement::split(*axis, inputs, types),
        Op::TopK(TopK { axis, largest, .. }) => {
            return search::top_k(*axis, *largest, inputs, types);
        }
        Op::Recurrent(recurrent) => return recurrent::recurrent(recurrent, inputs, types),
        _ => {}
    }
    let [ty] = types else {
        return Err(OpError {
            reason: format!("makes one result, {n_outputs} wanted"),
        });
    };
    let result = evaluate_single(op, inputs, ty)?;
    debug_assert_eq!((result.dtype(), result.shape()), (ty.dtype, &ty.shape[..]));
    Ok(vec![result])
}

/// The operators with one result.
fn evaluate_single(op: &Op, inputs: Inputs<'_>, ty: &TensorType) -> Result<Tensor, OpError> {
    match op {
        Op::Unary(f) => unary::unary(*f, inputs, ty),
        Op::Binary(f) => elementwise::binary(*f, inputs, ty),
        Op::Variadic(f) => elementwise::variadic(*f, inputs, ty),
        Op::Where(Where) => elementwise::select(inputs, ty),
        Op::Clip(Clip) => elementwise::clip(inputs, ty),
        Op::Cast(_) | Op::CastLike(CastLike) => elementwise::cast(inputs, ty),

        Op::Conv(conv) => conv::conv(conv, inputs, ty),
        Op::ConvTranspose(transpose) => conv::conv_transpose(transpose, inputs, ty),
        Op::Pool(pool) => pool::pool(pool, inputs, ty),
        Op::GlobalPool(GlobalPool { kind }) => pool::global_pool(*kind, inputs, ty),

        Op::Gemm(gemm) => matrix::gemm(gemm, inputs, ty),
        Op::MatMul(MatMul) => matrix::matmul(inputs, ty),
        Op::Einsum(Einsum { equation }) => matrix::einsum(equation, inputs, ty),

        Op::BatchNormalization(BatchNormalization { epsilon }) => {
            normalise::batch(*epsilon, inputs, ty)
        }
        Op::LayerNormalization(LayerNormalization { axis, epsilon }) => {
            normalise::layer(*axis, *epsilon, inputs, ty)
        }
        Op::RmsNormalization(RmsNormalization { axis, epsilon }) => {
            normalise::rms(*axis, *epsilon, inputs, ty)
        }
        Op::InstanceNormalization(InstanceNormalization { epsilon }) => {
            normalise::instance(*epsilon, inputs, ty)
        }
        Op::GroupNormalization(GroupNormalization { epsilon, groups }) => {
            normalise::group(*groups, *epsilon, inputs, ty)
        }
        Op::LpNormalization(LpNormalization { axis, p }) => normalise::lp(*axis, *p, inputs, ty),
        Op::Lrn(Lrn {
            alpha,
            beta,
            bias,
            size,
        }) => normalise::lrn([*alpha, *beta, *bias], *size, inputs, ty),
        Op::Softmax(softmax) => normalise::softmax(softmax, inputs, ty),
        Op::MaskedSoftmax(MaskedSoftmax) => normalise::masked_softmax(inputs, ty),

        Op::Reduce(reduce) => reduce::reduce(reduce, inputs, ty),
        Op::ArgReduce(arg) => search::arg_reduce(arg, inputs, ty),
        Op::CumSum(CumSum { exclusive, reverse }) => {
            reduce::cum_sum(*exclusive, *reverse, inputs, ty)
        }

        Op::Resize(resize) => resize::resize(resize, inputs, ty),
        Op::GridSample(GridSample {
            mode,
            padding,
            align_corners,
        }) => grid_sample::grid_sample(*mode, *padding, *align_corners, inputs, ty),

        Op::Reshape(_) | Op::Flatten(_) | Op::Squeeze(Squeeze) | Op::Unsqueeze(Unsqueeze) => {
            make(ty, inputs.get(0)?.data().clone())
        }
        Op::Transpose(Transpose { perm }) => movement::transpose(perm.as_deref(), inputs, ty),
        Op::Concat(Concat { axis }) => movement::concat(*axis, inputs, ty),
        Op::Slice(Slice) => movement::slice(inputs, ty),
        Op::Gather(Gather { axis }) => movement::gather(*axis, inputs, ty),
        Op::GatherElements(GatherElements { axis }) => movement::gather_elements(*axis, inputs, ty),
        Op::GatherNd(GatherNd { batch_dims }) => movement::gather_nd(*batch_dims, inputs, ty),
        Op::ScatterElements(ScatterElements { axis, reduction }) => {
            scatter::scatter_elements(*axis, *reduction, inputs, ty)
        }
        Op::ScatterNd(ScatterNd { reduction }) => scatter::scatter_nd(*reduction, inputs, ty),
        Op::Expand(Expand) => movement::expand(inputs, ty),
        Op::Tile(Tile) => movement::tile(inputs, ty),
        Op::Pad(Pad { mode }) => movement::pad(*mode, inputs, ty),
        Op::DepthToSpace(DepthToSpace { block, crd }) => {
            movement::depth_to_space(*block, *crd, inputs, ty)
        }
        Op::SpaceToDepth(SpaceToDepth { block }) => movement::space_to_depth(*block, inputs, ty),
        Op::Trilu(Trilu { upper }) => movement::trilu(*upper, inputs, ty),

        Op::Shape(Shape { start, end }) => create::shape(*start, *end, inputs, ty),
        Op::Size(Size) => create::size(inputs, ty),
        Op::ConstantOfShape(ConstantOfShape { value }) => create::constant_of_shape(value, ty),
        Op::Range(Range) => create::range(inputs, ty),
        Op::OneHot(OneHot { axis }) => create::one_hot(*axis, inputs, ty),
        Op::NonZero(NonZero) => create::non_zero(inputs, ty),
        Op::EyeLike(EyeLike { k, .. }) => create::eye_like(*k, ty),

        Op::QuantizeLinear(QuantizeLinear { axis }) => quantize::quantize(*axis, inputs, ty),
        Op::DequantizeLinear(DequantizeLinear { axis }) => quantize::dequantize(*axis, inputs, ty),

        Op::Split(_) | Op::TopK(_) | Op::Recurrent(_) => Err(OpError {
            reason: format!("{} has several results", op.name()),
        }),
    }
}

/// A tensor of the inferred shape.
fn make(ty: &TensorType, data: TensorData) -> Result<Tensor, OpError> {
    Tensor::new(ty.shape.clone(), data).map_err(|error: ModelError| OpError {
        reason: error.to_string(),
    })
}
