//! Whole layers and files against oracles and outside truth.

mod adapter;
mod allocator;
mod data;
mod driving_models;
mod gradients;
mod inputs;
mod losses;
mod memory;
mod optim;
mod oracle;
mod packed;
mod peft_truth;
mod precision;
mod single;
