//! Files as bytes in memory: read directly, mapped, or as named tensors.
//!
//! ```text
//! load        past the page cache into a buffer; several reads in flight; progress
//! MappedFile  the page cache itself; on DGX Spark ten times slower for cold files
//! TensorFile  safetensors: views into a loaded or mapped file; a copy of one tensor at a time where
//!             only the device sees it
//! ```
//!
//! A 120-billion-parameter model took 110 s to load through `mmap` on a DGX Spark and 10.5 s
//! with `O_DIRECT`, which also leaves memory free instead of filling the page cache
//! (llama.cpp pull requests 18012 and 18166).

mod direct;
mod mapped;
mod tensors;

pub use direct::{LoadReport, Method, load, load_into};
pub use mapped::MappedFile;
pub use tensors::{TensorFile, TensorView};
