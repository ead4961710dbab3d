//! The operators, with their parameters and in one normal form.
//!
//! Operands are written in the order of [`crate::graph::Node::inputs`]; `?` marks
//! those that may be left out. Shapes are ONNX's (channels second).
//!
//! Source: ONNX operator specification; where versions differ, the newest form.
//! Axes may be negative, counting from the end, as in ONNX.

use crate::tensor::{DType, Tensor};

/// What a node computes.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Op {
    /// `y = f(x)`, element by element.
    Unary(Unary),
    /// `y = f(a, b)`, element by element, with NumPy broadcasting.
    Binary(Binary),
    /// `y = f(x0, x1, ...)`, element by element, with broadcasting; one operand or more.
    Variadic(Variadic),
    /// `(condition, a, b)`: `condition ? a : b`, with broadcasting.
    Where,
    /// `(x, min?, max?)`, both bounds scalar.
    Clip,
    /// `(x)` to another element type; ONNX rules (float to integer truncates).
    Cast {
        /// The new type.
        to: DType,
    },
    /// `(x, like)`: cast to the type of `like`.
    CastLike,

    /// `(x, w, bias?)`, `x` `[n, c, d...]`, `w` `[m, c / groups, k...]`.
    Conv(Conv),
    /// `(x, w, bias?)`, `w` `[c, m / groups, k...]`.
    ConvTranspose(ConvTranspose),
    /// `(x)`: maximum or average over windows.
    Pool(Pool),
    /// `(x)`: maximum or average over all spatial axes, which stay with extent 1.
    GlobalPool(PoolKind),

    /// `(a, b, c?)`: `alpha * a' b' + beta * c`, operands of two axes.
    Gemm(Gemm),
    /// `(a, b)`: NumPy's `matmul`, with broadcast batch axes and one-axis operands.
    MatMul,
    /// `(x0, ...)`: Einstein summation; explicit or implicit output, no repeated letters
    /// within one operand.
    Einsum {
        /// As in NumPy, for example `bij,bjk->bik`.
        equation: String,
    },

    /// `(x, scale, bias, mean, variance)`, inference form, channel axis 1.
    BatchNormalization {
        /// Added to the variance.
        epsilon: f32,
    },
    /// `(x, scale, bias?)`: over axes `axis..`.
    LayerNormalization {
        /// First normalised axis.
        axis: i64,
        /// Added to the variance.
        epsilon: f32,
    },
    /// `(x, scale)`: root mean square over axes `axis..`.
    RmsNormalization {
        /// First normalised axis.
        axis: i64,
        /// Added to the mean square.
        epsilon: f32,
    },
    /// `(x, scale, bias)`: per sample and channel.
    InstanceNormalization {
        /// Added to the variance.
        epsilon: f32,
    },
    /// `(x, scale, bias)`, both `[channels]`: per sample and group of channels.
    GroupNormalization {
        /// Added to the variance.
        epsilon: f32,
        /// Number of groups.
        groups: usize,
    },
    /// `(x)`: divided by its norm along `axis`.
    LpNormalization {
        /// Axis of the norm.
        axis: i64,
        /// 1 or 2.
        p: u8,
    },
    /// `(x)`: local response normalisation across channels.
    Lrn {
        /// Scale of the sum.
        alpha: f32,
        /// Exponent.
        beta: f32,
        /// Constant.
        bias: f32,
        /// Channels summed over.
        size: usize,
    },
    /// `(x)`.
    Softmax(Softmax),
    /// `(scores)`: a softmax along the last axis, in which a row of nothing but minus infinity
    /// gives zeros. What the operator Attention makes weights with: a query that may attend to
    /// nothing has no weights, where the formula of a softmax is 0 / 0.
    MaskedSoftmax,

    /// `(x, w, r, b?, sequence_lengths?, h0?, c0?, p?)` to `(y?, h?, c?)`, ONNX's recurrent operators.
    Recurrent(Recurrent),

    /// `(x, axes?)`.
    Reduce(Reduce),
    /// `(x)` to i64: position of the extreme value.
    ArgReduce(ArgReduce),
    /// `(x, k)` to `(values, indices)`.
    TopK {
        /// Axis searched.
        axis: i64,
        /// Largest or smallest.
        largest: bool,
        /// Whether results are ordered; this crate always orders them.
        sorted: bool,
    },
    /// `(x, axis)`.
    CumSum {
        /// Leave the element itself out.
        exclusive: bool,
        /// From the end.
        reverse: bool,
    },

    /// `(x, roi?, scales?, sizes?)`.
    Resize(Resize),
    /// `(x, grid)`.
    GridSample {
        /// Interpolation.
        mode: Interpolation,
        /// What lies outside.
        padding: GridPadding,
        /// Whether -1 and 1 are corner centres.
        align_corners: bool,
    },

    /// `(x, shape)`.
    Reshape {
        /// Whether 0 means zero (true) or "as the input" (false).
        allow_zero: bool,
    },
    /// `(x)` to two axes, split before `axis`.
    Flatten {
        /// First axis of the second part.
        axis: i64,
    },
    /// `(x, axes?)`; without axes all of extent 1.
    Squeeze,
    /// `(x, axes)`.
    Unsqueeze,
    /// `(x)`; `None` reverses the axes.
    Transpose {
        /// Output axis `i` is input axis `perm[i]`.
        perm: Option<Vec<usize>>,
    },
    /// `(x0, x1, ...)`.
    Concat {
        /// Axis joined.
        axis: i64,
    },
    /// `(x, split?)` to as many results as the node has.
    Split {
        /// Axis cut.
        axis: i64,
    },
    /// `(x, starts, ends, axes?, steps?)`.
    Slice,
    /// `(x, indices)`.
    Gather {
        /// Axis indexed.
        axis: i64,
    },
    /// `(x, indices)`.
    GatherElements {
        /// Axis indexed.
        axis: i64,
    },
    /// `(x, indices)`.
    GatherNd {
        /// Leading axes shared.
        batch_dims: usize,
    },
    /// `(x, indices, updates)`.
    ScatterElements {
        /// Axis indexed.
        axis: i64,
        /// How an update meets what is there.
        reduction: ScatterReduction,
    },
    /// `(x, indices, updates)`.
    ScatterNd {
        /// How an update meets what is there.
        reduction: ScatterReduction,
    },
    /// `(x, shape)`: broadcast both ways.
    Expand,
    /// `(x, repeats)`.
    Tile,
    /// `(x, pads, value?, axes?)`.
    Pad(PadMode),
    /// `(x)` to i64 `[rank]`, or the part `start..end`.
    Shape {
        /// First axis.
        start: i64,
        /// One past the last axis.
        end: Option<i64>,
    },
    /// `(x)` to an i64 scalar.
    Size,
    /// `(shape)`.
    ConstantOfShape {
        /// One element; its type is the result's.
        value: Tensor,
    },
    /// `(start, limit, delta)`, scalars.
    Range,
    /// `(indices, depth, values)`.
    OneHot {
        /// Where the new axis goes.
        axis: i64,
    },
    /// `(x)` to i64 `[rank, n]`: only as a constant, for its shape depends on values.
    NonZero,
    /// `(x)`, `[n, c * b * b, h, w]` to `[n, c, h * b, w * b]`.
    DepthToSpace {
        /// `b`.
        block: usize,
        /// Column-row-depth instead of depth-column-row.
        crd: bool,
    },
    /// `(x)`, the inverse of `DepthToSpace` in depth-column-row order.
    SpaceToDepth {
        /// `b`.
        block: usize,
    },
    /// `(x, k?)`.
    Trilu {
        /// Keep the upper triangle instead of the lower.
        upper: bool,
    },
    /// `(x)`: ones on diagonal `k` of a matrix of x's shape.
    EyeLike {
        /// Result type; x's where left out.
        dtype: Option<DType>,
        /// Diagonal.
        k: i64,
    },

    /// `(x, scale, zero_point?)`; per tensor or along `axis`.
    QuantizeLinear {
        /// Axis of `scale` where it has one.
        axis: i64,
    },
    /// `(x, scale, zero_point?)`; per tensor or along `axis`.
    DequantizeLinear {
        /// Axis of `scale` where it has one.
        axis: i64,
    },
}

