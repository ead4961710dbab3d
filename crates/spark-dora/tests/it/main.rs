//! Whole layers and files against oracles and outside truth.

mod adapter;
mod data;
mod gradients;
mod inputs;
mod losses;
mod optim;
mod oracle;
mod packed;
mod peft_truth;
mod precision;
