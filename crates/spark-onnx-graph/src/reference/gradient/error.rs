//! Why there are no gradients of a network.

use crate::ModelError;
use crate::tensor::DType;

/// Why gradients of a network were not computed. No variant means "try again".
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GradientError {
    /// A wanted value has its way to an output through an operator without a gradient.
    #[error("node `{node}` ({op}) has no gradient by its operand {operand}: {reason}")]
    NoGradient {
        /// Name of the node.
        node: String,
        /// Name of the operator.
        op: String,
        /// Position of the operand that the wanted value reaches.
        operand: usize,
        /// Why there is none.
        reason: &'static str,
    },
    /// A wanted value is none of the network's.
    #[error("the network has no value `{name}`")]
    ValueUnknown {
        /// The name that was asked for.
        name: String,
    },
    /// A wanted value holds no floats.
    #[error("value `{name}` holds {dtype}: only floats have a gradient")]
    NotFloat {
        /// Name of the value.
        name: String,
        /// Type of its elements.
        dtype: DType,
    },
    /// A wanted constant is not what the bound network computes with: other constants were computed from it when the
    /// network was bound. Ask for those, or make it an input of the [`Graph`](crate::graph::Graph) before it is bound.
    #[error("constant `{name}` was folded into others when the network was bound")]
    Folded {
        /// Name of the value.
        name: String,
    },
    /// A wanted value is neither made nor read by any node, as binding or simplifying left it.
    #[error("no node makes or reads value `{name}`")]
    Unread {
        /// Name of the value.
        name: String,
    },
    /// A gradient is given of an output that the network does not have, or twice.
    #[error("the gradient of output `{name}` is given twice, or there is no such output")]
    OutputUnknown {
        /// The name that it was given with.
        name: String,
    },
    /// The gradient of an output does not have its shape, or is not of floats.
    #[error(
        "the gradient of output `{name}` is {got} of shape {got_shape:?}, wanted floats of shape {want_shape:?}"
    )]
    OutputGradient {
        /// Name of the output.
        name: String,
        /// Element type of what was given.
        got: DType,
        /// Shape of what was given.
        got_shape: Vec<usize>,
        /// Shape of the output.
        want_shape: Vec<usize>,
    },
    /// The network cannot be run.
    #[error(transparent)]
    Model(#[from] ModelError),
}
