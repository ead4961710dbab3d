//! Which crate may use which: imports point down only.
//!
//! ```text
//! files <- hal <- mem <- quant <- model <- { dora, sim } <- cli, facade
//! parallel, simd          <- quant, model, sim
//!                        data  <- { dora, sim }
//! testing, program   reachable as a dev-dependency only: by tests, by examples
//! ```
//!
//! The table also names crates that are planned and do not exist; a row costs nothing and
//! the first dependency of such a crate is checked from its first commit.

/// A crate and every crate of the workspace that its code may use.
pub(crate) const ALLOWED: &[(&str, &[&str])] = &[
    ("spark-files", &[]),
    ("spark-parallel", &[]),
    ("spark-simd", &[]),
    ("spark-hal", &["spark-files"]),
    ("spark-mem", &["spark-files", "spark-hal"]),
    (
        "spark-quant",
        &[
            "spark-files",
            "spark-parallel",
            "spark-simd",
            "spark-hal",
            "spark-mem",
        ],
    ),
    (
        "spark-onnx",
        &[
            "spark-files",
            "spark-parallel",
            "spark-simd",
            "spark-hal",
            "spark-mem",
            "spark-quant",
        ],
    ),
    ("spark-data", &["spark-files", "spark-hal"]),
    (
        "spark-dora",
        &[
            "spark-files",
            "spark-hal",
            "spark-mem",
            "spark-quant",
            "spark-onnx",
            "spark-data",
        ],
    ),
    (
        "spark-sim",
        &[
            "spark-files",
            "spark-parallel",
            "spark-simd",
            "spark-hal",
            "spark-mem",
            "spark-quant",
            "spark-onnx",
            "spark-data",
        ],
    ),
    ("spark-cli", EVERY_LIBRARY),
    ("sparkpilot", EVERY_LIBRARY),
    ("spark-testing", &["spark-hal"]),
    ("spark-program", &["spark-files", "spark-hal"]),
    ("xtask", &[]),
];

/// Usable from tests and examples of every crate, and from nothing that is published.
pub(crate) const DEV_ONLY: [&str; 2] = ["spark-testing", "spark-program"];

const EVERY_LIBRARY: &[&str] = &[
    "spark-files",
    "spark-parallel",
    "spark-simd",
    "spark-hal",
    "spark-mem",
    "spark-quant",
    "spark-onnx",
    "spark-data",
    "spark-dora",
    "spark-sim",
];
