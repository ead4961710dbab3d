//! Slices of the program to memory of the device alone and back, through the staging ring.
//!
//! ```text
//! upload     piece -> ring, queued to the device, marked; the next piece meanwhile
//! download   queued to the ring, marked; waited for when two are on their way
//! ```
//!
//! Nothing of a buffer's size is taken besides the buffer, and nothing is kept.

use std::collections::VecDeque;

use super::view::{View, ViewMut};
use crate::backend::OUT_OF_MEMORY;
use crate::backend::place::Place;
use crate::device::Device;
use crate::element::Element;
use crate::error::{DriverError, MemError};
use crate::kind::BufferKind;
use crate::lock::lock;
use crate::memory::allocation::Access;
use crate::section::InRecording;
use crate::staging::SLOT_BYTES;
use crate::stats::Direction;
use crate::stream::Stream;

/// Pieces on their way to the host at most: the ring keeps so many apart.
const N_COMING: usize = 2;
const IN_RECORDING: InRecording = InRecording::Refused("host access through a stream");

/// Copies a slice to memory of the device alone, in the order of the stream. The slice has been
/// read when this returns.
pub(super) fn upload<T: Element>(
    to: &ViewMut<'_, T>,
    stream: &Stream,
    from: &[T],
) -> Result<(), MemError> {
    debug_assert_eq!(to.len_bytes(), size_of_val(from));
    stream.device().warn_of_copies(to.len_bytes());
    let address = to.device_address()?;
    // SAFETY: the view has these bytes, borrowed for writing, and every piece notes its work on it.
    unsafe { upload_to(address, || vec![to.access()], IN_RECORDING, stream, from) }
}

/// As `upload`, to an address. `uses` is what every piece of the copy notes.
///
/// # Safety
///
/// The address has as many bytes as the slice, which stay until the stream has passed this point,
/// and nothing else uses them meanwhile that the stream does not put in order.
pub(crate) unsafe fn upload_to<'a, T: Element>(
    address: u64,
    uses: impl Fn() -> Vec<Access<'a>>,
    rule: InRecording,
    stream: &Stream,
    from: &[T],
) -> Result<(), MemError> {
    let device = stream.device();
    let inner = device.inner();
    let backend = &*inner.backend;
    let n_bytes = size_of_val(from);
    let mut ring = lock(&inner.staging);
    for offset in (0..n_bytes).step_by(SLOT_BYTES) {
        let len = SLOT_BYTES.min(n_bytes - offset);
        let room = ring
            .take(backend, len)
            .map_err(|error| refused(device, error))?;
        // SAFETY: the slice has `len` bytes at `offset`, and so has the room, which is another
        // piece of memory that nothing else uses.
        unsafe {
            let piece = from.as_ptr().cast::<u8>().add(offset);
            std::ptr::copy_nonoverlapping(piece, room, len);
        }
        let place = Place::Device(address + offset as u64);
        stream.submit(uses(), rule, |queue| {
            // SAFETY: the caller's promise for the address; the room stays as it is until the mark
            // behind the copy has been waited for.
            let copied = unsafe { backend.copy(queue, place, Place::Host(room), len) };
            device.tried(copied.and_then(|()| ring.mark(backend, queue)))
        })?;
    }
    inner.counters.copied(Direction::HostToDevice, n_bytes);
    Ok(())
}

/// Copies memory of the device alone to `to`, and waits for it.
///
/// # Safety
///
/// `to` has as many bytes as the view, for this call alone.
pub(super) unsafe fn download<T: Element>(
    from: View<'_, T>,
    stream: &Stream,
    to: *mut u8,
) -> Result<(), MemError> {
    let device = stream.device();
    let inner = device.inner();
    let backend = &*inner.backend;
    let address = from.device_address()?;
    let n_bytes = from.len_bytes();
    device.warn_of_copies(n_bytes);
    let mut ring = lock(&inner.staging);
    let mut coming = VecDeque::new();
    // Takes the oldest piece out of the ring when its copy is over.
    let arrive = |(mark, room, offset, len): (u64, *mut u8, usize, usize)| {
        device.tried(backend.synchronize_event(mark))?;
        // SAFETY: the room has `len` bytes, which the copy has written; `to` has them at `offset`
        // by the caller's promise.
        unsafe { std::ptr::copy_nonoverlapping(room, to.add(offset), len) };
        Ok::<(), MemError>(())
    };
    for offset in (0..n_bytes).step_by(SLOT_BYTES) {
        if coming.len() == N_COMING
            && let Some(oldest) = coming.pop_front()
        {
            arrive(oldest)?;
        }
        let len = SLOT_BYTES.min(n_bytes - offset);
        let room = ring
            .take(backend, len)
            .map_err(|error| refused(device, error))?;
        let place = Place::Device(address + offset as u64);
        let mark = stream.submit(vec![from.access()], IN_RECORDING, |queue| {
            // SAFETY: the view has these bytes and notes this work; the room is not used again
            // until the mark behind the copy has been waited for.
            let copied = unsafe { backend.copy(queue, Place::Host(room), place, len) };
            device.tried(copied.and_then(|()| ring.mark(backend, queue)))
        })?;
        coming.push_back((mark, room, offset, len));
    }
    coming.into_iter().try_for_each(arrive)?;
    inner.counters.copied(Direction::DeviceToHost, n_bytes);
    Ok(())
}

fn refused(device: &Device, error: DriverError) -> MemError {
    if error.code == OUT_OF_MEMORY {
        return MemError::OutOfMemory {
            kind: BufferKind::Pinned,
            asked: SLOT_BYTES as u64,
            device: device.info().name.clone(),
            why: error.to_string(),
        };
    }
    device.failed(error)
}
