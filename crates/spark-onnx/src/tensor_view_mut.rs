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

use spark_onnx_graph::tensor::ElementsMut;

use crate::ModelError;
use crate::tensor::{DType, Tensor, TensorData, checked_elements};

/// Runs `$body` with `$v` bound to the slice inside, whatever its type.
macro_rules! for_each_slice_mut {
    ($elements:expr, $v:ident => $body:expr) => {
        match $elements {
            spark_onnx_graph::tensor::ElementsMut::F32($v) => $body,
            spark_onnx_graph::tensor::ElementsMut::F64($v) => $body,
            spark_onnx_graph::tensor::ElementsMut::F16($v) => $body,
            spark_onnx_graph::tensor::ElementsMut::BF16($v) => $body,
            spark_onnx_graph::tensor::ElementsMut::I8($v) => $body,
            spark_onnx_graph::tensor::ElementsMut::I16($v) => $body,
            spark_onnx_graph::tensor::ElementsMut::I32($v) => $body,
            spark_onnx_graph::tensor::ElementsMut::I64($v) => $body,
            spark_onnx_graph::tensor::ElementsMut::U8($v) => $body,
            spark_onnx_graph::tensor::ElementsMut::U16($v) => $body,
            spark_onnx_graph::tensor::ElementsMut::U32($v) => $body,
            spark_onnx_graph::tensor::ElementsMut::U64($v) => $body,
            spark_onnx_graph::tensor::ElementsMut::Bool($v) => $body,
        }
    };
}
pub(crate) use for_each_slice_mut;

/// Memory for an output, which the caller keeps.
///
/// # Examples
///
/// ```
/// use spark_onnx::{DType, TensorViewMut};
///
/// let mut log = [0.0f32; 6]; // two frames of three numbers
/// let frame = TensorViewMut::new(&mut log[3..], &[1, 3])?;
/// assert_eq!((frame.dtype(), frame.shape()), (DType::F32, &[1, 3][..]));
/// # Ok::<(), spark_onnx::ModelError>(())
/// ```
#[derive(Debug, PartialEq)]
pub struct TensorViewMut<'a> {
    elements: ElementsMut<'a>,
    shape: &'a [usize],
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
        let elements = elements.into();
        match checked_elements(shape) == Some(elements.len()) {
            true => Ok(Self { elements, shape }),
            false => Err(ModelError::ElementCount {
                shape: shape.to_vec(),
                got: elements.len(),
            }),
        }
    }

    /// Extent of every axis; empty for a scalar.
    pub fn shape(&self) -> &[usize] {
        self.shape
    }

    /// Type of the elements.
    pub fn dtype(&self) -> DType {
        self.elements.dtype()
    }

    /// The borrowed slice.
    pub(crate) fn into_elements(self) -> ElementsMut<'a> {
        self.elements
    }

    /// Writes the elements of `tensor`, which has the same type and as many of them.
    pub(crate) fn copy_from(self, tensor: &Tensor) {
        macro_rules! each {
            ($($variant:ident)*) => {
                match (self.elements, tensor.data()) {
                    $((ElementsMut::$variant(to), TensorData::$variant(from)) => {
                        to.copy_from_slice(from);
                    })*
                    _ => unreachable!("of one type"),
                }
            };
        }
        each!(F32 F64 F16 BF16 I8 I16 I32 I64 U8 U16 U32 U64 Bool);
    }

    /// The same memory, borrowed for less long.
    pub fn reborrow(&mut self) -> TensorViewMut<'_> {
        TensorViewMut {
            elements: self.elements.reborrow(),
            shape: self.shape,
        }
    }
}

impl<'a> From<&'a mut Tensor> for TensorViewMut<'a> {
    fn from(tensor: &'a mut Tensor) -> Self {
        let (shape, elements) = tensor.shape_and_elements_mut();
        Self { elements, shape }
    }
}
