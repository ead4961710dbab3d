//! Parameters of operators that choose, whose results are as long as values say.

/// Parameters of [`Op::NonMaxSuppression`](crate::graph::Op::NonMaxSuppression), whose bounds are operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NonMaxSuppression {
    /// Whether a box is its centre and its two lengths, instead of two corners.
    pub is_centred: bool,
}

/// Parameters of [`Op::Unique`](crate::graph::Op::Unique).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unique {
    /// Axis whose slices are compared; single elements where left out.
    pub axis: Option<i64>,
    /// In ascending order, instead of that of their first positions.
    pub sorted: bool,
}
