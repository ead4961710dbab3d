//! Whole-crate tests, in one binary.

mod data;
mod onnx_real;
mod reference;
