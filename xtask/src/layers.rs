//! Which crate may use which: imports point down only.
//!
//! ```text
//! hal <- mem <- quant <- model <- { dora, sim } <- cli, facade
//!                        data  <- { dora, sim }
//! testing   reachable as a dev-dependency only
//! ```
//!
//! The table also names crates that are planned and do not exist; a row costs nothing and
//! the first dependency of such a crate is checked from its first commit.

/// A crate and every crate of the workspace that its code may use.
pub(crate) const ALLOWED: &[(&str, &[&str])] = &[
    ("spark-hal", &[]),
    ("spark-mem", &["spark-hal"]),
    ("spark-quant", &["spark-hal", "spark-mem"]),
    ("spark-model", &["spark-hal", "spark-mem", "spark-quant"]),
    ("spark-data", &["spark-hal"]),
    (
        "spark-dora",
        &[
            "spark-hal",
            "spark-mem",
            "spark-quant",
            "spark-model",
            "spark-data",
        ],
    ),
    (
        "spark-sim",
        &[
            "spark-hal",
            "spark-mem",
            "spark-quant",
            "spark-model",
            "spark-data",
        ],
    ),
    ("spark-cli", EVERY_LIBRARY),
    ("spark", EVERY_LIBRARY),
    ("spark-testing", &["spark-hal"]),
    ("xtask", &[]),
];

/// Usable from tests of every crate, and from nothing else.
pub(crate) const DEV_ONLY: &str = "spark-testing";

const EVERY_LIBRARY: &[&str] = &[
    "spark-hal",
    "spark-mem",
    "spark-quant",
    "spark-model",
    "spark-data",
    "spark-dora",
    "spark-sim",
];
