//! The elements of constants, by their type.

use half::{bf16, f16};

use crate::element::ElementType;

/// The elements of a constant in row-major order.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs, reason = "each variant holds the type it is named after")]
pub enum Numbers {
    F32(Vec<f32>),
    F64(Vec<f64>),
    F16(Vec<f16>),
    BF16(Vec<bf16>),
    I8(Vec<i8>),
    I16(Vec<i16>),
    I32(Vec<i32>),
    I64(Vec<i64>),
    U8(Vec<u8>),
    U16(Vec<u16>),
    U32(Vec<u32>),
    U64(Vec<u64>),
    Bool(Vec<bool>),
}

impl Numbers {
    /// Number of elements, and their type.
    pub(crate) fn describe(&self) -> (usize, ElementType) {
        macro_rules! each {
            ($($variant:ident)*) => {
                match self {
                    $(Self::$variant(v) => (v.len(), ElementType::$variant),)*
                }
            };
        }
        each!(F32 F64 F16 BF16 I8 I16 I32 I64 U8 U16 U32 U64 Bool)
    }
}
