//! The CUDA executor, first slice: the plan of a network with fixed shapes, in fp32 or fp16, as one graph of a GPU.
//!
//! ```text
//! load   Plan ── Blocks (where buffers are) ── Launching (which kernel) ── Constants (brought there once)
//!             └─ everything recorded once: [inputs in] status cleared, copies in, steps in order, copies out [outputs out]
//! run    inputs written to one block ──> the graph launched, once ──> status, outputs read from one block
//! ```
//!
//! Not yet run on real hardware: it is tested on a stand-in driver that interprets the kernels' PTX. Convolutions and
//! products run in tiles, in fp16 on tensor cores, where a cost rule says that they fill them (`launches::tiles`), convolutions of single channels four
//! columns a thread; other kernels are plain: a thread an element, a warp for each result of a reduction, a block a row of softmax, norms and
//! attention. Nothing was tuned on a device. Nothing runs on the CPU instead: a step without a kernel is an error
//! when the network is loaded.
//!
//! Absent: other precisions, open shapes and lengths that values say, state kept on the device, branches beside each
//! other, two frames at a time, a word for values that are not finite; the steps that `launches` lists.

mod blocks;
mod codes;
mod constants;
mod fragments;
mod kernels;
mod launches;
#[cfg(test)]
pub(crate) mod mutation;
mod ports;
mod recording;
mod refused;
mod session;
mod structures;
mod variants;
mod walk;

pub use kernels::precompile;
pub use session::{CudaMemory, CudaSession, CudaStep};
