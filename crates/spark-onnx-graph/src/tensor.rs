//! Host tensors: a shape and a typed, row-major vector.
//!
//! ```text
//! Tensor { shape: [2, 3], data: F32([a b c d e f]) }   element (i, j) is data[i * 3 + j]
//! ```
//!
//! A scalar has the empty shape and one element. These tensors carry constants,
//! inputs, outputs and everything the reference interpreter touches; an
//! executor keeps an arena of its own and allocates none of these while running.
//!
//! Deliberately absent: strides, views, devices and arithmetic.

use std::ops::Range;

use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};

use crate::ModelError;
use crate::budget;
pub use crate::dtype::DType;
pub use crate::elements_mut::ElementsMut;
pub use spark_onnx_proto::{MAX_ELEMENTS, checked_elements};

/// A tensor's elements in row-major order. It is exhaustive, as [`DType`] is.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs, reason = "each variant holds the type it is named after")]
pub enum TensorData {
    F32(Vec<f32>),
    F64(Vec<f64>),
    F16(Vec<f16>),
    BF16(Vec<bf16>),
    I8(Vec<i8>),
    I16(Vec<i16>),
    I32(Vec<i32>),
    I64(Vec<i64>),
    U8(Vec<u8>),
    U16(Vec<u16>),
    U32(Vec<u32>),
    U64(Vec<u64>),
    Bool(Vec<bool>),
}

/// Runs `$body` with `$v` bound to the vector inside, whatever its type.
macro_rules! for_each_dtype {
    ($data:expr, $v:ident => $body:expr) => {
        match $data {
            $crate::tensor::TensorData::F32($v) => $body,
            $crate::tensor::TensorData::F64($v) => $body,
            $crate::tensor::TensorData::F16($v) => $body,
            $crate::tensor::TensorData::BF16($v) => $body,
            $crate::tensor::TensorData::I8($v) => $body,
            $crate::tensor::TensorData::I16($v) => $body,
            $crate::tensor::TensorData::I32($v) => $body,
            $crate::tensor::TensorData::I64($v) => $body,
            $crate::tensor::TensorData::U8($v) => $body,
            $crate::tensor::TensorData::U16($v) => $body,
            $crate::tensor::TensorData::U32($v) => $body,
            $crate::tensor::TensorData::U64($v) => $body,
            $crate::tensor::TensorData::Bool($v) => $body,
        }
    };
}

impl TensorData {
    /// Number of elements, over all axes.
    pub fn len(&self) -> usize {
        for_each_dtype!(self, v => v.len())
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Type of the elements, which the variant says.
    pub fn dtype(&self) -> DType {
        match self {
            Self::F32(_) => DType::F32,
            Self::F64(_) => DType::F64,
            Self::F16(_) => DType::F16,
            Self::BF16(_) => DType::BF16,
            Self::I8(_) => DType::I8,
            Self::I16(_) => DType::I16,
            Self::I32(_) => DType::I32,
            Self::I64(_) => DType::I64,
            Self::U8(_) => DType::U8,
            Self::U16(_) => DType::U16,
            Self::U32(_) => DType::U32,
            Self::U64(_) => DType::U64,
            Self::Bool(_) => DType::Bool,
        }
    }
}

pub(crate) use for_each_dtype;

/// A dense, row-major host tensor.
///
/// # Examples
///
/// ```
/// use spark_onnx_graph::{DType, ModelError, Tensor};
///
/// let x = Tensor::from_f32([2, 3], vec![0.0, 1.0, 2.0, 3.0, 4.0, 5.0])?;
/// assert_eq!((x.shape(), x.dtype(), x.len()), (&[2, 3][..], DType::F32, 6));
/// let halves = Tensor::from_f64(DType::F16, [2], vec![0.5, 1e6])?;
/// assert_eq!(halves.to_f32(), [0.5, f32::INFINITY]); // f16 ends at 65504
/// assert!(matches!(Tensor::from_f32([2, 3], vec![0.0; 5]), Err(ModelError::ElementCount { got: 5, .. })));
/// # Ok::<(), spark_onnx_graph::ModelError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Tensor {
    shape: Vec<usize>,
    data: TensorData,
}

impl Tensor {
    /// Whether type, shape and the bits of all elements are the same: a NaN is what it is, and 0 is not -0.
    pub fn is_bitwise(&self, other: &Self) -> bool {
        macro_rules! floats {
            ($a:expr, $b:expr) => {
                $a.iter()
                    .map(|v| v.to_bits())
                    .eq($b.iter().map(|v| v.to_bits()))
            };
        }
        self.shape == other.shape
            && match (&self.data, &other.data) {
                (TensorData::F32(a), TensorData::F32(b)) => floats!(a, b),
                (TensorData::F64(a), TensorData::F64(b)) => floats!(a, b),
                (TensorData::F16(a), TensorData::F16(b)) => floats!(a, b),
                (TensorData::BF16(a), TensorData::BF16(b)) => floats!(a, b),
                (a, b) => a == b,
            }
    }

