//! Inputs of a network by their names, and some that are made up to look at it.

use spark_onnx_graph::graph::StaticGraph;
use spark_onnx_graph::{DType, ModelError, Tensor};

/// Tensors by the names of their inputs.
pub(super) type Named = Vec<(String, Tensor)>;

/// Inputs of the bound shapes: floats within 1 of zero, zeros of other types, which may be indices; bytes of all sizes, if these are none.
pub(super) fn made_up(bound: &StaticGraph, has_pictures: bool) -> Result<Named, ModelError> {
    let mut made = Vec::new();
    for &id in bound.inputs() {
        let value = bound.value(id);
        let (dtype, shape) = (value.ty.dtype, value.ty.shape.clone());
        let n: usize = shape.iter().product();
        let number = |i: usize| match dtype {
            DType::F32 | DType::F64 | DType::F16 | DType::BF16 => {
                (i.wrapping_mul(7919) % 2003) as f64 / 1001.0 - 1.0
            }
            DType::U8 if has_pictures => (i.wrapping_mul(31) % 256) as f64,
            _ => 0.0,
        };
        let tensor = Tensor::from_f64(dtype, shape, (0..n).map(number).collect())?;
        made.push((value.name.clone(), tensor));
    }
    Ok(made)
}

/// Tensors as sessions are lent them.
pub(super) fn lent(tensors: &[(String, Tensor)]) -> Vec<(&str, &Tensor)> {
    let tensors = tensors.iter();
    tensors
        .map(|(name, tensor)| (name.as_str(), tensor))
        .collect()
}
