//! Why an `mma` cannot be executed with these registers.
//!
//! Source: PTX ISA 9.1, 9.7.14: what it calls undefined or unspecified is an error here.

/// Why registers were refused. The result would depend on what no document states.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TensorError {
    /// The number of registers does not follow from the shape.
    #[error("operand {operand} has {got} registers, the instruction {want}")]
    RegisterCount {
        /// Which operand.
        operand: &'static str,
        /// Registers passed.
        got: usize,
        /// Registers that the instruction has.
        want: usize,
    },
    /// Bits of a byte that hold no element are not zero.
    #[error(
        "operand {operand} has padding bits set: lane {lane}, register {register}, byte {byte}"
    )]
    Padding {
        /// Which operand.
        operand: &'static str,
        /// The first such lane.
        lane: usize,
        /// Register of the operand.
        register: usize,
        /// Byte of the register, lowest first.
        byte: usize,
    },
    /// A byte or thread selector of a scale is not one that the manual lists.
    #[error("selector {selector} of a scale is {value}, which is none of the instruction's values")]
    Selector {
        /// Which selector, by the manual's name.
        selector: &'static str,
        /// Its value.
        value: u16,
    },
    /// A block-scaled instruction came without scales.
    #[error("the instruction is block-scaled and got no scales")]
    NoScales,
    /// An instruction that has no scales came with some.
    #[error("the instruction is not block-scaled and got scales")]
    UnexpectedScales,
}
