//! Host access to buffers: in place where host and device share memory, through pinned
//! memory elsewhere.
//!
//! ```text
//!              host-visible kinds        Device
//! open read    wait                      copy to the mirror, wait
//! open write   wait                      copy to the mirror, wait
//! overwrite    wait                      wait
//! close        nothing to do             copy from the mirror, in stream order
//! ```
//!
//! A guard that is closed while its stream is captured must not leave its copy in the
//! recording: it takes a stream of its own and waits.

#![allow(unsafe_code, reason = "makes slices of memory that buffers own")]

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use super::allocation::Allocation;
use crate::stats::Direction;
use crate::{Buffer, Element, MemError, Stream};

/// The elements of a buffer, for the host to read.
#[derive(Debug)]
pub struct HostRead<'a, T: Element> {
    buffer: &'a Buffer<T>,
    open: Open,
}

/// The elements of a buffer, for the host to read and write.
#[derive(Debug)]
pub struct HostWrite<'a, T: Element> {
    buffer: &'a Buffer<T>,
    stream: Stream,
    /// `None` once it is closed.
    open: Option<Open>,
}

/// What is open for the host, and where it finds the elements.
#[derive(Debug)]
struct Open {
    pointer: *mut u8,
    mirror: Option<Counted>,
    _memory: Counted,
}

// SAFETY: the pointer leads into memory that the two counts keep; what may be done with
// it follows from the guard's borrow of its buffer.
unsafe impl Send for Open {}
// SAFETY: as above.
unsafe impl Sync for Open {}

/// One guard counted in an allocation.
#[derive(Debug)]
struct Counted {
    allocation: Arc<Allocation>,
    writes: bool,
}

impl Counted {
    fn new(allocation: &Arc<Allocation>, writes: bool) -> Result<Self, MemError> {
        allocation.open_for_host(writes)?;
        Ok(Self {
            allocation: Arc::clone(allocation),
            writes,
        })
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.allocation.close_for_host(self.writes);
    }
}

impl Open {
    /// Opens for the host; `loads` says whether it needs to see what is there.
    fn new<T: Element>(
        buffer: &Buffer<T>,
        stream: &Stream,
        writes: bool,
        loads: bool,
    ) -> Result<Self, MemError> {
        stream.check_same_device(buffer.device())?;
        stream.check_not_captured("host access through a stream")?;
        let allocation = buffer.allocation();
        if allocation.is_host_visible() || buffer.is_empty() {
            let memory = Counted::new(allocation, writes)?;
            buffer.device().inner().counters.shared();
            return Ok(Self {
                pointer: allocation.memory().host,
                mirror: None,
                _memory: memory,
            });
        }
        // Held until the mirror is open: a second reader waits here and then finds the
        // elements where the first one brought them.
        let mut slot = allocation.mirror();
        let mirror = slot.get(allocation)?;
        if loads && !mirror.has_readers() {
            let bytes = 0..buffer.len_bytes();
            allocation.copy_mirror(&mirror, stream, bytes, Direction::DeviceToHost)?;
        }
        let mirror = Counted::new(&mirror, writes)?;
        let memory = Counted::new(allocation, writes)?;
        Ok(Self {
            pointer: mirror.allocation.memory().host,
            mirror: Some(mirror),
            _memory: memory,
        })
    }

    /// The first element; not null and aligned even if there are none.
    fn elements<T: Element>(&self) -> *mut T {
        if self.pointer.is_null() {
            return std::ptr::NonNull::<T>::dangling().as_ptr();
        }
        self.pointer.cast()
    }
}

impl<'a, T: Element> HostRead<'a, T> {
    pub(super) fn open(buffer: &'a Buffer<T>, stream: &Stream) -> Result<Self, MemError> {
        let open = Open::new(buffer, stream, false, true)?;
        Ok(Self { buffer, open })
    }
}

impl<T: Element> Deref for HostRead<'_, T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: the memory has `len` elements, initialised when it was made; the buffer
        // is borrowed, and the open guard keeps the device from writing.
        unsafe { std::slice::from_raw_parts(self.open.elements(), self.buffer.len()) }
    }
}

impl<'a, T: Element> HostWrite<'a, T> {
    pub(super) fn open(
        buffer: &'a mut Buffer<T>,
        stream: &Stream,
        loads: bool,
    ) -> Result<Self, MemError> {
        let open = Open::new(buffer, stream, true, loads)?;
        Ok(Self {
            buffer,
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
        let mirror = open
            .mirror
            .as_ref()
            .map(|mirror| Arc::clone(&mirror.allocation));
        // The copy is device work on this buffer, which an open guard would refuse.
        drop(open);
        let Some(mirror) = mirror else {
            return Ok(());
        };
        let bytes = 0..self.buffer.len_bytes();
        let allocation = self.buffer.allocation();
        let copy_on = |stream: &Stream| {
            allocation.copy_mirror(&mirror, stream, bytes.clone(), Direction::HostToDevice)
        };
        match copy_on(&self.stream) {
            Err(MemError::Capturing { .. }) => {
                let own = self.buffer.device().new_stream()?;
                copy_on(&own)?;
                own.inner().finish()
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
        self.open.as_ref().map_or(0, |_| self.buffer.len())
    }
}

impl<T: Element> Drop for HostWrite<'_, T> {
    fn drop(&mut self) {
        if let Err(error) = self.close() {
            self.buffer.device().defer(error);
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
