//! Where one head's values lie in a model's output.

/// The name and place of one head: it is `outputs[start..end]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutputSlice {
    /// Name of the head.
    pub name: &'static str,
    /// First position of the head in the output.
    pub start: usize,
    /// One past the last position.
    pub end: usize,
}

impl OutputSlice {
    /// Number of values that the head has.
    pub const fn len(&self) -> usize {
        self.end - self.start
    }

    /// Whether there are no values.
    pub const fn is_empty(&self) -> bool {
        self.end == self.start
    }
}
