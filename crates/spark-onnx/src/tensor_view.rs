//! Tensors that somebody else holds: a borrowed slice, a shape and strides.
//!
//! ```text
//! element (i, j) of shape [2, 3] and strides [1, 2] is elements[i + 2 * j]
//! ```
//!
//! A model reads its inputs through these, from wherever the caller has them: a camera's buffer, a
//! slice of a longer recording, the transpose of a matrix. Where the elements lie as the plan wants
//! them, kernels read the caller's memory and nothing is copied.
//!
//! Deliberately absent: negative strides, and views that are written through.

use half::{bf16, f16};

use crate::ModelError;
use crate::tensor::{DType, Tensor, TensorData, checked_elements};

/// A borrowed slice of elements of one type.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
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

/// Runs `$body` with `$v` bound to the slice inside, whatever its type.
macro_rules! for_each_slice {
    ($elements:expr, $v:ident => $body:expr) => {
        match $elements {
            $crate::tensor_view::Elements::F32($v) => $body,
            $crate::tensor_view::Elements::F64($v) => $body,
            $crate::tensor_view::Elements::F16($v) => $body,
            $crate::tensor_view::Elements::BF16($v) => $body,
            $crate::tensor_view::Elements::I8($v) => $body,
            $crate::tensor_view::Elements::I16($v) => $body,
            $crate::tensor_view::Elements::I32($v) => $body,
            $crate::tensor_view::Elements::I64($v) => $body,
            $crate::tensor_view::Elements::U8($v) => $body,
            $crate::tensor_view::Elements::U16($v) => $body,
            $crate::tensor_view::Elements::U32($v) => $body,
            $crate::tensor_view::Elements::U64($v) => $body,
            $crate::tensor_view::Elements::Bool($v) => $body,
        }
    };
}
pub(crate) use for_each_slice;

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
        }

        impl TensorView<'_> {
            /// The elements in row-major order.
            fn gathered(&self) -> TensorData {
                match self.elements {
                    $(Elements::$variant(values) => TensorData::$variant(
                        (0..self.len()).map(|position| values[self.offset(position)]).collect(),
                    ),)*
                }
            }

            /// Whether type, shape and the bits of all elements are those of `tensor`; takes no memory.
            pub(crate) fn is_bitwise(&self, tensor: &Tensor) -> bool {
                self.shape == tensor.shape()
                    && match (self.elements, tensor.data()) {
                        $((Elements::$variant(values), TensorData::$variant(others)) => {
                            let mut others = others.iter().enumerate();
                            others.all(|(position, other)| {
                                values[self.offset(position)].bits() == other.bits()
                            })
                        })*
                        _ => false,
                    }
            }
        }

        impl<'a> From<&'a TensorData> for Elements<'a> {
            fn from(data: &'a TensorData) -> Self {
                match data {
                    $(TensorData::$variant(values) => Self::$variant(values),)*
                }
            }
        }
    };
}
elements_of!(
    F32: f32, F64: f64, F16: f16, BF16: bf16, I8: i8, I16: i16, I32: i32, I64: i64,
    U8: u8, U16: u16, U32: u32, U64: u64, Bool: bool
);

impl Elements<'_> {
    /// Number of elements of the slice.
    pub fn len(&self) -> usize {
        for_each_slice!(self, values => values.len())
    }

    /// Whether the slice holds no element.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A tensor over elements that the caller keeps.
///
/// # Examples
///
/// Every second row of a matrix, read where it lies:
///
/// ```
/// use spark_onnx::{DType, TensorView};
///
/// let rows = [1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0];
/// let every_second = TensorView::with_strides(&rows[..], &[2, 2], &[4, 1])?;
/// assert_eq!((every_second.shape(), every_second.dtype()), (&[2, 2][..], DType::F32));
/// assert!(TensorView::with_strides(&rows[..], &[3, 2], &[4, 1]).is_err()); // the third is outside
/// # Ok::<(), spark_onnx::ModelError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TensorView<'a> {
    elements: Elements<'a>,
    shape: &'a [usize],
    /// In elements, one per axis; `None` for row-major.
    strides: Option<&'a [usize]>,
}

