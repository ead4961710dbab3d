//! Whole-crate tests, in one binary.

mod input_shapes;
mod memory;
mod memory_budget;
mod pipeline;
mod precisions;
mod running;
mod sessions;
mod zoo;

/// What tests of memory watch.
#[global_allocator]
static ALLOCATOR: spark_testing::Measuring = spark_testing::Measuring;
