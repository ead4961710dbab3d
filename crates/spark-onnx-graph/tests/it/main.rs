//! Whole-crate tests, in one binary.

mod onnx_real;
mod reference;
mod reference_types;
