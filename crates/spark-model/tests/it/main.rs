//! Whole-crate tests, in one binary.

mod attention;
mod bench;
mod conformance;
mod goldens;
mod memory;
mod mutations;
mod onnx_damage;
mod onnx_exporters;
mod onnx_files;
mod onnx_hostile;
mod onnx_large;
mod onnx_models;
mod onnx_real;
mod onnx_roundtrip;
mod onnx_samples;
mod onnx_samples_shape;
mod onnx_versions;
mod openpilot;
mod operators;
mod precisions;
mod reference;
mod reference_types;
mod running;
mod sixteen_bits;
mod zoo;

/// What tests of memory watch.
#[global_allocator]
static ALLOCATOR: spark_testing::Measuring = spark_testing::Measuring;
