//! Named tensors in a safetensors file.
//!
//! ```text
//! { "case0/in/img": Tensor, "case0/out/outputs": Tensor, ... }
//! ```
//!
//! The container is read by the `safetensors` crate, which checks that offsets lie
//! inside the file and match types and shapes; only then are elements copied out.
//!
//! Deliberately absent: 4- and 6-bit types, complex numbers, and reading without a copy.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

use half::{bf16, f16};
use safetensors::{Dtype, SafeTensors, tensor::TensorView};
use spark_onnx::tensor::{DType, Tensor, TensorData};

use crate::error::BenchError;
use crate::output::write_file;

/// Tensors by their names, in the order of the names.
pub type TensorMap = BTreeMap<String, Tensor>;

/// Reads every tensor of `path`.
///
/// # Errors
///
/// [`BenchError::Io`] if the file cannot be read or is no regular file, [`BenchError::NotTensors`] if it is not
/// sound or holds an element type this crate has no tensor for.
pub fn read(path: &Path) -> Result<TensorMap, BenchError> {
    let io = |source| BenchError::Io {
        path: path.to_owned(),
        source,
    };
    let (mut file, _) = spark_files::open(path).map_err(io)?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).map_err(io)?;
    let refused = |reason: String| BenchError::NotTensors {
        path: path.to_owned(),
        reason,
    };
    let file = SafeTensors::deserialize(&bytes).map_err(|error| refused(error.to_string()))?;
    file.tensors()
        .into_iter()
        .map(|(name, view)| {
            let tensor =
                tensor_of(&view).map_err(|reason| refused(format!("tensor `{name}`: {reason}")))?;
            Ok((name, tensor))
        })
        .collect()
}

fn tensor_of(view: &TensorView<'_>) -> Result<Tensor, String> {
    let bytes = view.data();
    let data = match view.dtype() {
        Dtype::F64 => TensorData::F64(elements(bytes, f64::from_le_bytes)),
        Dtype::F32 => TensorData::F32(elements(bytes, f32::from_le_bytes)),
        Dtype::F16 => TensorData::F16(elements(bytes, f16::from_le_bytes)),
        Dtype::BF16 => TensorData::BF16(elements(bytes, bf16::from_le_bytes)),
        Dtype::I8 => TensorData::I8(elements(bytes, i8::from_le_bytes)),
        Dtype::I16 => TensorData::I16(elements(bytes, i16::from_le_bytes)),
        Dtype::I32 => TensorData::I32(elements(bytes, i32::from_le_bytes)),
        Dtype::I64 => TensorData::I64(elements(bytes, i64::from_le_bytes)),
        Dtype::U8 => TensorData::U8(bytes.to_vec()),
        Dtype::U16 => TensorData::U16(elements(bytes, u16::from_le_bytes)),
        Dtype::U32 => TensorData::U32(elements(bytes, u32::from_le_bytes)),
        Dtype::U64 => TensorData::U64(elements(bytes, u64::from_le_bytes)),
        Dtype::BOOL => TensorData::Bool(bytes.iter().map(|&b| b != 0).collect()),
        other => return Err(format!("element type {other:?} is not supported")),
    };
    Tensor::new(view.shape().to_vec(), data).map_err(|error| error.to_string())
}

/// The little-endian elements of `N` bytes each.
fn elements<const N: usize, T>(bytes: &[u8], convert: impl Fn([u8; N]) -> T) -> Vec<T> {
    bytes
        .as_chunks::<N>()
        .0
        .iter()
        .map(|&chunk| convert(chunk))
        .collect()
}

/// Writes `tensors` to `path` in one step: a reader sees the old file or the whole new one.
///
/// # Errors
///
/// [`BenchError::Unwritten`] if the file cannot be written; no partial file stays behind.
pub fn write(path: &Path, tensors: &TensorMap) -> Result<(), BenchError> {
    let refused = |reason: String| BenchError::NotTensors {
        path: path.to_owned(),
        reason,
    };
    let bytes: Vec<_> = tensors
        .iter()
        .map(|(name, tensor)| {
            let (dtype, bytes) = bytes_of(tensor);
            (name.as_str(), dtype, tensor.shape(), bytes)
        })
        .collect();
    let views = bytes
        .iter()
        .map(|(name, dtype, shape, bytes)| {
            Ok((*name, TensorView::new(*dtype, shape.to_vec(), bytes)?))
        })
        .collect::<Result<Vec<_>, safetensors::SafeTensorError>>()
        .map_err(|error| refused(error.to_string()))?;
    let file = safetensors::serialize(views, None).map_err(|error| refused(error.to_string()))?;
    write_file(path, &file)
}

