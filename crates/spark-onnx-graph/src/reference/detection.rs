//! Non-maximum suppression.
//!
//! What it keeps is worked out where its result's shape is (`crate::graph::infer`).

use super::operator::{Evaluate, Evaluated, Inputs, SMALL, Working, make, one, times};
use crate::graph::infer::{Operands, for_each_kept_box};
use crate::graph::{NonMaxSuppression, OpError, Operand, TensorType};
use crate::tensor::{DType, Tensor, TensorData};

impl Evaluate for NonMaxSuppression {
    fn evaluate(&self, inputs: Inputs<'_>, types: &[TensorType]) -> Evaluated {
        one(types, |_| suppressed(*self, inputs))
    }

    fn working_bytes(&self, working: &Working<'_>) -> usize {
        suppressing_bytes(working.read())
    }
}

/// Bytes that [`suppressed`] takes at most, of operands with `elements` elements: of each score a sorted candidate, five
/// numbers of a kept box, and three positions of the result, lists that grow.
pub(super) fn suppressing_bytes(elements: usize) -> usize {
    times(elements, 8 + 3 * (5 * 4 + 3 * 8)).saturating_add(SMALL)
}

/// The boxes that `op` keeps, without knowing beforehand how many: that takes as long as finding them.
pub(super) fn suppressed(op: NonMaxSuppression, inputs: Inputs<'_>) -> Result<Tensor, OpError> {
    let list: Vec<_> = inputs.0.iter().map(|t| t.map(Operand::constant)).collect();
    let operands = Operands {
        list: &list,
        n_outputs: 1,
    };
    operands.expect(2, 5, 1)?;
    let mut kept = Vec::new();
    for_each_kept_box(op, &operands, |at| kept.extend(at.map(|at| at as i64)))?;
    let ty = TensorType {
        dtype: DType::I64,
        shape: vec![kept.len() / 3, 3],
    };
    make(&ty, TensorData::I64(kept))
}
