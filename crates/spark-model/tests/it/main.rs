//! Whole-crate tests, in one binary.

mod bench;
mod conformance;
mod data;
mod goldens;
mod onnx_models;
mod onnx_real;
mod onnx_roundtrip;
mod onnx_samples;
mod onnx_versions;
mod openpilot;
mod reference;
mod zoo;
