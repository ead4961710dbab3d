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
//! buffer.parts()              ranges of it that one launch reads and writes at the same time
//! ```
//!
//! The borrow rules keep host and device apart: queueing work borrows a buffer, a
//! guard borrows it while it is open, and opening a guard waits for what was queued. What borrows cannot show (a recorded graph) is refused when it is launched.

#![allow(unsafe_code, reason = "fills vectors from memory of the device")]

mod guard;
mod parts;
pub(crate) mod stage;
mod transfer;
pub(crate) mod view;

use std::marker::PhantomData;
use std::sync::Arc;

pub use guard::{HostRead, HostWrite};
pub use parts::Parts;
pub use view::{View, ViewMut};

pub use crate::kind::BufferKind;

use crate::backend::place::{Advice, Hint};
use crate::device::Device;
use crate::element::{Element, bytes_of};
use crate::error::MemError;
use crate::memory::adopted::Adopted;
use crate::memory::allocation::Allocation;
use crate::spare::Pending;
use crate::stats::Direction;
use crate::stream::Stream;
use parts::check_range;

/// `len` numbers in memory of a device; made by [`Device::buffer`].
///
/// # Examples
///
/// ```
/// use spark_mem::{BufferKind, Device};
///
/// let device = Device::host();
/// let stream = device.new_stream()?;
/// let mut buffer = device.buffer::<f32>(BufferKind::Host, 4)?; // zeros
/// buffer.upload(&stream, &[1.0, 2.0, 3.0, 4.0])?;
/// buffer.write(&stream)?[0] = 5.0; // a guard, which waits for the device and derefs to a slice
/// assert_eq!(buffer.into_vec(&stream)?, [5.0, 2.0, 3.0, 4.0]);
/// # Ok::<(), spark_mem::MemError>(())
/// ```
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

    /// Number of elements, not of bytes.
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

    /// Which kind of memory it lies in.
    #[must_use]
    pub fn kind(&self) -> BufferKind {
        self.allocation.kind()
    }

    /// The device that it was allocated for.
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
        check_range(&range, self.len)?;
        Ok(View::new(&self.allocation, range.start, range.len()))
    }

    /// Elements `range` of it, for the device to write.
    ///
    /// # Errors
    ///
    /// [`MemError::OutOfRange`].
    pub fn range_mut(&mut self, range: std::ops::Range<usize>) -> Result<ViewMut<'_, T>, MemError> {
        check_range(&range, self.len)?;
        Ok(ViewMut::new(&self.allocation, range.start, range.len()))
    }

    /// Parts of it that the device uses at the same time, some to read and some to write.
    #[must_use]
    pub fn parts(&mut self) -> Parts<'_, T> {
        Parts::new(&self.allocation, self.len)
    }

    /// Several parts of it for the device to write, which do not overlap.
    ///
    /// # Errors
    ///
    /// [`MemError::OutOfRange`]; [`MemError::Overlap`].
    pub fn split_mut<const N: usize>(
        &mut self,
        ranges: [std::ops::Range<usize>; N],
    ) -> Result<[ViewMut<'_, T>; N], MemError> {
        self.parts().split(ranges)
    }

    /// Opens it for the host to read: in place, or on memory of the device alone through
    /// a copy. Waits for the device's writes.
    ///
    /// # Errors
    ///
    /// [`MemError::Capturing`] while a stream with work on it is captured; errors of the
    /// work waited for; for memory of the device alone also those of allocating and copying.
    pub fn read(&self, stream: &Stream) -> Result<HostRead<'_, T>, MemError> {
        HostRead::open(self.view(), stream)
    }

    /// Opens it for the host to read and write. Waits for the device's work. On memory of
    /// the device alone it is copied to the host now and back when the guard is dropped.
    ///
    /// # Errors
    ///
    /// As [`Buffer::read`].
    pub fn write(&mut self, stream: &Stream) -> Result<HostWrite<'_, T>, MemError> {
        HostWrite::open(self.view_mut(), stream, true)
    }

    /// As [`Buffer::write`] for a host that writes every element: what the guard shows at
    /// first is unspecified, and nothing is copied to the host.
    ///
    /// # Errors
    ///
    /// As [`Buffer::read`].
    pub fn overwrite(&mut self, stream: &Stream) -> Result<HostWrite<'_, T>, MemError> {
        HostWrite::open(self.view_mut(), stream, false)
    }

    /// Copies a slice into it. On memory of the device alone it goes through a small ring of pinned
    /// memory, piece by piece: nothing of its own size is taken, and the copy is over when the
    /// stream comes to what is queued next.
    ///
    /// # Errors
    ///
    /// [`MemError::LengthMismatch`]; as [`Buffer::overwrite`].
    pub fn upload(&mut self, stream: &Stream, from: &[T]) -> Result<(), MemError> {
        check_len("from", from.len(), self.len)?;
        if !self.allocation.is_host_visible() {
            self.check_through(stream)?;
            return stage::upload(&self.view_mut(), stream, from);
        }
        let mut guard = self.overwrite(stream)?;
        guard.copy_from_slice(from);
        guard.finish()?;
        self.count_copy_on_host();
        Ok(())
    }

    /// Copies a slice into a part of memory of the device alone.
    pub(crate) fn upload_part(
        &mut self,
        stream: &Stream,
        range: std::ops::Range<usize>,
        from: &[T],
    ) -> Result<(), MemError> {
        check_len("from", from.len(), range.len())?;
        self.check_through(stream)?;
        stage::upload(&self.range_mut(range)?, stream, from)
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
    pub fn into_vec(self, stream: &Stream) -> Result<Vec<T>, MemError> {
        if !self.allocation.is_adopted() {
            return self.to_vec(stream);
        }
        self.device().check_usable()?;
        self.check_through(stream)?;
        // Its only owner first, then the wait: nobody is left who could queue work in between.
        let allocation = match Arc::try_unwrap(self.allocation) {
            Ok(allocation) => allocation,
            Err(shared) => return Self::from_allocation(shared, self.len).to_vec(stream),
        };
        let adopted = allocation.into_adopted()?;
        Ok(adopted.map_or_else(Vec::new, Adopted::into_vec))
    }

    /// A copy of its elements.
    fn to_vec(&self, stream: &Stream) -> Result<Vec<T>, MemError> {
        if !self.allocation.is_host_visible() {
            return self.part_to_vec(stream, 0..self.len);
        }
        let (mut values, _taking) = self.host_room(self.len)?;
        values.extend_from_slice(&self.read(stream)?);
        self.count_copy_on_host();
        Ok(values)
    }

    /// A copy of a part of memory of the device alone, which takes room for that part and no more.
    pub(crate) fn part_to_vec(
        &self,
        stream: &Stream,
        range: std::ops::Range<usize>,
    ) -> Result<Vec<T>, MemError> {
        self.check_through(stream)?;
        let part = self.range(range)?;
        let (mut values, _taking) = self.host_room(part.len())?;
        // SAFETY: the vector has room for as many elements, which are written altogether
        // before they count; every bit pattern is one.
        unsafe {
            stage::download(part, stream, values.as_mut_ptr().cast())?;
            values.set_len(part.len());
        }
        Ok(values)
    }

    /// An empty vector with room for so many elements, which are held against the machine's memory until
    /// they are there, when its own figure shows them.
    fn host_room(&self, len: usize) -> Result<(Vec<T>, Pending), MemError> {
        let n_bytes = (len * size_of::<T>()) as u64;
        let taking = self.device().budget().take_for_program(n_bytes)?;
        let mut values: Vec<T> = Vec::new();
        let room = values.try_reserve_exact(len);
        room.map_err(|why| MemError::OutOfMemory {
            kind: BufferKind::Host,
            asked: n_bytes,
            device: self.device().info().name.clone(),
            why: why.to_string(),
        })?;
        Ok((values, taking))
    }

    /// Whether host access through this stream is possible now.
    fn check_through(&self, stream: &Stream) -> Result<(), MemError> {
        stream.check_same_device(self.device())?;
        stream.check_not_captured("host access through a stream")
    }

    /// Counts a copy that the CPU made, where the guard has not counted one already.
    pub(crate) fn count_copy_on_host(&self) {
        if self.kind().is_host_visible() {
            let counters = &self.device().inner().counters;
            counters.copied(Direction::OnHost, self.len_bytes());
        }
    }

    /// Tells the driver how this memory will be used.
    ///
    /// # Errors
    ///
    /// [`MemError::Unsupported`] if the driver has no such function; the driver's.
    pub fn advise(&self, advice: Advice) -> Result<Hint, MemError> {
        let memory = self.allocation().memory();
        self.device().check_usable()?;
        if memory.len_bytes == 0 {
            return Ok(Hint::NotApplicable);
        }
        self.device().inner().backend.advise(memory, advice)
    }

    /// Copies it into a slice.
    ///
    /// # Errors
    ///
    /// [`MemError::LengthMismatch`]; as [`Buffer::read`].
    pub fn download(&self, stream: &Stream, to: &mut [T]) -> Result<(), MemError> {
        check_len("to", to.len(), self.len)?;
        if !self.allocation.is_host_visible() {
            self.check_through(stream)?;
            // SAFETY: the slice has as many elements, and is borrowed for writing.
            return unsafe { stage::download(self.view(), stream, to.as_mut_ptr().cast()) };
        }
        to.copy_from_slice(&self.read(stream)?);
        self.count_copy_on_host();
        Ok(())
    }
}

