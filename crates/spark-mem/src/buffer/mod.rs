//! Buffers: numbers in memory of a device, and how the host gets at them.
//!
//! ```text
//! kind      allocated by             host sees it     device sees it
//! Host      the system, the program  yes              no (on the CPU device: yes)
//! Pinned    the driver, in host RAM  yes              yes; over the bus on a card
//! Unified   the driver, managed      yes              yes; pages may move
//! System    the system, the program  yes              yes, through the CPU's page tables
//! Device    the driver               by copy          yes
//! ```
//!
//! ```text
//! buffer.read(&stream)?       waits for the device's writes; derefs to a slice
//! buffer.write(&stream)?      waits for all of the device's work; derefs to a slice
//! drop the guard              later work of the device sees what was written
//! ```
//!
//! The borrow rules keep host and device apart: device work borrows a buffer while it is
//! queued, a guard borrows it while it is open, and opening a guard waits for what was
//! queued. What borrows cannot show (a recorded graph) is refused when it is launched.

pub(crate) mod adopted;
pub(crate) mod allocation;
mod guard;
mod view;

use std::marker::PhantomData;
use std::sync::Arc;

pub use guard::{HostRead, HostWrite};
pub use view::{View, ViewMut};

use crate::stats::Direction;
use crate::{Device, Element, MemError, Stream};
use adopted::Adopted;
use allocation::Allocation;

/// Where a buffer's memory lies. See the [module](self).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BufferKind {
    /// Host memory for the host alone.
    Host,
    /// Host memory that stays in place and that the device can reach.
    Pinned,
    /// Managed memory: one address for both sides, the driver moves pages.
    Unified,
    /// Plain memory of the system, which the device reads through the CPU's page tables.
    System,
    /// Memory of the device alone.
    Device,
}

impl BufferKind {
    /// Every kind.
    pub const ALL: [Self; 5] = [
        Self::Host,
        Self::Pinned,
        Self::Unified,
        Self::System,
        Self::Device,
    ];

    /// Whether the host can use it without a copy.
    #[must_use]
    pub fn is_host_visible(self) -> bool {
        self != Self::Device
    }

    /// Whether it is host memory first of all, so that copies from it cross to the device.
    #[must_use]
    pub fn is_host_memory(self) -> bool {
        matches!(self, Self::Host | Self::Pinned)
    }
}

/// `len` numbers in memory of a device; made by [`Device::buffer`].
#[derive(Debug)]
pub struct Buffer<T: Element> {
    allocation: Arc<Allocation>,
    len: usize,
    elements: PhantomData<T>,
}

impl<T: Element> Buffer<T> {
    pub(crate) fn from_allocation(allocation: Arc<Allocation>, len: usize) -> Self {
        Self {
            allocation,
            len,
            elements: PhantomData,
        }
    }

    pub(crate) fn allocation(&self) -> &Arc<Allocation> {
        &self.allocation
    }

    /// Elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it holds nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Its size in bytes.
    #[must_use]
    pub fn len_bytes(&self) -> usize {
        self.len * size_of::<T>()
    }

    /// Where it lies.
    #[must_use]
    pub fn kind(&self) -> BufferKind {
        self.allocation.kind()
    }

    /// Its device.
    #[must_use]
    pub fn device(&self) -> &Device {
        self.allocation.device()
    }

    /// The device's address, if it can reach the memory. On unified memory the host's
    /// pointer has the same value.
    #[must_use]
    pub fn device_address(&self) -> Option<u64> {
        Some(self.allocation.memory().device).filter(|address| *address != 0)
    }

