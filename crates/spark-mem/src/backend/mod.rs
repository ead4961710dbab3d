//! What a device must be able to do: the one trait under everything else.
//!
//! ```text
//! Device ──> Backend ──┬─> Software, Host       host memory, work done at once
//!                      ├─> Software, Emulated   a discrete card: its memory has addresses
//!                      │                        that the host cannot use
//!                      └─> Cuda (feature)       the driver
//! ```
//!
//! A backend moves bytes and starts work. It knows nothing of element types, guards,
//! budgets or statistics, and validates nothing: what it is told is correct. The words it is
//! told in stand here too: `info`, `place`, `launch`, `code`; nothing here looks up.

#![allow(unsafe_code, reason = "declares what callers owe for raw memory")]

pub mod cache;
pub(crate) mod code;
#[cfg(feature = "cuda")]
pub(crate) mod cuda;
mod host_memory;
pub(crate) mod info;
pub(crate) mod launch;
pub(crate) mod place;
pub(crate) mod software;

use std::fmt::Debug;

use crate::error::{DriverError, MemError};
use crate::kind::BufferKind;
use code::KernelCode;
use info::DeviceInfo;
use launch::{Arguments, LaunchOptions, LaunchShape};
use place::{Advice, Hint, Place, RawMemory, Side};

/// A driver's handle: a stream, an event, a function, a graph.
pub(crate) type Handle = u64;

/// `CUDA_ERROR_OUT_OF_MEMORY`, with which every backend says so.
pub(crate) const OUT_OF_MEMORY: i32 = 2;

/// Waits for work before memory goes that it uses, once more if that is refused: a refusal says nothing of
/// the work. Whether it is over, or lost with its context; and the first refusal.
pub(crate) fn wait_before_giving_back(
    wait: impl Fn() -> Result<(), DriverError>,
) -> (bool, Option<DriverError>) {
    let Err(refused) = wait() else {
        return (true, None);
    };
    let is_over = refused.is_sticky() || wait().map_or_else(|error| error.is_sticky(), |()| true);
    (is_over, Some(refused))
}

/// A device. See the module for what it may rely on.
pub(crate) trait Backend: Debug + Send + Sync {
    fn info(&self) -> &DeviceInfo;

    /// Whether memory of this kind can be had.
    fn supports(&self, kind: BufferKind) -> Result<(), &'static str>;

    /// Memory of at least one byte; host-visible kinds come zeroed. `taken` is told of parts that are
    /// there already while others are still being touched.
    fn allocate(
        &self,
        kind: BufferKind,
        len_bytes: usize,
        taken: &mut dyn FnMut(usize),
    ) -> Result<RawMemory, DriverError>;

    /// # Safety
    ///
    /// `memory` came from `allocate`, is given back once, and no work uses it any more.
    unsafe fn free(&self, memory: RawMemory) -> Result<(), DriverError>;

    /// Whether memory of the device alone is taken and given back in the order of a stream.
    fn allocates_in_order(&self) -> bool;

    /// Memory of the device alone, of at least one byte, for work behind this point of the stream.
    fn allocate_in_order(&self, len_bytes: usize, stream: Handle)
    -> Result<RawMemory, DriverError>;

    /// # Safety
    ///
    /// `memory` came from `allocate_in_order`, is given back once, and no work uses it any more that
    /// does not come before this point of the stream.
    unsafe fn free_in_order(&self, memory: RawMemory, stream: Handle) -> Result<(), DriverError>;

    fn new_stream(&self) -> Result<Handle, DriverError>;
    fn drop_stream(&self, stream: Handle) -> Result<(), DriverError>;
    fn synchronize(&self, stream: Handle) -> Result<(), DriverError>;
    fn is_idle(&self, stream: Handle) -> Result<bool, DriverError>;

    /// A mark that can time, or one for ordering alone, which costs less.
    fn new_event(&self, is_timed: bool) -> Result<Handle, DriverError>;
    fn drop_event(&self, event: Handle) -> Result<(), DriverError>;
    fn record(&self, event: Handle, stream: Handle) -> Result<(), DriverError>;
    fn wait(&self, stream: Handle, event: Handle) -> Result<(), DriverError>;
    fn synchronize_event(&self, event: Handle) -> Result<(), DriverError>;
    fn is_done(&self, event: Handle) -> Result<bool, DriverError>;
    fn elapsed_ms(&self, from: Handle, to: Handle) -> Result<f32, DriverError>;

    /// # Safety
    ///
    /// Both places have `n_bytes`, stay until the stream has passed this point, do not
    /// overlap, and nothing else writes them meanwhile.
    unsafe fn copy(
        &self,
        stream: Handle,
        to: Place,
        from: Place,
        n_bytes: usize,
    ) -> Result<(), DriverError>;

    /// # Safety
    ///
    /// As for `copy`.
    unsafe fn fill(
        &self,
        stream: Handle,
        address: u64,
        byte: u8,
        n_bytes: usize,
    ) -> Result<(), DriverError>;

    fn prefetch(&self, stream: Handle, memory: RawMemory, to: Side) -> Result<Hint, MemError>;
    fn advise(&self, memory: RawMemory, advice: Advice) -> Result<Hint, MemError>;

    /// A kernel made ready to launch; the handle lives as long as the backend.
    fn load(&self, code: &KernelCode) -> Result<Handle, MemError>;

    /// # Safety
    ///
    /// The kernel stays inside the memory it is given, which stays until the stream has
    /// passed this point; nothing else uses what it writes meanwhile.
    unsafe fn launch(
        &self,
        stream: Handle,
        function: Handle,
        shape: LaunchShape,
        options: LaunchOptions,
        arguments: &Arguments,
    ) -> Result<(), DriverError>;

    /// Where a variable of a kernel's image lies, and how many bytes it has.
    fn symbol(&self, function: Handle, name: &str) -> Result<(u64, usize), MemError>;

    /// Blocks of this size that run at once on one multiprocessor.
    fn occupancy(
        &self,
        function: Handle,
        threads_per_block: u32,
        shared_bytes: u32,
    ) -> Result<u32, MemError>;

    fn begin_capture(&self, stream: Handle) -> Result<(), DriverError>;
    fn end_capture(&self, stream: Handle) -> Result<Handle, DriverError>;
    fn drop_graph(&self, graph: Handle) -> Result<(), DriverError>;

    /// # Safety
    ///
    /// All memory the graph uses is still there, and nothing else uses what it writes
    /// until the stream has passed this point.
    unsafe fn launch_graph(&self, graph: Handle, stream: Handle) -> Result<(), DriverError>;
}
