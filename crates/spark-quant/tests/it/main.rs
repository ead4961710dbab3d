//! Integration tests: outside truth, full input ranges, files.

mod data;
mod full_range;
mod scalar_truth;
