//! Constants between their form in a file and [`Tensor`].
//!
//! `spark-onnx-proto` reads the numbers and holds them against the shape; here they become
//! tensors, without a copy, and are written.

use std::collections::BTreeMap;

use spark_onnx_proto::{
    Bytes, Constant, ConstantSource, ElementProblem, ElementType, NarrowType, Numbers,
    SparseTensorProto, TensorProto, read_constant, read_sparse_constant,
};

use super::error::OnnxError;
use crate::ModelError;
use crate::tensor::{DType, Tensor, TensorData};

macro_rules! each_type {
    ($macro:ident) => {
        $macro!(F32 F64 F16 BF16 I8 I16 I32 I64 U8 U16 U32 U64 Bool)
    };
}

/// The element type behind a number of `onnx.proto`.
pub(crate) fn dtype_of(number: i32) -> Result<DType, ElementProblem> {
    Ok(dtype_of_element(ElementType::from_number(number)?))
}

/// The element type behind a number of `onnx.proto`, or the wider one that its numbers are held as.
pub(crate) fn held_dtype(number: i32) -> Result<DType, ElementProblem> {
    match NarrowType::from_number(number) {
        Some(narrow) => Ok(dtype_of_element(narrow.held_as())),
        None => dtype_of(number),
    }
}

pub(crate) fn dtype_of_element(element_type: ElementType) -> DType {
    macro_rules! named {
        ($($name:ident)*) => {
            match element_type {
                $(ElementType::$name => DType::$name,)*
            }
        };
    }
    each_type!(named)
}

/// The number of `onnx.proto` for an element type.
pub(crate) fn number_of(dtype: DType) -> i32 {
    macro_rules! named {
        ($($name:ident)*) => {
            match dtype {
                $(DType::$name => ElementType::$name.number(),)*
            }
        };
    }
    each_type!(named)
}

/// A constant, and its type in the file where that is held as a wider one.
pub(crate) type HeldTensor = (Tensor, Option<NarrowType>);

/// Reads a constant. Lists of numbers are moved out of `proto`.
pub(crate) fn read_tensor(
    proto: TensorProto<'_>,
    source: &mut ConstantSource<'_>,
) -> Result<HeldTensor, ModelError> {
    tensor_of(read_constant(proto, source)?)
}

/// Reads a sparse constant into a dense one.
pub(crate) fn read_sparse_tensor(
    proto: SparseTensorProto<'_>,
    source: &mut ConstantSource<'_>,
) -> Result<HeldTensor, ModelError> {
    tensor_of(read_sparse_constant(proto, source)?)
}

fn tensor_of(constant: Constant) -> Result<HeldTensor, ModelError> {
    let narrow = constant.narrow_type();
    let (shape, numbers) = constant.into_parts();
    macro_rules! named {
        ($($name:ident)*) => {
            match numbers {
                $(Numbers::$name(values) => TensorData::$name(values),)*
            }
        };
    }
    Ok((Tensor::new(shape, each_type!(named))?, narrow))
}

/// The model `bytes` with the constants named in `replacements` replaced: initializers,
/// and results of Constant nodes. Element types and shapes stay. Elements that stood in
/// another file stand in the model afterwards.
///
/// # Errors
///
/// [`ModelError::Onnx`] if `bytes` are no model, for a name that is no constant of the main graph,
/// and if element type or shape differ.
pub fn replace_constants(
    bytes: &[u8],
    replacements: &BTreeMap<String, Tensor>,
) -> Result<Vec<u8>, ModelError> {
    let write = |name, tensor| write_tensor(name, tensor);
    let replaced = spark_onnx_proto::replace_constants(bytes, replacements, write);
    Ok(replaced.map_err(OnnxError::from)?)
}

/// Little-endian bytes of a tensor's elements.
pub(crate) fn raw_bytes(tensor: &Tensor) -> Bytes<'_> {
    let mut out = Vec::with_capacity(tensor.size_bytes());
    macro_rules! numbers {
        ($values:expr) => {
            for value in $values {
                out.extend_from_slice(&value.to_le_bytes());
            }
        };
    }
    match tensor.data() {
        TensorData::U8(v) => return Bytes::Borrowed(v),
        TensorData::Bool(v) => out.extend(v.iter().map(|&b| u8::from(b))),
        TensorData::F32(v) => numbers!(v),
        TensorData::F64(v) => numbers!(v),
        TensorData::F16(v) => numbers!(v),
        TensorData::BF16(v) => numbers!(v),
        TensorData::I8(v) => numbers!(v),
        TensorData::I16(v) => numbers!(v),
        TensorData::I32(v) => numbers!(v),
        TensorData::I64(v) => numbers!(v),
        TensorData::U16(v) => numbers!(v),
        TensorData::U32(v) => numbers!(v),
        TensorData::U64(v) => numbers!(v),
    }
    Bytes::Owned(out)
}

/// A constant as it stands in a file. `name` is empty for parameters of operators.
pub(crate) fn write_tensor<'t>(name: &str, tensor: &'t Tensor) -> TensorProto<'t> {
    TensorProto {
        dims: tensor.shape().iter().map(|&d| d as i64).collect(),
        data_type: Some(number_of(tensor.dtype())),
        name: Some(name.to_owned().into()),
        raw_data: Some(raw_bytes(tensor)),
        ..TensorProto::default()
    }
}