/// Elements in the file's order, and what the file calls their type.
fn bytes_of(tensor: &Tensor) -> (Dtype, Vec<u8>) {
    fn joined<const N: usize, T: Copy>(values: &[T], convert: impl Fn(T) -> [u8; N]) -> Vec<u8> {
        values.iter().flat_map(|&v| convert(v)).collect()
    }
    match tensor.data() {
        TensorData::F64(v) => (Dtype::F64, joined(v, f64::to_le_bytes)),
        TensorData::F32(v) => (Dtype::F32, joined(v, f32::to_le_bytes)),
        TensorData::F16(v) => (Dtype::F16, joined(v, f16::to_le_bytes)),
        TensorData::BF16(v) => (Dtype::BF16, joined(v, bf16::to_le_bytes)),
        TensorData::I8(v) => (Dtype::I8, joined(v, i8::to_le_bytes)),
        TensorData::I16(v) => (Dtype::I16, joined(v, i16::to_le_bytes)),
        TensorData::I32(v) => (Dtype::I32, joined(v, i32::to_le_bytes)),
        TensorData::I64(v) => (Dtype::I64, joined(v, i64::to_le_bytes)),
        TensorData::U8(v) => (Dtype::U8, v.clone()),
        TensorData::U16(v) => (Dtype::U16, joined(v, u16::to_le_bytes)),
        TensorData::U32(v) => (Dtype::U32, joined(v, u32::to_le_bytes)),
        TensorData::U64(v) => (Dtype::U64, joined(v, u64::to_le_bytes)),
        TensorData::Bool(v) => (Dtype::BOOL, v.iter().map(|&b| u8::from(b)).collect()),
    }
}

/// `tensor` as the element type a model wants.
///
/// Between floating-point types the values are rounded to nearest even (exact when
/// widening); other types must agree already.
///
/// # Errors
///
/// [`BenchError::Conversion`] for any other pair of types.
pub(crate) fn converted(name: &str, tensor: Tensor, want: DType) -> Result<Tensor, BenchError> {
    let got = tensor.dtype();
    if got == want {
        return Ok(tensor);
    }
    let refused = BenchError::Conversion {
        tensor: name.to_owned(),
        got,
        want,
    };
    if !(got.is_float() && want.is_float()) {
        return Err(refused);
    }
    Tensor::from_f64(want, tensor.shape(), tensor.to_f64()).map_err(|_| refused)
}

/// Values of `tensor` that are NaN or infinite.
pub(crate) fn count_non_finite(tensor: &Tensor) -> usize {
    if !tensor.dtype().is_float() {
        return 0;
    }
    tensor.to_f64().iter().filter(|v| !v.is_finite()).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_survives_a_round_trip() {
        let dir = tempfile_dir("round-trip");
        let path = dir.join("tensors.safetensors");
        let tensors: TensorMap = DType::ALL
            .iter()
            .map(|&dtype| {
                let values = vec![0.0, 1.0, 2.0, 100.0, 3.0, 1.0];
                let tensor = Tensor::from_f64(dtype, [2, 3], values).expect("six values");
                (format!("case0/in/{dtype}"), tensor)
            })
            .collect();
        write(&path, &tensors).expect("a writable folder");
        assert_eq!(read(&path).expect("own file"), tensors);
        std::fs::remove_dir_all(dir).expect("own folder");
    }

    #[test]
    fn damaged_files_are_refused() {
        let dir = tempfile_dir("damaged");
        let path = dir.join("t.safetensors");
        let tensors = TensorMap::from([(
            "a".to_owned(),
            Tensor::from_f32([4], vec![1.0; 4]).expect("4"),
        )]);
        write(&path, &tensors).expect("a writable folder");
        let good = std::fs::read(&path).expect("own file");
        let mut absurd = good.clone();
        absurd[..8].copy_from_slice(&u64::MAX.to_le_bytes());
        for bad in [&good[..good.len() - 1], &good[..4], b"", &absurd[..]] {
            std::fs::write(&path, bad).expect("a writable folder");
            assert!(matches!(read(&path), Err(BenchError::NotTensors { .. })));
        }
        assert!(matches!(
            read(&dir.join("absent")),
            Err(BenchError::Io { .. })
        ));
        std::fs::remove_dir_all(dir).expect("own folder");
    }

    #[test]
    fn only_floats_are_converted() {
        let half = Tensor::from_f64(DType::F16, [2], vec![0.5, -1.0]).expect("two");
        let single = converted("x", half, DType::F32).expect("widening");
        assert_eq!(single.as_f32(), Some(&[0.5, -1.0][..]));
        let bytes = Tensor::zeros(DType::U8, [2]).expect("two");
        let error = converted("img", bytes, DType::F32).unwrap_err();
        assert_eq!(error.to_string(), "tensor `img` is u8, the model wants f32");
    }

    #[test]
    fn infinities_are_counted() {
        let values = vec![1.0, f32::NAN, f32::INFINITY];
        let tensor = Tensor::from_f32([3], values).expect("three");
        assert_eq!(count_non_finite(&tensor), 2);
    }

    fn tempfile_dir(name: &str) -> std::path::PathBuf {
        let dir = std::env::temp_dir().join(format!("spark-bench-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("a writable folder");
        dir
    }
}
