//! The operators, with their parameters and in one normal form; pure data.
//!
//! Operands are written in the order of [`crate::graph::Node::inputs`]; `?` marks
//! those that may be left out. Shapes are ONNX's (channels second).
//!
//! Source: ONNX operator specification; where versions differ, the newest form.
//! Axes may be negative, counting from the end, as in ONNX.

pub(crate) use super::control::{BodyId, If, Loop, Scan};
pub(crate) use super::custom::Custom;
pub(crate) use super::kinds::{
    AspectRatio, Binary, Cell, CoordinateTransform, Direction, GridPadding, Interpolation,
    NearestRounding, PadMode, Padding, PoolKind, ReduceKind, ScatterReduction, Unary, Variadic,
};
pub(crate) use super::quantization::{DequantizeLinear, QuantizeLinear, RoundFloat};
pub(crate) use super::random::{CountedDropout, RandomLike};
pub(crate) use super::regions::RoiAlign;
pub(crate) use super::rounded_activations::RoundedActivations;
pub(crate) use super::selection::{NonMaxSuppression, TopK, Unique};
use crate::tensor::{DType, Tensor};

/// What a node computes: one struct of parameters per operator, of its name.
///
/// It is exhaustive, so that an engine that lacks an operator does not compile; see
/// [`each_operator!`](crate::each_operator).
///
/// # Examples
///
/// ```
/// use spark_onnx_graph::graph::{Flatten, Op, Unary};
///
/// let op = Op::from(Flatten { axis: 1 }); // a struct converts into its variant
/// assert_eq!(op.name(), "Flatten");
/// assert_eq!(Op::Unary(Unary::HardSwish).name(), "HardSwish"); // small ones are a choice
/// ```
#[derive(Debug, Clone, PartialEq)]
pub enum Op {
    /// `y = f(x)`, element by element.
    Unary(Unary),
    /// `y = f(a, b)`, element by element, with NumPy broadcasting.
    Binary(Binary),
    /// `y = f(x0, x1, ...)`, element by element, with broadcasting; one operand or more.
    Variadic(Variadic),
    /// `(condition, a, b)`: `condition ? a : b`, with broadcasting.
    Where(Where),
    /// `(x, min?, max?)`, both bounds scalar.
    Clip(Clip),
    /// `(x)` to another element type; ONNX rules (float to integer truncates).
    Cast(Cast),
    /// `(x, like)`: cast to the type of `like`.
    CastLike(CastLike),

    /// `(x, w, bias?)`, `x` `[n, c, d...]`, `w` `[m, c / groups, k...]`.
    Conv(Conv),
    /// `(x, w, bias?)`, `w` `[c, m / groups, k...]`.
    ConvTranspose(ConvTranspose),
    /// `(x)`: maximum or average over windows.
    Pool(Pool),
    /// `(x)`: maximum or average over all spatial axes, which stay with extent 1.
    GlobalPool(GlobalPool),

    /// `(a, b, c?)`: `alpha * a' b' + beta * c`, operands of two axes.
    Gemm(Gemm),
    /// `(a, b)`: NumPy's `matmul`, with broadcast batch axes and one-axis operands.
    MatMul(MatMul),
    /// `(x)`, `[..., n, n]`: the determinant of each matrix.
    Det(Det),
    /// `(x0, ...)`: Einstein summation; explicit or implicit output, no repeated letters
    /// within one operand.
    Einsum(Einsum),

    /// `(x, scale, bias, mean, variance)`, inference form, channel axis 1.
    BatchNormalization(BatchNormalization),
    /// `(x, scale, bias?)`: over axes `axis..`.
    LayerNormalization(LayerNormalization),
    /// `(x, scale)`: root mean square over axes `axis..`.
    RmsNormalization(RmsNormalization),
    /// `(x, scale, bias)`: per sample and channel.
    InstanceNormalization(InstanceNormalization),
    /// `(x, scale, bias)`, both `[channels]`: per sample and group of channels.
    GroupNormalization(GroupNormalization),
    /// `(x)`: divided by its norm along `axis`.
    LpNormalization(LpNormalization),
    /// `(x)`: local response normalisation across channels.
    Lrn(Lrn),
    /// `(x)`: softmax along an axis, or its logarithm.
    Softmax(Softmax),
    /// `(scores)`: a softmax along the last axis, in which a row of nothing but minus infinity
    /// gives zeros. What the operator Attention makes weights with: a query that may attend to
    /// nothing has no weights, where the formula of a softmax is 0 / 0.
    MaskedSoftmax(MaskedSoftmax),

