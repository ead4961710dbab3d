//! How elements are held while running.

use crate::tensor::DType;

/// How elements are held while running. Floats, booleans and 8-bit integers are
/// exact in f32; wider integers are held as i64. Between products of 8-bit integers these are bytes, and where an executor
/// says so values of bf16 that products read have 16 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Storage {
    F32,
    I64,
    /// No port and no constant is held so.
    I8,
    /// As `I8`.
    U8,
    /// Floats that whatever writes them rounds. Lowering makes no such buffer: an executor does, of f32 that only kernels
    /// touch which take either. No output and no constant is held so.
    Bf16,
}

impl Storage {
    /// How elements of `dtype` are held. `f64` is held as f32, which lowering logs.
    pub(crate) fn of(dtype: DType) -> Self {
        match dtype {
            DType::F32
            | DType::F64
            | DType::F16
            | DType::BF16
            | DType::I8
            | DType::U8
            | DType::Bool => Self::F32,
            _ => Self::I64,
        }
    }

    /// Bytes one element takes.
    pub(crate) const fn size_bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::I64 => 8,
            Self::I8 | Self::U8 => 1,
            Self::Bf16 => 2,
        }
    }

    /// Whether elements are bytes.
    pub(crate) const fn is_byte(self) -> bool {
        matches!(self, Self::I8 | Self::U8)
    }

    /// Whether elements are floats, of either width.
    pub(crate) const fn is_float(self) -> bool {
        matches!(self, Self::F32 | Self::Bf16)
    }
}
