//! Tensors of safetensors files.
//!
//! ```text
//! header | x, y, ... as bytes, row-major, little-endian      SafeTensors::deserialize(&bytes)?.tensor("x")?
//! ```
//!
//! The header is checked by the `safetensors` crate. Format: <https://huggingface.co/docs/safetensors>.

use std::borrow::Cow;

use half::{bf16, f16};
use safetensors::tensor::{Dtype, TensorView as FileTensor};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, TryFromBytes};

use super::error::ConversionError;
use crate::ModelError;
use crate::element::Element;
use crate::elements::Elements;
use crate::tensor::{DType, ElementsMut, Tensor, TensorData};
use crate::tensor_view::TensorView;

// Files are little-endian, and so are the elements that are lent as they lie.
#[cfg(target_endian = "big")]
compile_error!("safetensors files are read on little-endian machines");

/// The type of a file's elements among those of tensors.
fn dtype_of(dtype: Dtype) -> Result<DType, ModelError> {
    Ok(match dtype {
        Dtype::F64 => DType::F64,
        Dtype::F32 => DType::F32,
        Dtype::F16 => DType::F16,
        Dtype::BF16 => DType::BF16,
        Dtype::I64 => DType::I64,
        Dtype::I32 => DType::I32,
        Dtype::I16 => DType::I16,
        Dtype::I8 => DType::I8,
        Dtype::U64 => DType::U64,
        Dtype::U32 => DType::U32,
        Dtype::U16 => DType::U16,
        Dtype::U8 => DType::U8,
        Dtype::BOOL => DType::Bool,
        other => {
            let name = format!("{other:?}");
            return Err(ConversionError::ForeignType { name }.into());
        }
    })
}

/// The elements in `bytes`, if they begin where they may.
fn lent<T: Element + FromBytes + Immutable + KnownLayout>(
    bytes: &[u8],
) -> Result<Elements<'_>, ModelError> {
    match <[T]>::ref_from_bytes(bytes) {
        Ok(values) => Ok(T::elements(values)),
        Err(_) => Err(ConversionError::Unaligned {
            dtype: T::DTYPE,
            align: align_of::<T>(),
        }
        .into()),
    }
}

fn lent_booleans(bytes: &[u8]) -> Result<Elements<'_>, ModelError> {
    match <[bool]>::try_ref_from_bytes(bytes) {
        Ok(values) => Ok(Elements::Bool(values)),
        Err(_) => {
            let byte = bytes
                .iter()
                .copied()
                .find(|&byte| byte > 1)
                .unwrap_or_default();
            Err(ConversionError::NotBoolean { byte }.into())
        }
    }
}

/// A file's tensor where it lies, in memory or in a mapped file.
///
/// # Examples
///
/// ```
/// use safetensors::SafeTensors;
/// use spark_onnx_graph::{Tensor, TensorView};
///
/// let weights = Tensor::from_f32([2, 2], vec![1.0, 2.0, 3.0, 4.0])?;
/// let bytes = safetensors::serialize([("weights", &weights)], None)?;
/// let file = SafeTensors::deserialize(&bytes)?;
/// let read = file.tensor("weights")?;
/// assert_eq!(Tensor::try_from(&read)?, weights);
/// if let Ok(view) = TensorView::try_from(&read) {
///     assert_eq!(view.shape(), [2, 2]); // a `Vec` of bytes may begin anywhere, a mapped file does not
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// [`ConversionError::ForeignType`], [`ConversionError::Unaligned`], [`ConversionError::NotBoolean`];
/// [`ModelError::ElementCount`] beyond [`MAX_ELEMENTS`](crate::tensor::MAX_ELEMENTS).
impl<'a> TryFrom<&'a FileTensor<'a>> for TensorView<'a> {
    type Error = ModelError;

    fn try_from(tensor: &'a FileTensor<'a>) -> Result<Self, ModelError> {
        let bytes = tensor.data();
        let elements = match dtype_of(tensor.dtype())? {
            DType::F32 => lent::<f32>(bytes),
            DType::F64 => lent::<f64>(bytes),
            DType::F16 => lent::<f16>(bytes),
            DType::BF16 => lent::<bf16>(bytes),
            DType::I8 => lent::<i8>(bytes),
            DType::I16 => lent::<i16>(bytes),
            DType::I32 => lent::<i32>(bytes),
            DType::I64 => lent::<i64>(bytes),
            DType::U8 => lent::<u8>(bytes),
            DType::U16 => lent::<u16>(bytes),
            DType::U32 => lent::<u32>(bytes),
            DType::U64 => lent::<u64>(bytes),
            DType::Bool => lent_booleans(bytes),
        };
        Self::new(elements?, tensor.shape())
    }
}

