//! Arrays of `ndarray`.
//!
//! ```text
//! rows of a matrix      array.slice(s![2..5, ..])     side by side in memory    a view
//! its transpose         array.t()                     the same elements         a view
//! broadcast             array.broadcast((4, 3))       strides of 0              a view
//! columns of it         array.slice(s![.., 2..5])     gaps between rows         refused
//! ```
//!
//! Gaps are refused, as somebody else may be writing there: of two slices that `multi_slice_mut` cuts, one lies in the
//! gaps of the other, and a view borrows the whole slice that it reaches into. A negative stride is refused too, for views
//! begin at their first element. `as_standard_layout` makes an array without either.

use std::borrow::Cow;

use ndarray::{
    Array, ArrayBase, ArrayD, ArrayView, ArrayViewD, ArrayViewMut, ArrayViewMutD, Axis, Data,
    DataMut, Dimension, IxDyn, ShapeBuilder,
};
use zerocopy::{FromBytes, IntoBytes};

use super::error::ConversionError;
use crate::ModelError;
use crate::element::Element;
use crate::tensor::{Tensor, checked_elements};
use crate::tensor_view::TensorView;
use crate::tensor_view_mut::TensorViewMut;

fn layout(shape: &[usize], strides: &[isize], reason: &'static str) -> ModelError {
    ConversionError::Layout {
        shape: shape.to_vec(),
        strides: strides.to_vec(),
        reason,
    }
    .into()
}

/// The error for elements that are of another type than `T`.
fn element_type<T: Element>(got: crate::DType) -> ModelError {
    let want = T::DTYPE;
    ConversionError::ElementType { got, want }.into()
}

/// The error for a shape that arrays of dimension `D` do not have.
fn shape_error<D: Dimension>(shape: &[usize]) -> ModelError {
    let of = match D::NDIM {
        Some(n) => format!("of {n} axes"),
        None => "of ndarray".to_owned(),
    };
    let shape = shape.to_vec();
    ConversionError::Shape { shape, of }.into()
}

/// An array where it lies. Nothing is copied.
///
/// # Examples
///
/// ```
/// use ndarray::{Array2, s};
/// use spark_onnx_graph::TensorView;
///
/// let frames = Array2::<f32>::zeros((100, 24));
/// let frame = frames.slice(s![7..8, ..]);
/// assert_eq!(TensorView::try_from(&frame)?.shape(), [1, 24]);
/// assert_eq!(TensorView::try_from(&frames.t())?.strides(), [1, 24]);
/// let columns = frames.slice(s![.., ..12]); // the next row begins elsewhere
/// assert!(TensorView::try_from(&columns).is_err());
/// assert!(TensorView::try_from(&columns.as_standard_layout()).is_ok()); // a copy
/// # Ok::<(), spark_onnx_graph::ModelError>(())
/// ```
///
/// # Errors
///
/// [`ConversionError::Layout`] for a negative stride or gaps between elements; [`ModelError::ElementCount`] beyond
/// [`MAX_ELEMENTS`](crate::tensor::MAX_ELEMENTS).
impl<'a, T, S, D> TryFrom<&'a ArrayBase<S, D>> for TensorView<'a>
where
    T: Element,
    S: Data<Elem = T>,
    D: Dimension,
{
    type Error = ModelError;

    fn try_from(array: &'a ArrayBase<S, D>) -> Result<Self, ModelError> {
        let (shape, strides) = (array.shape(), array.strides());
        if array.is_empty() {
            return Self::new(T::elements(&[]), shape);
        }
        let mut axes = shape.iter().zip(strides);
        if axes.any(|(&extent, &stride)| extent > 1 && stride < 0) {
            let reason = "has a negative stride: `as_standard_layout` copies it";
            return Err(layout(shape, strides, reason));
        }
        // A repeated axis is one position in memory.
        let mut once = array.view();
        for (axis, &stride) in strides.iter().enumerate() {
            if stride == 0 {
                once.collapse_axis(Axis(axis), 0);
            }
        }
        let Some(elements) = once.to_slice_memory_order() else {
            let reason = "has gaps between its elements: `as_standard_layout` copies it";
            return Err(layout(shape, strides, reason));
        };
        // The same bits: of several positions none has a negative stride, and for one it does not matter.
        let Ok(strides) = <[usize]>::ref_from_bytes(strides.as_bytes()) else {
            unreachable!("words are words");
        };
        Self::with_strides(T::elements(elements), shape, strides)
    }
}

