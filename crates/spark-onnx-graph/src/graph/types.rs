//! Types of values, and why an operator cannot have them.

use crate::tensor::DType;

/// Element type and fixed shape.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TensorType {
    /// Type of the elements.
    pub dtype: DType,
    /// Extent of every axis; empty for a scalar.
    pub shape: Vec<usize>,
}

impl TensorType {
    /// Bytes of all elements, or the largest number where they are more.
    pub(crate) fn size_bytes(&self) -> usize {
        let extents = self.shape.iter();
        extents.fold(self.dtype.size_bytes(), |n, &d| n.saturating_mul(d))
    }
}

/// Why an operator cannot take its operands; the caller adds the node's name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct OpError {
    /// What is wrong with what, and what was wanted.
    pub reason: String,
}
