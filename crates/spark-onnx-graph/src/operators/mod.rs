//! The operators as ONNX defines them, by family: one `impl Operator` each.
//!
//! ```text
//! graph::Op ──each_operator!──> impl Operator for Conv     names, import, types, export
//! ```
//!
//! What a value is computed with stands elsewhere: `crate::reference` has the meaning, plainly,
//! and an engine the steps.
//!
//! Source: ONNX operator specification; where versions differ, the newest form.
//!
//! Deliberately absent: symbolic extents (see [`crate::graph::bind`]) and guesses.

mod attention;
mod control;
mod convolution;
mod creation;
mod custom;
mod detection;
mod elementwise;
mod indexing;
mod integers;
mod microsoft;
mod narrow;
mod normalization;
mod operator;
mod products;
mod quantization;
mod random;
mod recurrent;
mod reduction;
mod resampling;
mod rounded_activations;
mod shapes;
mod signal;

use crate::file::export::nodes::NodeExport;
use crate::file::import::call::Translator;
use crate::graph::infer::{Operands, check_size, op_error};
use crate::graph::op::each_operator;
use crate::graph::{Op, OpError, Operand, TensorType};
use crate::tensor::{DType, Tensor};
use operator::{KnownDType, OPERATOR_SET, Operator};

/// Operators of the standard domain that a file may hold, with the functions that take them.
pub(crate) fn standard() -> impl Iterator<Item = &'static Translator> {
    let own = each_operator!(list Operator::IMPORTS);
    let spelled_out = [
        attention::OPERATORS,
        convolution::SPELLED_OUT,
        creation::SPELLED_OUT,
        elementwise::SPELLED_OUT,
        indexing::SPELLED_OUT,
        integers::SPELLED_OUT,
        normalization::SPELLED_OUT,
        random::SPELLED_OUT,
        shapes::SPELLED_OUT,
        signal::SPELLED_OUT,
    ];
    own.into_iter().chain(spelled_out).flatten()
}

/// Operators of the domain `com.microsoft` that a file may hold.
pub(crate) fn microsoft() -> impl Iterator<Item = &'static Translator> {
    microsoft::OPERATORS.iter()
}

/// What takes a node of this operator, if it is one that is known anyway; the standard domain is empty.
pub(crate) fn translator_of(domain: &str, op_type: &str) -> Option<&'static Translator> {
    let is_named = |(name, _): &&Translator| *name == op_type;
    match domain {
        "" => standard().find(is_named),
        "com.microsoft" => microsoft().find(is_named),
        _ => None,
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
/// [`MAX_ELEMENTS`](crate::tensor::MAX_ELEMENTS) elements.
///
/// # Examples
///
/// ```
/// use spark_onnx_graph::DType;
/// use spark_onnx_graph::graph::{MatMul, Op, Operand, infer};
///
/// let of = |shape| Some(Operand { dtype: DType::F32, shape, constant: None });
/// let types = infer(&Op::MatMul(MatMul), &[of(&[5, 2, 3]), of(&[3, 4])], 1)?;
/// assert_eq!(types[0].shape, [5, 2, 4]);
/// assert!(infer(&Op::MatMul(MatMul), &[of(&[2, 3]), of(&[2, 3])], 1).is_err());
/// # Ok::<(), spark_onnx_graph::graph::OpError>(())
/// ```
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
    let inferred = each_operator!(match op, it => Operator::infer(it, &operands));
    let types = inferred?;
    for ty in &types {
        check_size(&ty.shape)?;
    }
    debug_assert_eq!(types.len(), n_outputs);
    Ok(types)
}

impl Op {
    /// The operator's name in the ONNX specification, of an embedder's own `domain::name`.
    pub fn name(&self) -> &str {
        match self {
            Self::Custom(op) => op.qualified(),
            op => op.kind(),
        }
    }

    /// The operator's name in the ONNX specification, `custom` for all of embedders' own.
    pub fn kind(&self) -> &'static str {
        each_operator!(match self, it => Operator::name(it))
    }
}

/// Operands of `op` whose elements must be known before it runs.
pub(crate) fn deciding_operands(op: &Op) -> &[usize] {
    each_operator!(match op, it => Operator::deciding_operands(it))
}

/// Element type of a result, from those of the operands.
pub(crate) fn result_dtype(op: &Op, output: usize, operand: KnownDType<'_>) -> Option<DType> {
    each_operator!(match op, it => Operator::result_dtype(it, output, operand))
}

/// The operator set of a file that holds `ops`.
pub(crate) fn operator_set<'o>(ops: impl Iterator<Item = &'o Op>) -> i64 {
    let versions = ops.map(|op| each_operator!(match op, it => Operator::operator_set(it)));
    versions.fold(OPERATOR_SET, i64::max)
}

/// Writes the node of `op`, or the nodes it is spelled out in.
///
/// # Errors
///
/// Why ONNX cannot express it.
pub(crate) fn export<'g>(op: &'g Op, node: &mut NodeExport<'_, 'g>) -> Result<(), String> {
    each_operator!(match op, it => Operator::export(it, node))
}

#[cfg(test)]
mod tests;
