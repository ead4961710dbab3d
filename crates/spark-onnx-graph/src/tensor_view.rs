//! Tensors that somebody else holds: a borrowed slice, a shape and strides.
//!
//! ```text
//! element (i, j) of shape [2, 3] and strides [1, 2] is elements[i + 2 * j]
//! ```
//!
//! A model reads its inputs through these, from wherever the caller has them: a camera's buffer, a
//! slice of a longer recording, the transpose of a matrix. Where the elements lie as the plan wants
//! them, kernels read the caller's memory and nothing is copied: they stand on what is checked here.
//!
//! Deliberately absent: negative strides, and views that are written through.

use crate::ModelError;
use crate::element::Element;
use crate::elements::Elements;
use crate::tensor::{DType, Tensor, TensorData, checked_elements};

/// Runs `$body` with `$v` bound to the slice inside, whatever its type.
macro_rules! for_each_slice {
    ($elements:expr, $v:ident => $body:expr) => {
        match $elements {
            Elements::F32($v) => $body,
            Elements::F64($v) => $body,
            Elements::F16($v) => $body,
            Elements::BF16($v) => $body,
            Elements::I8($v) => $body,
            Elements::I16($v) => $body,
            Elements::I32($v) => $body,
            Elements::I64($v) => $body,
            Elements::U8($v) => $body,
            Elements::U16($v) => $body,
            Elements::U32($v) => $body,
            Elements::U64($v) => $body,
            Elements::Bool($v) => $body,
        }
    };
}

/// A tensor over elements that the caller keeps.
///
/// # Examples
///
/// Every second row of a matrix, read where it lies:
///
/// ```
/// use spark_onnx_graph::{DType, TensorView};
///
/// let rows = [1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0];
/// let every_second = TensorView::with_strides(&rows[..], &[2, 2], &[4, 1])?;
/// assert_eq!((every_second.shape(), every_second.dtype()), (&[2, 2][..], DType::F32));
/// assert!(TensorView::with_strides(&rows[..], &[3, 2], &[4, 1]).is_err()); // the third is outside
/// # Ok::<(), spark_onnx_graph::ModelError>(())
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

    /// The elements in row-major order, if the view is of all of its slice in that order and they are of
    /// type `T`.
    pub fn as_slice<T: Element>(&self) -> Option<&'a [T]> {
        match self.is_row_major() && self.len() == self.elements.len() {
            true => T::slice(self.elements),
            false => None,
        }
    }

    /// Whether the elements lie side by side in row-major order. Strides of axes of extent 1 do not matter,
    /// nor do any where there is no element.
    pub fn is_row_major(&self) -> bool {
        let Some(strides) = self.strides.filter(|_| !self.is_empty()) else {
            return true;
        };
        let dense = row_major_strides(self.shape);
        let mut axes = self.shape.iter().zip(strides.iter().zip(dense));
        axes.all(|(&extent, (&stride, dense))| extent == 1 || stride == dense)
    }

    /// Elements from one position of axis `axis` to the next.
    ///
    /// # Panics
    ///
    /// If the view has no such axis.
    pub fn stride(&self, axis: usize) -> usize {
        match self.strides {
            Some(strides) => strides[axis],
            None => self.shape[axis + 1..].iter().product(),
        }
    }

    /// Elements from one position of an axis to the next, for every axis.
    pub fn strides(&self) -> Vec<usize> {
        match self.strides {
            Some(strides) => strides.to_vec(),
            None => row_major_strides(self.shape),
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

    /// A tensor of the same elements, copied.
    ///
    /// # Errors
    ///
    /// [`ModelError::TensorMemory`] if the system refuses the memory: a view may repeat few elements often.
    pub fn to_tensor(self) -> Result<Tensor, ModelError> {
        let data = for_each_slice!(self.elements, values => self.gathered(values))?;
        Tensor::new(self.shape.to_vec(), data)
    }

    /// The elements in row-major order; `values` are those of the view.
    fn gathered<T: Element>(&self, values: &[T]) -> Result<TensorData, ModelError> {
        let len = self.len();
        let mut gathered = Vec::new();
        if gathered.try_reserve_exact(len).is_err() {
            return Err(ModelError::TensorMemory {
                shape: self.shape.to_vec(),
                bytes: len.saturating_mul(size_of::<T>()),
            });
        }
        gathered.extend((0..len).map(|position| values[self.offset(position)]));
        Ok(T::into_data(gathered))
    }

    /// Whether type, shape and the bits of all elements are those of `tensor`; takes no memory.
    pub fn is_bitwise(&self, tensor: &Tensor) -> bool {
        fn equal<T: Element + Bits>(view: &TensorView<'_>, values: &[T], tensor: &Tensor) -> bool {
            let Some(others) = tensor.as_slice::<T>() else {
                return false;
            };
            let mut others = others.iter().enumerate();
            others.all(|(position, other)| values[view.offset(position)].bits() == other.bits())
        }
        self.shape == tensor.shape()
            && for_each_slice!(self.elements, values => equal(self, values, tensor))
    }

    /// The first finite number that is an infinity as f32, for whoever computes f64 in f32. Only f64 has
    /// such numbers.
    pub fn first_beyond_f32(&self) -> Option<f64> {
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

/// Strides of a dense tensor of `shape`, in elements, last axis innermost.
///
/// # Examples
///
/// ```
/// assert_eq!(spark_onnx_graph::row_major_strides(&[2, 3, 4]), [12, 4, 1]);
/// ```
pub fn row_major_strides(shape: &[usize]) -> Vec<usize> {
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
bits!(i8 i16 i32 i64 u8 u16 u32 u64 bool; f32 f64 half::f16 half::bf16);

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

    #[test]
    fn a_slice_is_lent_only_where_it_is_the_whole_view_in_order() {
        let values = [1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0];
        let of = |shape: &'static [usize], strides: &'static [usize]| {
            let view = TensorView::with_strides(&values[..], shape, strides);
            view.expect("inside").as_slice::<f32>()
        };
        assert_eq!(of(&[2, 3], &[3, 1]), Some(&values[..]));
        assert_eq!(of(&[1, 6], &[77, 1]), Some(&values[..]));
        assert_eq!(of(&[3, 2], &[1, 3]), None, "transposed");
        assert_eq!(of(&[2, 2], &[2, 1]), None, "some of its slice");
        let dense = TensorView::new(&values[..], &[6]).expect("all");
        assert_eq!(dense.as_slice::<f64>(), None);
        let none: [u8; 0] = [];
        let empty = TensorView::with_strides(&none[..], &[3, 0], &[9, 9]).expect("nothing");
        assert_eq!(empty.as_slice::<u8>(), Some(&none[..]));
    }
}
