//! Which crate may use which: imports point down only.
//!
//! ```text
//! { simd, parallel } <- gemm;  hal <- mem <- quant;  files <- onnx-proto;  { hal, onnx-proto } <- onnx-graph
//! { gemm, quant, onnx-graph } <- onnx <- openpilot <- { sim, bench } <- facade;  { gemm, quant, onnx } <- load <- facade
//! { gemm, quant } <- dora <- facade;  { onnx, openpilot, data, dora, files } <- train <- facade
//! { files, drawing } <- data <- facade; by the table also { hal, parallel } <- data <- { dora, sim }
//! drawing            <- { quant, data, sim, bench, xtask }, and train's examples
//! files <- shards <- { program, facade }    numbered work among processes; the program gives it the work
//! { hal, files, shards } <- program <- facade   the program; reachable by examples of every crate besides
//! ptx <- testing       reachable as dev-dependencies only: by tests, benches, examples
//! ```
//!
//! A crate may use every crate that stands below it on its way down, not only the next one.
//! The table allows edges that no manifest has yet.

/// A crate and every crate of the workspace that its code may use.
pub(crate) const ALLOWED: &[(&str, &[&str])] = &[
    ("spark-files", &[]),
    ("spark-drawing", &[]),
    ("spark-hal", &[]),
    ("spark-simd", &[]),
    ("spark-parallel", &[]),
    ("spark-shards", &["spark-files"]),
    ("spark-gemm", &["spark-simd", "spark-parallel"]),
    (
        "spark-mem",
        &["spark-files", "spark-hal", "spark-simd", "spark-parallel"],
    ),
    (
        "spark-quant",
        &[
            "spark-files",
            "spark-drawing",
            "spark-hal",
            "spark-simd",
            "spark-parallel",
            "spark-gemm",
            "spark-mem",
        ],
    ),
    ("spark-onnx-proto", &["spark-files"]),
    (
        "spark-onnx-graph",
        &["spark-files", "spark-hal", "spark-onnx-proto"],
    ),
    (
        "spark-onnx",
        &[
            "spark-files",
            "spark-hal",
            "spark-simd",
            "spark-parallel",
            "spark-gemm",
            "spark-mem",
            "spark-quant",
            "spark-onnx-proto",
            "spark-onnx-graph",
        ],
    ),
    (
        "spark-openpilot",
        &[
            "spark-files",
            "spark-hal",
            "spark-simd",
            "spark-parallel",
            "spark-gemm",
            "spark-mem",
            "spark-quant",
            "spark-onnx-proto",
            "spark-onnx-graph",
            "spark-onnx",
        ],
    ),
    (
        "spark-bench",
        &[
            "spark-files",
            "spark-drawing",
            "spark-hal",
            "spark-simd",
            "spark-parallel",
            "spark-gemm",
            "spark-mem",
            "spark-quant",
            "spark-onnx-proto",
            "spark-onnx-graph",
            "spark-onnx",
            "spark-openpilot",
        ],
    ),
    (
        "spark-load",
        &[
            "spark-files",
            "spark-hal",
            "spark-simd",
            "spark-parallel",
            "spark-gemm",
            "spark-mem",
            "spark-quant",
            "spark-onnx-proto",
            "spark-onnx-graph",
            "spark-onnx",
        ],
    ),
    (
        "spark-data",
        &[
            "spark-files",
            "spark-drawing",
            "spark-hal",
            "spark-parallel",
        ],
    ),
    (
        "spark-dora",
        &[
            "spark-files",
            "spark-hal",
            "spark-simd",
            "spark-parallel",
            "spark-gemm",
            "spark-mem",
            "spark-quant",
            "spark-data",
        ],
    ),
    (
        "spark-train",
        &[
            "spark-files",
            "spark-drawing",
            "spark-hal",
            "spark-simd",
            "spark-parallel",
            "spark-gemm",
            "spark-mem",
            "spark-quant",
            "spark-onnx-proto",
            "spark-onnx-graph",
            "spark-onnx",
            "spark-openpilot",
            "spark-data",
            "spark-dora",
        ],
    ),
    (
        "spark-sim",
        &[
            "spark-files",
            "spark-drawing",
            "spark-hal",
            "spark-simd",
            "spark-parallel",
            "spark-gemm",
            "spark-mem",
            "spark-quant",
            "spark-onnx-proto",
            "spark-onnx-graph",
            "spark-onnx",
            "spark-openpilot",
            "spark-data",
        ],
    ),
    ("sparkpilot", EVERY_CRATE),
    ("spark-ptx", &[]),
    // The tests of every crate reach it, so it reaches none but the interpreter of kernels.
    ("spark-testing", &["spark-ptx"]),
    (
        "spark-program",
        &["spark-files", "spark-hal", "spark-shards"],
    ),
    ("xtask", &["spark-drawing"]),
];

/// Edges of tests: dora's layers are tried on the driving models' own shapes.
pub(crate) const ALLOWED_IN_TESTS: [(&str, &str); 1] = [("spark-dora", "spark-onnx-graph")];

/// Usable from tests and examples of every crate, and from nothing that is published.
pub(crate) const DEV_ONLY: [&str; 2] = ["spark-ptx", "spark-testing"];

/// Usable from examples of every crate, and from the program.
pub(crate) const OF_PROGRAMS: &str = "spark-program";

/// What the facade hands on, and what its program is made with.
const EVERY_CRATE: &[&str] = &[
    "spark-files",
    "spark-drawing",
    "spark-hal",
    "spark-simd",
    "spark-parallel",
    "spark-shards",
    "spark-gemm",
    "spark-mem",
    "spark-quant",
    "spark-onnx-proto",
    "spark-onnx-graph",
    "spark-onnx",
    "spark-openpilot",
    "spark-bench",
    "spark-load",
    "spark-data",
    "spark-dora",
    "spark-train",
    "spark-sim",
    OF_PROGRAMS,
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::circles::circles;

    fn row(name: &str) -> usize {
        let row = ALLOWED
            .iter()
            .position(|(crate_name, _)| *crate_name == name);
        row.unwrap_or_else(|| panic!("`{name}` is used and has no row"))
    }

    #[test]
    fn the_table_holds_no_circle_and_every_crate_once() {
        let arrows: Vec<Vec<usize>> = ALLOWED
            .iter()
            .map(|(_, allowed)| allowed.iter().map(|name| row(name)).collect())
            .collect();
        assert_eq!(circles(&arrows), [[0; 0]; 0]);
        for (idx, (name, allowed)) in ALLOWED.iter().enumerate() {
            assert_eq!(row(name), idx, "`{name}` has two rows");
            assert!(!allowed.contains(name), "`{name}` uses itself");
        }
    }

    #[test]
    fn the_facade_sees_every_library() {
        let libraries = ALLOWED
            .iter()
            .map(|(name, _)| *name)
            .filter(|name| !["sparkpilot", "xtask"].contains(name) && !DEV_ONLY.contains(name));
        assert_eq!(libraries.collect::<Vec<_>>(), {
            let mut sorted = EVERY_CRATE.to_vec();
            sorted.sort_by_key(|name| row(name));
            sorted
        });
    }
}