impl Op {
    /// Whether results of these shapes take no computing: none has an element, however long its
    /// other axes are. Operators that look indices up still have those to check.
    pub(crate) fn computes_nothing<'s>(
        &self,
        mut results: impl Iterator<Item = &'s [usize]>,
    ) -> bool {
        let looks_up = matches!(
            self,
            Self::Gather { .. }
                | Self::GatherNd { .. }
                | Self::ScatterElements { .. }
                | Self::ScatterNd { .. }
        );
        !looks_up && results.all(|shape| shape.contains(&0))
    }
}

/// Element-wise functions of one operand.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
#[allow(missing_docs, reason = "each is the ONNX operator of that name")]
pub enum Unary {
    Identity,
    Abs,
    Neg,
    Sign,
    Floor,
    Ceil,
    /// Half to even.
    Round,
    Reciprocal,
    Sqrt,
    Exp,
    Log,
    Sin,
    Cos,
    Tan,
    Asin,
    Acos,
    Atan,
    Sinh,
    Cosh,
    Asinh,
    Acosh,
    Atanh,
    Erf,
    Not,
    IsNaN,
    /// Either sign.
    IsInf,
    Relu,
    LeakyRelu {
        alpha: f32,
    },
    ThresholdedRelu {
        alpha: f32,
    },
    Elu {
        alpha: f32,
    },
    Selu {
        alpha: f32,
        gamma: f32,
    },
    Celu {
        alpha: f32,
    },
    Sigmoid,
    /// `max(0, min(1, alpha x + beta))`.
    HardSigmoid {
        alpha: f32,
        beta: f32,
    },
    /// `x * hard_sigmoid(x)` with 1/6 and 0.5.
    HardSwish,
    Tanh,
    Softplus,
    Softsign,
    Mish,
    Gelu {
        /// `0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))` instead of erf.
        tanh: bool,
    },
    /// `x * sigmoid(alpha x)`; SiLU for alpha 1.
    Swish {
        alpha: f32,
    },
    /// `(x > 0) ? ... `: 1 above lambda + bias, as ONNX Shrink.
    Shrink {
        lambda: f32,
        bias: f32,
    },
}

