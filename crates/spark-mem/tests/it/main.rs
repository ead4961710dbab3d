//! Tests of the whole crate: one conformance suite on every backend, bad input, faults.
//!
//! ```text
//! conformance  what every device must do      software   on the host and the emulated card
//!                                             stand_in   on the stand-in CUDA driver
//! cuda         what only a CUDA device does    faults     every call fails once
//! cache        compiled kernels on disk        images     whose code a kernel gets
//! kept_code    which code on disk is run         bandwidth  the benchmark's kernels
//! shared_kind  which kind of memory shared buffers get
//! real_compiler  NVRTC, where there is one
//! children     what needs a process of its own
//! files        loaded, mapped, as tensors      tensor_files  what the latter take on a card
//! personas     what is particular to a GPU that the stand-in poses as
//! candle       tensors from buffers and back
//! lifetimes    what goes when, and what stays
//! races        threads that share streams, in forced interleavings
//! kernels      the kernels the suite launches  logged     what was logged meanwhile
//! ```

#![allow(
    unsafe_code,
    reason = "launching kernels, forking and faulting on purpose"
)]
#![allow(
    clippy::print_stdout,
    reason = "processes that tests start talk to them through stdout"
)]

#[cfg(feature = "cuda")]
mod bandwidth;
mod cache;
#[cfg(feature = "candle")]
mod candle;
#[cfg(feature = "cuda")]
mod children;
mod conformance;
#[cfg(feature = "cuda")]
mod cuda;
#[cfg(feature = "cuda")]
mod faults;
mod files;
#[cfg(feature = "cuda")]
mod images;
#[cfg(feature = "cuda")]
mod kept_code;
mod kernels;
#[cfg(feature = "cuda")]
mod lifetimes;
mod logged;
#[cfg(feature = "cuda")]
mod personas;
#[cfg(feature = "cuda")]
mod races;
#[cfg(feature = "cuda")]
mod real_compiler;
#[cfg(feature = "cuda")]
mod shared_kind;
mod software;
#[cfg(feature = "cuda")]
mod stand_in;
#[cfg(feature = "cuda")]
mod tensor_files;
