//! The name ONNX gives to each operator, for messages and reports.

use super::{Binary, Cell, Op, PoolKind, ReduceKind, Unary, Variadic};

impl Op {
    /// The operator's name in the ONNX specification.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Unary(f) => f.name(),
            Self::Binary(f) => f.name(),
            Self::Variadic(f) => f.name(),
            Self::Where => "Where",
            Self::Clip => "Clip",
            Self::Cast { .. } => "Cast",
            Self::CastLike => "CastLike",
            Self::Conv(_) => "Conv",
            Self::ConvTranspose(_) => "ConvTranspose",
            Self::Pool(pool) => match pool.kind {
                PoolKind::Max => "MaxPool",
                PoolKind::Average => "AveragePool",
            },
            Self::GlobalPool(PoolKind::Max) => "GlobalMaxPool",
            Self::GlobalPool(PoolKind::Average) => "GlobalAveragePool",
            Self::Gemm(_) => "Gemm",
            Self::MatMul => "MatMul",
            Self::Einsum { .. } => "Einsum",
            Self::BatchNormalization { .. } => "BatchNormalization",
            Self::LayerNormalization { .. } => "LayerNormalization",
            Self::RmsNormalization { .. } => "RMSNormalization",
            Self::InstanceNormalization { .. } => "InstanceNormalization",
            Self::GroupNormalization { .. } => "GroupNormalization",
            Self::LpNormalization { .. } => "LpNormalization",
            Self::Lrn { .. } => "LRN",
            Self::Softmax(softmax) if softmax.log => "LogSoftmax",
            Self::Softmax(_) => "Softmax",
            Self::MaskedSoftmax => "MaskedSoftmax",
            Self::Recurrent(recurrent) => match recurrent.cell {
                Cell::Rnn => "RNN",
                Cell::Gru { .. } => "GRU",
                Cell::Lstm => "LSTM",
            },
            Self::Reduce(reduce) => reduce.kind.name(),
            Self::ArgReduce(arg) if arg.max => "ArgMax",
            Self::ArgReduce(_) => "ArgMin",
            Self::TopK { .. } => "TopK",
            Self::CumSum { .. } => "CumSum",
            Self::Resize(_) => "Resize",
            Self::GridSample { .. } => "GridSample",
            Self::Reshape { .. } => "Reshape",
            Self::Flatten { .. } => "Flatten",
            Self::Squeeze => "Squeeze",
            Self::Unsqueeze => "Unsqueeze",
            Self::Transpose { .. } => "Transpose",
            Self::Concat { .. } => "Concat",
            Self::Split { .. } => "Split",
            Self::Slice => "Slice",
            Self::Gather { .. } => "Gather",
            Self::GatherElements { .. } => "GatherElements",
            Self::GatherNd { .. } => "GatherND",
            Self::ScatterElements { .. } => "ScatterElements",
            Self::ScatterNd { .. } => "ScatterND",
            Self::Expand => "Expand",
            Self::Tile => "Tile",
            Self::Pad(_) => "Pad",
            Self::Shape { .. } => "Shape",
            Self::Size => "Size",
            Self::ConstantOfShape { .. } => "ConstantOfShape",
            Self::Range => "Range",
            Self::OneHot { .. } => "OneHot",
            Self::NonZero => "NonZero",
            Self::DepthToSpace { .. } => "DepthToSpace",
            Self::SpaceToDepth { .. } => "SpaceToDepth",
            Self::Trilu { .. } => "Trilu",
            Self::EyeLike { .. } => "EyeLike",
            Self::QuantizeLinear { .. } => "QuantizeLinear",
            Self::DequantizeLinear { .. } => "DequantizeLinear",
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