/// Element-wise functions of two operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
#[allow(missing_docs, reason = "each is the ONNX operator of that name")]
pub enum Binary {
    Add,
    Sub,
    Mul,
    /// Integers truncate towards zero.
    Div,
    Pow,
    Mod {
        /// C's `fmod` (sign of the dividend) instead of the divisor's sign.
        fmod: bool,
    },
    /// `x >= 0 ? x : slope * x`.
    PRelu,
    And,
    Or,
    Xor,
    Equal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// Element-wise functions of any number of operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is the ONNX operator of that name")]
pub enum Variadic {
    Sum,
    Mean,
    Max,
    Min,
}

/// How the borders of a window operator are padded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Padding {
    /// Begin of every spatial axis, then end of every one; empty means none.
    Explicit(Vec<usize>),
    /// `ceil(in / stride)` outputs, the odd one padded at the end.
    SameUpper,
    /// `ceil(in / stride)` outputs, the odd one padded at the beginning.
    SameLower,
    /// None.
    Valid,
}

/// Parameters of a convolution; empty lists mean ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conv {
    /// Step of the window along every spatial axis.
    pub strides: Vec<usize>,
    /// Step between taps along every spatial axis.
    pub dilations: Vec<usize>,
    /// Border.
    pub padding: Padding,
    /// Groups of channels that do not see each other.
    pub groups: usize,
}

/// Parameters of a transposed convolution; empty lists mean ones, or zeros for `output_padding`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConvTranspose {
    /// As of [`Conv`], with its meaning turned round.
    pub conv: Conv,
    /// Added to the end of every spatial axis of the result.
    pub output_padding: Vec<usize>,
    /// Spatial extents of the result; overrides the explicit padding.
    pub output_shape: Option<Vec<usize>>,
}

/// Maximum or average.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "named after what it takes")]
pub enum PoolKind {
    Max,
    Average,
}