impl Device {
    /// `len` zeros in memory of this kind.
    ///
    /// # Errors
    ///
    /// [`MemError::KindUnsupported`], [`MemError::SizeOverflow`],
    /// [`MemError::OverBudget`], [`MemError::OutOfMemory`].
    pub fn buffer<T: Element>(&self, kind: BufferKind, len: usize) -> Result<Buffer<T>, MemError> {
        let allocation = self.allocate(kind, bytes_of::<T>(len)?)?;
        Ok(Buffer::from_allocation(Arc::new(allocation), len))
    }

    /// `len` zeros in memory that both sides use; see [`Device::shared_kind`].
    ///
    /// # Errors
    ///
    /// As [`Device::buffer`].
    pub fn shared<T: Element>(&self, len: usize) -> Result<Buffer<T>, MemError> {
        self.buffer(self.shared_kind(), len)
    }

    /// These numbers in memory that both sides use, without a copy where shared buffers are plain memory of
    /// the program ([`Device::shared_kind`]): on the CPU, and on most GPUs that walk the CPU's page
    /// tables. Elsewhere they are copied into [`Device::shared`] memory, which is counted.
    ///
    /// In place their address is a multiple of the element's size and of no more, unlike
    /// that of other buffers, and the budget does not count them: they were there before.
    ///
    /// # Errors
    ///
    /// As [`Device::buffer`] and [`Buffer::upload`].
    pub fn buffer_from_vec<T: Element>(
        &self,
        stream: &Stream,
        values: Vec<T>,
    ) -> Result<Buffer<T>, MemError> {
        self.check_usable()?;
        stream.check_same_device(self)?;
        let len = values.len();
        let kind = self.shared_kind();
        if !matches!(kind, BufferKind::Host | BufferKind::System) {
            let mut buffer = self.shared(len)?;
            buffer.upload(stream, &values)?;
            return Ok(buffer);
        }
        let n_bytes = bytes_of::<T>(len)?;
        let allocation = Allocation::of_program(self.clone(), kind, Adopted::new(values), n_bytes);
        Ok(Buffer::from_allocation(Arc::new(allocation), len))
    }
}

pub(crate) fn check_len(what: &'static str, got: usize, want: usize) -> Result<(), MemError> {
    if got == want {
        return Ok(());
    }
    Err(MemError::LengthMismatch { what, got, want })
}
