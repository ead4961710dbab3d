//! Constants between their form in a file and [`Tensor`].
//!
//! ```text
//! TensorProto   dims, data_type, and the elements in one of
//!               raw_data      any type, little-endian        external_data   the same in another file
//!               int32_data    i8 i16 i32 u8 u16 bool, and the bits of f16 and bf16
//!               int64_data    i64      uint64_data  u32 u64
//!               float_data    f32      double_data  f64
//! ```
//!
//! The number of elements is held against the shape before memory is taken.
//!
//! Source: comments of `TensorProto` in `onnx.proto`.
//!
//! Deliberately absent: texts, complex numbers, and floats and integers below 8 bits,
//! which [`Tensor`] does not have either.

use half::{bf16, f16};
use zerocopy::{FromZeros, IntoBytes};

use super::error::OnnxError;
use super::external::ExternalFiles;
use super::model_file::{Elements, LeftOut};
use super::proto::{SparseTensorProto, TensorProto, data_type, text};
use super::wire::{Budget, Bytes};
use crate::tensor::{DType, Tensor, TensorData, checked_elements};
use spark_gemm::take_pages;

/// Most axes a tensor or a declared shape may have.
pub(crate) const MAX_RANK: usize = 64;

/// Where elements come from, and how much memory they may take.
pub(crate) struct TensorSource<'f> {
    /// Elements of the model itself that were not read with it.
    pub(crate) left_out: Option<LeftOut<'f>>,
    pub(crate) external: ExternalFiles<'f>,
    pub(crate) budget: Budget,
}

/// The element type behind a number of `onnx.proto`.
pub(crate) fn dtype_of(number: i32) -> Result<DType, String> {
    Ok(match number {
        data_type::FLOAT => DType::F32,
        data_type::UINT8 => DType::U8,
        data_type::INT8 => DType::I8,
        data_type::UINT16 => DType::U16,
        data_type::INT16 => DType::I16,
        data_type::INT32 => DType::I32,
        data_type::INT64 => DType::I64,
        data_type::BOOL => DType::Bool,
        data_type::FLOAT16 => DType::F16,
        data_type::DOUBLE => DType::F64,
        data_type::UINT32 => DType::U32,
        data_type::UINT64 => DType::U64,
        data_type::BFLOAT16 => DType::BF16,
        data_type::UNDEFINED => return Err("its element type is not stated".to_owned()),
        data_type::STRING => return Err("texts are not supported".to_owned()),
        other => {
            let name = match other {
                14 => "complex64",
                15 => "complex128",
                17 => "float8e4m3fn",
                18 => "float8e4m3fnuz",
                19 => "float8e5m2",
                20 => "float8e5m2fnuz",
                21 => "uint4",
                22 => "int4",
                23 => "float4e2m1",
                24 => "float8e8m0",
                25 => "uint2",
                26 => "int2",
                _ => return Err(format!("element type {other} does not exist")),
            };
            return Err(format!("element type {name} is not supported"));
        }
    })
}

/// The number of `onnx.proto` for an element type.
pub(crate) fn number_of(dtype: DType) -> i32 {
    match dtype {
        DType::F32 => data_type::FLOAT,
        DType::F64 => data_type::DOUBLE,
        DType::F16 => data_type::FLOAT16,
        DType::BF16 => data_type::BFLOAT16,
        DType::I8 => data_type::INT8,
        DType::I16 => data_type::INT16,
        DType::I32 => data_type::INT32,
        DType::I64 => data_type::INT64,
        DType::U8 => data_type::UINT8,
        DType::U16 => data_type::UINT16,
        DType::U32 => data_type::UINT32,
        DType::U64 => data_type::UINT64,
        DType::Bool => data_type::BOOL,
    }
}

/// A shape in a file as a shape in memory: no negative extent, a product that fits.
fn shape_of(dims: &[i64]) -> Result<(Vec<usize>, usize), String> {
    if dims.len() > MAX_RANK {
        return Err(format!("{} axes, the limit is {MAX_RANK}", dims.len()));
    }
    let shape = dims
        .iter()
        .map(|&d| usize::try_from(d).map_err(|_| format!("extent {d} in shape {dims:?}")))
        .collect::<Result<Vec<_>, _>>()?;
    match checked_elements(&shape) {
        Some(count) => Ok((shape, count)),
        None => Err(format!("shape {dims:?} has too many elements")),
    }
}

