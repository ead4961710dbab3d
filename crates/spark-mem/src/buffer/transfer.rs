//! Work of streams on views that needs no kernel: copies, fills, and hints where memory should be.

use super::view::{View, ViewMut};
use crate::backend::place::{Hint, Place, Side};
use crate::element::Element;
use crate::error::MemError;
use crate::memory::allocation::Allocation;
use crate::section::InRecording;
use crate::stats::Direction;
use crate::stream::Stream;

impl Stream {
    /// Copies a view into another one of the same length, in the order of the stream.
    ///
    /// # Errors
    ///
    /// [`MemError::LengthMismatch`], [`MemError::OtherDevice`],
    /// [`MemError::InUseByHost`], [`MemError::Capturing`] for host memory in a recording.
    pub fn copy<T: Element>(&self, from: View<'_, T>, to: ViewMut<'_, T>) -> Result<(), MemError> {
        if from.len() != to.len() {
            return Err(MemError::LengthMismatch {
                what: "to",
                got: to.len(),
                want: from.len(),
            });
        }
        self.device().check_usable()?;
        self.check_same_device(from.allocation().device())?;
        self.check_same_device(to.allocation().device())?;
        let n_bytes = from.len_bytes();
        if n_bytes == 0 {
            return Ok(());
        }
        let (target, source) = (to.place(), from.place());
        let rule = if matches!(target, Place::Host(_)) || matches!(source, Place::Host(_)) {
            // The driver would take such memory now, not when the graph runs.
            InRecording::Refused("a copy of memory the device cannot reach")
        } else {
            InRecording::Allowed
        };
        let inner = self.device().inner();
        let uses = vec![from.access(), to.access()];
        self.submit(uses, rule, |queue| {
            // SAFETY: both views have this many bytes; `to` is borrowed for writing, so they
            // are different allocations or parts of one that do not overlap; the allocations
            // note this work, so they stay and the host does not touch them before it is done.
            let copied = unsafe { inner.backend.copy(queue, target, source, n_bytes) };
            self.device().tried(copied)
        })?;
        let direction = direction(from.allocation(), to.allocation());
        if !self.section().record_copy(direction, n_bytes) {
            inner.counters.copied(direction, n_bytes);
        }
        Ok(())
    }

    /// Sets every byte of a view, in the order of the stream.
    ///
    /// # Errors
    ///
    /// [`MemError::NotOnDevice`] for host memory the device cannot reach, and as
    /// [`Stream::copy`].
    pub fn fill_bytes<T: Element>(&self, to: ViewMut<'_, T>, byte: u8) -> Result<(), MemError> {
        self.device().check_usable()?;
        self.check_same_device(to.allocation().device())?;
        let address = to.device_address()?;
        if to.is_empty() {
            return Ok(());
        }
        let backend = &self.device().inner().backend;
        let uses = vec![to.access()];
        self.submit(uses, InRecording::Allowed, |queue| {
            // SAFETY: the view has this many bytes; the allocation notes this work.
            let filled = unsafe { backend.fill(queue, address, byte, to.len_bytes()) };
            self.device().tried(filled)
        })
    }

    /// Asks the driver to move shared memory to a side before it is used there.
    ///
    /// # Errors
    ///
    /// [`MemError::Unsupported`] if the driver has no such function; [`MemError::Capturing`]: a graph holds no
    /// prefetch; the driver's.
    pub fn prefetch<T: Element>(&self, view: View<'_, T>, to: Side) -> Result<Hint, MemError> {
        self.device().check_usable()?;
        self.check_same_device(view.allocation().device())?;
        let memory = view.raw_memory();
        if memory.len_bytes == 0 {
            return Ok(Hint::NotApplicable);
        }
        let backend = &self.device().inner().backend;
        let uses = vec![view.access()];
        self.submit(uses, InRecording::Refused("prefetching"), |queue| {
            backend.prefetch(queue, memory, to)
        })
    }
}

/// Which way a copy between two allocations goes.
fn direction(from: &Allocation, to: &Allocation) -> Direction {
    let is_host = |allocation: &Allocation| allocation.kind().is_host_memory();
    match (is_host(from), is_host(to)) {
        (true, true) => Direction::OnHost,
        (true, false) => Direction::HostToDevice,
        (false, true) => Direction::DeviceToHost,
        (false, false) => Direction::OnDevice,
    }
}
