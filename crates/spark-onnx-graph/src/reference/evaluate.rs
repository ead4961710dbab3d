//! One operator on known operands, within a budget of memory.
//!
//! ```text
//! infer types -> nothing to compute: empty results -> bound on memory -> Evaluate::evaluate
//! ```
//!
//! Deliberately absent: the operators themselves, which are in the files of their families.

use super::detection::{suppressed, suppressing_bytes};
use super::host::Host;
use super::operator::{Evaluate, Inputs, Working};
use crate::ModelError;
use crate::budget::{self, Asker};
use crate::graph::op::each_operator;
use crate::graph::{Op, OpError, Operand, OperatorError, TensorType, infer};
use crate::tensor::{Tensor, checked_elements};

/// Why an operator was not evaluated.
#[derive(Debug)]
pub(crate) enum Unevaluated {
    /// Its operands are not right.
    Refused(OpError),
    /// An embedder's own operator could not compute.
    Custom(OperatorError),
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
///
/// # Examples
///
/// ```
/// use spark_onnx_graph::graph::{Concat, Op};
/// use spark_onnx_graph::{Tensor, reference};
///
/// let a = Tensor::from_f32([1, 2], vec![1.0, 2.0])?;
/// let b = Tensor::from_f32([1, 1], vec![3.0])?;
/// let joined = reference::evaluate(&Op::Concat(Concat { axis: -1 }), &[Some(&a), Some(&b)], 1)?;
/// assert_eq!(joined[0].to_f32(), [1.0, 2.0, 3.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn evaluate(
    op: &Op,
    inputs: &[Option<&Tensor>],
    n_outputs: usize,
) -> Result<Vec<Tensor>, OpError> {
    let given = inputs.iter().flatten().map(|t| t.size_bytes());
    let left = budget::by_file(given.fold(0, usize::saturating_add));
    evaluate_within(op, inputs, n_outputs, left).map_err(|error| match error {
        Unevaluated::Refused(error) => error,
        Unevaluated::Custom(source) => OpError {
            reason: source.to_string(),
        },
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
    let ready = Ready::of(op, inputs, n_outputs)?;
    let bytes = ready.bytes;
    if bytes > left || !budget::can_get(bytes) {
        return Err(Unevaluated::Memory { bytes });
    }
    ready.evaluate(op, inputs)
}

/// [`evaluate`] in memory of `host`, which gets it back; the results are not counted yet.
///
/// # Errors
///
/// As [`evaluate`], of the node that asks, and those of [`Host::take`].
pub(super) fn evaluate_for(
    host: &mut dyn Host,
    asker: Asker<'_>,
    op: &Op,
    inputs: &[Option<&Tensor>],
    n_outputs: usize,
) -> Result<Vec<Tensor>, ModelError> {
    let refused = |error: Unevaluated| unevaluated(error, asker);
    // Its types take as long to find as its results.
    if let (Op::NonMaxSuppression(op), 1) = (op, n_outputs) {
        let read = inputs.iter().flatten().map(|tensor| tensor.len());
        let bytes = suppressing_bytes(read.fold(0, usize::saturating_add));
        host.take(asker, bytes)?;
        let result = suppressed(*op, Inputs(inputs));
        host.give_back(bytes);
        return Ok(vec![result.map_err(|error| refused(error.into()))?]);
    }
    let ready = Ready::of(op, inputs, n_outputs).map_err(|error| refused(error.into()))?;
    let bytes = ready.bytes;
    host.take(asker, bytes)?;
    let results = ready.evaluate(op, inputs);
    host.give_back(bytes);
    results.map_err(refused)
}

/// `error`, with the name of the node that asked.
fn unevaluated(error: Unevaluated, asker: Asker<'_>) -> ModelError {
    let (node, op) = (asker.node.to_owned(), asker.op.to_owned());
    match error {
        Unevaluated::Refused(OpError { reason }) => ModelError::Operator { node, op, reason },
        Unevaluated::Custom(source) => ModelError::Custom { node, op, source },
        Unevaluated::Memory { bytes } => asker.refused(bytes),
    }
}

/// What is known of an evaluation before it begins.
struct Ready {
    types: Vec<TensorType>,
    is_empty: bool,
    /// Bytes that it takes at most.
    bytes: usize,
}

impl Ready {
    fn of(op: &Op, inputs: &[Option<&Tensor>], n_outputs: usize) -> Result<Self, OpError> {
        let operands: Vec<Option<Operand<'_>>> = inputs
            .iter()
            .map(|tensor| tensor.map(Operand::constant))
            .collect();
        let types = infer(op, &operands, n_outputs)?;
        let is_empty = op.computes_nothing(types.iter().map(|ty| &ty.shape[..]));
        let bytes = match is_empty {
            true => 0,
            false => working_bytes(op, inputs, &types),
        };
        Ok(Self {
            types,
            is_empty,
            bytes,
        })
    }

    fn evaluate(self, op: &Op, inputs: &[Option<&Tensor>]) -> Result<Vec<Tensor>, Unevaluated> {
        if self.is_empty {
            let empty = self.types.into_iter().map(|ty| {
                let TensorType { dtype, shape } = ty;
                Tensor::zeros(dtype, shape).map_err(|error| OpError {
                    reason: error.to_string(),
                })
            });
            return Ok(empty.collect::<Result<_, _>>()?);
        }
        let (inputs, types) = (Inputs(inputs), &self.types);
        if let Op::Custom(op) = op {
            return op.computed(inputs, types).map_err(Unevaluated::Custom);
        }
        Ok(each_operator!(match op, it => Evaluate::evaluate(it, inputs, types))?)
    }
}

/// Bytes that evaluating `op` takes at most.
pub(super) fn working_bytes(op: &Op, inputs: &[Option<&Tensor>], types: &[TensorType]) -> usize {
    let working = Working::new(inputs, types);
    each_operator!(match op, it => Evaluate::working_bytes(it, &working))
}

/// A bound on the multiply-adds or moves of evaluating `op`.
pub(crate) fn folding_work(op: &Op, inputs: &[Option<&Tensor>], types: &[TensorType]) -> usize {
    let elements = |ty: &TensorType| checked_elements(&ty.shape).unwrap_or(usize::MAX);
    let written = types.iter().map(elements).fold(0, usize::saturating_add);
    let working = Working::new(inputs, types);
    let per_result = each_operator!(match op, it => Evaluate::reads_per_result(it, &working));
    written
        .saturating_mul(per_result)
        .saturating_add(working.read())
}
