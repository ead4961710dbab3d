//! A bounded ring of pinned memory through which slices of the program reach a device.
//!
//! ```text
//! slot    | piece | piece |  free  |      filled from the front, 2 MiB each, four at most
//! mark      e1      e2                    recorded behind the copy of each piece
//! next slot: wait for its marks, begin at its front again
//! ```
//!
//! It is made when it is first needed, kept as long as the device, and not counted in the budget,
//! which bounds what grows. Who uses it holds its lock from the first piece to the last, before
//! any section of a stream is entered.

#![allow(unsafe_code, reason = "gives memory back to its backend")]

use crate::backend::place::RawMemory;
use crate::backend::{Backend, Handle, wait_before_giving_back};
use crate::error::DriverError;
use crate::kind::BufferKind;

/// Bytes of a slot: enough for a bus to reach its rate.
pub(crate) const SLOT_BYTES: usize = 2 << 20;
/// Slots at most; while one is filled, others are copied.
const N_SLOTS: usize = 4;
/// Marks of a slot at most; many small pieces take the next slot early.
const MARKS_PER_SLOT: usize = 64;
/// Where pieces begin within a slot: multiples of a cache line.
const ALIGN_BYTES: usize = 64;

/// The ring of a device. See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct Ring {
    slots: Vec<Slot>,
    current: usize,
    idle_marks: Vec<Handle>,
}

#[derive(Debug)]
struct Slot {
    memory: RawMemory,
    used_bytes: usize,
    marks: Vec<Handle>,
    /// A copy from or to it could not be waited for: it is not used again, and stays for good.
    is_left: bool,
}

impl Slot {
    fn new(backend: &dyn Backend) -> Result<Self, DriverError> {
        Ok(Self {
            memory: backend.allocate(BufferKind::Pinned, SLOT_BYTES, &mut |_| {})?,
            used_bytes: 0,
            marks: Vec::new(),
            is_left: false,
        })
    }
}

// SAFETY: the memory of the slots is owned by the ring, which is used by one thread at a time.
unsafe impl Send for Ring {}

impl Ring {
    /// Room for `n_bytes`, at most a slot's, that nothing copies from or to any more. It stays the
    /// caller's until two more have been taken.
    pub(crate) fn take(
        &mut self,
        backend: &dyn Backend,
        n_bytes: usize,
    ) -> Result<*mut u8, DriverError> {
        debug_assert!(n_bytes <= SLOT_BYTES);
        let fits = |slot: &Slot| {
            let has_room = slot.used_bytes + n_bytes <= SLOT_BYTES;
            has_room && slot.marks.len() < MARKS_PER_SLOT && !slot.is_left
        };
        if !self.slots.get(self.current).is_some_and(fits) {
            self.advance(backend)?;
        }
        let slot = &mut self.slots[self.current];
        // Inside the slot: `used_bytes + n_bytes` is at most its length.
        let room = slot.memory.host.wrapping_add(slot.used_bytes);
        slot.used_bytes = (slot.used_bytes + n_bytes).next_multiple_of(ALIGN_BYTES);
        Ok(room)
    }

    /// Makes the next slot the current one, empty.
    fn advance(&mut self, backend: &dyn Backend) -> Result<(), DriverError> {
        if self.slots.len() < N_SLOTS {
            let slot = Slot::new(backend)?;
            self.current = self.slots.len();
            self.slots.push(slot);
            return Ok(());
        }
        let next = (self.current + 1) % N_SLOTS;
        let slot = &mut self.slots[next];
        // What has been waited for is no mark of the slot any more, whatever comes behind it.
        while let Some(mark) = slot.marks.last().copied() {
            backend.synchronize_event(mark)?;
            slot.marks.pop();
            self.idle_marks.push(mark);
        }
        if slot.is_left {
            *slot = Slot::new(backend)?;
        }
        slot.used_bytes = 0;
        self.current = next;
        Ok(())
    }

    /// Marks the copy that `queue` was just given of the room taken last.
    pub(crate) fn mark(
        &mut self,
        backend: &dyn Backend,
        queue: Handle,
    ) -> Result<Handle, DriverError> {
        let mark = match self.idle_marks.pop() {
            Some(mark) => mark,
            None => match backend.new_event(false) {
                Ok(mark) => mark,
                Err(error) => return Err(self.unmarked(backend, queue, error)),
            },
        };
        if let Err(error) = backend.record(mark, queue) {
            self.idle_marks.push(mark);
            return Err(self.unmarked(backend, queue, error));
        }
        self.slots[self.current].marks.push(mark);
        Ok(mark)
    }

    /// Without a mark the copy must be over before the room is used again.
    fn unmarked(
        &mut self,
        backend: &dyn Backend,
        queue: Handle,
        error: DriverError,
    ) -> DriverError {
        let (is_over, refused) = wait_before_giving_back(|| backend.synchronize(queue));
        self.slots[self.current].is_left = !is_over;
        refused.unwrap_or(error)
    }

    /// Gives everything back, with the device. Errors have no receiver any more.
    pub(crate) fn release(&mut self, backend: &dyn Backend) {
        let slots = std::mem::take(&mut self.slots);
        let marks = std::mem::take(&mut self.idle_marks);
        for slot in slots {
            let mut is_left = slot.is_left;
            for mark in &slot.marks {
                is_left |= !wait_before_giving_back(|| backend.synchronize_event(*mark)).0;
                let _ = backend.drop_event(*mark);
            }
            if is_left {
                continue;
            }
            // SAFETY: allocated by this backend, given back once; every copy has been waited for,
            // or its context is lost.
            let _ = unsafe { backend.free(slot.memory) };
        }
        for mark in marks {
            let _ = backend.drop_event(mark);
        }
    }
}