    /// A tensor of `shape` over `data`.
    ///
    /// # Errors
    ///
    /// [`ModelError::ElementCount`] unless `data` holds exactly the product of `shape`.
    pub fn new(shape: Vec<usize>, data: TensorData) -> Result<Self, ModelError> {
        if checked_elements(&shape) != Some(data.len()) {
            return Err(ModelError::ElementCount {
                shape,
                got: data.len(),
            });
        }
        Ok(Self { shape, data })
    }

    /// A tensor of f32 values.
    ///
    /// # Errors
    ///
    /// As [`Tensor::new`].
    pub fn from_f32(shape: impl Into<Vec<usize>>, values: Vec<f32>) -> Result<Self, ModelError> {
        Self::new(shape.into(), TensorData::F32(values))
    }

    /// A tensor of i64 values.
    ///
    /// # Errors
    ///
    /// As [`Tensor::new`].
    pub fn from_i64(shape: impl Into<Vec<usize>>, values: Vec<i64>) -> Result<Self, ModelError> {
        Self::new(shape.into(), TensorData::I64(values))
    }

    /// Extent of every axis, and the elements in row-major order, to write them.
    pub fn shape_and_elements_mut(&mut self) -> (&[usize], ElementsMut<'_>) {
        macro_rules! each {
            ($($variant:ident)*) => {
                match &mut self.data {
                    $(TensorData::$variant(values) => ElementsMut::$variant(values),)*
                }
            };
        }
        let elements = each!(F32 F64 F16 BF16 I8 I16 I32 I64 U8 U16 U32 U64 Bool);
        (&self.shape, elements)
    }

    /// `values` converted to `dtype`: floats round to nearest even, integers
    /// truncate towards zero and saturate, booleans are `value != 0`.
    ///
    /// # Errors
    ///
    /// As [`Tensor::new`].
    pub fn from_f64(
        dtype: DType,
        shape: impl Into<Vec<usize>>,
        values: Vec<f64>,
    ) -> Result<Self, ModelError> {
        let data = match dtype {
            DType::F32 => TensorData::F32(values.iter().map(|&v| v as f32).collect()),
            DType::F64 => TensorData::F64(values),
            DType::F16 => TensorData::F16(values.iter().map(|&v| f16::from_f64(v)).collect()),
            DType::BF16 => TensorData::BF16(values.iter().map(|&v| bf16::from_f64(v)).collect()),
            DType::I8 => TensorData::I8(values.iter().map(|&v| v as i8).collect()),
            DType::I16 => TensorData::I16(values.iter().map(|&v| v as i16).collect()),
            DType::I32 => TensorData::I32(values.iter().map(|&v| v as i32).collect()),
            DType::I64 => TensorData::I64(values.iter().map(|&v| v as i64).collect()),
            DType::U8 => TensorData::U8(values.iter().map(|&v| v as u8).collect()),
            DType::U16 => TensorData::U16(values.iter().map(|&v| v as u16).collect()),
            DType::U32 => TensorData::U32(values.iter().map(|&v| v as u32).collect()),
            DType::U64 => TensorData::U64(values.iter().map(|&v| v as u64).collect()),
            DType::Bool => TensorData::Bool(values.iter().map(|&v| v != 0.0).collect()),
        };
        Self::new(shape.into(), data)
    }

    /// A tensor of zeros (`false` for booleans).
    ///
    /// # Errors
    ///
    /// [`ModelError::ElementCount`] if `shape` has more than [`MAX_ELEMENTS`] elements;
    /// [`ModelError::TensorMemory`] if the system refuses the memory.
    pub fn zeros(dtype: DType, shape: impl Into<Vec<usize>>) -> Result<Self, ModelError> {
        let shape = shape.into();
        let Some(n) = checked_elements(&shape) else {
            return Err(ModelError::ElementCount { shape, got: 0 });
        };
        macro_rules! zeros {
            ($variant:ident) => {
                budget::zeros(n).map(TensorData::$variant)
            };
        }
        let data = match dtype {
            DType::F32 => zeros!(F32),
            DType::F64 => zeros!(F64),
            DType::F16 => zeros!(F16),
            DType::BF16 => zeros!(BF16),
            DType::I8 => zeros!(I8),
            DType::I16 => zeros!(I16),
            DType::I32 => zeros!(I32),
            DType::I64 => zeros!(I64),
            DType::U8 => zeros!(U8),
            DType::U16 => zeros!(U16),
            DType::U32 => zeros!(U32),
            DType::U64 => zeros!(U64),
            DType::Bool => zeros!(Bool),
        };
        match data {
            Some(data) => Ok(Self { shape, data }),
            None => Err(ModelError::TensorMemory {
                bytes: n.saturating_mul(dtype.size_bytes()),
                shape,
            }),
        }
    }

    /// The extent of every axis; empty for a scalar.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The elements, row-major, with their type.
    pub fn data(&self) -> &TensorData {
        &self.data
    }

