//! The Rust types of elements: what is said of all of them at once.
//!
//! ```text
//! f32 -> DType::F32, TensorData::F32(Vec<f32>), Elements::F32(&[f32]), ElementsMut::F32(&mut [f32])
//! ```

use std::fmt::Debug;

use half::{bf16, f16};

use crate::ModelError;
use crate::elements::Elements;
use crate::tensor::{DType, ElementsMut, Tensor, TensorData};

mod private {
    pub trait Sealed {}
}

/// A type that elements of tensors have: `f32`, `f64`, `half::f16`, `half::bf16`, integers of 8 to 64 bits, `bool`.
///
/// # Examples
///
/// ```
/// use spark_onnx_graph::{DType, Element, Tensor};
///
/// fn largest<T: Element>(tensor: &Tensor) -> Option<T> {
///     let values = tensor.as_slice::<T>()?;
///     values.iter().copied().reduce(|a, b| if b > a { b } else { a })
/// }
///
/// let x = Tensor::from_values([2, 2], vec![3u8, 9, 4, 1])?;
/// assert_eq!((x.dtype(), largest::<u8>(&x)), (DType::U8, Some(9)));
/// assert_eq!(largest::<f32>(&x), None); // its elements are of another type
/// # Ok::<(), spark_onnx_graph::ModelError>(())
/// ```
pub trait Element:
    private::Sealed + Copy + Default + PartialEq + PartialOrd + Debug + Send + Sync + 'static
{
    /// The type's name among those of tensors.
    const DTYPE: DType;

    /// A vector as a tensor's data.
    fn into_data(values: Vec<Self>) -> TensorData;

    /// The vector of a tensor's data, if it is of this type.
    fn from_data(data: TensorData) -> Option<Vec<Self>>;

    /// A slice that is read, with its type.
    fn elements(values: &[Self]) -> Elements<'_>;

    /// The slice, if it is of this type.
    fn slice(elements: Elements<'_>) -> Option<&[Self]>;

    /// A slice that is written, with its type.
    fn elements_mut(values: &mut [Self]) -> ElementsMut<'_>;

    /// The slice, if it is of this type.
    fn slice_mut(elements: ElementsMut<'_>) -> Option<&mut [Self]>;
}

macro_rules! element {
    ($($variant:ident: $t:ty),*) => {
        $(
            impl private::Sealed for $t {}

            impl Element for $t {
                const DTYPE: DType = DType::$variant;

                fn into_data(values: Vec<Self>) -> TensorData {
                    TensorData::$variant(values)
                }

                fn from_data(data: TensorData) -> Option<Vec<Self>> {
                    match data {
                        TensorData::$variant(values) => Some(values),
                        _ => None,
                    }
                }

                fn elements(values: &[Self]) -> Elements<'_> {
                    Elements::$variant(values)
                }

                fn slice(elements: Elements<'_>) -> Option<&[Self]> {
                    match elements {
                        Elements::$variant(values) => Some(values),
                        _ => None,
                    }
                }

                fn elements_mut(values: &mut [Self]) -> ElementsMut<'_> {
                    ElementsMut::$variant(values)
                }

                fn slice_mut(elements: ElementsMut<'_>) -> Option<&mut [Self]> {
                    match elements {
                        ElementsMut::$variant(values) => Some(values),
                        _ => None,
                    }
                }
            }
        )*

        impl<'a> From<&'a TensorData> for Elements<'a> {
            fn from(data: &'a TensorData) -> Self {
                match data {
                    $(TensorData::$variant(values) => Self::$variant(values),)*
                }
            }
        }
    };
}
element!(
    F32: f32, F64: f64, F16: f16, BF16: bf16, I8: i8, I16: i16, I32: i32, I64: i64,
    U8: u8, U16: u16, U32: u32, U64: u64, Bool: bool
);

impl Tensor {
    /// A tensor of `shape` over values of any element type.
    ///
    /// # Errors
    ///
    /// As [`Tensor::new`].
    pub fn from_values<T: Element>(
        shape: impl Into<Vec<usize>>,
        values: Vec<T>,
    ) -> Result<Self, ModelError> {
        Self::new(shape.into(), T::into_data(values))
    }

    /// The elements in row-major order, if they are of type `T`.
    pub fn as_slice<T: Element>(&self) -> Option<&[T]> {
        T::slice(self.data().into())
    }

    /// The same for writing; their number stays.
    pub fn as_slice_mut<T: Element>(&mut self) -> Option<&mut [T]> {
        T::slice_mut(self.shape_and_elements_mut().1)
    }
}
