//! The CUDA device attributes that decide how memory is shared and kernels are sized.
//!
//! Numbers: `CUdevice_attribute` in the CUDA 13.0 driver API's `cuda.h`. A driver that
//! does not know a number answers with an error, which is a failed reading here.

use std::collections::BTreeMap;

use crate::reading::{Failure, Reading};

macro_rules! attributes {
    ($($(#[doc = $doc:literal])* $name:ident = $number:literal,)*) => {
        /// A device attribute, with its number in the driver API.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[cfg_attr(feature = "serde", derive(serde::Serialize))]
        #[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
        #[non_exhaustive]
        #[repr(i32)]
        pub enum CudaAttribute {
            $($(#[doc = $doc])* $name = $number,)*
        }

        impl CudaAttribute {
            /// Every attribute that is asked for.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];
        }
    };
}

attributes! {
    /// Shared memory per block in bytes, without opting in.
    MaxSharedMemoryPerBlock = 8,
    /// Highest clock in kHz.
    ClockRate = 13,
    /// Number of streaming multiprocessors.
    MultiprocessorCount = 16,
    /// 1 if it shares the machine's memory.
    Integrated = 18,
    /// 1 if host memory can be mapped.
    CanMapHostMemory = 19,
    /// Highest memory clock in kHz.
    MemoryClockRate = 36,
    /// Memory bus in bits.
    GlobalMemoryBusWidth = 37,
    /// L2 cache in bytes.
    L2CacheSize = 38,
    /// Resident threads per multiprocessor.
    MaxThreadsPerMultiprocessor = 39,
    /// Number of copy engines that work beside kernels.
    AsyncEngineCount = 40,
    /// 1 if host and device share one address space.
    UnifiedAddressing = 41,
    /// First number of the compute capability.
    ComputeCapabilityMajor = 75,
    /// Second number of the compute capability.
    ComputeCapabilityMinor = 76,
    /// Shared memory per multiprocessor in bytes.
    MaxSharedMemoryPerMultiprocessor = 81,
    /// 1 if managed memory exists.
    ManagedMemory = 83,
    /// 1 if host and device atomics on shared memory work natively.
    HostNativeAtomicSupported = 86,
    /// 1 if ordinary host memory is readable by kernels.
    PageableMemoryAccess = 88,
    /// 1 if CPU and GPU may use managed memory at the same time.
    ConcurrentManagedAccess = 89,
    /// 1 if registered memory has the same pointer on both sides.
    CanUseHostPointerForRegisteredMem = 91,
    /// Shared memory per block in bytes, after opting in.
    MaxSharedMemoryPerBlockOptin = 97,
    /// 1 if host memory can be registered.
    HostRegisterSupported = 99,
    /// 1 if the GPU walks the CPU's page tables (ATS).
    PageableMemoryAccessUsesHostPageTables = 100,
    /// 1 if the CPU reads managed memory on the device without migration.
    DirectManagedMemAccessFromHost = 101,
    /// 1 if stream-ordered memory pools exist.
    MemoryPoolsSupported = 115,
    /// 1 if other PCIe devices can reach its memory (GPUDirect RDMA).
    GpuDirectRdmaSupported = 116,
    /// 1 if its memory can be exported as a dma-buf.
    DmaBufSupported = 124,
    /// CUDA 13: 1 if host allocations can be exported as a dma-buf.
    HostAllocDmaBufSupported = 146,
    /// CUDA 13: 1 if only some host-native atomics work.
    OnlyPartialHostNativeAtomicSupported = 147,
}

impl CudaAttribute {
    /// Its number in the driver API.
    #[must_use]
    pub const fn number(self) -> i32 {
        self as i32
    }
}

/// The answers of one device. Without a driver every answer is "nothing to ask".
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(transparent))]
pub struct Attributes {
    answers: BTreeMap<CudaAttribute, Reading<i32>>,
}

impl Attributes {
    /// Asks `query` for every attribute.
    pub fn ask(mut query: impl FnMut(CudaAttribute) -> Reading<i32>) -> Self {
        let answers = CudaAttribute::ALL
            .iter()
            .map(|attribute| (*attribute, query(*attribute)));
        Self {
            answers: answers.collect(),
        }
    }

    /// The answer for one attribute.
    #[must_use]
    pub fn get(&self, attribute: CudaAttribute) -> Reading<i32> {
        self.answers.get(&attribute).cloned().unwrap_or_else(|| {
            Reading::Failed(Failure::NoSource {
                reason: "no CUDA driver".to_owned(),
            })
        })
    }

    /// The answer as a yes or no.
    #[must_use]
    pub fn flag(&self, attribute: CudaAttribute) -> Reading<bool> {
        self.get(attribute).map(|value| value != 0)
    }

    /// The answer as a count or size; a negative one is malformed.
    #[must_use]
    pub fn count(&self, attribute: CudaAttribute) -> Reading<u32> {
        self.get(attribute)
            .and_then(|value| match u32::try_from(value) {
                Ok(count) => Reading::Value(count),
                Err(_) => Reading::Failed(Failure::malformed(
                    format!("CUDA attribute {}", attribute.number()),
                    &value.to_string(),
                    "a number that is not negative",
                )),
            })
    }
}