    /// The elements, taken out.
    pub fn into_data(self) -> TensorData {
        self.data
    }

    /// Type of the elements that [`Tensor::data`] holds.
    pub fn dtype(&self) -> DType {
        self.data.dtype()
    }

    /// Number of elements: the product of [`Tensor::shape`], 1 for a scalar.
    pub fn len(&self) -> usize {
        self.data.len()
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.data.is_empty()
    }

    /// Bytes the elements take.
    pub fn size_bytes(&self) -> usize {
        self.len() * self.dtype().size_bytes()
    }

    /// The same elements under another shape.
    ///
    /// # Errors
    ///
    /// As [`Tensor::new`].
    pub fn reshaped(self, shape: impl Into<Vec<usize>>) -> Result<Self, ModelError> {
        Self::new(shape.into(), self.data)
    }

    /// The elements if they are f32.
    pub fn as_f32(&self) -> Option<&[f32]> {
        match &self.data {
            TensorData::F32(v) => Some(v),
            _ => None,
        }
    }

    /// The elements if they are f32, for writing; their number stays.
    pub fn as_f32_mut(&mut self) -> Option<&mut [f32]> {
        match &mut self.data {
            TensorData::F32(v) => Some(v),
            _ => None,
        }
    }

    /// The elements if they are i64.
    pub fn as_i64(&self) -> Option<&[i64]> {
        match &self.data {
            TensorData::I64(v) => Some(v),
            _ => None,
        }
    }

    /// Every element as f64. Exact except for 64-bit integers beyond 2^53.
    pub fn to_f64(&self) -> Vec<f64> {
        match &self.data {
            TensorData::F32(v) => v.iter().map(|&x| f64::from(x)).collect(),
            TensorData::F64(v) => v.clone(),
            TensorData::F16(v) => v.iter().map(|x| x.to_f64()).collect(),
            TensorData::BF16(v) => v.iter().map(|x| x.to_f64()).collect(),
            TensorData::I8(v) => v.iter().map(|&x| f64::from(x)).collect(),
            TensorData::I16(v) => v.iter().map(|&x| f64::from(x)).collect(),
            TensorData::I32(v) => v.iter().map(|&x| f64::from(x)).collect(),
            TensorData::I64(v) => v.iter().map(|&x| x as f64).collect(),
            TensorData::U8(v) => v.iter().map(|&x| f64::from(x)).collect(),
            TensorData::U16(v) => v.iter().map(|&x| f64::from(x)).collect(),
            TensorData::U32(v) => v.iter().map(|&x| f64::from(x)).collect(),
            TensorData::U64(v) => v.iter().map(|&x| x as f64).collect(),
            TensorData::Bool(v) => v.iter().map(|&x| f64::from(u8::from(x))).collect(),
        }
    }

    /// Every element as f32: exact for f16 and bf16, otherwise rounded to nearest even.
    pub fn to_f32(&self) -> Vec<f32> {
        if let Some(values) = self.as_f32() {
            return values.to_vec();
        }
        let mut values = vec![0.0; self.len()];
        self.write_f32(0..self.len(), &mut values);
        values
    }
}

impl Tensor {
    /// The first finite number that is an infinity as f32, for whoever computes f64 in f32. Only f64
    /// has such numbers.
    pub fn first_beyond_f32(&self) -> Option<f64> {
        let TensorData::F64(values) = &self.data else {
            return None;
        };
        let is_beyond = |v: &f64| v.is_finite() && (*v as f32).is_infinite();
        values.iter().copied().find(is_beyond)
    }

    /// Writes elements `range`, positions in row-major order, as [`Tensor::to_f32`] gives them: a part of
    /// a large constant without a copy of the whole.
    ///
    /// # Panics
    ///
    /// If they do not exist or `to` is not as long as they are many.
    pub fn write_f32(&self, range: Range<usize>, to: &mut [f32]) {
        macro_rules! each {
            ($values:expr, $convert:expr) => {
                for (to, &value) in to.iter_mut().zip(&$values[range]) {
                    *to = $convert(value);
                }
            };
        }
        assert_eq!(range.len(), to.len(), "elements and places");
        match &self.data {
            TensorData::F32(v) => to.copy_from_slice(&v[range]),
            TensorData::F16(v) => v[range].convert_to_f32_slice(to),
            TensorData::BF16(v) => v[range].convert_to_f32_slice(to),
            TensorData::F64(v) => each!(v, |x| x as f32),
            TensorData::I8(v) => each!(v, f32::from),
            TensorData::I16(v) => each!(v, f32::from),
            TensorData::I32(v) => each!(v, |x| x as f32),
            TensorData::I64(v) => each!(v, |x| x as f32),
            TensorData::U8(v) => each!(v, f32::from),
            TensorData::U16(v) => each!(v, f32::from),
            TensorData::U32(v) => each!(v, |x| x as f32),
            TensorData::U64(v) => each!(v, |x| x as f32),
            TensorData::Bool(v) => each!(v, |x| f32::from(u8::from(x))),
        }
    }
}
