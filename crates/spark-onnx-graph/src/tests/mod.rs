//! Whole-crate tests that look at what is private: the messages of files among them.
//!
//! What the public interface shows is tested in `tests/it`.

mod onnx_control;
mod onnx_declarations;
mod onnx_exporters;
mod onnx_files;
mod onnx_hostile;
mod onnx_large;
mod onnx_random;
mod onnx_refusals;
mod onnx_roundtrip;
mod onnx_versions;
mod support_table;

use crate::samples::{DamagedFiles, every_operator};
use spark_testing::test_data;

/// Damaged files of every operator, and of the real models if they are there.
fn damaged_files() -> DamagedFiles {
    let real = [
        "dmonitoring_0_8_5.onnx",
        "dmonitoring_0_8_9.onnx",
        "supercombo_0_7_4_random_fp16.onnx",
    ];
    let real = real
        .iter()
        .filter_map(|file| test_data(&format!("data/models/{file}")))
        .map(|path| std::fs::read(path).expect("readable"));
    DamagedFiles::new(&every_operator(), real.collect())
}
