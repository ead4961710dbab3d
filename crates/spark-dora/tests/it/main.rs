//! Whole layers and files against oracles and outside truth.

mod adapter;
mod biases;
mod data;
mod driving_models;
mod dropout;
mod eva;
mod exchange;
mod finite;
mod gradients;
mod initial;
mod inputs;
mod losses;
mod memory;
mod network;
mod optim;
mod oracle;
mod packed;
mod peft_settings;
mod peft_truth;
mod precision;
mod saving;
mod set;
mod single;
mod threads;
mod whole;

/// What tests of memory watch.
#[global_allocator]
static ALLOCATOR: spark_testing::Measuring = spark_testing::Measuring;
