//! What is left of older circles between files. Both lists only shrink: an entry that no
//! circle needs any more is a finding of the rule `circle`.

/// Files that take names of each other in a ring; arrows that `PARENTS` excuses are not counted.
pub(super) const FILES: &[&str] = &[
    "crates/spark-dora/src/layer/conv.rs",
    "crates/spark-dora/src/layer/embedding.rs",
    "crates/spark-dora/src/layer/linear.rs",
    "crates/spark-dora/src/layer/mod.rs",
    "crates/spark-dora/src/merge.rs",
    "crates/spark-onnx/src/cpu/columns.rs",
    "crates/spark-onnx/src/cpu/gemm.rs",
    "crates/spark-onnx/src/cpu/narrow.rs",
    "crates/spark-onnx/src/cpu/narrow/arm.rs",
    "crates/spark-onnx/src/cpu/peak.rs",
    "crates/spark-onnx/src/graph/infer/mod.rs",
    "crates/spark-onnx/src/plan/lower/mod.rs",
    "crates/spark-onnx/src/reference/mod.rs",
    "crates/spark-quant/src/block/hadamard.rs",
    "crates/spark-quant/src/block/mx.rs",
    "crates/spark-quant/src/block/nvfp4.rs",
    "crates/spark-quant/src/block/plain.rs",
    "crates/spark-quant/src/block/stochastic.rs",
    "crates/spark-quant/src/checkpoint/scheme/mod.rs",
    "crates/spark-quant/src/packed/tensor.rs",
    "crates/spark-quant/src/simd/mod.rs",
    "crates/spark-sim/src/road/mod.rs",
];

/// Modules that use their children while these take items which the module's own file defines.
/// Such items belong in a file beside the children, re-exported by the module.
pub(super) const PARENTS: &[&str] = &[
    "crates/spark-dora/src/adapter/mod.rs",
    "crates/spark-dora/src/layer/mod.rs",
    "crates/spark-onnx/src/cpu/math.rs",
    "crates/spark-onnx/src/cpu/simd/mod.rs",
    "crates/spark-onnx/src/file/export/mod.rs",
    "crates/spark-onnx/src/file/import/mod.rs",
    "crates/spark-onnx/src/file/mod.rs",
    "crates/spark-onnx/src/graph/infer/mod.rs",
    "crates/spark-onnx/src/lib.rs",
    "crates/spark-onnx/src/plan/lower/mod.rs",
    "crates/spark-onnx/src/reference/mod.rs",
    "crates/spark-quant/src/block/mod.rs",
    "crates/spark-quant/src/checkpoint/mod.rs",
    "crates/spark-quant/src/checkpoint/scheme/mod.rs",
    "crates/spark-quant/src/gemm/mod.rs",
    "crates/spark-quant/src/simd/mod.rs",
    "crates/spark-sim/src/compare/mod.rs",
    "crates/spark-sim/src/env/mod.rs",
    "crates/spark-sim/src/learned/mod.rs",
    "crates/spark-sim/src/metric/mod.rs",
    "crates/spark-sim/src/real/mod.rs",
    "crates/spark-sim/src/report/mod.rs",
    "crates/spark-sim/src/road/mod.rs",
];
