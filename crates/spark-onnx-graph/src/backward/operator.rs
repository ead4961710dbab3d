//! What is known of an operator's gradient as operators: whether it is written, and how.

use crate::building::{Builder, Built};
use crate::graph::infer::op_error;
use crate::graph::{Node, OpError, ValueId};

/// An operator whose gradient is written in operators, or is not yet. Every parameter struct of an operator is one.
pub(super) trait Backward {
    /// Adds what computes the gradient by operand `operand`, which has the shape of the operand. Asked only of
    /// operands by which the gradient is [computed](crate::reference::gradient::GradientKind::Computed).
    fn backward(&self, at: &mut At<'_>, operand: usize) -> Built;
}

/// Where an operator stands in the graph: its operands and results, and the gradients of its results.
pub(super) struct At<'a> {
    pub(super) builder: &'a mut Builder,
    pub(super) node: &'a Node,
    /// Gradients of the results; none where nothing hangs on a result.
    pub(super) gradients: &'a [Option<ValueId>],
}

impl At<'_> {
    pub(super) fn optional(&self, operand: usize) -> Option<ValueId> {
        self.node.inputs.get(operand).copied().flatten()
    }

    pub(super) fn operand(&self, operand: usize) -> Built {
        self.optional(operand)
            .ok_or_else(|| op_error!("operand {operand} is missing"))
    }

    pub(super) fn shape(&self, operand: usize) -> Result<Vec<usize>, OpError> {
        Ok(self.builder.shape(self.operand(operand)?))
    }

    /// The first result.
    pub(super) fn result(&self) -> Built {
        let result = self.node.outputs.first().copied().flatten();
        result.ok_or_else(|| op_error!("its first result has no name"))
    }

    pub(super) fn result_shape(&self) -> Result<Vec<usize>, OpError> {
        Ok(self.builder.shape(self.result()?))
    }

    /// The gradient of the one result that has one: the first.
    pub(super) fn dy(&self) -> Built {
        if self.gradients.iter().skip(1).any(Option::is_some) {
            return Err(op_error!("a loss hangs on more than its first result"));
        }
        let dy = self.gradients.first().copied().flatten();
        dy.ok_or_else(|| op_error!("no gradient of the result"))
    }
}

/// Of operators whose gradient the reference computes, and that are not written in operators yet.
macro_rules! not_written {
    ($($name:ident)*) => {$(
        impl $crate::backward::operator::Backward for $name {
            fn backward(
                &self,
                _: &mut $crate::backward::operator::At<'_>,
                _: usize,
            ) -> $crate::building::Built {
                Err($crate::graph::infer::op_error!(
                    "its gradient is not written in operators yet"
                ))
            }
        }
    )*};
}
pub(super) use not_written;