/// A row-major array where it lies, to be written. The view's shape takes a few bytes, as an array does not lend its own
/// while it lends its elements.
///
/// # Examples
///
/// ```
/// use ndarray::Array2;
/// use spark_onnx_graph::TensorViewMut;
///
/// let mut log = Array2::<f32>::zeros((2, 3));
/// let mut view = TensorViewMut::try_from(&mut log)?;
/// view.as_slice_mut::<f32>().expect("of f32")[5] = 1.0;
/// assert_eq!(log[[1, 2]], 1.0);
/// # Ok::<(), spark_onnx_graph::ModelError>(())
/// ```
///
/// # Errors
///
/// [`ConversionError::Layout`] unless the array is row-major without gaps; [`ModelError::ElementCount`] beyond
/// [`MAX_ELEMENTS`](crate::tensor::MAX_ELEMENTS).
impl<'a, T, S, D> TryFrom<&'a mut ArrayBase<S, D>> for TensorViewMut<'a>
where
    T: Element,
    S: DataMut<Elem = T>,
    D: Dimension,
{
    type Error = ModelError;

    fn try_from(array: &'a mut ArrayBase<S, D>) -> Result<Self, ModelError> {
        let shape = array.shape().to_vec();
        let strides = array.strides().to_vec();
        match array.as_slice_mut() {
            Some(elements) => Self::over(T::elements_mut(elements), Cow::Owned(shape)),
            None => {
                let reason = "is not row-major, as what is written must be";
                Err(layout(&shape, &strides, reason))
            }
        }
    }
}

/// An array's elements in row-major order, copied, whatever its strides.
///
/// # Errors
///
/// [`ModelError::ElementCount`] beyond [`MAX_ELEMENTS`](crate::tensor::MAX_ELEMENTS); [`ModelError::TensorMemory`] if the
/// system refuses the memory.
impl<T, S, D> TryFrom<&ArrayBase<S, D>> for Tensor
where
    T: Element,
    S: Data<Elem = T>,
    D: Dimension,
{
    type Error = ModelError;

    fn try_from(array: &ArrayBase<S, D>) -> Result<Self, ModelError> {
        let shape = array.shape().to_vec();
        let Some(len) = checked_elements(&shape) else {
            return Err(ModelError::ElementCount {
                shape,
                got: array.len(),
            });
        };
        let mut values = Vec::new();
        if values.try_reserve_exact(len).is_err() {
            return Err(ModelError::TensorMemory {
                shape,
                bytes: len.saturating_mul(size_of::<T>()),
            });
        }
        values.extend(array.iter().copied());
        Self::from_values(shape, values)
    }
}

/// An array as a tensor: moved where it is row-major, copied where it is not.
///
/// # Examples
///
/// ```
/// use ndarray::{Array2, array};
/// use spark_onnx_graph::Tensor;
///
/// let tensor = Tensor::try_from(array![[1i64, 2], [3, 4]].reversed_axes())?;
/// assert_eq!(tensor.as_i64(), Some(&[1, 3, 2, 4][..]));
/// assert_eq!(Array2::<i64>::try_from(tensor)?, array![[1, 3], [2, 4]]);
/// # Ok::<(), spark_onnx_graph::ModelError>(())
/// ```
///
/// # Errors
///
/// As of a borrowed array.
impl<T: Element, D: Dimension> TryFrom<Array<T, D>> for Tensor {
    type Error = ModelError;

    fn try_from(array: Array<T, D>) -> Result<Self, ModelError> {
        if !array.is_standard_layout() {
            return Self::try_from(&array);
        }
        let (shape, len) = (array.shape().to_vec(), array.len());
        let (mut values, first) = array.into_raw_vec_and_offset();
        // What slicing cut off is still there.
        let first = first.unwrap_or(0);
        values.truncate(first + len);
        values.drain(..first);
        Self::from_values(shape, values)
    }
}

