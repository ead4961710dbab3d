//! Memory that somebody else holds, for a model's outputs: a borrowed slice and a shape, row-major.
//!
//! ```text
//! element (i, j) of shape [2, 3] is elements[3 * i + j]
//! ```
//!
//! A step writes an output straight into it where the plan holds that output so; otherwise the output is
//! converted at the end of the run.
//!
//! Deliberately absent: strides. Two indices could lead to one element.

use std::borrow::Cow;

use crate::ModelError;
use crate::element::Element;
use crate::tensor::{DType, ElementsMut, Tensor, checked_elements};

/// Memory for an output, which the caller keeps.
///
/// # Examples
///
/// ```
/// use spark_onnx_graph::{DType, TensorViewMut};
///
/// let mut log = [0.0f32; 6]; // two frames of three numbers
/// let frame = TensorViewMut::new(&mut log[3..], &[1, 3])?;
/// assert_eq!((frame.dtype(), frame.shape()), (DType::F32, &[1, 3][..]));
/// # Ok::<(), spark_onnx_graph::ModelError>(())
/// ```
#[derive(Debug, PartialEq)]
pub struct TensorViewMut<'a> {
    elements: ElementsMut<'a>,
    /// The caller's, but for views of what does not lend its shape while it lends its elements.
    shape: Cow<'a, [usize]>,
}

impl<'a> TensorViewMut<'a> {
    /// Row-major memory of `shape` over all of `elements`.
    ///
    /// # Errors
    ///
    /// [`ModelError::ElementCount`] unless `elements` holds exactly the product of `shape`.
    pub fn new(
        elements: impl Into<ElementsMut<'a>>,
        shape: &'a [usize],
    ) -> Result<Self, ModelError> {
        Self::over(elements.into(), Cow::Borrowed(shape))
    }

    /// [`TensorViewMut::new`] with a shape of its own.
    pub(crate) fn over(
        elements: ElementsMut<'a>,
        shape: Cow<'a, [usize]>,
    ) -> Result<Self, ModelError> {
        match checked_elements(&shape) == Some(elements.len()) {
            true => Ok(Self { elements, shape }),
            false => Err(ModelError::ElementCount {
                shape: shape.into_owned(),
                got: elements.len(),
            }),
        }
    }

    /// Extent of every axis; empty for a scalar.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Type of the elements.
    pub fn dtype(&self) -> DType {
        self.elements.dtype()
    }

    /// The elements in row-major order, to be written.
    pub fn elements_mut(&mut self) -> ElementsMut<'_> {
        self.elements.reborrow()
    }

    /// The same, if they are of type `T`.
    pub fn as_slice_mut<T: Element>(&mut self) -> Option<&mut [T]> {
        T::slice_mut(self.elements_mut())
    }

    /// The borrowed slice.
    pub fn into_elements(self) -> ElementsMut<'a> {
        self.elements
    }

    /// The same memory, borrowed for less long.
    pub fn reborrow(&mut self) -> TensorViewMut<'_> {
        TensorViewMut {
            elements: self.elements.reborrow(),
            shape: Cow::Borrowed(&self.shape),
        }
    }
}

impl<'a> From<&'a mut Tensor> for TensorViewMut<'a> {
    fn from(tensor: &'a mut Tensor) -> Self {
        let (shape, elements) = tensor.shape_and_elements_mut();
        Self {
            elements,
            shape: Cow::Borrowed(shape),
        }
    }
}
