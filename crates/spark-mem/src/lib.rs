//! Memory that CPU and GPU share without copies, and the CUDA run-time layer.
//!
//! ```text
//! device   the CPU, a GPU, or a card emulated in host memory     stream, event, graph
//! buffer   Host Pinned Unified System Device; guards for the host budget, pool, statistics
//! candle   tensors from buffers and back (feature `candle`)
//! kernel   CUDA C -> NVRTC -> cubin kept on disk; host versions   file: mapped, direct, tensors
//! ```
//!
//! ```
//! use spark_mem::Device;
//!
//! let device = Device::open()?;
//! let stream = device.new_stream()?;
//! let mut speeds = device.shared::<f32>(1000)?;
//! speeds.write(&stream)?.fill(12.5);
//! // ... kernels work on it; on unified memory nothing was copied ...
//! assert_eq!(speeds.read(&stream)?[999], 12.5);
//! # Ok::<(), spark_mem::MemError>(())
//! ```
//!
//! The same program runs on a DGX Spark, where both sides use one allocation, on a
//! discrete card, where the guards copy and [`TransferStats`] counts it, and on a machine
//! without a GPU. The driver and the compiler of kernels are opened at run time.
//!
//! Deliberately absent: number formats and tensors (`spark-quant`, `spark-onnx`), several
//! GPUs working on one buffer, interprocess memory.

mod backend;
mod budget;
pub mod buffer;
#[cfg(feature = "candle")]
mod candle;
pub mod device;
mod element;
mod error;
pub mod file;
mod graph;
pub mod kernel;
mod pool;
mod section;
mod stats;
mod stream;

pub use backend::{Advice, Hint, HostArgument, Side};
pub use budget::{Budget, LARGE_BYTES, Reservation, Watch};
pub use buffer::{Buffer, BufferKind, HostRead, HostWrite, View, ViewMut};
pub use device::{Device, DeviceInfo, DeviceKind, DeviceOptions};
pub use element::Element;
pub use error::{DriverError, MemError};
pub use graph::Graph;
pub use kernel::{Kernel, KernelSource, LaunchShape, Parameter, Parameters, Read, Write};
pub use pool::{Pool, PoolStats};
pub use stats::{Copies, TransferStats};
pub use stream::{Event, Stream};

/// The README's example, so that it is compiled and run with the others.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
