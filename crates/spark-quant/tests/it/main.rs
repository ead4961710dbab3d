//! Integration tests: outside truth, full input ranges, accuracy, files.

mod accuracy;
mod block_truth;
mod data;
mod full_range;
mod scalar_truth;
