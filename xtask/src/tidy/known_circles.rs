//! What is left of older circles between files. Both lists only shrink: an entry that no
//! circle needs any more is a finding of the rule `circle`.

/// Files that take names of each other in a ring; arrows that `PARENTS` excuses are not counted.
pub(super) const FILES: &[&str] = &[];

/// Modules that use their children while these take items which the module's own file defines.
/// Such items belong in a file beside the children, re-exported by the module.
pub(super) const PARENTS: &[&str] = &[
    "crates/spark-onnx/src/file/mod.rs",
    "crates/spark-onnx/src/lib.rs",
    "crates/spark-sim/src/compare/mod.rs",
    "crates/spark-sim/src/env/mod.rs",
    "crates/spark-sim/src/learned/mod.rs",
    "crates/spark-sim/src/metric/mod.rs",
    "crates/spark-sim/src/report/mod.rs",
];