    /// All of it, for the device to read.
    #[must_use]
    pub fn view(&self) -> View<'_, T> {
        View::new(&self.allocation, 0, self.len)
    }

    /// All of it, for the device to write.
    #[must_use]
    pub fn view_mut(&mut self) -> ViewMut<'_, T> {
        ViewMut::new(&self.allocation, 0, self.len)
    }

    /// Elements `range` of it, for the device to read.
    ///
    /// # Errors
    ///
    /// [`MemError::OutOfRange`].
    pub fn range(&self, range: std::ops::Range<usize>) -> Result<View<'_, T>, MemError> {
        self.check_range(&range)?;
        Ok(View::new(&self.allocation, range.start, range.len()))
    }

    /// Elements `range` of it, for the device to write.
    ///
    /// # Errors
    ///
    /// [`MemError::OutOfRange`].
    pub fn range_mut(&mut self, range: std::ops::Range<usize>) -> Result<ViewMut<'_, T>, MemError> {
        self.check_range(&range)?;
        Ok(ViewMut::new(&self.allocation, range.start, range.len()))
    }

    fn check_range(&self, range: &std::ops::Range<usize>) -> Result<(), MemError> {
        if range.start <= range.end && range.end <= self.len {
            return Ok(());
        }
        Err(MemError::OutOfRange {
            start: range.start,
            end: range.end,
            len: self.len,
        })
    }

    /// Opens it for the host to read: in place, or on memory of the device alone through
    /// a copy. Waits for the device's writes.
    ///
    /// # Errors
    ///
    /// [`MemError::Capturing`] while a stream with work on it is captured; errors of the
    /// work waited for; for memory of the device alone also those of allocating and copying.
    pub fn read(&self, stream: &Stream) -> Result<HostRead<'_, T>, MemError> {
        HostRead::open(self, stream)
    }

    /// Opens it for the host to read and write. Waits for the device's work. On memory of
    /// the device alone it is copied to the host now and back when the guard is dropped.
    ///
    /// # Errors
    ///
    /// As [`Buffer::read`].
    pub fn write(&mut self, stream: &Stream) -> Result<HostWrite<'_, T>, MemError> {
        HostWrite::open(self, stream, true)
    }

    /// As [`Buffer::write`] for a host that writes every element: what the guard shows at
    /// first is unspecified, and nothing is copied to the host.
    ///
    /// # Errors
    ///
    /// As [`Buffer::read`].
    pub fn overwrite(&mut self, stream: &Stream) -> Result<HostWrite<'_, T>, MemError> {
        HostWrite::open(self, stream, false)
    }

    /// Copies a slice into it.
    ///
    /// # Errors
    ///
    /// [`MemError::LengthMismatch`]; as [`Buffer::overwrite`].
    pub fn upload(&mut self, stream: &Stream, from: &[T]) -> Result<(), MemError> {
        check_len("from", from.len(), self.len)?;
        let mut guard = self.overwrite(stream)?;
        guard.copy_from_slice(from);
        guard.finish()?;
        self.count_copy_on_host();
        Ok(())
    }

    /// Its elements as a `Vec`. A buffer made by [`Device::buffer_from_vec`] in place gives
    /// that very memory back; from any other one they are copied, which is counted. Waits
    /// for the device's work.
    ///
    /// A recorded graph keeps its buffers, so their elements are copied too.
    ///
    /// # Errors
    ///
    /// As [`Buffer::read`]. What the buffer held is then gone with it.
    pub fn into_vec(mut self, stream: &Stream) -> Result<Vec<T>, MemError> {
        if !self.allocation.is_adopted() {
            return self.to_vec(stream);
        }
        self.overwrite(stream)?.finish()?; // the device neither reads nor writes it any more
        let mut allocation = match Arc::try_unwrap(self.allocation) {
            Ok(allocation) => allocation,
            Err(shared) => return Self::from_allocation(shared, self.len).to_vec(stream),
        };
        let adopted = allocation.take_adopted();
        Ok(adopted.map_or_else(Vec::new, Adopted::into_vec))
    }

    /// A copy of its elements.
    fn to_vec(&self, stream: &Stream) -> Result<Vec<T>, MemError> {
        let values = self.read(stream)?.to_vec();
        self.count_copy_on_host();
        Ok(values)
    }

    /// Counts a copy that the CPU made, where the guard has not counted one already.
    pub(crate) fn count_copy_on_host(&self) {
        if self.kind().is_host_visible() {
            let counters = &self.device().inner().counters;
            counters.copied(Direction::OnHost, self.len_bytes());
        }
    }

    /// Copies it into a slice.
    ///
    /// # Errors
    ///
    /// [`MemError::LengthMismatch`]; as [`Buffer::read`].
    pub fn download(&self, stream: &Stream, to: &mut [T]) -> Result<(), MemError> {
        check_len("to", to.len(), self.len)?;
        to.copy_from_slice(&self.read(stream)?);
        self.count_copy_on_host();
        Ok(())
    }
}

pub(crate) fn check_len(what: &'static str, got: usize, want: usize) -> Result<(), MemError> {
    if got == want {
        return Ok(());
    }
    Err(MemError::LengthMismatch { what, got, want })
}
