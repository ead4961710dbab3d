//! Host access to buffers: in place where host and device share memory, through pinned
//! memory elsewhere.
//!
//! ```text
//!              host-visible kinds        Device
//! open read    count, wait               count, copy to the mirror, wait
//! open write   count, wait               count, copy to the mirror, wait
//! overwrite    count, wait               count, wait
//! close        uncount                   copy from the mirror, in stream order, uncount
//! ```
//!
//! While a guard is counted in the memory, work that it conflicts with is refused. It is counted
//! around both copies, so nothing of another thread comes between a copy and what the host sees.
//!
//! A guard that is closed while its stream is captured must not leave its copy in the
//! recording: it takes a stream of its own and waits.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use super::view::{View, ViewMut};
use crate::backend::place::Place;
use crate::element::Element;
use crate::error::MemError;
use crate::memory::allocation::{Access, Allocation};
use crate::section::InRecording;
use crate::stats::Direction;
use crate::stream::Stream;

/// The elements of a buffer, for the host to read.
#[derive(Debug)]
pub struct HostRead<'a, T: Element> {
    view: View<'a, T>,
    open: Open,
}

/// The elements of a buffer, for the host to read and write.
#[derive(Debug)]
pub struct HostWrite<'a, T: Element> {
    view: ViewMut<'a, T>,
    stream: Stream,
    /// `None` once it is closed.
    open: Option<Open>,
}

/// What is open for the host, and where it finds the elements.
#[derive(Debug)]
struct Open {
    pointer: *mut u8,
    counted: Counted,
}

// SAFETY: the pointer leads into memory that the counts keep; what may be done with
// it follows from the guard's borrow of its buffer.
unsafe impl Send for Open {}
// SAFETY: as above.
unsafe impl Sync for Open {}

/// One guard counted in an allocation.
#[derive(Debug)]
struct Counted {
    allocation: Arc<Allocation>,
    writes: bool,
    /// In the memory that this allocation mirrors. It is uncounted there last, as the fields of a value
    /// go after its own `drop`: while a mirror has readers, nothing has written the memory since the
    /// first of them looked.
    mirrored: Option<Box<Counted>>,
}

impl Counted {
    fn new(allocation: &Arc<Allocation>, writes: bool) -> Result<Self, MemError> {
        allocation.open_for_host(writes)?;
        Ok(Self {
            allocation: Arc::clone(allocation),
            writes,
            mirrored: None,
        })
    }

    /// The same guard in the mirror too.
    fn through(self, mirror: &Arc<Allocation>) -> Result<Self, MemError> {
        let mut counted = Self::new(mirror, self.writes)?;
        counted.mirrored = Some(Box::new(self));
        Ok(counted)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.allocation.close_for_host(self.writes);
    }
}

impl Open {
    /// Opens this many bytes, the first ones, for the host; `loads` says whether it needs to see what is there.
    fn new(
        allocation: &Arc<Allocation>,
        len_bytes: usize,
        stream: &Stream,
        writes: bool,
        loads: bool,
    ) -> Result<Self, MemError> {
        stream.check_same_device(allocation.device())?;
        stream.check_not_captured("host access through a stream")?;
        let memory = Counted::new(allocation, writes)?;
        if allocation.is_host_visible() || len_bytes == 0 {
            allocation.device().inner().counters.shared();
            return Ok(Self {
                pointer: allocation.memory().host,
                counted: memory,
            });
        }
        // Held until the mirror is open: a second reader waits here and then finds the
        // elements where the first one brought them.
        let mut slot = allocation.mirror();
        let mirror = slot.get(allocation)?;
        if loads && !mirror.has_readers() {
            let bytes = 0..len_bytes;
            let uses = [
                Access::of_guard(allocation, false),
                Access::whole(&mirror, true),
            ];
            copy_mirror(uses, stream, bytes, Direction::DeviceToHost)?;
        }
        let counted = memory.through(&mirror)?;
        // Also the copy just made: closing this guard must not have to wait for this stream, which
        // may be captured by then.
        allocation.finish_for_host(writes)?;
        Ok(Self {
            pointer: mirror.memory().host,
            counted,
        })
    }

    /// The pinned memory through which the host sees memory of the device alone.
    fn mirror(&self) -> Option<&Arc<Allocation>> {
        self.counted
            .mirrored
            .is_some()
            .then_some(&self.counted.allocation)
    }

    /// The first element; not null and aligned even if there are none.
    fn elements<T: Element>(&self) -> *mut T {
        if self.pointer.is_null() {
            return std::ptr::NonNull::<T>::dangling().as_ptr();
        }
        self.pointer.cast()
    }
}

