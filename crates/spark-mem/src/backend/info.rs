//! What is known about a device.

use spark_hal::ComputeCapability;

/// What a device is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeviceKind {
    /// The CPU and its memory.
    Host,
    /// Host memory that behaves as a discrete card.
    Emulated,
    /// A GPU, by CUDA's number.
    Cuda(u32),
}

/// What is known about a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceInfo {
    /// Whether it is the host, an emulated card or a GPU.
    pub kind: DeviceKind,
    /// Its name, for people.
    pub name: String,
    /// Compute capability of a GPU.
    pub compute: Option<ComputeCapability>,
    /// Whether CPU and device use the same memory, and that may be made use of.
    pub is_unified: bool,
    /// Whether the device walks the CPU's page tables, so that plain memory is shared.
    pub shares_page_tables: bool,
    /// Memory the device works in, in bytes.
    pub total_bytes: u64,
    /// Multiprocessors of a GPU; 0 otherwise.
    pub n_multiprocessors: u32,
    /// Shared memory a block may have at most, in bytes; 0 if that means nothing.
    pub shared_bytes_per_block: u32,
}
