//! Whole-crate tests, in one binary.

mod data;
mod onnx_real;
mod onnx_roundtrip;
mod onnx_samples;
mod reference;