    /// `(x, w, r, b?, sequence_lengths?, h0?, c0?, p?)` to `(y?, h?, c?)`, ONNX's recurrent operators.
    Recurrent(Recurrent),

    /// `(x, axes?)`: a sum, mean, maximum or the like over axes.
    Reduce(Reduce),
    /// `(x)` to i64: position of the extreme value.
    ArgReduce(ArgReduce),
    /// `(x, k)` to `(values, indices)`.
    TopK(TopK),
    /// `(x, axis)`: running sums along a scalar axis.
    CumSum(CumSum),
    /// `(x, axis)`: running products along a scalar axis.
    CumProd(CumProd),
    /// `(x, length?, axis?)`, the last axis of x 1 or 2, for real and complex numbers.
    Dft(Dft),

    /// `(x, roi?, scales?, sizes?)`.
    Resize(Resize),
    /// `(x, grid)`: `x` `[n, c, d...]` sampled at `grid` `[n, e..., axes]`, positions in -1..=1.
    GridSample(GridSample),
    /// `(theta, size)`, `theta` `[n, 2, 3]` or `[n, 3, 4]`, `size` `[n, c, h, w]` or `[n, c, d, h, w]`:
    /// the grid that [`Op::GridSample`] reads, of positions `theta * (x, y, z?, 1)`.
    AffineGrid(AffineGrid),
    /// `(x, regions, samples)`, `x` `[n, c, h, w]`, `regions` `[m, 4]` of `(x, y)` twice: cells of region i of sample
    /// `samples[i]`, `[m, c, rows, columns]`.
    RoiAlign(RoiAlign),

    /// `(x, shape)`: the same elements in another shape; -1 is inferred.
    Reshape(Reshape),
    /// `(x)` to two axes, split before `axis`.
    Flatten(Flatten),
    /// `(x, axes?)`; without axes all of extent 1.
    Squeeze(Squeeze),
    /// `(x, axes)`: new axes of extent 1, at these places of the result.
    Unsqueeze(Unsqueeze),
    /// `(x)`; `None` reverses the axes.
    Transpose(Transpose),
    /// `(x0, x1, ...)`: joined along one axis.
    Concat(Concat),
    /// `(x, split?)` to as many results as the node has.
    Split(Split),
    /// `(x, starts, ends, axes?, steps?)`.
    Slice(Slice),
    /// `(x, indices)`: slices of `x` along one axis, in the order of `indices`.
    Gather(Gather),
    /// `(x, indices)`: of every element of `indices`, the one of `x` at that index along the axis.
    GatherElements(GatherElements),
    /// `(x, indices)`: slices of `x`, addressed by the last axis of `indices`.
    GatherNd(GatherNd),
    /// `(x, indices, updates)`: `x` with single elements replaced, or combined, along one axis.
    ScatterElements(ScatterElements),
    /// `(x, indices, updates)`: `x` with slices replaced, or combined, addressed by the last axis
    /// of `indices`.
    ScatterNd(ScatterNd),
    /// `(x, shape)`: broadcast both ways.
    Expand(Expand),
    /// `(x, repeats)`: `x` repeated that often along every axis.
    Tile(Tile),
    /// `(x, pads, value?, axes?)`.
    Pad(Pad),
    /// `(x)` to i64 `[rank]`, or the part `start..end`.
    Shape(Shape),
    /// `(x)` to an i64 scalar.
    Size(Size),
    /// `(shape)`: a tensor of that shape, every element the same.
    ConstantOfShape(ConstantOfShape),
    /// `(start, limit, delta)`, scalars.
    Range(Range),
    /// `(indices, depth, values)`: a new axis of extent `depth`, `values[1]` at the index and `values[0]` elsewhere.
    OneHot(OneHot),
    /// `(x)` to i64 `[rank, n]`: bound only as a constant, for its shape depends on values.
    NonZero(NonZero),
    /// `(boxes, scores, most?, overlap?, score?)` to i64 `[n, 3]`, sample, class, position of kept boxes: as [`Op::NonZero`].
    NonMaxSuppression(NonMaxSuppression),
    /// `(x)` to what differs, the first position of each, the kind of all, how many are of each: as [`Op::NonZero`].
    Unique(Unique),
    /// `(x)`, `[n, c * b * b, h, w]` to `[n, c, h * b, w * b]`.
    DepthToSpace(DepthToSpace),
    /// `(x)`, the inverse of `DepthToSpace` in depth-column-row order.
    SpaceToDepth(SpaceToDepth),
    /// `(x, k?)`: the upper or lower triangle of the last two axes, zero elsewhere.
    Trilu(Trilu),
    /// `(x)`: ones on diagonal `k` of a matrix of x's shape.
    EyeLike(EyeLike),
    /// `(x)`: random numbers of a seed, as many as x has elements.
    RandomLike(RandomLike),
    /// `(x, pass)`, the second an i64 of one element: x with elements zero, and the others larger.
    CountedDropout(CountedDropout),

