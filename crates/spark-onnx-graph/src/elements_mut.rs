//! Elements of a tensor that may be written, but not added or taken away.

use half::{bf16, f16};

use crate::dtype::DType;

/// A mutably borrowed slice of elements of one type. It is exhaustive, as [`DType`] is.
#[derive(Debug, PartialEq)]
#[allow(missing_docs, reason = "each variant holds the type it is named after")]
pub enum ElementsMut<'a> {
    F32(&'a mut [f32]),
    F64(&'a mut [f64]),
    F16(&'a mut [f16]),
    BF16(&'a mut [bf16]),
    I8(&'a mut [i8]),
    I16(&'a mut [i16]),
    I32(&'a mut [i32]),
    I64(&'a mut [i64]),
    U8(&'a mut [u8]),
    U16(&'a mut [u16]),
    U32(&'a mut [u32]),
    U64(&'a mut [u64]),
    Bool(&'a mut [bool]),
}

macro_rules! elements_of {
    ($($variant:ident: $t:ty),*) => {
        $(
            impl<'a> From<&'a mut [$t]> for ElementsMut<'a> {
                fn from(values: &'a mut [$t]) -> Self {
                    Self::$variant(values)
                }
            }
        )*

        impl ElementsMut<'_> {
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

            /// The same slice, borrowed for less long.
            pub fn reborrow(&mut self) -> ElementsMut<'_> {
                match self {
                    $(Self::$variant(values) => ElementsMut::$variant(values),)*
                }
            }
        }
    };
}
elements_of!(
    F32: f32, F64: f64, F16: f16, BF16: bf16, I8: i8, I16: i16, I32: i32, I64: i64,
    U8: u8, U16: u16, U32: u32, U64: u64, Bool: bool
);
