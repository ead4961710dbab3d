//! Constants: from their form in a file to a shape and a vector of numbers.
//!
//! ```text
//! TensorProto   dims, data_type, and the elements in one of
//!               raw_data      any type, little-endian        external_data   the same in another file
//!               int32_data    i8 i16 i32 u8 u16 bool, and the bits of f16 and bf16
//!               int64_data    i64      uint64_data  u32 u64
//!               float_data    f32      double_data  f64
//! ```
//!
//! Types of fewer than 8 bits and floats of 8 become wider ones (`narrow`).
//!
//! The number of elements is held against the shape before memory is taken.
//!
//! Source: comments of `TensorProto` in `onnx.proto`.
//!
//! Deliberately absent: writing. Who has numbers makes a [`TensorProto`] of them.

use half::{bf16, f16};
use zerocopy::{FromZeros, IntoBytes};

use crate::element::{ElementType, MAX_RANK, checked_elements};
use crate::error::ProtoError;
use crate::model_file::Elements;
use crate::narrow::NarrowType;
use crate::numbers::Numbers;
use crate::proto::{SparseTensorProto, TensorProto, text};
use crate::source::ConstantSource;
use crate::wire::ReadBudget;

/// A constant: a shape, and as many numbers as it holds.
#[derive(Debug, Clone, PartialEq)]
pub struct Constant {
    shape: Vec<usize>,
    numbers: Numbers,
    narrow: Option<NarrowType>,
}

impl Constant {
    /// The extent of every axis; empty for a scalar.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The elements in row-major order, as many as the shape holds.
    pub fn numbers(&self) -> &Numbers {
        &self.numbers
    }

    /// The type of the elements in the file, where they were read as wider ones.
    pub fn narrow_type(&self) -> Option<NarrowType> {
        self.narrow
    }