    /// `(x)` to the nearest numbers of a float of 8 bits or fewer, in the type of x.
    RoundFloat(RoundFloat),
    /// `(x)` as tensor cores of few bits take it, with a scale that follows its largest magnitude or is given.
    RoundedActivations(RoundedActivations),
    /// `(x, scale, zero_point?)`; per tensor, along `axis` or per block.
    QuantizeLinear(QuantizeLinear),
    /// `(x, scale, zero_point?)`; per tensor, along `axis` or per block.
    DequantizeLinear(DequantizeLinear),
    /// `(x, w, x_zero?, w_zero?)`, all of 8-bit integers: [`Op::Conv`] of `x - x_zero` and `w - w_zero`, in
    /// i32. `w_zero` is one value or one per output channel.
    ConvInteger(ConvInteger),
    /// `(a, b, a_zero?, b_zero?)`, all of 8-bit integers: [`Op::MatMul`] of `a - a_zero` and `b - b_zero`, in
    /// i32. Zero points are one value, or one per row of `a` and per column of `b`.
    MatMulInteger(MatMulInteger),
    /// `(x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, bias?)`: the sums of [`Op::ConvInteger`]
    /// with a bias of i32, as 8-bit integers of scale `y_scale`.
    QLinearConv(QLinearConv),
    /// `(a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero)`: the sums of [`Op::MatMulInteger`], as
    /// 8-bit integers of scale `y_scale`.
    QLinearMatMul(QLinearMatMul),

    /// `(condition, captured...)`: the results of one of two bodies.
    If(If),
    /// `(count?, condition?, carried..., captured...)` to the carried values after the last iteration,
    /// and results stacked along a new first axis.
    Loop(Loop),
    /// `(carried..., scanned..., captured...)` to the carried values after the last slice, and results
    /// stacked along an axis.
    Scan(Scan),
    /// Whatever an embedder's own operator takes.
    Custom(Custom),
}

