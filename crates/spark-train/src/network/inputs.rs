//! Inputs of a network by their names, and some that are made up to look at it.

use spark_onnx_graph::graph::StaticGraph;
use spark_onnx_graph::{DType, ModelError, Tensor};

/// Tensors by the names of their inputs.
pub(super) type Named = Vec<(String, Tensor)>;

/// Inputs of the bound shapes: floats within 1 of zero, zeros of other types.
pub(super) fn made_up(bound: &StaticGraph) -> Result<Named, ModelError> {
    let mut made = Vec::new();
    for &id in bound.inputs() {
        let value = bound.value(id);
        let (dtype, shape) = (value.ty.dtype, value.ty.shape.clone());
        let n = shape.iter().product();
        let numbers = (0..n).map(|i: usize| (i.wrapping_mul(7919) % 2003) as f64 / 1001.0 - 1.0);
        let is_float = matches!(dtype, DType::F32 | DType::F64 | DType::F16 | DType::BF16);
        let tensor = match is_float {
            true => Tensor::from_f64(dtype, shape, numbers.collect())?,
            false => Tensor::zeros(dtype, shape)?,
        };
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
