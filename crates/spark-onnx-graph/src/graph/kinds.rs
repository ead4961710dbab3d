//! The choices among an operator's parameters: functions, modes and kinds.
//!
//! Source: ONNX operator specification, which has most of them as texts or as operators of their own.

/// Element-wise functions of one operand, exhaustive as [`Op`](super::Op) is.
#[derive(Debug, Clone, Copy, PartialEq)]
#[allow(missing_docs, reason = "each is the ONNX operator of that name")]
pub enum Unary {
    Identity,
    Abs,
    Neg,
    Sign,
    Floor,
    Ceil,
    /// Rounds to the nearest whole number, halves to the even one.
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
    /// Every bit of an integer the other way.
    BitwiseNot,
    IsNaN,
    /// True for infinities of either sign.
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

/// Element-wise functions of two operands, exhaustive as [`Op`](super::Op) is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
    BitwiseAnd,
    BitwiseOr,
    BitwiseXor,
    /// `a` by `b` bits. By a negative number of them, or by all and more, nothing of `a` is left but
    /// copies of its sign, and those only to the right.
    BitShift {
        /// Towards the lowest bit instead of the highest.
        right: bool,
    },
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
    /// No padding: windows lie inside the input.
    Valid,
}

/// What pooling takes of a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "named after what it takes")]
pub enum PoolKind {
    Max,
    Average,
}

/// Which cell a recurrent network repeats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is the ONNX operator of that name")]
pub enum Cell {
    Rnn,
    Gru {
        /// The reset gate multiplies after the recurrent matmul.
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

/// What a reduction takes over its axes.
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
