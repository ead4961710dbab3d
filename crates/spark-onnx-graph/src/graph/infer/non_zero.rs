//! Which elements are not zero: so many columns NonZero gives.

use crate::tensor::{Tensor, TensorData};

/// Calls `visit` with the row-major positions of the elements that are not zero, as NaN is not, in ascending order.
pub(crate) fn for_each_non_zero(x: &Tensor, mut visit: impl FnMut(usize)) {
    macro_rules! each {
        ($values:expr, $is_zero:expr) => {
            for (at, value) in $values.iter().enumerate() {
                if !$is_zero(value) {
                    visit(at);
                }
            }
        };
    }
    match x.data() {
        TensorData::F32(v) => each!(v, |v: &f32| *v == 0.0),
        TensorData::F64(v) => each!(v, |v: &f64| *v == 0.0),
        TensorData::F16(v) => each!(v, |v: &half::f16| v.to_f32() == 0.0),
        TensorData::BF16(v) => each!(v, |v: &half::bf16| v.to_f32() == 0.0),
        TensorData::I8(v) => each!(v, |v: &i8| *v == 0),
        TensorData::I16(v) => each!(v, |v: &i16| *v == 0),
        TensorData::I32(v) => each!(v, |v: &i32| *v == 0),
        TensorData::I64(v) => each!(v, |v: &i64| *v == 0),
        TensorData::U8(v) => each!(v, |v: &u8| *v == 0),
        TensorData::U16(v) => each!(v, |v: &u16| *v == 0),
        TensorData::U32(v) => each!(v, |v: &u32| *v == 0),
        TensorData::U64(v) => each!(v, |v: &u64| *v == 0),
        TensorData::Bool(v) => each!(v, |v: &bool| !*v),
    }
}
