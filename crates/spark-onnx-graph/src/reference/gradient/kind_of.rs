//! Which operators have a gradient.

use super::kinds::{Asked, GradientKind, GradientOptions};
use super::operator::Differentiate;
use crate::graph::Op;
use crate::graph::op::each_operator;
use crate::tensor::DType;

/// Whether the results of `op` have a gradient by operand `operand`, where the first of them holds elements of type
/// `result`.
///
/// # Examples
///
/// ```
/// use spark_onnx_graph::DType;
/// use spark_onnx_graph::graph::{Cast, Op, Unary};
/// use spark_onnx_graph::reference::gradient::{GradientKind, GradientOptions, kind_of};
///
/// let kind = |op: Op, result| kind_of(&op, 0, result, GradientOptions::default());
/// assert_eq!(kind(Op::Unary(Unary::Tanh), DType::F32), GradientKind::Computed);
/// assert_eq!(kind(Op::Cast(Cast { to: DType::I32 }), DType::I32), GradientKind::Zero);
/// ```
pub fn kind_of(op: &Op, operand: usize, result: DType, options: GradientOptions) -> GradientKind {
    let asked = Asked {
        operand,
        result,
        options,
    };
    each_operator!(match op, it => Differentiate::kind(it, asked))
}
