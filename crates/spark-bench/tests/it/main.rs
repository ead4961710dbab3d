//! Whole-crate tests, in one binary.

mod bench;
mod precisions;
mod zoo;