/// Reads a constant. Lists of numbers are moved out of `proto`.
pub(crate) fn read_tensor(
    proto: TensorProto<'_>,
    source: &mut TensorSource<'_>,
) -> Result<Tensor, OnnxError> {
    let name = text(&proto.name).to_owned();
    let fail = |reason: String| OnnxError::Tensor {
        name: name.clone(),
        reason,
    };
    let dtype = dtype_of(proto.data_type.unwrap_or_default()).map_err(fail)?;
    let (shape, count) = shape_of(&proto.dims).map_err(fail)?;
    if proto.segment.is_some() {
        return Err(fail("tensors in pieces are not supported".to_owned()));
    }
    let n_bytes = count * dtype.size_bytes();
    let data = if proto.data_location == Some(1) {
        let TensorSource {
            external, budget, ..
        } = source;
        let elements = external.find(&name, &proto.external_data, n_bytes, budget)?;
        from_raw(dtype, elements, count).map_err(fail)?
    } else if let Some(raw) = &proto.raw_data {
        if raw.len() == n_bytes {
            source.budget.charge("a constant", n_bytes)?;
        }
        let elements = match &source.left_out {
            Some(left_out) => left_out.find(raw),
            None => Elements::Memory(raw),
        };
        from_raw(dtype, elements, count).map_err(fail)?
    } else {
        from_lists(dtype, proto, count, &mut source.budget)?.map_err(fail)?
    };
    Tensor::new(shape.clone(), data)
        .map_err(|_| fail(format!("its elements do not fill shape {shape:?}")))
}

/// Little-endian elements of any type.
fn from_raw(dtype: DType, elements: Elements<'_>, count: usize) -> Result<TensorData, String> {
    if elements.n_bytes() != count * dtype.size_bytes() {
        return Err(format!(
            "{} bytes of data, {count} elements of {dtype} take {}",
            elements.n_bytes(),
            count * dtype.size_bytes()
        ));
    }
    macro_rules! numbers {
        ($type:ty) => {{
            let no_memory = |_| format!("no memory for {count} elements of {dtype}");
            let mut all = <$type>::new_vec_zeroed(count).map_err(no_memory)?;
            take_pages(&all);
            read(elements, all.as_mut_bytes())?;
            if cfg!(target_endian = "big") {
                let swapped = |v: &$type| <$type>::from_le_bytes(v.to_ne_bytes());
                all.iter_mut().for_each(|v| *v = swapped(v));
            }
            all
        }};
    }
    Ok(match dtype {
        DType::F32 => TensorData::F32(numbers!(f32)),
        DType::F64 => TensorData::F64(numbers!(f64)),
        DType::F16 => TensorData::F16(numbers!(f16)),
        DType::BF16 => TensorData::BF16(numbers!(bf16)),
        DType::I8 => TensorData::I8(numbers!(i8)),
        DType::I16 => TensorData::I16(numbers!(i16)),
        DType::I32 => TensorData::I32(numbers!(i32)),
        DType::I64 => TensorData::I64(numbers!(i64)),
        DType::U8 => TensorData::U8(numbers!(u8)),
        DType::U16 => TensorData::U16(numbers!(u16)),
        DType::U32 => TensorData::U32(numbers!(u32)),
        DType::U64 => TensorData::U64(numbers!(u64)),
        DType::Bool => TensorData::Bool(numbers!(u8).into_iter().map(|b| b != 0).collect()),
    })
}

/// Reads `elements` into `to`, which is as long as they are.
fn read(elements: Elements<'_>, to: &mut [u8]) -> Result<(), String> {
    let unreadable = |e| format!("its elements cannot be read: {e}");
    elements.read_into(to).map_err(unreadable)
}

