//! Named tensors in a file: safetensors, or what NumPy writes.
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

use safetensors::{Dtype, SafeTensors, tensor::TensorView};
use spark_onnx::tensor::{DType, Tensor};

use crate::element_bytes::{bytes_of, data_of};
use crate::error::BenchError;
use crate::numpy;
use crate::output::write_file;

/// Tensors by their names, in the order of the names.
pub type TensorMap = BTreeMap<String, Tensor>;

/// What a file of tensors holds.
pub(crate) enum Tensors {
    /// Tensors by name: safetensors or an `.npz` archive.
    Named(TensorMap),
    /// One without a name: an `.npy` file.
    Single(Tensor),
}

/// Which kind of file tensors are written as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TensorFormat {
    /// Tensors by name, in their own types.
    Safetensors,
    /// NumPy's file of one tensor.
    Npy,
    /// NumPy's archive of tensors by name.
    Npz,
}

impl TensorFormat {
    /// By the ending of a file's name in any case of letters: `.npy`, `.npz`, and safetensors for every other.
    pub fn of_name(path: &Path) -> Self {
        let ending = path.extension().unwrap_or_default();
        if ending.eq_ignore_ascii_case("npy") {
            Self::Npy
        } else if ending.eq_ignore_ascii_case("npz") {
            Self::Npz
        } else {
            Self::Safetensors
        }
    }
}

/// Reads every tensor of `path`, by what the file begins with: safetensors, or NumPy's `.npz` or `.npy`, whose one
/// tensor has the name of the file.
///
/// # Errors
///
/// [`BenchError::Io`] if the file cannot be read or is no regular file, [`BenchError::NotTensors`] if it is not
/// sound or holds an element type this crate has no tensor for.
pub fn read(path: &Path) -> Result<TensorMap, BenchError> {
    Ok(match from_bytes(path, &bytes_of_file(path)?)? {
        Tensors::Named(tensors) => tensors,
        Tensors::Single(tensor) => {
            let name = path.file_stem().unwrap_or_default();
            TensorMap::from([(name.to_string_lossy().into_owned(), tensor)])
        }
    })
}

/// More than any network's inputs.
const MOST_BYTES: u64 = 4 << 30;

/// Bytes of a file by which one of another kind is told.
const N_FIRST_BYTES: u64 = 16;

/// The bytes of a file of tensors. One of another kind is not read.
pub(crate) fn bytes_of_file(path: &Path) -> Result<Vec<u8>, BenchError> {
    let io = |source| BenchError::Io {
        path: path.to_owned(),
        source,
    };
    let refused = |reason: String| BenchError::NotTensors {
        path: path.to_owned(),
        kind: "a safetensors, .npz or .npy",
        reason,
    };
    let (mut file, n_bytes) = spark_files::open(path).map_err(io)?;
    if n_bytes > MOST_BYTES {
        let reason = format!("it has {n_bytes} bytes, and at most {MOST_BYTES} are read");
        return Err(refused(reason));
    }
    let mut bytes = Vec::new();
    let mut first = file.by_ref().take(N_FIRST_BYTES);
    first.read_to_end(&mut bytes).map_err(io)?;
    if !begins_as_tensors(&bytes) {
        return Err(refused("it begins as none of them does".to_owned()));
    }
    // No more than was measured, should the file grow meanwhile.
    let n_left = n_bytes.saturating_sub(bytes.len() as u64);
    file.take(n_left).read_to_end(&mut bytes).map_err(io)?;
    Ok(bytes)
}

/// Whether a file may be one of tensors, by its first bytes: of safetensors they are the length of a header of JSON, and its brace.
fn begins_as_tensors(first: &[u8]) -> bool {
    first.starts_with(numpy::MAGIC) || is_archive(first) || first.get(8) == Some(&b'{')
}

/// Whether this is the beginning of an `.npz` file, or of one that holds nothing.
fn is_archive(first: &[u8]) -> bool {
    first.starts_with(numpy::ARCHIVE_MAGIC) || first.starts_with(numpy::END_MAGIC)
}

/// The tensors that `bytes` are a file of; errors call it `path`.
pub(crate) fn from_bytes(path: &Path, bytes: &[u8]) -> Result<Tensors, BenchError> {
    let refused = |kind: &'static str| {
        move |reason: String| BenchError::NotTensors {
            path: path.to_owned(),
            kind,
            reason,
        }
    };
    if bytes.starts_with(numpy::MAGIC) {
        let tensor = numpy::read_array(bytes).map_err(refused("an .npy"))?;
        return Ok(Tensors::Single(tensor));
    }
    if is_archive(bytes) {
        let tensors = numpy::read_archive(bytes).map_err(refused("an .npz"))?;
        return Ok(Tensors::Named(tensors));
    }
    let refused = refused("a safetensors");
    let file = SafeTensors::deserialize(bytes).map_err(|error| refused(error.to_string()))?;
    let tensors = file.tensors().into_iter().map(|(name, view)| {
        let tensor =
            tensor_of(&view).map_err(|reason| refused(format!("tensor `{name}`: {reason}")))?;
        Ok((name, tensor))
    });
    Ok(Tensors::Named(tensors.collect::<Result<_, BenchError>>()?))
}

