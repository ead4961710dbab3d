//! Element types of files that tensors do not have, held as wider ones.

use crate::graph::SmallFloat;
use spark_onnx_proto::NarrowType;

/// The float that a type is, or none of an integer.
pub(crate) fn small_float(narrow: NarrowType) -> Option<SmallFloat> {
    Some(match narrow {
        NarrowType::F8E4M3FN => SmallFloat::E4M3FN,
        NarrowType::F8E4M3FNUZ => SmallFloat::E4M3FNUZ,
        NarrowType::F8E5M2 => SmallFloat::E5M2,
        NarrowType::F8E5M2FNUZ => SmallFloat::E5M2FNUZ,
        NarrowType::F4E2M1 => SmallFloat::E2M1,
        NarrowType::U4 | NarrowType::I4 | NarrowType::U2 | NarrowType::I2 => return None,
    })
}

/// The number of `onnx.proto` for a float.
pub(crate) fn number_of_float(format: SmallFloat) -> i64 {
    let narrow = match format {
        SmallFloat::E4M3FN => NarrowType::F8E4M3FN,
        SmallFloat::E4M3FNUZ => NarrowType::F8E4M3FNUZ,
        SmallFloat::E5M2 => NarrowType::F8E5M2,
        SmallFloat::E5M2FNUZ => NarrowType::F8E5M2FNUZ,
        SmallFloat::E2M1 => NarrowType::F4E2M1,
    };
    i64::from(narrow.number())
}

/// The first operator set whose Cast and quantisation have a float.
pub(crate) fn operator_set_of(format: SmallFloat) -> i64 {
    match format {
        SmallFloat::E2M1 => 23,
        _ => 19,
    }
}

/// The least and the greatest integer of a type.
pub(crate) fn range_of(narrow: NarrowType) -> (f64, f64) {
    match narrow {
        NarrowType::U4 => (0.0, 15.0),
        NarrowType::I4 => (-8.0, 7.0),
        NarrowType::U2 => (0.0, 3.0),
        NarrowType::I2 => (-2.0, 1.0),
        _ => (f64::NEG_INFINITY, f64::INFINITY),
    }
}
