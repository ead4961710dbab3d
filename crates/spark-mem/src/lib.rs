//! Memory that CPU and GPU share without copies, and the CUDA run-time layer.
//!
//! ```text
//! device   the CPU, a GPU, or a card emulated in host memory     stream, event, graph
//! buffer   Host Pinned Unified System Device; guards for the host budget, pool, statistics
//! candle   tensors from buffers and back (feature `candle`)
//! kernel   CUDA C -> NVRTC -> cubin kept on disk; host versions   file: mapped, direct, tensors
//! ```
//!
//! Inside, each line uses those below it and none above:
//!
//! ```text
//! file   candle            what programs load and hand on
//! pool   kernel   graph    memory used again; code launched; work recorded
//! buffer                   typed memory, guards of the host, copies
//! stream ─ section         queues of work; what keeps a recording apart from other threads
//! recording                what streams record together, and in which order
//! memory                   untyped memory: who uses it, what is waited for before it goes
//! device ─ event           one backend, its budget, its errors; marks in its queues
//! staging                  the ring of pinned memory between slices and devices
//! shared_kind              which kind of memory shared buffers get: said, kept, measured
//! backend                  bytes moved and work started: software, cuda
//! error  kind  element  stats  budget  lock
//! ```
//!
//! What is made from a device is made beside its type: `Device::buffer` stands in `buffer`. Where
//! memory must reach a stream or a pool above it, it does so through a trait of its own.
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
mod event;
pub mod file;
mod graph;
pub mod kernel;
mod kind;
mod lock;
mod memory;
mod pool;
mod process;
mod ranges;
mod recording;
mod section;
mod shared_kind;
mod spare;
mod staging;
mod stats;
mod stream;

pub use backend::info::{DeviceInfo, DeviceKind};
pub use backend::launch::{HostArgument, LaunchOptions, LaunchShape};
pub use backend::place::{Advice, Hint, Side};
pub use budget::{Budget, LARGE_BYTES, Reservation, Watch};
pub use buffer::{Buffer, HostRead, HostWrite, Parts, View, ViewMut};
pub use device::{Device, DeviceOptions};
pub use element::Element;
pub use error::{DriverError, MemError};
pub use event::Event;
pub use graph::Graph;
pub use kernel::{Kernel, KernelSource, KernelStruct, Parameter, Parameters, Read, Struct, Write};
pub use kind::BufferKind;
pub use pool::{Pool, PoolStats};
pub use shared_kind::{KindChoice, KindEvidence, KindMeasurement, KindSpeed, NotMeasured};
pub use stats::{Copies, TransferStats};
pub use stream::Stream;

/// The README's example, so that it is compiled and run with the others.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
