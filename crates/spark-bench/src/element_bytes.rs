//! Elements of tensors as the bytes of files, the lowest first.

use half::{bf16, f16};
use spark_onnx::tensor::{DType, TensorData};

/// The elements in `bytes`; of a last one that is not whole nothing is taken.
pub(crate) fn data_of(dtype: DType, bytes: &[u8]) -> TensorData {
    match dtype {
        DType::F64 => TensorData::F64(elements(bytes, f64::from_le_bytes)),
        DType::F32 => TensorData::F32(elements(bytes, f32::from_le_bytes)),
        DType::F16 => TensorData::F16(elements(bytes, f16::from_le_bytes)),
        DType::BF16 => TensorData::BF16(elements(bytes, bf16::from_le_bytes)),
        DType::I8 => TensorData::I8(elements(bytes, i8::from_le_bytes)),
        DType::I16 => TensorData::I16(elements(bytes, i16::from_le_bytes)),
        DType::I32 => TensorData::I32(elements(bytes, i32::from_le_bytes)),
        DType::I64 => TensorData::I64(elements(bytes, i64::from_le_bytes)),
        DType::U8 => TensorData::U8(bytes.to_vec()),
        DType::U16 => TensorData::U16(elements(bytes, u16::from_le_bytes)),
        DType::U32 => TensorData::U32(elements(bytes, u32::from_le_bytes)),
        DType::U64 => TensorData::U64(elements(bytes, u64::from_le_bytes)),
        DType::Bool => TensorData::Bool(bytes.iter().map(|&byte| byte != 0).collect()),
    }
}

fn elements<const N: usize, T>(bytes: &[u8], convert: impl Fn([u8; N]) -> T) -> Vec<T> {
    let chunks = bytes.as_chunks::<N>().0;
    chunks.iter().map(|&chunk| convert(chunk)).collect()
}

/// The bytes of all elements.
pub(crate) fn bytes_of(data: &TensorData) -> Vec<u8> {
    fn joined<const N: usize, T: Copy>(values: &[T], convert: impl Fn(T) -> [u8; N]) -> Vec<u8> {
        values.iter().flat_map(|&value| convert(value)).collect()
    }
    match data {
        TensorData::F64(v) => joined(v, f64::to_le_bytes),
        TensorData::F32(v) => joined(v, f32::to_le_bytes),
        TensorData::F16(v) => joined(v, f16::to_le_bytes),
        TensorData::BF16(v) => joined(v, bf16::to_le_bytes),
        TensorData::I8(v) => joined(v, i8::to_le_bytes),
        TensorData::I16(v) => joined(v, i16::to_le_bytes),
        TensorData::I32(v) => joined(v, i32::to_le_bytes),
        TensorData::I64(v) => joined(v, i64::to_le_bytes),
        TensorData::U8(v) => v.clone(),
        TensorData::U16(v) => joined(v, u16::to_le_bytes),
        TensorData::U32(v) => joined(v, u32::to_le_bytes),
        TensorData::U64(v) => joined(v, u64::to_le_bytes),
        TensorData::Bool(v) => v.iter().map(|&b| u8::from(b)).collect(),
    }
}
