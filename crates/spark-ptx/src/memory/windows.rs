//! Where the spaces of a block lie among generic addresses.
//!
//! ```text
//! generic address   top byte 0x7a: shared   0x7b: local   0x7c: parameters of the kernel   else: global
//! low 32 bits       the offset in its space, so that a program may cut a generic address to 32 bits
//! ```
//!
//! No process has memory there: user addresses end below 2^57 on every machine that runs this.
//! Constants lie among global addresses, where their generic and their own addresses are the same; which
//! allocations are constant memory the caller says.

/// The bits that say which window an address lies in.
pub(crate) const WINDOW_MASK: u64 = 0xff00_0000_0000_0000;
/// Shared memory of the block.
pub(crate) const SHARED_WINDOW: u64 = 0x7a00_0000_0000_0000;
/// Local memory of the thread.
pub(crate) const LOCAL_WINDOW: u64 = 0x7b00_0000_0000_0000;
/// Parameters of the kernel.
pub(crate) const KERNEL_PARAM_WINDOW: u64 = 0x7c00_0000_0000_0000;

/// Where a program's shared memory begins: the first kibibyte is the system's, as on cards since
/// compute capability 8, so that 0 is no address of a variable.
pub(crate) const SHARED_BASE: u32 = 1024;