impl<'a> TensorView<'a> {
    /// A row-major tensor of `shape` over all of `elements`.
    ///
    /// # Errors
    ///
    /// [`ModelError::ElementCount`] unless `elements` holds exactly the product of `shape`.
    pub fn new(elements: impl Into<Elements<'a>>, shape: &'a [usize]) -> Result<Self, ModelError> {
        let elements = elements.into();
        if checked_elements(shape) != Some(elements.len()) {
            return Err(ModelError::ElementCount {
                shape: shape.to_vec(),
                got: elements.len(),
            });
        }
        Ok(Self {
            elements,
            shape,
            strides: None,
        })
    }

    /// A tensor of `shape` over some of `elements`: the one at `index` is
    /// `elements[sum of index[axis] * strides[axis]]`. A stride of zero repeats; elements that no
    /// index reaches are not looked at.
    ///
    /// # Errors
    ///
    /// [`ModelError::ViewStrides`] unless there is one stride per axis and every index lies inside
    /// `elements`; [`ModelError::ElementCount`] if `shape` has more elements than a tensor may.
    pub fn with_strides(
        elements: impl Into<Elements<'a>>,
        shape: &'a [usize],
        strides: &'a [usize],
    ) -> Result<Self, ModelError> {
        let elements = elements.into();
        let Some(len) = checked_elements(shape) else {
            return Err(ModelError::ElementCount {
                shape: shape.to_vec(),
                got: elements.len(),
            });
        };
        // An index may be as large as a pointer's reach, which the slice's own length bounds.
        let last = shape
            .iter()
            .zip(strides)
            .try_fold(0, |last: usize, (&extent, &stride)| {
                last.checked_add(extent.saturating_sub(1).checked_mul(stride)?)
            });
        let is_inside = len == 0 || last.is_some_and(|last| last < elements.len());
        if strides.len() != shape.len() || !is_inside {
            return Err(ModelError::ViewStrides {
                shape: shape.to_vec(),
                strides: strides.to_vec(),
                len: elements.len(),
            });
        }
        Ok(Self {
            elements,
            shape,
            strides: Some(strides),
        })
    }

    /// Extent of every axis; empty for a scalar.
    pub fn shape(&self) -> &'a [usize] {
        self.shape
    }

    /// Type of the elements.
    pub fn dtype(&self) -> DType {
        self.elements.dtype()
    }

    /// Number of elements that the shape has, repeated ones counted each time.
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// Whether the shape has no element.
    pub fn is_empty(&self) -> bool {
        self.shape.contains(&0)
    }

    /// The borrowed slice, from the element where every index is zero.
    pub fn elements(&self) -> Elements<'a> {
        self.elements
    }

    /// Elements from one position of axis `axis` to the next.
    pub(crate) fn stride(&self, axis: usize) -> usize {
        match self.strides {
            Some(strides) => strides[axis],
            None => self.shape[axis + 1..].iter().product(),
        }
    }

    /// Elements from one position of an axis to the next, for every axis.
    pub fn strides(&self) -> Vec<usize> {
        match self.strides {
            Some(strides) => strides.to_vec(),
            None => row_major(self.shape),
        }
    }

    /// Where the element at row-major `position` lies.
    fn offset(&self, position: usize) -> usize {
        if self.strides.is_none() {
            return position;
        }
        let (mut rest, mut offset) = (position, 0);
        for (axis, &extent) in self.shape.iter().enumerate().rev() {
            offset += rest % extent * self.stride(axis);
            rest /= extent;
        }
        offset
    }

    /// A tensor of the same elements.
    ///
    /// # Errors
    ///
    /// None for a view, whose elements fill its shape.
    pub(crate) fn to_tensor(self) -> Result<Tensor, ModelError> {
        Tensor::new(self.shape.to_vec(), self.gathered())
    }

    /// The first finite number that is an infinity as f32. Only f64 has such numbers.
    pub(crate) fn first_beyond_f32(&self) -> Option<f64> {
        let Elements::F64(values) = self.elements else {
            return None;
        };
        let is_beyond = |v: f64| v.is_finite() && (v as f32).is_infinite();
        match self.strides {
            None => values.iter().copied().find(|&v| is_beyond(v)),
            Some(_) => (0..self.len())
                .map(|position| values[self.offset(position)])
                .find(|&v| is_beyond(v)),
        }
    }
}