fn tensor_of(view: &TensorView<'_>) -> Result<Tensor, String> {
    let dtype = match view.dtype() {
        Dtype::F64 => DType::F64,
        Dtype::F32 => DType::F32,
        Dtype::F16 => DType::F16,
        Dtype::BF16 => DType::BF16,
        Dtype::I8 => DType::I8,
        Dtype::I16 => DType::I16,
        Dtype::I32 => DType::I32,
        Dtype::I64 => DType::I64,
        Dtype::U8 => DType::U8,
        Dtype::U16 => DType::U16,
        Dtype::U32 => DType::U32,
        Dtype::U64 => DType::U64,
        Dtype::BOOL => DType::Bool,
        other => return Err(format!("element type {other:?} is not supported")),
    };
    let data = data_of(dtype, view.data());
    Tensor::new(view.shape().to_vec(), data).map_err(|error| error.to_string())
}

/// Writes `tensors` to `path` in one step: a reader sees the old file or the whole new one.
///
/// # Errors
///
/// [`BenchError::Unwritten`] if the file cannot be written; no partial file stays behind.
pub fn write(path: &Path, tensors: &TensorMap) -> Result<(), BenchError> {
    write_file(path, &to_bytes(path, TensorFormat::Safetensors, tensors)?)
}

/// A file of `tensors`; errors call it `path`.
///
/// # Errors
///
/// [`BenchError::NotOneTensor`] for an `.npy` of another number than one, [`BenchError::NotTensors`] for what the
/// format cannot hold.
pub fn to_bytes(
    path: &Path,
    format: TensorFormat,
    tensors: &TensorMap,
) -> Result<Vec<u8>, BenchError> {
    let refused = |kind: &'static str| {
        move |reason: String| BenchError::NotTensors {
            path: path.to_owned(),
            kind,
            reason,
        }
    };
    match format {
        TensorFormat::Npy => {
            let mut all = tensors.values();
            match (all.next(), all.next()) {
                (Some(tensor), None) => numpy::write_array(tensor).map_err(refused("an .npy")),
                _ => Err(BenchError::NotOneTensor {
                    path: path.to_owned(),
                    count: tensors.len(),
                }),
            }
        }
        TensorFormat::Npz => numpy::write_archive(tensors).map_err(refused("an .npz")),
        TensorFormat::Safetensors => safetensors_of(tensors).map_err(refused("a safetensors")),
    }
}

/// What a safetensors file has in the place of a tensor of this name.
const METADATA: &str = "__metadata__";

fn safetensors_of(tensors: &TensorMap) -> Result<Vec<u8>, String> {
    if tensors.contains_key(METADATA) {
        return Err(format!("no tensor can be called `{METADATA}` there"));
    }
    let bytes: Vec<_> = tensors
        .iter()
        .map(|(name, tensor)| {
            let dtype = dtype_of(tensor.dtype());
            (
                name.as_str(),
                dtype,
                tensor.shape(),
                bytes_of(tensor.data()),
            )
        })
        .collect();
    let views = bytes
        .iter()
        .map(|(name, dtype, shape, bytes)| {
            Ok((*name, TensorView::new(*dtype, shape.to_vec(), bytes)?))
        })
        .collect::<Result<Vec<_>, safetensors::SafeTensorError>>()
        .map_err(|error| error.to_string())?;
    safetensors::serialize(views, None).map_err(|error| error.to_string())
}

/// What the file calls a type.
fn dtype_of(dtype: DType) -> Dtype {
    match dtype {
        DType::F64 => Dtype::F64,
        DType::F32 => Dtype::F32,
        DType::F16 => Dtype::F16,
        DType::BF16 => Dtype::BF16,
        DType::I8 => Dtype::I8,
        DType::I16 => Dtype::I16,
        DType::I32 => Dtype::I32,
        DType::I64 => Dtype::I64,
        DType::U8 => Dtype::U8,
        DType::U16 => Dtype::U16,
        DType::U32 => Dtype::U32,
        DType::U64 => Dtype::U64,
        DType::Bool => Dtype::BOOL,
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
pub(crate) fn converted(
    path: &Path,
    name: &str,
    tensor: Tensor,
    want: DType,
) -> Result<Tensor, BenchError> {
    let got = tensor.dtype();
    if got == want {
        return Ok(tensor);
    }
    let refused = BenchError::Conversion {
        path: path.to_owned(),
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
    fn what_the_format_has_no_place_for_is_not_written() {
        let tensor = |shape: Vec<usize>| Tensor::from_f32(shape, vec![1.0]).expect("one element");
        let path = Path::new("out");
        let reserved = TensorMap::from([("__metadata__".to_owned(), tensor(vec![1]))]);
        let told = to_bytes(path, TensorFormat::Safetensors, &reserved).expect_err("reserved");
        assert!(told.to_string().contains("__metadata__"), "{told}");
        let deep = TensorMap::from([("x".to_owned(), tensor(vec![1; 30_000]))]);
        for format in [TensorFormat::Npy, TensorFormat::Npz] {
            let told = to_bytes(path, format, &deep).expect_err("axes");
            assert!(told.to_string().contains("axes"), "{told}");
        }
    }

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
        let path = Path::new("f");
        let half = Tensor::from_f64(DType::F16, [2], vec![0.5, -1.0]).expect("two");
        let single = converted(path, "x", half, DType::F32).expect("widening");
        assert_eq!(single.as_f32(), Some(&[0.5, -1.0][..]));
        let bytes = Tensor::zeros(DType::U8, [2]).expect("two");
        let error = converted(path, "img", bytes, DType::F32).unwrap_err();
        assert_eq!(
            error.to_string(),
            "`f`: tensor `img` is u8, the model wants f32"
        );
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
