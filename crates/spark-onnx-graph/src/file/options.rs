//! How a file is read.

use super::registry::OperatorRegistry;

/// How a file is read.
///
/// # Examples
///
/// ```
/// use spark_onnx_graph::file::ReadOptions;
///
/// assert_eq!(ReadOptions::new().operators.names(), [""; 0]);
/// ```
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct ReadOptions {
    /// Operators of an embedder's own that it may hold.
    pub operators: OperatorRegistry,
    /// Called with the memory of every constant before it is read: for hints to the system about its pages, where a network
    /// is large.
    pub hint: Option<fn(&[u8])>,
}

impl ReadOptions {
    /// ONNX's operators, and no hint.
    pub fn new() -> Self {
        Self::default()
    }

    /// Files may hold these operators too.
    #[must_use]
    pub fn with_operators(mut self, operators: OperatorRegistry) -> Self {
        self.operators = operators;
        self
    }

    /// Calls `hint` with the memory of every constant before it is read.
    #[must_use]
    pub fn with_hint(mut self, hint: fn(&[u8])) -> Self {
        self.hint = Some(hint);
        self
    }
}
