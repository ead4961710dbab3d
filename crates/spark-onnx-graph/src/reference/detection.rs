//! Non-maximum suppression.
//!
//! What it keeps is worked out where its result's shape is (`crate::graph::infer`).

use super::movement::positions;
use super::operator::{Evaluate, Evaluated, Inputs, Working, one, times};
use crate::graph::infer::{Operands, kept_boxes};
use crate::graph::{NonMaxSuppression, Operand, TensorType};

impl Evaluate for NonMaxSuppression {
    fn evaluate(&self, inputs: Inputs<'_>, types: &[TensorType]) -> Evaluated {
        let list: Vec<_> = inputs.0.iter().map(|t| t.map(Operand::constant)).collect();
        let operands = Operands {
            list: &list,
            n_outputs: 1,
        };
        one(types, |ty| {
            positions(ty, kept_boxes(*self, &operands)?.concat())
        })
    }

    fn working_bytes(&self, working: &Working<'_>) -> usize {
        working.computed_with(times(working.read(), 64))
    }
}
