//! A graph whose every value has an element type and a fixed shape.
//!
//! ```text
//! Graph (symbols) + shapes of the inputs --bind--> StaticGraph --optimise--> StaticGraph --lower--> Plan
//! ```
//!
//! Constants are folded while shapes are inferred, since shapes often hang on
//! constants (`Shape -> Gather -> Concat -> Reshape` chains).

use std::sync::Arc;

use super::{Node, ValueId};
use crate::tensor::{DType, Tensor};

/// Element type and fixed shape.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TensorType {
    /// Element type.
    pub dtype: DType,
    /// Extents.
    pub shape: Vec<usize>,
}

/// A value of a [`StaticGraph`].
#[derive(Debug, Clone)]
pub struct StaticValue {
    /// Unique, non-empty name.
    pub name: String,
    /// Element type and shape.
    pub ty: TensorType,
    /// The elements, if this is a constant.
    pub constant: Option<Arc<Tensor>>,
}

/// A network for one set of input shapes. The invariants of [`super::Graph`] hold.
/// Values no node reads or makes any more may remain in `values`.
#[derive(Debug, Clone, Default)]
pub struct StaticGraph {
    /// All values.
    pub values: Vec<StaticValue>,
    /// Operators in execution order. None has only constant operands, unless its
    /// result was too large to fold.
    pub nodes: Vec<Node>,
    /// What the caller provides.
    pub inputs: Vec<ValueId>,
    /// What the caller gets; may be constants or inputs.
    pub outputs: Vec<ValueId>,
}

impl StaticGraph {
    /// The value behind `id`.
    pub fn value(&self, id: ValueId) -> &StaticValue {
        &self.values[id.0]
    }
}

/// Why an operator cannot take its operands; the caller adds the node's name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct OpError {
    /// What is wrong with what, and what was wanted.
    pub reason: String,
}
