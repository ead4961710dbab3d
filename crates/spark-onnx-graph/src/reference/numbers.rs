//! Elements as f64 or 128-bit integers, and back with one rounding.
//!
//! f16 and bf16 are reached from f64 through an f32 rounded to odd: such an f32
//! has more than two bits beyond those formats' precision and never sits on a
//! tie that the f64 did not sit on, so that the second rounding is the only one
//! that counts (Boldo and Melquiond, "Emulation of FMA and correctly rounded
//! sums: proved algorithms using rounding to odd", 2008).

use half::{bf16, f16};

use super::operator::make;
use crate::graph::{OpError, TensorType};
use crate::tensor::{DType, Tensor, TensorData};

/// Elements in a type wide enough for all formats of their kind. Booleans are
/// whole numbers 0 and 1.
pub(super) enum Numbers {
    Float(Vec<f64>),
    Whole(Vec<i128>),
}

impl Numbers {
    /// The elements of `tensor`, exactly.
    pub(super) fn of(tensor: &Tensor) -> Self {
        fn whole<T: Copy + Into<i128>>(values: &[T]) -> Numbers {
            Numbers::Whole(values.iter().map(|&v| v.into()).collect())
        }
        match tensor.data() {
            TensorData::I8(v) => whole(v),
            TensorData::I16(v) => whole(v),
            TensorData::I32(v) => whole(v),
            TensorData::I64(v) => whole(v),
            TensorData::U8(v) => whole(v),
            TensorData::U16(v) => whole(v),
            TensorData::U32(v) => whole(v),
            TensorData::U64(v) => whole(v),
            TensorData::Bool(v) => Self::Whole(v.iter().map(|&b| i128::from(b)).collect()),
            TensorData::F32(_) | TensorData::F64(_) | TensorData::F16(_) | TensorData::BF16(_) => {
                Self::Float(tensor.to_f64())
            }
        }
    }
}

/// Whole elements, or none if `tensor` holds floats.
pub(super) fn whole_numbers(tensor: &Tensor) -> Option<Vec<i128>> {
    match Numbers::of(tensor) {
        Numbers::Whole(values) => Some(values),
        Numbers::Float(_) => None,
    }
}

/// Elements of a type from `$values`: `as` for floats of 32 bits and more and for integers, halves
/// through an f32 rounded to odd, booleans `value != $zero`.
macro_rules! elements {
    ($dtype:expr, $values:expr, $to_odd:path, $zero:literal) => {
        match $dtype {
            DType::F64 => TensorData::F64($values.map(|v| v as f64).collect()),
            DType::F32 => TensorData::F32($values.map(|v| v as f32).collect()),
            DType::F16 => TensorData::F16($values.map(|v| f16::from_f32($to_odd(v))).collect()),
            DType::BF16 => TensorData::BF16($values.map(|v| bf16::from_f32($to_odd(v))).collect()),
            DType::I8 => TensorData::I8($values.map(|v| v as i8).collect()),
            DType::I16 => TensorData::I16($values.map(|v| v as i16).collect()),
            DType::I32 => TensorData::I32($values.map(|v| v as i32).collect()),
            DType::I64 => TensorData::I64($values.map(|v| v as i64).collect()),
            DType::U8 => TensorData::U8($values.map(|v| v as u8).collect()),
            DType::U16 => TensorData::U16($values.map(|v| v as u16).collect()),
            DType::U32 => TensorData::U32($values.map(|v| v as u32).collect()),
            DType::U64 => TensorData::U64($values.map(|v| v as u64).collect()),
            DType::Bool => TensorData::Bool($values.map(|v| v != $zero).collect()),
        }
    };
}

/// A tensor of the inferred type from f64: floats round to nearest even, integers
/// truncate and saturate, booleans are `value != 0`.
pub(super) fn from_floats(ty: &TensorType, values: Vec<f64>) -> Result<Tensor, OpError> {
    make(
        ty,
        elements!(ty.dtype, values.into_iter(), round_to_odd, 0.0),
    )
}

/// A tensor of the inferred type from whole numbers: integers wrap, floats round
/// to nearest even, booleans are `value != 0`.
pub(super) fn from_whole(ty: &TensorType, values: Vec<i128>) -> Result<Tensor, OpError> {
    make(ty, elements!(ty.dtype, values.into_iter(), whole_to_odd, 0))
}

/// A tensor of the inferred type.
pub(super) fn from_numbers(ty: &TensorType, values: Numbers) -> Result<Tensor, OpError> {
    match values {
        Numbers::Float(values) => from_floats(ty, values),
        Numbers::Whole(values) => from_whole(ty, values),
    }
}

/// `value` as f32; where it is none, the neighbour whose last bit is set.
fn round_to_odd(value: f64) -> f32 {
    let nearest = value as f32;
    let back = f64::from(nearest);
    odd_neighbour(nearest, back.partial_cmp(&value))
}

fn whole_to_odd(value: i128) -> f32 {
    let nearest = value as f32;
    odd_neighbour(nearest, Some((nearest as i128).cmp(&value)))
}

/// `nearest` moved off an even last bit towards the value it stands for, which it
/// compares to as `side` says.
fn odd_neighbour(nearest: f32, side: Option<std::cmp::Ordering>) -> f32 {
    let exact = !matches!(
        side,
        Some(std::cmp::Ordering::Less | std::cmp::Ordering::Greater)
    );
    if exact || !nearest.is_finite() || nearest.to_bits() & 1 == 1 {
        return nearest;
    }
    match side {
        Some(std::cmp::Ordering::Less) => nearest.next_up(),
        _ => nearest.next_down(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_just_above_a_tie_rounds_up() {
        // 1 + 2^-11 lies halfway between two f16; 2^-40 more decides it.
        let ty = TensorType {
            dtype: DType::F16,
            shape: vec![3],
        };
        let tie = 1.0 + 2f64.powi(-11);
        let got = from_floats(&ty, vec![tie, tie + 2f64.powi(-40), tie - 2f64.powi(-40)]);
        let want = [1.0, 1.0 + 2f64.powi(-10), 1.0];
        assert_eq!(got.map(|t| t.to_f64()), Ok(want.to_vec()));
    }

    #[test]
    fn whole_numbers_wrap_and_round_once() {
        let ty = |dtype| TensorType {
            dtype,
            shape: vec![1],
        };
        let got = |dtype, v| from_whole(&ty(dtype), vec![v]).map(|t| t.to_f64()[0]);
        assert_eq!(got(DType::I8, 200), Ok(-56.0));
        // Just above halfway between two bf16, by less than an f64 resolves.
        let tie = (1i128 << 62) + (1 << 54);
        assert_eq!(got(DType::BF16, tie), Ok(2f64.powi(62)));
        assert_eq!(got(DType::BF16, tie + 1), Ok(2f64.powi(62) + 2f64.powi(55)));
    }
}
