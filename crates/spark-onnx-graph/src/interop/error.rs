//! Why a tensor of another crate is not taken, or not made.

use crate::dtype::DType;

/// Why a tensor of another crate cannot be taken, or made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConversionError {
    /// The elements of an array do not lie as a view of them needs.
    #[error("an array of shape {shape:?} and strides {strides:?} {reason}")]
    Layout {
        /// Extent of every axis.
        shape: Vec<usize>,
        /// Elements from one position of an axis to the next.
        strides: Vec<isize>,
        /// What is wrong, and what helps.
        reason: &'static str,
    },
    /// The elements are of another type.
    #[error("the tensor holds {got}, not {want}")]
    ElementType {
        /// Type of the elements.
        got: DType,
        /// Type that was asked for.
        want: DType,
    },
    /// The shape has another number of axes, or strides that arrays do not have.
    #[error("shape {shape:?} is not that of an array {of}")]
    Shape {
        /// Extent of every axis.
        shape: Vec<usize>,
        /// What the array was to be, as half a sentence.
        of: String,
    },
    /// A file's element type is none of tensors.
    #[error("element type {name} is not supported")]
    ForeignType {
        /// What the file calls it.
        name: String,
    },
    /// Bytes of a file do not begin where elements of their type may.
    #[error(
        "elements of {dtype} begin at an address that is not a multiple of {align}; a `Tensor` is a copy"
    )]
    Unaligned {
        /// Type of the elements.
        dtype: DType,
        /// Bytes that the address must be a multiple of.
        align: usize,
    },
    /// A byte of a file is no boolean, which is 0 or 1.
    #[error("byte {byte} is no boolean; a `Tensor` is a copy, where it is true")]
    NotBoolean {
        /// The first such byte.
        byte: u8,
    },
}