/// Copies between memory of the device alone, the first of `uses`, and its mirror, the second.
fn copy_mirror(
    uses: [Access<'_>; 2],
    stream: &Stream,
    bytes: std::ops::Range<usize>,
    direction: Direction,
) -> Result<(), MemError> {
    let [memory, mirror] = [&uses[0], &uses[1]].map(|access| access.allocation);
    let (mine, its) = (memory.memory(), mirror.memory());
    let n_bytes = bytes.len();
    if n_bytes == 0 {
        return Ok(());
    }
    let here = Place::Device(mine.device + bytes.start as u64);
    // SAFETY: the mirror has as many bytes as this memory and the range lies in it.
    let there = Place::Host(unsafe { its.host.add(bytes.start) });
    let (to, from) = if direction == Direction::DeviceToHost {
        (there, here)
    } else {
        (here, there)
    };
    let device = memory.device();
    let inner = device.inner();
    let rule = InRecording::Refused("host access through a stream");
    stream.submit(uses.into(), rule, |queue| {
        // SAFETY: both pieces have the range; they are different allocations; both note
        // this work, so they stay and nobody touches them before it is done.
        let copied = unsafe { inner.backend.copy(queue, to, from, n_bytes) };
        device.tried(copied)
    })?;
    inner.counters.copied(direction, n_bytes);
    Ok(())
}

impl<'a, T: Element> HostRead<'a, T> {
    /// Opens a whole buffer: the view begins where its memory begins.
    pub(super) fn open(view: View<'a, T>, stream: &Stream) -> Result<Self, MemError> {
        let open = Open::new(view.allocation(), view.len_bytes(), stream, false, true)?;
        Ok(Self { view, open })
    }
}

impl<T: Element> Deref for HostRead<'_, T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: the view is of a whole buffer, so its memory begins with `len` elements,
        // initialised when it was made; the view borrows the buffer, and the open guard keeps
        // the device from writing.
        unsafe { std::slice::from_raw_parts(self.open.elements(), self.view.len()) }
    }
}

impl<'a, T: Element> HostWrite<'a, T> {
    /// Opens a whole buffer: the view begins where its memory begins.
    pub(super) fn open(
        view: ViewMut<'a, T>,
        stream: &Stream,
        loads: bool,
    ) -> Result<Self, MemError> {
        let open = Open::new(view.allocation(), view.len_bytes(), stream, true, loads)?;
        Ok(Self {
            view,
            stream: stream.clone(),
            open: Some(open),
        })
    }

    /// Closes the guard. Dropping it does the same and keeps an error for the next
    /// [`Stream::synchronize`].
    ///
    /// # Errors
    ///
    /// Those of the copy to memory of the device alone; none otherwise.
    pub fn finish(mut self) -> Result<(), MemError> {
        self.close()
    }

    fn close(&mut self) -> Result<(), MemError> {
        let Some(open) = self.open.take() else {
            return Ok(());
        };
        let Some(mirror) = open.mirror() else {
            return Ok(());
        };
        let allocation = self.view.allocation();
        let copy_on = |stream: &Stream| {
            let uses = [
                Access::of_guard(allocation, true),
                Access::of_guard(mirror, false),
            ];
            let bytes = 0..self.view.len_bytes();
            copy_mirror(uses, stream, bytes, Direction::HostToDevice)
        };
        // The guard stays counted until the copy is noted, or was refused.
        match copy_on(&self.stream) {
            Err(MemError::Capturing { .. }) => {
                let own = allocation.device().new_stream()?;
                copy_on(&own)?;
                own.finish()
            }
            copied => copied,
        }
    }

    fn elements(&self) -> *mut T {
        match &self.open {
            Some(open) => open.elements(),
            // Only between `close` and the end of `finish`, where nobody can look.
            None => std::ptr::NonNull::dangling().as_ptr(),
        }
    }

    fn len(&self) -> usize {
        self.open.as_ref().map_or(0, |_| self.view.len())
    }
}

impl<T: Element> Drop for HostWrite<'_, T> {
    fn drop(&mut self) {
        if let Err(error) = self.close() {
            self.view.allocation().device().defer(error);
        }
    }
}

impl<T: Element> Deref for HostWrite<'_, T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: as for `HostRead`.
        unsafe { std::slice::from_raw_parts(self.elements(), self.len()) }
    }
}

impl<T: Element> DerefMut for HostWrite<'_, T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as for `HostRead`; the buffer is borrowed for writing, and the open
        // guard keeps the device from the memory altogether.
        unsafe { std::slice::from_raw_parts_mut(self.elements(), self.len()) }
    }
}
