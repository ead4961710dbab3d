//! Elements of the model's types as they are held while running, and back.
//!
//! ```text
//! in    f32, f64, f16, bf16, i8, u8, bool -> f32     wider integers -> i64     (`Storage::of`)
//! out   f32 -> the port's type                       i64 -> the port's type, low bits kept
//! ```

use crate::plan::Port;
use crate::tensor::{Tensor, TensorData};
use crate::{DType, ModelError};

/// An element of a caller's tensor, as either storage holds it.
pub(crate) trait Held: Copy {
    /// As a buffer of f32 holds it.
    fn f32(self) -> f32;
    /// As a buffer of i64 holds it.
    fn i64(self) -> i64;
}

macro_rules! held {
    ($($t:ty),*) => {$(
        impl Held for $t {
            fn f32(self) -> f32 { self as f32 }
            fn i64(self) -> i64 { self as i64 }
        }
    )*};
}
held!(f32, f64, i8, i16, i32, i64, u8, u16, u32, u64);

impl Held for bool {
    fn f32(self) -> f32 {
        f32::from(u8::from(self))
    }
    fn i64(self) -> i64 {
        i64::from(self)
    }
}

impl Held for half::f16 {
    fn f32(self) -> f32 {
        self.to_f32()
    }
    fn i64(self) -> i64 {
        self.to_f32() as i64
    }
}

impl Held for half::bf16 {
    fn f32(self) -> f32 {
        self.to_f32()
    }
    fn i64(self) -> i64 {
        self.to_f32() as i64
    }
}

/// What an element of an output becomes in a caller's memory, as [`tensor_of`] makes it.
pub(crate) trait Declared: Copy {
    /// From a buffer of f32.
    fn of_f32(value: f32) -> Self;
    /// From a buffer of i64.
    fn of_i64(value: i64) -> Self;
}

macro_rules! declared {
    ($($t:ty),*) => {$(
        impl Declared for $t {
            fn of_f32(value: f32) -> Self { value as $t }
            fn of_i64(value: i64) -> Self { value as $t }
        }
    )*};
}
declared!(f32, f64, i8, i16, i32, i64, u8, u16, u32, u64);

impl Declared for bool {
    fn of_f32(value: f32) -> Self {
        value != 0.0
    }
    fn of_i64(value: i64) -> Self {
        value != 0
    }
}

impl Declared for half::f16 {
    fn of_f32(value: f32) -> Self {
        Self::from_f32(value)
    }
    fn of_i64(value: i64) -> Self {
        Self::from_f64(value as f64)
    }
}

impl Declared for half::bf16 {
    fn of_f32(value: f32) -> Self {
        Self::from_f32(value)
    }
    fn of_i64(value: i64) -> Self {
        Self::from_f64(value as f64)
    }
}

/// All elements of an output in row-major order, as its buffer holds them.
pub(crate) enum HeldValues {
    F32(Vec<f32>),
    I64(Vec<i64>),
}

/// The tensor of `values` in the type and shape that the model declares for `port`.
///
/// # Errors
///
/// [`ModelError::ElementCount`] unless there are as many values as the port's shape has elements.
pub(crate) fn tensor_of(port: &Port, values: HeldValues) -> Result<Tensor, ModelError> {
    match (values, port.dtype) {
        (HeldValues::F32(values), DType::F32) => Tensor::from_f32(port.shape.clone(), values),
        (HeldValues::F32(values), dtype) => {
            let wide = values.into_iter().map(f64::from).collect();
            Tensor::from_f64(dtype, port.shape.clone(), wide)
        }
        (HeldValues::I64(values), dtype) => {
            let data = match dtype {
                DType::I16 => TensorData::I16(values.into_iter().map(|v| v as i16).collect()),
                DType::I32 => TensorData::I32(values.into_iter().map(|v| v as i32).collect()),
                DType::U16 => TensorData::U16(values.into_iter().map(|v| v as u16).collect()),
                DType::U32 => TensorData::U32(values.into_iter().map(|v| v as u32).collect()),
                DType::U64 => TensorData::U64(values.into_iter().map(|v| v as u64).collect()),
                _ => TensorData::I64(values),
            };
            Tensor::new(port.shape.clone(), data)
        }
    }
}
