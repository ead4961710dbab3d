//! Whole-crate tests that look at what is private: plans, executors, the wire format.
//!
//! What the public interface shows is tested in `tests/it`.

mod attention;
mod mutations;
pub(crate) mod networks;
mod onnx_damage;
mod onnx_declarations;
mod onnx_exporters;
mod onnx_files;
mod onnx_hostile;
mod onnx_large;
mod onnx_models;
mod onnx_roundtrip;
mod onnx_samples;
mod onnx_samples_shape;
mod onnx_versions;
mod operators;
mod precisions;
mod running;