/// A tensor as an array of its element type and number of axes, which is moved.
///
/// # Errors
///
/// [`ConversionError::ElementType`] or [`ConversionError::Shape`] if it has another one.
impl<T: Element, D: Dimension> TryFrom<Tensor> for Array<T, D> {
    type Error = ModelError;

    fn try_from(tensor: Tensor) -> Result<Self, ModelError> {
        let (dtype, shape) = (tensor.dtype(), tensor.shape().to_vec());
        let Some(values) = T::from_data(tensor.into_data()) else {
            return Err(element_type::<T>(dtype));
        };
        let array = ArrayD::from_shape_vec(IxDyn(&shape), values);
        let array = array.and_then(ArrayD::into_dimensionality);
        array.map_err(|_| shape_error::<D>(&shape))
    }
}

/// A tensor lent as an array of its element type and number of axes.
///
/// # Examples
///
/// ```
/// use ndarray::ArrayView2;
/// use spark_onnx_graph::Tensor;
///
/// let logits = Tensor::from_f32([2, 3], vec![0.0, 1.0, 2.0, 3.0, 4.0, 5.0])?;
/// let rows = ArrayView2::<f32>::try_from(&logits)?;
/// assert_eq!(rows.row(1).sum(), 12.0);
/// # Ok::<(), spark_onnx_graph::ModelError>(())
/// ```
///
/// # Errors
///
/// [`ConversionError::ElementType`] or [`ConversionError::Shape`] if it has another one.
impl<'a, T: Element, D: Dimension> TryFrom<&'a Tensor> for ArrayView<'a, T, D> {
    type Error = ModelError;

    fn try_from(tensor: &'a Tensor) -> Result<Self, ModelError> {
        TensorView::from(tensor).try_into()
    }
}

/// A tensor lent as an array to be written.
///
/// # Errors
///
/// [`ConversionError::ElementType`] or [`ConversionError::Shape`] if it has another one.
impl<'a, T: Element, D: Dimension> TryFrom<&'a mut Tensor> for ArrayViewMut<'a, T, D> {
    type Error = ModelError;

    fn try_from(tensor: &'a mut Tensor) -> Result<Self, ModelError> {
        TensorViewMut::from(tensor).try_into()
    }
}

/// A view as an array of its element type, number of axes and strides.
///
/// # Errors
///
/// [`ConversionError::ElementType`]; [`ConversionError::Shape`] if it has another number of axes, or strides that arrays
/// do not have.
impl<'a, T: Element, D: Dimension> TryFrom<TensorView<'a>> for ArrayView<'a, T, D> {
    type Error = ModelError;

    fn try_from(view: TensorView<'a>) -> Result<Self, ModelError> {
        let Some(elements) = T::slice(view.elements()) else {
            return Err(element_type::<T>(view.dtype()));
        };
        let shape = IxDyn(view.shape());
        let array = match view.is_row_major() {
            true => ArrayViewD::from_shape(shape, elements),
            false => {
                // Of an axis of one position any word may be the stride.
                let strides = view.shape().iter().zip(view.strides());
                let strides = strides.map(|(&extent, stride)| if extent == 1 { 0 } else { stride });
                let strides: Vec<usize> = strides.collect();
                ArrayViewD::from_shape(shape.strides(IxDyn(&strides)), elements)
            }
        };
        let array = array.and_then(ArrayViewD::into_dimensionality);
        array.map_err(|_| shape_error::<D>(view.shape()))
    }
}

/// Memory for an output as an array to be written.
///
/// # Errors
///
/// [`ConversionError::ElementType`] or [`ConversionError::Shape`] if it has another one.
impl<'a, T: Element, D: Dimension> TryFrom<TensorViewMut<'a>> for ArrayViewMut<'a, T, D> {
    type Error = ModelError;

    fn try_from(view: TensorViewMut<'a>) -> Result<Self, ModelError> {
        let (dtype, shape) = (view.dtype(), view.shape().to_vec());
        let Some(elements) = T::slice_mut(view.into_elements()) else {
            return Err(element_type::<T>(dtype));
        };
        let array = ArrayViewMutD::from_shape(IxDyn(&shape), elements);
        let array = array.and_then(ArrayViewMutD::into_dimensionality);
        array.map_err(|_| shape_error::<D>(&shape))
    }
}
