//! Asking NVIDIA's management library (NVML).
//!
//! ```text
//! caller --> Bounded (a thread, a time limit per call) --> dyn NvmlApi
//!                                                            |
//!                              live: libnvidia-ml.so.1 through nvml-wrapper
//!                              tests: recorded answers
//! ```
//!
//! Every single answer is a [`Reading`](crate::Reading): on a GB10 memory, power limit, memory clock
//! and fan have none. A call that hangs (a wedged driver does that) costs its time
//! limit once; afterwards every question fails at once. Linux only: the library is looked for
//! under its name there.

mod api;
mod bounded;
#[cfg(feature = "nvml")]
mod live;
mod open;
mod sample;

pub use api::{NvmlApi, NvmlDevice, NvmlReport};
pub use bounded::Bounded;
#[cfg(feature = "nvml")]
pub use live::LiveNvml;
pub use open::{TIME_LIMIT, open};
pub use sample::{GpuProcess, GpuSample, MemoryFigures, ThrottleReason, throttle_reasons};
