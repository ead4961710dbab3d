//! From instructions that are known at run time to the kernel of theirs.

use super::instructions::{DepthwiseKernel, Kind};
use super::packing::Row;

/// Computes the blocks of `row`.
///
/// # Safety
///
/// Every tap must be readable and the result writable for the whole of every block; the numbers must be
/// packed for this kernel.
pub(super) unsafe fn run(kernel: DepthwiseKernel, row: &Row<'_>) {
    // SAFETY: guaranteed by the caller; a kernel is made of instructions that the processor has.
    unsafe {
        match kernel.kind() {
            #[cfg(target_arch = "x86_64")]
            Kind::Vnni512 => super::x86::vnni512(row),
            #[cfg(target_arch = "x86_64")]
            Kind::Vnni256 => super::x86::vnni256(row),
            #[cfg(target_arch = "x86_64")]
            Kind::Words256 => super::x86::words256(row),
            #[cfg(target_arch = "aarch64")]
            Kind::Neon => super::neon::run(row),
            Kind::Portable => super::portable::run(row),
        }
    }
}
