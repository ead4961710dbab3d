//! Rows of registers: what an operand names.
//!
//! ```text
//! R32(n)  row of 32 lanes of 32 bits      n = kind << 30 | index
//! R64(n)  row of 32 lanes of 64 bits      kind 0: of the frame, 1: a constant, 2: of the warp (%tid …)
//! P(n)    one bit per lane
//! ```
//!
//! Narrower registers live in rows of 32 bits, zero-extended. A constant is a row like any other, so no
//! instruction asks whether an operand is a register.

/// Bits of a row's number that say where it lies.
pub(crate) const ROW_KIND_SHIFT: u32 = 30;
/// Constants of the program.
pub(crate) const ROW_OF_CONSTANTS: u32 = 1;
/// What differs from warp to warp and never changes: `%tid`, `%ctaid` and their like.
pub(crate) const ROW_OF_WARP: u32 = 2;

/// A row of 32-bit lanes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct R32(pub(crate) u32);
/// A row of 64-bit lanes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct R64(pub(crate) u32);
/// A predicate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct P(pub(crate) u16);

impl P {
    /// Always true: the guard of what has none, the sink of what writes none.
    pub(crate) const NONE: P = P(u16::MAX);
}

/// A row of either width.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Slot {
    W32(R32),
    W64(R64),
    /// `_`: what would be written is dropped.
    Sink,
}

/// Operands in the program's list.
#[derive(Debug, Clone, Copy)]
pub(crate) struct List {
    pub(crate) at: u32,
    pub(crate) len: u8,
}
