//! Tensors that somebody else holds, `spark-onnx-graph`'s, and what is done with their slices whatever the type.

use crate::Tensor;
use crate::tensor::{ElementsMut, TensorData};
pub use spark_onnx_graph::{Elements, TensorView, TensorViewMut};

/// Runs `$body` with `$v` bound to the slice inside an [`Elements`], whatever its type.
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

/// The same of an [`ElementsMut`](crate::ElementsMut).
macro_rules! for_each_slice_mut {
    ($elements:expr, $v:ident => $body:expr) => {
        match $elements {
            $crate::tensor::ElementsMut::F32($v) => $body,
            $crate::tensor::ElementsMut::F64($v) => $body,
            $crate::tensor::ElementsMut::F16($v) => $body,
            $crate::tensor::ElementsMut::BF16($v) => $body,
            $crate::tensor::ElementsMut::I8($v) => $body,
            $crate::tensor::ElementsMut::I16($v) => $body,
            $crate::tensor::ElementsMut::I32($v) => $body,
            $crate::tensor::ElementsMut::I64($v) => $body,
            $crate::tensor::ElementsMut::U8($v) => $body,
            $crate::tensor::ElementsMut::U16($v) => $body,
            $crate::tensor::ElementsMut::U32($v) => $body,
            $crate::tensor::ElementsMut::U64($v) => $body,
            $crate::tensor::ElementsMut::Bool($v) => $body,
        }
    };
}
pub(crate) use for_each_slice_mut;

/// Writes the elements of `tensor`, which has the same type and as many of them, into `memory`.
pub(crate) fn copy_tensor(memory: ElementsMut<'_>, tensor: &Tensor) {
    macro_rules! each {
        ($($variant:ident)*) => {
            match (memory, tensor.data()) {
                $((ElementsMut::$variant(to), TensorData::$variant(from)) => {
                    to.copy_from_slice(from);
                })*
                _ => unreachable!("of one type"),
            }
        };
    }
    each!(F32 F64 F16 BF16 I8 I16 I32 I64 U8 U16 U32 U64 Bool);
}