/// The list of all operators, for what is said of each by its own type: a match with the same arm for
/// every one.
///
/// A variant of [`Op`](crate::graph::Op) that the list lacks is one that the match does not cover, and a
/// name in the list whose struct lacks a trait is an error in every use of the trait. So an
/// engine that says something of every operator is told by the compiler where it says nothing.
///
/// # Examples
///
/// ```
/// use spark_onnx_graph::each_operator;
/// use spark_onnx_graph::graph::{Flatten, Op, Unary};
///
/// trait Cost {
///     fn cost(&self) -> u64;
/// }
/// impl<T> Cost for T {
///     fn cost(&self) -> u64 {
///         size_of::<T>() as u64 // an engine has one `impl` for each
///     }
/// }
///
/// let op = Op::Flatten(Flatten { axis: 1 });
/// let cost = each_operator!(match &op, it => Cost::cost(it));
/// assert_eq!(cost, 8);
/// ```
#[macro_export(local_inner_macros)]
macro_rules! each_operator {
    (match $op:expr, $it:ident => $result:expr) => {
        each_operator!(@names [@match $op, $it, $result])
    };
    // The other forms are this crate's.
    (list $of:ident :: $constant:ident) => {
        each_operator!(@names [@list $of, $constant])
    };
    (@names [$($then:tt)*]) => {
        each_operator! {
            $($then)*;
            Unary Binary Variadic Where Clip Cast
            CastLike Conv ConvTranspose Pool GlobalPool Gemm
            MatMul Det Einsum BatchNormalization LayerNormalization RmsNormalization InstanceNormalization
            GroupNormalization LpNormalization Lrn Softmax MaskedSoftmax Recurrent
            Reduce ArgReduce TopK CumSum CumProd Dft Resize GridSample AffineGrid RoiAlign
            Reshape Flatten Squeeze Unsqueeze Transpose Concat
            Split Slice Gather GatherElements GatherNd ScatterElements
            ScatterNd Expand Tile Pad Shape Size
            ConstantOfShape Range OneHot NonZero NonMaxSuppression Unique DepthToSpace SpaceToDepth
            Trilu EyeLike RandomLike CountedDropout RoundFloat RoundedActivations QuantizeLinear DequantizeLinear
            ConvInteger MatMulInteger QLinearConv QLinearMatMul
            If Loop Scan Custom
        }
    };
    (@match $op:expr, $it:ident, $result:expr; $($name:ident)*) => {
        match $op {
            $($crate::graph::Op::$name($it) => $result,)*
        }
    };
    (@from; $($name:ident)*) => {
        $(impl From<$name> for Op {
            fn from(operator: $name) -> Self {
                Self::$name(operator)
            }
        })*
    };
    (@list $of:ident, $constant:ident; $($name:ident)*) => {
        [$(<$crate::graph::op::$name as $of>::$constant),*]
    };
}
pub(crate) use each_operator;

each_operator! { @names [@from] }

impl Op {
    /// Whether results of these shapes take no computing: none has an element, however long its
    /// other axes are. Operators that look indices up still have those to check, so that they are never
    /// among them.
    pub fn computes_nothing<'s>(&self, mut results: impl Iterator<Item = &'s [usize]>) -> bool {
        let looks_up = matches!(
            self,
            Self::Gather(_) | Self::GatherNd(_) | Self::ScatterElements(_) | Self::ScatterNd(_)
        );
        !looks_up && !self.is_control_flow() && results.all(|shape| shape.contains(&0))
    }

    /// The bodies that the node runs, in the order of its parameters; none unless it is control flow.
    pub fn bodies(&self) -> Vec<BodyId> {
        match self {
            Self::If(op) => vec![op.then_branch, op.else_branch],
            Self::Loop(op) => vec![op.body],
            Self::Scan(op) => vec![op.body],
            _ => Vec::new(),
        }
    }

    /// The same, to be changed.
    pub(crate) fn bodies_mut(&mut self) -> Vec<&mut BodyId> {
        match self {
            Self::If(op) => vec![&mut op.then_branch, &mut op.else_branch],
            Self::Loop(op) => vec![&mut op.body],
            Self::Scan(op) => vec![&mut op.body],
            _ => Vec::new(),
        }
    }

    /// Whether the node runs other graphs.
    pub fn is_control_flow(&self) -> bool {
        matches!(self, Self::If(_) | Self::Loop(_) | Self::Scan(_))
    }
}

