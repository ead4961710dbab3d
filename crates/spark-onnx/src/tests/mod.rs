//! Whole-crate tests that look at what is private: plans and executors.
//!
//! What the public interface shows is tested in `tests/it`.

mod attention;
mod bf16_storage;
mod byte_paths;
#[cfg(feature = "cuda")]
mod cuda;
mod integers;
mod mutations;
pub(crate) mod networks;
mod operators;
mod precisions;
mod quantised;
mod quantised_layers;
mod running;
mod short_rows;
mod sixteen_bits;
