//! Tests of the whole crate: one conformance suite on every backend, bad input, faults.
//!
//! ```text
//! conformance  what every device must do      software   on the host and the emulated card
//! files        loaded, mapped, as tensors
//! kernels      the kernels the suite launches  logged     what was logged meanwhile
//! ```

#![allow(
    unsafe_code,
    reason = "launching kernels, forking and faulting on purpose"
)]

mod conformance;
mod files;
mod kernels;
mod logged;
mod software;
