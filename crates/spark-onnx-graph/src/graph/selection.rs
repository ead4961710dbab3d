//! Parameters of operators that choose.

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

/// Parameters of [`Op::TopK`](crate::graph::Op::TopK), which takes extreme values and their positions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TopK {
    /// Axis that is searched; negative ones count from the end.
    pub axis: i64,
    /// The largest values if true, the smallest if not.
    pub largest: bool,
    /// Whether results are ordered; this crate always orders them.
    pub sorted: bool,
}
