//! The element types of constants, and the shapes that are accepted.
//!
//! Source: `TensorProto.DataType` in `onnx.proto`.
//!
//! Deliberately absent: texts and complex numbers, whose numbers are known by name and refused, and floats of
//! 8 bits and types below, which constants alone have ([`NarrowType`](crate::NarrowType)).

use crate::proto::data_type;

/// Most axes a tensor or a declared shape may have.
pub const MAX_RANK: usize = 64;

/// The most elements a tensor may have: 2^31, twice any driving model's weights.
/// Every shape that comes from a file is held against it before memory is taken.
pub const MAX_ELEMENTS: usize = 1 << 31;

/// Product of `shape`, or `None` where it exceeds [`MAX_ELEMENTS`] or would if axes of no extent
/// had one element: strides of empty tensors can be computed, and parts of their shapes multiplied.
pub fn checked_elements(shape: &[usize]) -> Option<usize> {
    let n = shape
        .iter()
        .try_fold(1usize, |n, &d| n.checked_mul(d.max(1)))
        .filter(|&n| n <= MAX_ELEMENTS)?;
    Some(if shape.contains(&0) { 0 } else { n })
}

/// Why an element type is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ElementProblem {
    /// The file states none.
    #[error("its element type is not stated")]
    NotStated,
    /// Texts are no numbers.
    #[error("texts are not supported")]
    Text,
    /// A type of `onnx.proto` that is not read.
    #[error("element type {0} is not supported")]
    Unsupported(&'static str),
    /// A number that `onnx.proto` gives no type.
    #[error("element type {0} does not exist")]
    Unknown(i32),
}

macro_rules! element_types {
    ($($(#[$meta:meta])* $variant:ident $number:ident $n_bytes:literal $name:literal,)*) => {
        /// The type of a constant's elements.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum ElementType {
            $($(#[$meta])* $variant,)*
        }

        impl ElementType {
            /// The type behind a number of [`data_type`].
            ///
            /// # Errors
            ///
            /// [`ElementProblem`] for numbers without a type and for types that are not read.
            pub fn from_number(number: i32) -> Result<Self, ElementProblem> {
                match number {
                    $(data_type::$number => Ok(Self::$variant),)*
                    other => Err(problem_of(other)),
                }
            }

            /// Its number in [`data_type`].
            pub fn number(self) -> i32 {
                match self {
                    $(Self::$variant => data_type::$number,)*
                }
            }

            /// Bytes one element takes.
            pub const fn size_bytes(self) -> usize {
                match self {
                    $(Self::$variant => $n_bytes,)*
                }
            }
        }

        impl std::fmt::Display for ElementType {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(match self {
                    $(Self::$variant => $name,)*
                })
            }
        }
    };
}

element_types! {
    /// IEEE 754 binary32, 4 bytes.
    F32 FLOAT 4 "f32",
    /// IEEE 754 binary64, 8 bytes.
    F64 DOUBLE 8 "f64",
    /// IEEE 754 binary16, 2 bytes: largest finite value 65504.
    F16 FLOAT16 2 "f16",
    /// bfloat16, 2 bytes: the upper half of an f32.
    BF16 BFLOAT16 2 "bf16",
    /// Signed integer of 8 bits, -128..=127.
    I8 INT8 1 "i8",
    /// Signed integer of 16 bits, two's complement.
    I16 INT16 2 "i16",
    /// Signed integer of 32 bits, two's complement.
    I32 INT32 4 "i32",
    /// Signed integer of 64 bits, two's complement; ONNX's type of shapes and indices.
    I64 INT64 8 "i64",
    /// Unsigned integer of 8 bits, 0..=255.
    U8 UINT8 1 "u8",
    /// Unsigned integer of 16 bits, 0..=65535.
    U16 UINT16 2 "u16",
    /// Unsigned integer of 32 bits, 0..=2^32 - 1.
    U32 UINT32 4 "u32",
    /// Unsigned integer of 64 bits, 0..=2^64 - 1.
    U64 UINT64 8 "u64",
    /// Boolean, one byte each.
    Bool BOOL 1 "bool",
}

/// Why a number is no type that is read.
fn problem_of(number: i32) -> ElementProblem {
    ElementProblem::Unsupported(match number {
        data_type::UNDEFINED => return ElementProblem::NotStated,
        data_type::STRING => return ElementProblem::Text,
        14 => "complex64",
        15 => "complex128",
        17 => "float8e4m3fn",
        18 => "float8e4m3fnuz",
        19 => "float8e5m2",
        20 => "float8e5m2fnuz",
        21 => "uint4",
        22 => "int4",
        23 => "float4e2m1",
        24 => "float8e8m0",
        25 => "uint2",
        26 => "int2",
        other => return ElementProblem::Unknown(other),
    })
}
