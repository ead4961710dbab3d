//! The types that elements of tensors can have.

/// The type of a tensor's elements. It is exhaustive, so that an engine finds every place that a new
/// one needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DType {
    /// IEEE 754 binary32, 4 bytes.
    F32,
    /// IEEE 754 binary64, 8 bytes; `spark-onnx` computes it in f32.
    F64,
    /// IEEE 754 binary16, 2 bytes: largest finite value 65504.
    F16,
    /// bfloat16, 2 bytes: the upper half of an f32.
    BF16,
    /// Signed integer of 8 bits, -128..=127.
    I8,
    /// Signed integer of 16 bits, two's complement.
    I16,
    /// Signed integer of 32 bits, two's complement.
    I32,
    /// Signed integer of 64 bits, two's complement; ONNX's type of shapes and indices.
    I64,
    /// Unsigned integer of 8 bits, 0..=255.
    U8,
    /// Unsigned integer of 16 bits, 0..=65535.
    U16,
    /// Unsigned integer of 32 bits, 0..=2^32 - 1.
    U32,
    /// Unsigned integer of 64 bits, 0..=2^64 - 1.
    U64,
    /// Boolean, one byte each.
    Bool,
}

impl DType {
    /// Every type, as declared.
    pub const ALL: [Self; 13] = [
        Self::F32,
        Self::F64,
        Self::F16,
        Self::BF16,
        Self::I8,
        Self::I16,
        Self::I32,
        Self::I64,
        Self::U8,
        Self::U16,
        Self::U32,
        Self::U64,
        Self::Bool,
    ];

    /// Bytes one element takes.
    pub const fn size_bytes(self) -> usize {
        match self {
            Self::I8 | Self::U8 | Self::Bool => 1,
            Self::F16 | Self::BF16 | Self::I16 | Self::U16 => 2,
            Self::F32 | Self::I32 | Self::U32 => 4,
            Self::F64 | Self::I64 | Self::U64 => 8,
        }
    }

    /// Whether the type is a floating-point format.
    pub const fn is_float(self) -> bool {
        matches!(self, Self::F32 | Self::F64 | Self::F16 | Self::BF16)
    }
}

impl std::fmt::Display for DType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::F32 => "f32",
            Self::F64 => "f64",
            Self::F16 => "f16",
            Self::BF16 => "bf16",
            Self::I8 => "i8",
            Self::I16 => "i16",
            Self::I32 => "i32",
            Self::I64 => "i64",
            Self::U8 => "u8",
            Self::U16 => "u16",
            Self::U32 => "u32",
            Self::U64 => "u64",
            Self::Bool => "bool",
        })
    }
}
