//! Integration tests: outside truth, full input ranges, accuracy, files.

mod accuracy;
#[cfg(feature = "cuda")]
mod block_mutants;
mod block_truth;
mod data;
#[cfg(feature = "device")]
mod device;
#[cfg(feature = "device")]
mod device_cases;
#[cfg(feature = "device")]
mod device_gemm_cases;
mod full_range;
#[cfg(feature = "cuda")]
mod mutants;
mod scalar_truth;