/// A file's tensor, copied.
///
/// # Errors
///
/// [`ConversionError::ForeignType`]; [`ModelError::ElementCount`] beyond [`MAX_ELEMENTS`](crate::tensor::MAX_ELEMENTS);
/// [`ModelError::TensorMemory`].
impl TryFrom<&FileTensor<'_>> for Tensor {
    type Error = ModelError;

    fn try_from(tensor: &FileTensor<'_>) -> Result<Self, ModelError> {
        let bytes = tensor.data();
        let dtype = dtype_of(tensor.dtype())?;
        let mut copy = Self::zeros(dtype, tensor.shape())?;
        if copy.size_bytes() != bytes.len() {
            return Err(ModelError::ElementCount {
                shape: tensor.shape().to_vec(),
                got: bytes.len() / dtype.size_bytes(),
            });
        }
        match copy.shape_and_elements_mut().1 {
            ElementsMut::F32(values) => values.as_mut_bytes().copy_from_slice(bytes),
            ElementsMut::F64(values) => values.as_mut_bytes().copy_from_slice(bytes),
            ElementsMut::F16(values) => values.as_mut_bytes().copy_from_slice(bytes),
            ElementsMut::BF16(values) => values.as_mut_bytes().copy_from_slice(bytes),
            ElementsMut::I8(values) => values.as_mut_bytes().copy_from_slice(bytes),
            ElementsMut::I16(values) => values.as_mut_bytes().copy_from_slice(bytes),
            ElementsMut::I32(values) => values.as_mut_bytes().copy_from_slice(bytes),
            ElementsMut::I64(values) => values.as_mut_bytes().copy_from_slice(bytes),
            ElementsMut::U8(values) => values.copy_from_slice(bytes),
            ElementsMut::U16(values) => values.as_mut_bytes().copy_from_slice(bytes),
            ElementsMut::U32(values) => values.as_mut_bytes().copy_from_slice(bytes),
            ElementsMut::U64(values) => values.as_mut_bytes().copy_from_slice(bytes),
            ElementsMut::Bool(values) => {
                for (value, &byte) in values.iter_mut().zip(bytes) {
                    *value = byte != 0;
                }
            }
        }
        Ok(copy)
    }
}

/// A tensor as what `safetensors::serialize` writes; the elements are lent.
impl safetensors::View for &Tensor {
    fn dtype(&self) -> Dtype {
        match Tensor::dtype(self) {
            DType::F64 => Dtype::F64,
            DType::F32 => Dtype::F32,
            DType::F16 => Dtype::F16,
            DType::BF16 => Dtype::BF16,
            DType::I64 => Dtype::I64,
            DType::I32 => Dtype::I32,
            DType::I16 => Dtype::I16,
            DType::I8 => Dtype::I8,
            DType::U64 => Dtype::U64,
            DType::U32 => Dtype::U32,
            DType::U16 => Dtype::U16,
            DType::U8 => Dtype::U8,
            DType::Bool => Dtype::BOOL,
        }
    }

    fn shape(&self) -> &[usize] {
        Tensor::shape(self)
    }

    fn data(&self) -> Cow<'_, [u8]> {
        Cow::Borrowed(match Tensor::data(self) {
            TensorData::F32(values) => values.as_bytes(),
            TensorData::F64(values) => values.as_bytes(),
            TensorData::F16(values) => values.as_bytes(),
            TensorData::BF16(values) => values.as_bytes(),
            TensorData::I8(values) => values.as_bytes(),
            TensorData::I16(values) => values.as_bytes(),
            TensorData::I32(values) => values.as_bytes(),
            TensorData::I64(values) => values.as_bytes(),
            TensorData::U8(values) => values,
            TensorData::U16(values) => values.as_bytes(),
            TensorData::U32(values) => values.as_bytes(),
            TensorData::U64(values) => values.as_bytes(),
            TensorData::Bool(values) => values.as_bytes(),
        })
    }

    fn data_len(&self) -> usize {
        self.size_bytes()
    }
}