impl<'a> From<&'a Tensor> for TensorView<'a> {
    fn from(tensor: &'a Tensor) -> Self {
        Self {
            elements: tensor.data().into(),
            shape: tensor.shape(),
            strides: None,
        }
    }
}

/// Strides of a dense tensor of `shape`, last axis innermost.
pub(crate) fn row_major(shape: &[usize]) -> Vec<usize> {
    let mut strides = vec![0; shape.len()];
    let mut stride = 1;
    for (s, &extent) in strides.iter_mut().zip(shape).rev() {
        *s = stride;
        stride *= extent;
    }
    strides
}

/// The bits of an element.
trait Bits {
    fn bits(&self) -> u64;
}

macro_rules! bits {
    ($($whole:ty)*; $($float:ty)*) => {
        $(impl Bits for $whole {
            fn bits(&self) -> u64 {
                *self as u64
            }
        })*
        $(impl Bits for $float {
            fn bits(&self) -> u64 {
                self.to_bits().into()
            }
        })*
    };
}
bits!(i8 i16 i32 i64 u8 u16 u32 u64 bool; f32 f64 f16 bf16);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_view_reaches_no_further_than_its_slice() {
        let values = [0.0f32; 12];
        let of = |shape: &'static [usize], strides: &'static [usize]| {
            TensorView::with_strides(&values[..], shape, strides).is_ok()
        };
        assert!(of(&[3, 4], &[4, 1]) && of(&[4, 3], &[1, 4]) && of(&[100], &[0]));
        assert!(
            of(&[0, 9], &[7, 7]) && of(&[], &[]),
            "nothing, and a scalar"
        );
        assert!(!of(&[3, 4], &[4, 2]) && !of(&[13], &[1]) && !of(&[3, 4], &[4]));
        assert!(!of(&[2, 2], &[usize::MAX, 1]), "no wrapping");
        assert!(
            !of(&[1 << 20, 1 << 20], &[0, 0]),
            "more than a tensor may have"
        );
        let none: [f32; 0] = [];
        assert!(TensorView::with_strides(&none[..], &[], &[]).is_err());
        assert!(TensorView::new(&values[..], &[3, 5]).is_err());
    }

    #[test]
    fn a_view_is_a_tensor_bit_by_bit() {
        let values = [0.0f32, f32::NAN, -0.0, 3.0];
        let odd = TensorView::with_strides(&values[1..], &[2], &[2]).expect("inside");
        let tensor = odd.to_tensor().expect("fills its shape");
        assert_eq!(tensor.shape(), [2]);
        assert!(odd.is_bitwise(&tensor), "a NaN is what it is");
        let of = |v: f32| Tensor::from_f32([1], vec![v]).expect("one");
        let zero = TensorView::new(&values[..1], &[1]).expect("one");
        assert!(zero.is_bitwise(&of(0.0)) && !zero.is_bitwise(&of(-0.0)));
        assert!(!zero.is_bitwise(&Tensor::from_i64([1], vec![0]).expect("one")));
    }

    #[test]
    fn numbers_beyond_f32_are_found_where_the_view_looks() {
        let values = [1.0, 1e300, 2.0, 3.0];
        let even = TensorView::with_strides(&values[..], &[2], &[2]).expect("inside");
        assert_eq!(even.first_beyond_f32(), None);
        let all = TensorView::new(&values[..], &[4]).expect("all");
        assert_eq!(all.first_beyond_f32(), Some(1e300));
    }
}
