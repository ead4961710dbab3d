//! The name ONNX gives to each operator, for messages and reports.

use super::{
    Binary, CastLike, Cell, Clip, Expand, GlobalPool, MaskedSoftmax, MatMul, NonZero, Op, PoolKind,
    Range, ReduceKind, Size, Slice, Squeeze, Tile, Unary, Unsqueeze, Variadic, Where,
};

impl Op {
    /// The operator's name in the ONNX specification.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Unary(f) => f.name(),
            Self::Binary(f) => f.name(),
            Self::Variadic(f) => f.name(),
            Self::Where(Where) => "Where",
            Self::Clip(Clip) => "Clip",
            Self::Cast(_) => "Cast",
            Self::CastLike(CastLike) => "CastLike",
            Self::Conv(_) => "Conv",
            Self::ConvTranspose(_) => "ConvTranspose",
            Self::Pool(pool) => match pool.kind {
                PoolKind::Max => "MaxPool",
                PoolKind::Average => "AveragePool",
            },
            Self::GlobalPool(GlobalPool {
                kind: PoolKind::Max,
            }) => "GlobalMaxPool",
            Self::GlobalPool(GlobalPool {
                kind: PoolKind::Average,
            }) => "GlobalAveragePool",
            Self::Gemm(_) => "Gemm",
            Self::MatMul(MatMul) => "MatMul",
            Self::Einsum(_) => "Einsum",
            Self::BatchNormalization(_) => "BatchNormalization",
            Self::LayerNormalization(_) => "LayerNormalization",
            Self::RmsNormalization(_) => "RMSNormalization",
            Self::InstanceNormalization(_) => "InstanceNormalization",
            Self::GroupNormalization(_) => "GroupNormalization",
            Self::LpNormalization(_) => "LpNormalization",
            Self::Lrn(_) => "LRN",
            Self::Softmax(softmax) if softmax.log => "LogSoftmax",
            Self::Softmax(_) => "Softmax",
            Self::MaskedSoftmax(MaskedSoftmax) => "MaskedSoftmax",
            Self::Recurrent(recurrent) => match recurrent.cell {
                Cell::Rnn => "RNN",
                Cell::Gru { .. } => "GRU",
                Cell::Lstm => "LSTM",
            },
            Self::Reduce(reduce) => reduce.kind.name(),
            Self::ArgReduce(arg) if arg.max => "ArgMax",
            Self::ArgReduce(_) => "ArgMin",
            Self::TopK(_) => "TopK",
            Self::CumSum(_) => "CumSum",
            Self::Resize(_) => "Resize",
            Self::GridSample(_) => "GridSample",
            Self::Reshape(_) => "Reshape",
            Self::Flatten(_) => "Flatten",
            Self::Squeeze(Squeeze) => "Squeeze",
            Self::Unsqueeze(Unsqueeze) => "Unsqueeze",
            Self::Transpose(_) => "Transpose",
            Self::Concat(_) => "Concat",
            Self::Split(_) => "Split",
            Self::Slice(Slice) => "Slice",
            Self::Gather(_) => "Gather",
            Self::GatherElements(_) => "GatherElements",
            Self::GatherNd(_) => "GatherND",
            Self::ScatterElements(_) => "ScatterElements",
            Self::ScatterNd(_) => "ScatterND",
            Self::Expand(Expand) => "Expand",
            Self::Tile(Tile) => "Tile",
            Self::Pad(_) => "Pad",
            Self::Shape(_) => "Shape",
            Self::Size(Size) => "Size",
            Self::ConstantOfShape(_) => "ConstantOfShape",
            Self::Range(Range) => "Range",
            Self::OneHot(_) => "OneHot",
            Self::NonZero(NonZero) => "NonZero",
            Self::DepthToSpace(_) => "DepthToSpace",
            Self::SpaceToDepth(_) => "SpaceToDepth",
            Self::Trilu(_) => "Trilu",
            Self::EyeLike(_) => "EyeLike",
            Self::QuantizeLinear(_) => "QuantizeLinear",
            Self::DequantizeLinear(_) => "DequantizeLinear",
        }
    }
}

impl Unary {
    /// The operator's name in the ONNX specification.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Identity => "Identity",
            Self::Abs => "Abs",
            Self::Neg => "Neg",
            Self::Sign => "Sign",
            Self::Floor => "Floor",
            Self::Ceil => "Ceil",
            Self::Round => "Round",
            Self::Reciprocal => "Reciprocal",
            Self::Sqrt => "Sqrt",
            Self::Exp => "Exp",
            Self::Log => "Log",
            Self::Sin => "Sin",
            Self::Cos => "Cos",
            Self::Tan => "Tan",
            Self::Asin => "Asin",
            Self::Acos => "Acos",
            Self::Atan => "Atan",
            Self::Sinh => "Sinh",
            Self::Cosh => "Cosh",
            Self::Asinh => "Asinh",
            Self::Acosh => "Acosh",
            Self::Atanh => "Atanh",
            Self::Erf => "Erf",
            Self::Not => "Not",
            Self::IsNaN => "IsNaN",
            Self::IsInf => "IsInf",
            Self::Relu => "Relu",
            Self::LeakyRelu { .. } => "LeakyRelu",
            Self::ThresholdedRelu { .. } => "ThresholdedRelu",
            Self::Elu { .. } => "Elu",
            Self::Selu { .. } => "Selu",
            Self::Celu { .. } => "Celu",
            Self::Sigmoid => "Sigmoid",
            Self::HardSigmoid { .. } => "HardSigmoid",
            Self::HardSwish => "HardSwish",
            Self::Tanh => "Tanh",
            Self::Softplus => "Softplus",
            Self::Softsign => "Softsign",
            Self::Mish => "Mish",
            Self::Gelu { .. } => "Gelu",
            Self::Swish { .. } => "Swish",
            Self::Shrink { .. } => "Shrink",
        }
    }
}

impl Binary {
    /// The operator's name in the ONNX specification.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Add => "Add",
            Self::Sub => "Sub",
            Self::Mul => "Mul",
            Self::Div => "Div",
            Self::Pow => "Pow",
            Self::Mod { .. } => "Mod",
            Self::PRelu => "PRelu",
            Self::And => "And",
            Self::Or => "Or",
            Self::Xor => "Xor",
            Self::Equal => "Equal",
            Self::Less => "Less",
            Self::LessOrEqual => "LessOrEqual",
            Self::Greater => "Greater",
            Self::GreaterOrEqual => "GreaterOrEqual",
        }
    }
}

impl Variadic {
    /// The operator's name in the ONNX specification.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Sum => "Sum",
            Self::Mean => "Mean",
            Self::Max => "Max",
            Self::Min => "Min",
        }
    }
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