/// Parameters of a pooling window; empty lists mean ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pool {
    /// Maximum or average.
    pub kind: PoolKind,
    /// Extent of the window along every spatial axis.
    pub kernel: Vec<usize>,
    /// Step of the window.
    pub strides: Vec<usize>,
    /// Step between taps.
    pub dilations: Vec<usize>,
    /// Border.
    pub padding: Padding,
    /// Whether padded elements count in an average.
    pub count_include_pad: bool,
    /// Round the number of windows up instead of down.
    pub ceil_mode: bool,
}

/// Parameters of a general matrix product.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Gemm {
    /// Factor of the product.
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
    /// Axis normalised.
    pub axis: i64,
    /// The logarithm of it.
    pub log: bool,
    /// All axes from `axis` on together, as operator sets below 13 do.
    pub flatten: bool,
}

/// Which recurrent cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is the ONNX operator of that name")]
pub enum Cell {
    Rnn,
    Gru {
        /// The reset gate multiplies after the recurrent product.
        linear_before_reset: bool,
    },
    Lstm,
}

/// Which way a recurrent network runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "named after the way")]
pub enum Direction {
    Forward,
    Reverse,
    Bidirectional,
}

/// Parameters of a recurrent network.
#[derive(Debug, Clone, PartialEq)]
pub struct Recurrent {
    /// Cell.
    pub cell: Cell,
    /// Way.
    pub direction: Direction,
    /// Width of the state.
    pub hidden: usize,
    /// Activations, per direction in ONNX's order; empty means the default.
    pub activations: Vec<Unary>,
    /// Batch first (ONNX `layout` 1).
    pub batch_first: bool,
}

/// Which reduction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(
    missing_docs,
    reason = "each is the ONNX operator Reduce* of that name"
)]
pub enum ReduceKind {
    Sum,
    Mean,
    Max,
    Min,
    Prod,
    L1,
    L2,
    SumSquare,
    LogSum,
    LogSumExp,
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
    /// Maximum or minimum.
    pub max: bool,
    /// Axis searched.
    pub axis: i64,
    /// The axis stays with extent 1.
    pub keep_dims: bool,
    /// Of equal values the last instead of the first.
    pub select_last: bool,
}

/// How samples between grid points are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "named after the method")]
pub enum Interpolation {
    Nearest,
    Linear,
    Cubic,
}

/// Where a grid sample outside the input is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "named as in ONNX GridSample")]
pub enum GridPadding {
    Zeros,
    Border,
    Reflection,
}

/// How output coordinates map to input coordinates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "named as in ONNX Resize")]
pub enum CoordinateTransform {
    HalfPixel,
    HalfPixelSymmetric,
    PytorchHalfPixel,
    AlignCorners,
    Asymmetric,
    TfCropAndResize,
}

/// How a coordinate is rounded in nearest-neighbour resizing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "named as in ONNX Resize")]
pub enum NearestRounding {
    RoundPreferFloor,
    RoundPreferCeil,
    Floor,
    Ceil,
}

/// What `sizes` of a resize mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "named as in ONNX Resize")]
pub enum AspectRatio {
    Stretch,
    NotLarger,
    NotSmaller,
}

/// Parameters of a resize.
#[derive(Debug, Clone, PartialEq)]
pub struct Resize {
    /// Interpolation.
    pub mode: Interpolation,
    /// Coordinates.
    pub transform: CoordinateTransform,
    /// Rounding for nearest.
    pub rounding: NearestRounding,
    /// Cubic coefficient.
    pub cubic_coeff: f32,
    /// Weights outside the input are zero and the rest renormalised.
    pub exclude_outside: bool,
    /// Value outside, for crop and resize.
    pub extrapolation: f32,
    /// Low-pass filter when shrinking.
    pub antialias: bool,
    /// Axes `scales` and `sizes` speak of; all where left out.
    pub axes: Option<Vec<i64>>,
    /// Meaning of `sizes`.
    pub aspect: AspectRatio,
}

/// How a scattered update meets what is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "named as in ONNX ScatterElements")]
pub enum ScatterReduction {
    None,
    Add,
    Mul,
    Max,
    Min,
}

/// What a pad is filled with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "named as in ONNX Pad")]
pub enum PadMode {
    Constant,
    Reflect,
    Edge,
    Wrap,
}