/// Parameters of a convolution; empty lists mean ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conv {
    /// Step of the window along every spatial axis.
    pub strides: Vec<usize>,
    /// Step between taps along every spatial axis.
    pub dilations: Vec<usize>,
    /// How the borders of the spatial axes are padded.
    pub padding: Padding,
    /// Groups of channels that do not see each other.
    pub groups: usize,
}

/// Parameters of a transposed convolution; empty lists mean ones, or zeros for `output_padding`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConvTranspose {
    /// As of [`Conv`], whose input is this operator's result.
    pub conv: Conv,
    /// Added to the end of every spatial axis of the result.
    pub output_padding: Vec<usize>,
    /// Spatial extents of the result; overrides the explicit padding.
    pub output_shape: Option<Vec<usize>>,
}

/// Parameters of a pooling window; empty lists mean ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pool {
    /// Whether a window gives its maximum or its average.
    pub kind: PoolKind,
    /// Extent of the window along every spatial axis.
    pub kernel: Vec<usize>,
    /// Step of the window.
    pub strides: Vec<usize>,
    /// Step between taps along every spatial axis.
    pub dilations: Vec<usize>,
    /// How the borders of the spatial axes are padded.
    pub padding: Padding,
    /// Whether padded elements count in an average.
    pub count_include_pad: bool,
    /// Round the number of windows up instead of down.
    pub ceil_mode: bool,
}

/// Parameters of [`Op::Gemm`], `alpha a b + beta c`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Gemm {
    /// Factor of the matmul.
    pub alpha: f32,
    /// Factor of the addend.
    pub beta: f32,
    /// Transpose the first operand.
    pub trans_a: bool,
    /// Transpose the second operand.
    pub trans_b: bool,
}

/// Parameters of a softmax.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Softmax {
    /// Axis that is normalised; negative ones count from the end.
    pub axis: i64,
    /// The logarithm of it.
    pub log: bool,
    /// All axes from `axis` on together, as operator sets below 13 do.
    pub flatten: bool,
}

/// Parameters of a recurrent network.
#[derive(Debug, Clone, PartialEq)]
pub struct Recurrent {
    /// Which cell is repeated: RNN, GRU or LSTM.
    pub cell: Cell,
    /// Whether steps run forward, in reverse, or both ways.
    pub direction: Direction,
    /// Width of the state.
    pub hidden: usize,
    /// Activations, per direction in ONNX's order; empty means the default.
    pub activations: Vec<Unary>,
    /// Batch first (ONNX `layout` 1).
    pub batch_first: bool,
}

/// Parameters of a reduction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reduce {
    /// What is taken over the axes.
    pub kind: ReduceKind,
    /// Reduced axes stay with extent 1.
    pub keep_dims: bool,
    /// No axes means nothing is reduced (instead of everything).
    pub noop_with_empty_axes: bool,
}

/// Parameters of an arg-reduction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArgReduce {
    /// The position of the maximum if true, of the minimum if not.
    pub max: bool,
    /// Axis that is searched; negative ones count from the end.
    pub axis: i64,
    /// The axis stays with extent 1.
    pub keep_dims: bool,
    /// Of equal values the last instead of the first.
    pub select_last: bool,
}

/// Parameters of a resize.
#[derive(Debug, Clone, PartialEq)]
pub struct Resize {
    /// How samples between elements are made.
    pub mode: Interpolation,
    /// How coordinates of the result become coordinates of the input.
    pub transform: CoordinateTransform,
    /// Which element [`Interpolation::Nearest`] takes.
    pub rounding: NearestRounding,
    /// Coefficient `a` of cubic interpolation; ONNX's default is -0.75.
    pub cubic_coeff: f32,
    /// Weights outside the input are zero and the rest renormalised.
    pub exclude_outside: bool,
    /// Value outside, for crop and resize.
    pub extrapolation: f32,
    /// Low-pass filter when shrinking.
    pub antialias: bool,
    /// Axes `scales` and `sizes` speak of; all where left out.
    pub axes: Option<Vec<i64>>,
    /// Whether `sizes` are taken as they are, or bound a result that keeps its aspect ratio.
    pub aspect: AspectRatio,
}

