//! Control flow: nodes that run other graphs.
//!
//! ```text
//! ONNX                                here
//! if c: y = x * w                     If(c, x, w) -> y     bodies[then]: inputs x, w; outputs y
//!       (x, w seen from inside)                            bodies[else]: inputs x, w; outputs y
//! ```
//!
//! A body reads what it is given and its own constants, nothing else: values that a file's graph sees by
//! name are operands here, after the others, and the last inputs of every body of the node. So whoever
//! follows operands sees all that a node reads.
//!
//! Source: ONNX operator specification, If-25, Loop-25, Scan-25.
//!
//! Deliberately absent: the bodies, which the graph holds
//! ([`Graph::bodies`](crate::graph::Graph::bodies)); a body has those of its own nodes.

/// Iterations that all loops of a network may take together in one run: a file can ask for more than anybody
/// waits for.
pub const MAX_ITERATIONS: usize = 1 << 20;

/// Levels of bodies within bodies that are looked into; a graph of more is refused when it is bound.
pub(crate) const MAX_BODY_DEPTH: usize = 32;

/// Position of a body in the graph that holds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BodyId(pub usize);

/// Bodies of [`Op::If`](crate::graph::Op::If). Each is given the captured values and makes the results of the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct If {
    /// What runs where the condition holds.
    pub then_branch: BodyId,
    /// What runs where it does not.
    pub else_branch: BodyId,
}

/// Parameters of [`Op::Loop`](crate::graph::Op::Loop). The body is given the number of the iteration, `true`, the carried values
/// and the captured ones; it makes whether to go on, the carried values, and one element of each stacked result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Loop {
    /// What runs again and again.
    pub body: BodyId,
    /// Values that go from one iteration to the next.
    pub carried: usize,
}

/// Parameters of [`Op::Scan`](crate::graph::Op::Scan). The body is given the carried values, a slice of each scanned operand, and
/// the captured values; it makes the carried values and a slice of each stacked result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scan {
    /// What runs once for every slice.
    pub body: BodyId,
    /// Values that go from one iteration to the next.
    pub carried: usize,
    /// By scanned operand, how it is taken apart.
    pub inputs: Vec<ScanAxis>,
    /// By stacked result, how it is put together.
    pub outputs: Vec<ScanAxis>,
}

/// The axis of a scanned operand or stacked result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScanAxis {
    /// Axis of the whole tensor; negative ones count from the end.
    pub axis: i64,
    /// The last slice first.
    pub is_reversed: bool,
}
