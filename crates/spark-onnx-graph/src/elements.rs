//! Elements of a tensor that are read where somebody keeps them.

use half::{bf16, f16};

use crate::dtype::DType;

/// A borrowed slice of elements of one type. It is exhaustive, as [`DType`] is.
#[derive(Debug, Clone, Copy, PartialEq)]
#[allow(missing_docs, reason = "each variant holds the type it is named after")]
pub enum Elements<'a> {
    F32(&'a [f32]),
    F64(&'a [f64]),
    F16(&'a [f16]),
    BF16(&'a [bf16]),
    I8(&'a [i8]),
    I16(&'a [i16]),
    I32(&'a [i32]),
    I64(&'a [i64]),
    U8(&'a [u8]),
    U16(&'a [u16]),
    U32(&'a [u32]),
    U64(&'a [u64]),
    Bool(&'a [bool]),
}

macro_rules! elements_of {
    ($($variant:ident: $t:ty),*) => {
        $(
            impl<'a> From<&'a [$t]> for Elements<'a> {
                fn from(values: &'a [$t]) -> Self {
                    Self::$variant(values)
                }
            }
        )*

        impl Elements<'_> {
            /// Element type of the slice.
            pub fn dtype(&self) -> DType {
                match self {
                    $(Self::$variant(_) => DType::$variant,)*
                }
            }

            /// Number of elements of the slice.
            pub fn len(&self) -> usize {
                match self {
                    $(Self::$variant(values) => values.len(),)*
                }
            }

            /// Whether the slice holds no element.
            pub fn is_empty(&self) -> bool {
                self.len() == 0
            }
        }
    };
}
elements_of!(
    F32: f32, F64: f64, F16: f16, BF16: bf16, I8: i8, I16: i16, I32: i32, I64: i64,
    U8: u8, U16: u16, U32: u32, U64: u64, Bool: bool
);
