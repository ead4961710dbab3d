//! Whole-crate tests, in one binary.

#[cfg(feature = "ndarray")]
mod arrays;
mod custom_operators;
#[cfg(feature = "safetensors")]
mod files;
mod gradient;
mod onnx_real;
mod reference;
mod reference_types;