/// [`Op::Where`] has no parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Where;

/// [`Op::Clip`] has no parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clip;

/// Parameters of [`Op::Cast`], which changes the element type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cast {
    /// Element type of the result.
    pub to: DType,
}

/// [`Op::CastLike`] has no parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CastLike;

/// Parameters of [`Op::GlobalPool`], whose window is all of the spatial axes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GlobalPool {
    /// Whether it gives the maximum or the average.
    pub kind: PoolKind,
}

/// [`Op::MatMul`] has no parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MatMul;

/// [`Op::Det`] has no parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Det;

/// Parameters of [`Op::Einsum`], Einstein summation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Einsum {
    /// As in NumPy, for example `bij,bjk->bik`.
    pub equation: String,
}

/// Parameters of [`Op::BatchNormalization`] in its inference form.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BatchNormalization {
    /// Added to the variance.
    pub epsilon: f32,
}

/// Parameters of [`Op::LayerNormalization`], over all axes from one on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LayerNormalization {
    /// First axis that is normalised; all after it are too.
    pub axis: i64,
    /// Added to the variance.
    pub epsilon: f32,
}

/// Parameters of [`Op::RmsNormalization`], which subtracts no mean.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RmsNormalization {
    /// First axis that is normalised; all after it are too.
    pub axis: i64,
    /// Added to the mean square.
    pub epsilon: f32,
}

/// Parameters of [`Op::InstanceNormalization`], over the spatial axes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct InstanceNormalization {
    /// Added to the variance.
    pub epsilon: f32,
}

/// Parameters of [`Op::GroupNormalization`], over spatial axes and channels of a group.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GroupNormalization {
    /// Added to the variance.
    pub epsilon: f32,
    /// Number of groups; it divides the channels.
    pub groups: usize,
}

/// Parameters of [`Op::LpNormalization`], which divides by a norm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LpNormalization {
    /// Axis of the norm.
    pub axis: i64,
    /// Which norm: 1 for the sum of magnitudes, 2 for the Euclidean length.
    pub p: u8,
}

/// Parameters of [`Op::Lrn`]: `x / (bias + alpha / size * sum(x^2))^beta`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Lrn {
    /// Scale of the sum.
    pub alpha: f32,
    /// Power that the divisor is raised to.
    pub beta: f32,
    /// Constant term of the divisor, before the power.
    pub bias: f32,
    /// Neighbouring channels, its own included, whose squares are summed.
    pub size: usize,
}

/// [`Op::MaskedSoftmax`] has no parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MaskedSoftmax;

/// Parameters of [`Op::CumSum`], whose axis is an operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CumSum {
    /// Leave the element itself out.
    pub exclusive: bool,
    /// Sums run from the end of the axis.
    pub reverse: bool,
}

/// Parameters of [`Op::CumProd`], whose axis is an operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CumProd {
    /// Leave the element itself out.
    pub exclusive: bool,
    /// Products run from the end of the axis.
    pub reverse: bool,
}

/// Parameters of [`Op::Dft`], the discrete Fourier transform.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dft {
    /// The transform back, divided by the length.
    pub inverse: bool,
    /// Of a conjugate symmetric spectrum only frequencies 0 to half the length: real to complex, or complex to
    /// real if inverse.
    pub one_sided: bool,
}

/// Parameters of [`Op::GridSample`], which reads the input at given positions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GridSample {
    /// How samples between elements are made.
    pub mode: Interpolation,
    /// What positions outside the input give.
    pub padding: GridPadding,
    /// Whether -1 and 1 are corner centres.
    pub align_corners: bool,
}

/// Parameters of [`Op::AffineGrid`], which makes a grid for [`Op::GridSample`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AffineGrid {
    /// Whether -1 and 1 are corner centres.
    pub align_corners: bool,
}

/// Parameters of [`Op::Reshape`], whose shape is an operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reshape {
    /// Whether 0 means zero (true) or "as the input" (false).
    pub allow_zero: bool,
}