/// Elements in the typed list that belongs to `dtype`. The inner error is about the
/// tensor, the outer one about memory.
fn from_lists(
    dtype: DType,
    proto: TensorProto<'_>,
    count: usize,
    budget: &mut Budget,
) -> Result<Result<TensorData, String>, OnnxError> {
    let got = match dtype {
        DType::F32 => proto.float_data.0.len(),
        DType::F64 => proto.double_data.0.len(),
        DType::I64 => proto.int64_data.0.len(),
        DType::U32 | DType::U64 => proto.uint64_data.0.len(),
        _ => proto.int32_data.0.len(),
    };
    if got != count {
        return Ok(Err(format!(
            "{got} elements of {dtype}, its shape holds {count}"
        )));
    }
    budget.charge("a constant", count * dtype.size_bytes())?;
    let ints = proto.int32_data.0;
    macro_rules! narrow {
        ($values:expr, $type:ty) => {
            $values
                .into_iter()
                .map(|v| {
                    <$type>::try_from(v).map_err(|_| format!("element {v} does not fit {dtype}"))
                })
                .collect::<Result<Vec<$type>, String>>()
        };
    }
    let data = match dtype {
        DType::F32 => Ok(TensorData::F32(proto.float_data.0)),
        DType::F64 => Ok(TensorData::F64(proto.double_data.0)),
        DType::I64 => Ok(TensorData::I64(proto.int64_data.0)),
        DType::U64 => Ok(TensorData::U64(proto.uint64_data.0)),
        DType::U32 => narrow!(proto.uint64_data.0, u32).map(TensorData::U32),
        DType::I32 => Ok(TensorData::I32(ints)),
        DType::I8 => narrow!(ints, i8).map(TensorData::I8),
        DType::I16 => narrow!(ints, i16).map(TensorData::I16),
        DType::U8 => narrow!(ints, u8).map(TensorData::U8),
        DType::U16 => narrow!(ints, u16).map(TensorData::U16),
        DType::F16 => narrow!(ints, u16)
            .map(|bits| TensorData::F16(bits.into_iter().map(f16::from_bits).collect())),
        DType::BF16 => narrow!(ints, u16)
            .map(|bits| TensorData::BF16(bits.into_iter().map(bf16::from_bits).collect())),
        DType::Bool => Ok(TensorData::Bool(ints.into_iter().map(|v| v != 0).collect())),
    };
    Ok(data)
}

/// Reads a sparse constant into a dense one.
pub(crate) fn read_sparse_tensor(
    proto: SparseTensorProto<'_>,
    source: &mut TensorSource<'_>,
) -> Result<Tensor, OnnxError> {
    let (Some(values), Some(indices)) = (proto.values, proto.indices) else {
        return Err(OnnxError::Tensor {
            name: String::new(),
            reason: "a sparse tensor without values or indices".to_owned(),
        });
    };
    let name = text(&values.name).to_owned();
    let fail = |reason: String| OnnxError::Tensor {
        name: name.clone(),
        reason,
    };
    let (shape, count) = shape_of(&proto.dims).map_err(fail)?;
    let values = read_tensor(*values, source)?;
    let indices = read_tensor(*indices, source)?;
    let positions = flat_positions(&indices, &shape, count, values.len()).map_err(fail)?;
    source
        .budget
        .charge("a sparse constant", count * values.dtype().size_bytes())?;
    let mut dense =
        Tensor::zeros(values.dtype(), shape).map_err(|error| fail(error.to_string()))?;
    macro_rules! scatter {
        ($($variant:ident)*) => {
            match (dense.data_mut(), values.data()) {
                $((TensorData::$variant(to), TensorData::$variant(from)) => {
                    for (&position, &value) in positions.iter().zip(from) {
                        to[position] = value;
                    }
                })*
                _ => unreachable!("both have the type of the values"),
            }
        };
    }
    scatter!(F32 F64 F16 BF16 I8 I16 I32 I64 U8 U16 U32 U64 Bool);
    Ok(dense)
}

/// Flat positions of the elements a sparse tensor states.
fn flat_positions(
    indices: &Tensor,
    shape: &[usize],
    count: usize,
    n_values: usize,
) -> Result<Vec<usize>, String> {
    let numbers = indices.as_i64().ok_or("its indices are not i64")?;
    let in_range = |i: i64, extent: usize| match usize::try_from(i) {
        Ok(i) if i < extent => Ok(i),
        _ => Err(format!("index {i} is not below {extent}")),
    };
    let rank = shape.len();
    match indices.shape() {
        [n] if *n == n_values => numbers.iter().map(|&i| in_range(i, count)).collect(),
        [n, r] if *n == n_values && *r == rank && rank > 0 => numbers
            .chunks_exact(rank)
            .map(|coordinates| {
                let mut position = 0;
                for (&i, &extent) in coordinates.iter().zip(shape) {
                    position = position * extent + in_range(i, extent)?;
                }
                Ok(position)
            })
            .collect(),
        other => Err(format!(
            "indices of shape {other:?} for {n_values} values in {rank} axes"
        )),
    }
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
