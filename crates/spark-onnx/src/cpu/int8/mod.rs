//! Kernels of 8-bit integers: products by `spark_gemm::int8`, and depthwise convolution.

pub(super) mod depthwise;
mod image;
mod lists;
pub(super) mod product;

use crate::DType;
use crate::plan::Int8Step;

/// Types of the operands, for the kernel's name.
fn operands_of(step: &Int8Step) -> &'static str {
    match (step.x_type, step.w_type) {
        (DType::I8, DType::I8) => "i8",
        (DType::I8, _) => "i8xu8",
        (_, DType::I8) => "u8xi8",
        _ => "u8",
    }
}