/// Parameters of [`Op::Flatten`], which leaves two axes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flatten {
    /// First axis of the second part.
    pub axis: i64,
}

/// [`Op::Squeeze`] has no parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Squeeze;

/// [`Op::Unsqueeze`] has no parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unsqueeze;

/// Parameters of [`Op::Transpose`], which changes the order of axes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transpose {
    /// Output axis `i` is input axis `perm[i]`.
    pub perm: Option<Vec<usize>>,
}

/// Parameters of [`Op::Concat`], which joins its operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Concat {
    /// Axis along which operands are joined; negative ones count from the end.
    pub axis: i64,
}

/// Parameters of [`Op::Split`], whose lengths are an operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Split {
    /// Axis that is cut; negative ones count from the end.
    pub axis: i64,
}

/// [`Op::Slice`] has no parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slice;

/// Parameters of [`Op::Gather`], which takes whole slices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gather {
    /// Axis of the input that indices point into.
    pub axis: i64,
}

/// Parameters of [`Op::GatherElements`], which takes single elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GatherElements {
    /// Axis of the input that indices point into.
    pub axis: i64,
}

/// Parameters of [`Op::GatherNd`], whose indices have several axes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GatherNd {
    /// Leading axes that input and indices share, one batch each.
    pub batch_dims: usize,
}

/// Parameters of [`Op::ScatterElements`], which replaces or combines single elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScatterElements {
    /// Axis of the input that indices point into.
    pub axis: i64,
    /// How an update meets what is there.
    pub reduction: ScatterReduction,
}

/// Parameters of [`Op::ScatterNd`], which replaces or combines whole slices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScatterNd {
    /// How an update meets what is there.
    pub reduction: ScatterReduction,
}

/// [`Op::Expand`] has no parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expand;

/// [`Op::Tile`] has no parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tile;

/// Parameters of [`Op::Pad`], whose widths are operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pad {
    /// What the borders are filled with.
    pub mode: PadMode,
}

/// Parameters of [`Op::Shape`], which may give a part of the shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// First axis of the part; negative ones count from the end.
    pub start: i64,
    /// One past the last axis.
    pub end: Option<i64>,
}

/// [`Op::Size`] has no parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size;

/// Parameters of [`Op::ConstantOfShape`], whose shape is an operand.
#[derive(Debug, Clone, PartialEq)]
pub struct ConstantOfShape {
    /// One element; its type is the result's.
    pub value: Tensor,
}

/// [`Op::Range`] has no parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range;

/// Parameters of [`Op::OneHot`], whose depth and values are operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OneHot {
    /// Where the new axis goes.
    pub axis: i64,
}

/// [`Op::NonZero`] has no parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NonZero;

/// Parameters of [`Op::DepthToSpace`], which makes pictures larger and less deep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DepthToSpace {
    /// Side `b` of a block of pixels, at least 1.
    pub block: usize,
    /// Column-row-depth instead of depth-column-row.
    pub crd: bool,
}

/// Parameters of [`Op::SpaceToDepth`], which makes pictures smaller and deeper.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpaceToDepth {
    /// Side `b` of a block of pixels, at least 1.
    pub block: usize,
}

/// Parameters of [`Op::Trilu`], whose diagonal is an operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trilu {
    /// Keep the upper triangle instead of the lower.
    pub upper: bool,
}

/// Parameters of [`Op::EyeLike`], which takes no values of its operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EyeLike {
    /// Result type; x's where left out.
    pub dtype: Option<DType>,
    /// Diagonal that holds ones: 0 is the main one, positive ones lie above it.
    pub k: i64,
}

/// Parameters of [`Op::ConvInteger`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConvInteger {
    /// How the window moves.
    pub conv: Conv,
}

/// [`Op::MatMulInteger`] has no parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MatMulInteger;

/// Parameters of [`Op::QLinearConv`], whose scales and zero points are operands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QLinearConv {
    /// How the window moves.
    pub conv: Conv,
}

/// [`Op::QLinearMatMul`] has no parameters; its scales and zero points are operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QLinearMatMul;