    /// Shape and elements, taken out.
    pub fn into_parts(self) -> (Vec<usize>, Numbers) {
        (self.shape, self.numbers)
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
///
/// # Errors
///
/// [`ProtoError::Tensor`] for a constant that contradicts itself or is of no type that is read,
/// [`ProtoError::ExternalData`] where its file cannot be used, [`ProtoError::Memory`] where it asks
/// for more than its files back.
///
/// # Examples
///
/// ```
/// use spark_onnx_proto::{ConstantSource, Numbers, Packed, TensorProto, data_type, read_constant};
///
/// let proto = TensorProto {
///     dims: vec![2],
///     data_type: Some(data_type::FLOAT),
///     float_data: Packed(vec![1.0, 2.0]),
///     ..TensorProto::default()
/// };
/// let constant = read_constant(proto, &mut ConstantSource::of_bytes(&[], None))?;
/// assert_eq!(constant.shape(), [2]);
/// assert_eq!(constant.numbers(), &Numbers::F32(vec![1.0, 2.0]));
/// # Ok::<(), spark_onnx_proto::ProtoError>(())
/// ```
pub fn read_constant(
    proto: TensorProto<'_>,
    source: &mut ConstantSource<'_>,
) -> Result<Constant, ProtoError> {
    let name = text(&proto.name).to_owned();
    let fail = |reason: String| ProtoError::Tensor {
        name: name.clone(),
        reason,
    };
    let number = proto.data_type.unwrap_or_default();
    let narrow = NarrowType::from_number(number);
    let dtype = match narrow {
        // Its bytes are read as they lie.
        Some(_) => ElementType::U8,
        None => ElementType::from_number(number).map_err(|problem| fail(problem.to_string()))?,
    };
    let (shape, n_elements) = shape_of(&proto.dims).map_err(fail)?;
    if proto.segment.is_some() {
        return Err(fail("tensors in pieces are not supported".to_owned()));
    }
    let count = narrow.map_or(n_elements, |narrow| narrow.packed_bytes(n_elements));
    let n_bytes = count * dtype.size_bytes();
    let numbers = if proto.data_location == Some(1) {
        let ConstantSource {
            external,
            budget,
            before_reading,
            ..
        } = source;
        let elements = external.find(&name, &proto.external_data, n_bytes, budget)?;
        from_raw(dtype, elements, count, *before_reading).map_err(fail)?
    } else if let Some(raw) = &proto.raw_data {
        if raw.len() == n_bytes {
            source.budget.charge("a constant", n_bytes)?;
        }
        let elements = match &source.left_out {
            Some(left_out) => left_out.find(raw),
            None => Elements::Memory(raw),
        };
        from_raw(dtype, elements, count, source.before_reading).map_err(fail)?
    } else {
        from_lists(dtype, proto, count, &mut source.budget)?.map_err(fail)?
    };
    if numbers.describe().0 != count {
        return Err(fail(format!("its elements do not fill shape {shape:?}")));
    }
    let numbers = match (narrow, numbers) {
        // At most four times the bytes that are there.
        (Some(narrow), Numbers::U8(bytes)) => narrow.unpack(&bytes, n_elements).map_err(fail)?,
        (_, numbers) => numbers,
    };
    Ok(Constant {
        shape,
        numbers,
        narrow,
    })
}

/// Little-endian elements of any type.
fn from_raw(
    dtype: ElementType,
    elements: Elements<'_>,
    count: usize,
    before_reading: fn(&[u8]),
) -> Result<Numbers, String> {
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
            before_reading(all.as_bytes());
            read(elements, all.as_mut_bytes())?;
            if cfg!(target_endian = "big") {
                let swapped = |v: &$type| <$type>::from_le_bytes(v.to_ne_bytes());
                all.iter_mut().for_each(|v| *v = swapped(v));
            }
            all
        }};
    }
    Ok(match dtype {
        ElementType::F32 => Numbers::F32(numbers!(f32)),
        ElementType::F64 => Numbers::F64(numbers!(f64)),
        ElementType::F16 => Numbers::F16(numbers!(f16)),
        ElementType::BF16 => Numbers::BF16(numbers!(bf16)),
        ElementType::I8 => Numbers::I8(numbers!(i8)),
        ElementType::I16 => Numbers::I16(numbers!(i16)),
        ElementType::I32 => Numbers::I32(numbers!(i32)),
        ElementType::I64 => Numbers::I64(numbers!(i64)),
        ElementType::U8 => Numbers::U8(numbers!(u8)),
        ElementType::U16 => Numbers::U16(numbers!(u16)),
        ElementType::U32 => Numbers::U32(numbers!(u32)),
        ElementType::U64 => Numbers::U64(numbers!(u64)),
        ElementType::Bool => Numbers::Bool(numbers!(u8).into_iter().map(|b| b != 0).collect()),
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
    dtype: ElementType,
    proto: TensorProto<'_>,
    count: usize,
    budget: &mut ReadBudget,
) -> Result<Result<Numbers, String>, ProtoError> {
    let got = match dtype {
        ElementType::F32 => proto.float_data.0.len(),
        ElementType::F64 => proto.double_data.0.len(),
        ElementType::I64 => proto.int64_data.0.len(),
        ElementType::U32 | ElementType::U64 => proto.uint64_data.0.len(),
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
        ElementType::F32 => Ok(Numbers::F32(proto.float_data.0)),
        ElementType::F64 => Ok(Numbers::F64(proto.double_data.0)),
        ElementType::I64 => Ok(Numbers::I64(proto.int64_data.0)),
        ElementType::U64 => Ok(Numbers::U64(proto.uint64_data.0)),
        ElementType::U32 => narrow!(proto.uint64_data.0, u32).map(Numbers::U32),
        ElementType::I32 => Ok(Numbers::I32(ints)),
        ElementType::I8 => narrow!(ints, i8).map(Numbers::I8),
        ElementType::I16 => narrow!(ints, i16).map(Numbers::I16),
        ElementType::U8 => narrow!(ints, u8).map(Numbers::U8),
        ElementType::U16 => narrow!(ints, u16).map(Numbers::U16),
        ElementType::F16 => narrow!(ints, u16)
            .map(|bits| Numbers::F16(bits.into_iter().map(f16::from_bits).collect())),
        ElementType::BF16 => narrow!(ints, u16)
            .map(|bits| Numbers::BF16(bits.into_iter().map(bf16::from_bits).collect())),
        ElementType::Bool => Ok(Numbers::Bool(ints.into_iter().map(|v| v != 0).collect())),
    };
    Ok(data)
}

/// Reads a sparse constant into a dense one.
///
/// # Errors
///
/// As [`read_constant`].
pub fn read_sparse_constant(
    proto: SparseTensorProto<'_>,
    source: &mut ConstantSource<'_>,
) -> Result<Constant, ProtoError> {
    let (Some(values), Some(indices)) = (proto.values, proto.indices) else {
        return Err(ProtoError::Tensor {
            name: String::new(),
            reason: "a sparse tensor without values or indices".to_owned(),
        });
    };
    let name = text(&values.name).to_owned();
    let fail = |reason: String| ProtoError::Tensor {
        name: name.clone(),
        reason,
    };
    let (shape, count) = shape_of(&proto.dims).map_err(fail)?;
    let values = read_constant(*values, source)?;
    let indices = read_constant(*indices, source)?;
    let (n_values, dtype) = values.numbers.describe();
    let positions = flat_positions(&indices, &shape, count, n_values).map_err(fail)?;
    let n_bytes = count * dtype.size_bytes();
    source.budget.charge("a sparse constant", n_bytes)?;
    let refused = |_| {
        fail(format!(
            "the system refuses the {n_bytes} bytes of a tensor of shape {shape:?}"
        ))
    };
    macro_rules! scatter {
        ($($variant:ident $type:ty,)*) => {
            match values.numbers {
                $(Numbers::$variant(from) => {
                    let mut to = <$type>::new_vec_zeroed(count).map_err(refused)?;
                    for (&position, value) in positions.iter().zip(from) {
                        to[position] = value;
                    }
                    Numbers::$variant(to)
                })*
            }
        };
    }
    let numbers = scatter!(
        F32 f32, F64 f64, F16 f16, BF16 bf16, I8 i8, I16 i16, I32 i32, I64 i64, U8 u8, U16 u16,
        U32 u32, U64 u64, Bool bool,
    );
    Ok(Constant {
        shape,
        numbers,
        narrow: values.narrow,
    })
}

/// Flat positions of the elements a sparse tensor states.
fn flat_positions(
    indices: &Constant,
    shape: &[usize],
    count: usize,
    n_values: usize,
) -> Result<Vec<usize>, String> {
    let Numbers::I64(numbers) = &indices.numbers else {
        return Err("its indices are not i64".to_owned());
    };
    let in_range = |i: i64, extent: usize| match usize::try_from(i) {
        Ok(i) if i < extent => Ok(i),
        _ => Err(format!("index {i} is not below {extent}")),
    };
    let rank = shape.len();
    match indices.shape.as_slice() {
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
