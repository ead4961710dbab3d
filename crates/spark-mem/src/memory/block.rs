//! Memory that nobody holds any more, until it is given back.
//!
//! ```text
//! release   for each queue that worked on it:  wait, or leave it to a recording of that queue
//!           then give it back to the backend, or to the allocator it came from
//!           a wait refused twice: the work may still be running, and the memory stays for good
//! ```

#![allow(unsafe_code, reason = "gives raw memory back to its backend")]

use std::fmt::Debug;
use std::sync::{Arc, Mutex};

use super::adopted::Adopted;
use crate::backend::place::RawMemory;
use crate::backend::{Handle, wait_before_giving_back};
use crate::budget::Reservation;
use crate::device::Device;
use crate::error::MemError;
use crate::event::Event;
use crate::kind::BufferKind;
use crate::lock::lock;

/// A stream, as the memory sees it that the stream's work uses.
pub(crate) trait Queue: Debug + Send + Sync {
    /// The backend's handle of it.
    fn raw(&self) -> Handle;

    /// Waits until everything queued so far is done, for a guard of the host.
    ///
    /// # Errors
    ///
    /// [`MemError::Capturing`] during a recording; those of the work.
    fn finish(&self) -> Result<(), MemError>;

    /// Whether everything queued so far is done; false also where that cannot be told. Does not wait.
    fn is_idle(&self) -> bool;

    /// A mark behind everything queued so far, for another queue to wait for.
    ///
    /// # Errors
    ///
    /// [`MemError::Capturing`] during a recording; the driver's.
    fn mark(&self) -> Result<Event, MemError>;

    /// It records nothing any more if what it records is the recording of this number, which has ended.
    fn leave_recording(&self, ended: u64);

    /// Waits for work that may still use a block, and gives the block back; errors of that work
    /// are deferred. During a recording, when nothing can be waited for, takes the block until
    /// the recording ends; where the wait is refused, [for good](Block::stay).
    fn wait_or_keep(&self, block: Block) -> Option<Block>;
}

/// Where memory goes when its buffer is dropped, if not to its backend: a pool.
pub(crate) trait Home: Debug + Send + Sync {
    /// Takes a block back.
    fn put(&self, block: Block);
}

/// Work in a queue that uses a piece of memory.
#[derive(Debug, Clone)]
pub(crate) struct Use {
    pub(crate) queue: Arc<dyn Queue>,
    pub(crate) writes: bool,
    /// Which of all the uses of the memory was its last.
    pub(crate) last: u64,
}

/// What is left of an allocation.
#[derive(Debug)]
pub(crate) struct Block {
    pub(crate) memory: RawMemory,
    pub(crate) used: Vec<Use>,
    /// Given back to the budget together with the memory.
    pub(crate) reservation: Option<Reservation>,
    /// Gives the memory back in the backend's place.
    pub(crate) adopted: Option<Adopted>,
}

// SAFETY: the memory is owned by the block and nobody uses it while a block is all that is left.
unsafe impl Send for Block {}

/// Blocks that stay for good, where a leak checker finds them.
static STAYING: Mutex<Vec<Block>> = Mutex::new(Vec::new());

impl Block {
    /// Leaves the memory where it is, since work that nobody could wait for may still use it. The
    /// budget goes on counting it.
    pub(crate) fn stay(self) {
        let n_bytes = self.memory.len_bytes;
        tracing::error!("{n_bytes} bytes stay allocated: work on them could not be waited for");
        lock(&STAYING).push(self);
    }
}

/// Whether all that a queue was given is over, or lost with its device, after a wait for it. The error of a
/// wait that was refused is kept for the next wait of the program.
pub(crate) fn is_over(device: &Device, queue: Handle) -> bool {
    let (is_over, refused) = wait_before_giving_back(|| {
        let waited = device.inner().backend.synchronize(queue);
        waited.inspect_err(|error| drop(device.failed(error.clone())))
    });
    if device.is_lost() {
        return true;
    }
    if let Some(error) = refused {
        device.defer(error.into());
    }
    is_over
}

/// Gives memory back to its backend once no queue uses it: in the order of the device's own queue
/// where the driver can, else when they have been waited for. While one of its queues is captured
/// nothing can be waited for: the capture keeps the memory until its end.
pub(crate) fn release(device: &Device, mut block: Block) {
    if device.is_forked() {
        // A child of `fork` owns nothing of the driver's; its parent gives it back.
        std::mem::forget(block);
        return;
    }
    let inner = device.inner();
    let in_order = block.memory.kind == BufferKind::Device && inner.backend.allocates_in_order();
    let own = in_order.then(|| inner.own_queue()).and_then(Result::ok);
    // A block that is kept keeps its uses: they are waited for when the capture has ended.
    while let Some(earlier) = block.used.last().cloned() {
        if !own.is_some_and(|own| comes_after(device, own, &*earlier.queue)) {
            match earlier.queue.wait_or_keep(block) {
                Some(back) => block = back,
                None => return,
            }
        }
        block.used.pop();
    }
    if block.adopted.is_some() {
        return; // dropped with the block
    }
    // SAFETY: the memory came from this backend, its only owner is dropped, and every queue that
    // used it has passed its work, comes before the own queue, or is lost with its device.
    let freed = unsafe {
        match own {
            Some(own) => inner.backend.free_in_order(block.memory, own),
            None => inner.backend.free(block.memory),
        }
    };
    if let Err(error) = freed
        && !device.is_lost()
    {
        let error = device.failed(error);
        device.defer(error);
    }
}

/// Lets the device's own queue wait for all that another has queued. False if that is not
/// possible; an error that is more than a recording is kept for the next wait.
fn comes_after(device: &Device, own: Handle, other: &dyn Queue) -> bool {
    if other.raw() == own {
        return true;
    }
    let waits = other.mark().and_then(|mark| {
        let waits = device.inner().backend.wait(own, mark.raw());
        device.tried(waits)
    });
    match waits {
        Ok(()) => true,
        Err(MemError::Capturing { .. }) => false,
        Err(error) => {
            if !device.is_lost() {
                device.defer(error);
            }
            false
        }
    }
}
