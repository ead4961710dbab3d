//! NVIDIA GPUs, merged from what PCI, NVML and the CUDA driver say.
//!
//! ```text
//! PCI    address, numbers                         no driver needed
//! NVML   name, uuid, compute, memory, clocks      driver
//! CUDA   name, compute, memory, attributes        driver, a device this process may use
//!          \------- joined by PCI address -------/
//! ```
//!
//! A question two sources answer is answered by CUDA where it is about computing
//! (that is what programs will run through) and by NVML otherwise. Each source's own
//! answer stays readable.

mod device;
mod evidence;
pub mod known;
mod memory;
mod merge;
mod parts;
mod recommend;

pub use device::{Gpu, best};
pub use memory::GpuMemory;
pub use merge::merge;
pub use recommend::{Recommendation, recommend};

pub use crate::capability::ComputeCapability;
pub use crate::cuda::{Attributes, CudaAttribute};
pub use crate::nvml::MemoryFigures;
