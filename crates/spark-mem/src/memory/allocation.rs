//! One piece of memory: who uses it now, and what must be waited for before it goes.
//!
//! ```text
//! state   n host readers | 1 host writer | none
//! queued  work being handed to the backend now: n readers | 1 writer
//! used    streams with work on it, each with whether they write
//!
//! host guard opens  -> count, then wait for the streams (a reader for writers only)
//! host guard closes -> a copy back is queued and noted, then uncount
//! device work       -> refused while a guard is in its way; other streams' work on it
//!                      comes first (an event is recorded and waited for, on the device)
//! drop              -> wait for the streams, give the memory to its pool or the backend
//! ```
//!
//! Work is noted in `used` when it is in its queue, and not before: an event recorded for
//! work that is only noted would lie in front of it. Until then it is `queued`, and whoever
//! it concerns waits. Work on several pieces takes them in the order of their addresses, so
//! that two threads never wait for each other.
//!
//! Waiting is per stream, not per piece of work: work queued later on that stream is
//! waited for too. That is correct, and needs no event for every launch.
//!
//! A stream in `used` lives on when the program has dropped it. Memory that is only read would
//! collect them, so every time their number has doubled those are asked that are idle, and go.

#![allow(
    unsafe_code,
    reason = "shares raw memory between threads and clears it"
)]

use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};

use super::adopted::Adopted;
use super::block::{Block, Home, Queue, Use, release};
use super::housekeeping::Housekeeping;
use crate::backend::OUT_OF_MEMORY;
use crate::backend::place::RawMemory;
use crate::budget::Reservation;
use crate::device::Device;
use crate::error::{DriverError, MemError};
use crate::kind::BufferKind;
use crate::lock::{lock, wait};

/// Who uses a piece of memory.
#[derive(Debug, Default)]
pub(crate) struct State {
    readers: usize,
    is_written: bool,
    queued_readers: usize,
    is_queued_to_write: bool,
    used: Vec<Use>,
    /// Uses noted so far.
    n_uses: u64,
    /// The streams that the last question for idle ones left over.
    n_busy: usize,
}

/// So many streams of one piece of memory are kept without asking them whether they are idle.
const FEW_QUEUES: usize = 8;

impl State {
    /// Whether a guard of the host stands in the way of this work.
    fn check_free(&self, writes: bool) -> Result<(), MemError> {
        if self.is_written || (writes && self.readers > 0) {
            return Err(MemError::InUseByHost);
        }
        Ok(())
    }

    /// Whether work that is being handed over must come first.
    fn must_wait(&self, writes: bool) -> bool {
        self.is_queued_to_write || (writes && self.queued_readers > 0)
    }

    /// Queues whose work must come before this work of another queue.
    fn before(&self, queue: &Arc<dyn Queue>, writes: bool) -> Vec<Arc<dyn Queue>> {
        self.used
            .iter()
            .filter(|earlier| !Arc::ptr_eq(&earlier.queue, queue))
            .filter(|earlier| writes || earlier.writes)
            .map(|earlier| Arc::clone(&earlier.queue))
            .collect()
    }

    /// Remembers work. A write comes after everything before it, so it replaces it.
    fn note(&mut self, queue: &Arc<dyn Queue>, writes: bool) {
        self.n_uses += 1;
        if writes {
            self.used.clear();
        }
        let known = self
            .used
            .iter_mut()
            .find(|earlier| Arc::ptr_eq(&earlier.queue, queue));
        match known {
            Some(known) => {
                known.writes |= writes;
                known.last = self.n_uses;
            }
            None => self.used.push(Use {
                queue: Arc::clone(queue),
                writes,
                last: self.n_uses,
            }),
        }
    }

    /// Whether so many streams have come together that they should be asked whether they are idle.
    fn has_many_queues(&self) -> bool {
        self.used.len() > FEW_QUEUES.max(2 * self.n_busy)
    }

    /// Takes out streams that were idle after this last use: unless there has been another since, none
    /// is under way.
    fn take_idle(&mut self, idle: &[Use]) -> Vec<Use> {
        let is_over = |earlier: &Use| {
            let mut same = idle.iter();
            same.any(|one| Arc::ptr_eq(&one.queue, &earlier.queue) && one.last == earlier.last)
        };
        let (over, busy) = self.used.drain(..).partition(is_over);
        self.used = busy;
        self.n_busy = self.used.len();
        over
    }
}

/// One piece of memory of a device.
#[derive(Debug)]
pub(crate) struct Allocation {
    device: Device,
    memory: RawMemory,
    state: Mutex<State>,
    /// Told when work was handed over.
    handed_over: Condvar,
    /// Pinned memory through which the host sees memory of the device alone.
    mirror: Mutex<Option<Arc<Allocation>>>,
    home: Option<Weak<dyn Home>>,
    reservation: Option<Reservation>,
    /// The owner of memory that no backend allocated.
    adopted: Option<Adopted>,
}

// SAFETY: the pointer in `memory` is owned by this value; who may use it is decided by
// `state` under its lock and by the borrows of the buffer that holds this value.
unsafe impl Send for Allocation {}
// SAFETY: as above.
unsafe impl Sync for Allocation {}

impl Allocation {
    /// Memory that is taken, by its reservation.
    pub(crate) fn new(device: Device, memory: RawMemory, mut reservation: Reservation) -> Self {
        reservation.settle();
        Self {
            device,
            memory,
            state: Mutex::default(),
            handed_over: Condvar::new(),
            mirror: Mutex::default(),
            home: None,
            reservation: Some(reservation),
            adopted: None,
        }
    }

    /// Memory of the program, which the device reaches at the host's address. The budget
    /// does not count it: it was there before.
    pub(crate) fn of_program(
        device: Device,
        kind: BufferKind,
        adopted: Adopted,
        len_bytes: usize,
    ) -> Self {
        let memory = if len_bytes == 0 {
            RawMemory::empty(kind)
        } else {
            RawMemory {
                host: adopted.pointer(),
                device: adopted.pointer() as u64,
                len_bytes,
                kind,
            }
        };
        Self {
            device,
            memory,
            state: Mutex::default(),
            handed_over: Condvar::new(),
            mirror: Mutex::default(),
            home: None,
            reservation: None,
            adopted: Some(adopted),
        }
    }

    pub(crate) fn is_adopted(&self) -> bool {
        self.adopted.is_some()
    }

    /// The program's own memory, if it was that, when all work on it is done. If that cannot be
    /// waited for, the memory goes as that of a dropped buffer does.
    pub(crate) fn into_adopted(mut self) -> Result<Option<Adopted>, MemError> {
        self.finish_for_host(true)?;
        let adopted = self.adopted.take();
        if adopted.is_some() {
            self.memory = RawMemory::empty(self.memory.kind);
        }
        Ok(adopted)
    }

    /// Memory that goes back to this pool instead of the backend.
    pub(crate) fn of_pool(device: Device, parts: Block, home: Weak<dyn Home>) -> Self {
        // Uses are counted on: a new one that had the count of an old one would pass for it.
        let last_uses = parts.used.iter().map(|earlier| earlier.last);
        let state = State {
            n_uses: last_uses.max().unwrap_or(0),
            used: parts.used,
            ..State::default()
        };
        Self {
            device,
            memory: parts.memory,
            state: Mutex::new(state),
            handed_over: Condvar::new(),
            mirror: Mutex::default(),
            home: Some(home),
            reservation: parts.reservation,
            adopted: parts.adopted,
        }
    }

    /// What a pool keeps of it. The memory is not given back.
    pub(crate) fn into_block(mut self) -> Block {
        let empty = RawMemory::empty(self.memory.kind);
        let used = std::mem::take(&mut self.state().used);
        Block {
            memory: std::mem::replace(&mut self.memory, empty),
            used,
            reservation: self.reservation.take(),
            adopted: self.adopted.take(),
        }
    }

    pub(crate) fn device(&self) -> &Device {
        &self.device
    }

    pub(crate) fn memory(&self) -> RawMemory {
        self.memory
    }

    pub(crate) fn kind(&self) -> BufferKind {
        self.memory.kind
    }

    pub(crate) fn is_host_visible(&self) -> bool {
        self.memory.kind.is_host_visible()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// The state, once no work that is being handed over stands in the way of this use.
    fn settled(&self, writes: bool) -> MutexGuard<'_, State> {
        let mut state = self.state();
        while state.must_wait(writes) {
            state = wait(&self.handed_over, state);
        }
        state
    }

    /// Counts a guard of the host in, after the device's work on this memory.
    pub(crate) fn open_for_host(&self, writes: bool) -> Result<(), MemError> {
        {
            let mut state = self.settled(writes);
            state.check_free(writes)?;
            if writes {
                state.is_written = true;
            } else {
                state.readers += 1;
            }
        }
        let waited = self.finish_for_host(writes);
        if waited.is_err() {
            self.close_for_host(writes);
        }
        waited
    }

    /// Waits for the device's work on this memory, on behalf of a guard that is counted: for all of
    /// it if the guard writes, else for what writes.
    pub(crate) fn finish_for_host(&self, writes: bool) -> Result<(), MemError> {
        let used = self.state().used.clone();
        used.iter()
            .filter(|earlier| writes || earlier.writes)
            .try_for_each(|earlier| earlier.queue.finish())?;
        if writes {
            // All of it is done, and the guard lets nothing new in.
            self.state().used.clear();
        }
        Ok(())
    }

    pub(crate) fn close_for_host(&self, writes: bool) {
        let mut state = self.state();
        if writes {
            state.is_written = false;
        } else {
            state.readers = state.readers.saturating_sub(1);
        }
    }

    /// The place of the pinned memory behind guards of memory that the host cannot see.
    pub(crate) fn mirror(&self) -> MirrorSlot<'_> {
        MirrorSlot(lock(&self.mirror))
    }

    /// Forgets streams whose work is done, if many have come together. The caller is inside no lock:
    /// a stream that nobody else holds is given back here.
    fn forget_idle_queues(&self) {
        let known = {
            let state = self.state();
            if !state.has_many_queues() {
                return;
            }
            state.used.clone()
        };
        let idle: Vec<Use> = known
            .into_iter()
            .filter(|earlier| earlier.queue.is_idle())
            .collect();
        let over = self.state().take_idle(&idle);
        drop(over);
    }

    pub(crate) fn has_readers(&self) -> bool {
        self.state().readers > 0
    }
}

impl Device {
    /// The bytes, cleared. Host-visible memory comes zeroed from the backend; memory of the device
    /// alone is taken and cleared on the device's own queue, which its first user comes after.
    pub(crate) fn allocate(
        &self,
        kind: BufferKind,
        len_bytes: usize,
    ) -> Result<Allocation, MemError> {
        self.check_usable()?;
        let backend = &self.inner().backend;
        if let Err(why) = backend.supports(kind) {
            return Err(MemError::KindUnsupported {
                kind,
                device: self.info().name.clone(),
                why,
            });
        }
        let mut reservation = self.budget().reserve(len_bytes as u64)?;
        if len_bytes == 0 {
            let memory = RawMemory::empty(kind);
            return Ok(Allocation::new(self.clone(), memory, reservation));
        }
        if kind == BufferKind::Device {
            return self.allocate_on_own_queue(len_bytes, reservation);
        }
        let mut taken = |n_bytes: usize| reservation.settle_part(n_bytes as u64);
        let memory = backend.allocate(kind, len_bytes, &mut taken);
        let memory = memory.map_err(|error| self.no_memory(kind, len_bytes, error))?;
        Ok(Allocation::new(self.clone(), memory, reservation))
    }

    fn no_memory(&self, kind: BufferKind, len_bytes: usize, error: DriverError) -> MemError {
        if error.code != OUT_OF_MEMORY {
            return self.failed(error);
        }
        MemError::OutOfMemory {
            kind,
            asked: len_bytes as u64,
            device: self.info().name.clone(),
            why: error.to_string(),
        }
    }

    /// Zeros in memory of the device alone; nobody waits for them on the host.
    fn allocate_on_own_queue(
        &self,
        len_bytes: usize,
        mut reservation: Reservation,
    ) -> Result<Allocation, MemError> {
        let kind = BufferKind::Device;
        let backend = &self.inner().backend;
        let own = self.tried(self.inner().own_queue())?;
        let memory = if backend.allocates_in_order() {
            backend.allocate_in_order(len_bytes, own)
        } else {
            let mut taken = |n_bytes: usize| reservation.settle_part(n_bytes as u64);
            backend.allocate(kind, len_bytes, &mut taken)
        };
        let memory = memory.map_err(|error| self.no_memory(kind, len_bytes, error))?;
        let allocation = Allocation::new(self.clone(), memory, reservation);
        let queue: Arc<dyn Queue> = Arc::new(Housekeeping::new(self, own));
        allocation.state().note(&queue, true);
        // SAFETY: the memory is new, has this many bytes, and notes this work, so that it stays and
        // whoever uses it comes after.
        let cleared = unsafe { backend.fill(own, memory.device, 0, len_bytes) };
        self.tried(cleared)?;
        Ok(allocation)
    }
}

/// Bytes of a piece of memory that work uses.
#[derive(Debug, Clone)]
pub(crate) struct Access<'a> {
    pub(crate) allocation: &'a Arc<Allocation>,
    pub(crate) bytes: Range<usize>,
    pub(crate) writes: bool,
    /// Whether the work is part of opening or closing a guard that is counted here: no guard but
    /// that one can then stand in its way.
    pub(crate) is_of_guard: bool,
}

impl<'a> Access<'a> {
    pub(crate) fn new(allocation: &'a Arc<Allocation>, bytes: Range<usize>, writes: bool) -> Self {
        Self {
            allocation,
            bytes,
            writes,
            is_of_guard: false,
        }
    }

    /// All of it.
    pub(crate) fn whole(allocation: &'a Arc<Allocation>, writes: bool) -> Self {
        Self::new(allocation, 0..allocation.memory().len_bytes, writes)
    }

    /// All of it, for a copy that belongs to a guard counted in it.
    pub(crate) fn of_guard(allocation: &'a Arc<Allocation>, writes: bool) -> Self {
        Self {
            is_of_guard: true,
            ..Self::whole(allocation, writes)
        }
    }
}

/// A piece of work on several pieces of memory, while it is handed to the backend.
#[derive(Debug)]
pub(crate) struct Work<'a> {
    queue: &'a Arc<dyn Queue>,
    /// In the order of their addresses, each once.
    uses: Vec<Access<'a>>,
    /// How many of `uses` are taken.
    n_taken: usize,
    is_handed_over: bool,
}

impl<'a> Work<'a> {
    /// Takes all memory for this work; gives also the other queues that it must come after.
    ///
    /// # Errors
    ///
    /// [`MemError::InUseByHost`] if a guard of the host stands in the way.
    pub(crate) fn begin(
        queue: &'a Arc<dyn Queue>,
        accesses: Vec<Access<'a>>,
    ) -> Result<(Self, Vec<Arc<dyn Queue>>), MemError> {
        let mut uses = accesses;
        uses.sort_by_key(|access| Arc::as_ptr(access.allocation));
        uses.dedup_by(|next, kept| {
            let is_same = Arc::ptr_eq(next.allocation, kept.allocation);
            if is_same {
                kept.writes |= next.writes;
                kept.is_of_guard &= next.is_of_guard;
            }
            is_same
        });
        let mut work = Self {
            queue,
            uses,
            n_taken: 0,
            is_handed_over: false,
        };
        let mut before: Vec<Arc<dyn Queue>> = Vec::new();
        for idx in 0..work.uses.len() {
            let access = &work.uses[idx];
            let (allocation, writes) = (access.allocation, access.writes);
            let mut state = allocation.state();
            loop {
                // Before waiting, too: a guard may be copying, and refuses then as later.
                if !access.is_of_guard {
                    state.check_free(writes)?;
                }
                if !state.must_wait(writes) {
                    break;
                }
                state = wait(&allocation.handed_over, state);
            }
            if writes {
                state.is_queued_to_write = true;
            } else {
                state.queued_readers += 1;
            }
            work.n_taken += 1;
            for earlier in state.before(queue, writes) {
                if !before.iter().any(|known| Arc::ptr_eq(known, &earlier)) {
                    before.push(earlier);
                }
            }
        }
        Ok((work, before))
    }

    /// From now on the backend has the work, whatever it answers.
    pub(crate) fn is_handed_over(&mut self) {
        self.is_handed_over = true;
    }
}

impl Drop for Work<'_> {
    fn drop(&mut self) {
        for access in &self.uses[..self.n_taken] {
            let mut state = access.allocation.state();
            if self.is_handed_over {
                state.note(self.queue, access.writes);
            }
            if access.writes {
                state.is_queued_to_write = false;
            } else {
                state.queued_readers -= 1;
            }
            drop(state);
            access.allocation.handed_over.notify_all();
        }
        for access in &self.uses[..self.n_taken] {
            access.allocation.forget_idle_queues();
        }
    }
}

/// Where an allocation keeps its mirror, locked.
pub(crate) struct MirrorSlot<'a>(MutexGuard<'a, Option<Arc<Allocation>>>);

impl MirrorSlot<'_> {
    /// The mirror of `allocation`. The first time it is made.
    pub(crate) fn get(&mut self, allocation: &Allocation) -> Result<Arc<Allocation>, MemError> {
        if let Some(mirror) = &*self.0 {
            return Ok(Arc::clone(mirror));
        }
        let device = &allocation.device;
        let n_bytes = allocation.memory.len_bytes;
        device.warn_of_copies(n_bytes);
        let made = Arc::new(device.allocate(device.staging_kind(), n_bytes)?);
        *self.0 = Some(Arc::clone(&made));
        Ok(made)
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        let used = std::mem::take(&mut state.used);
        let home = self.home.take().and_then(|home| home.upgrade());
        let memory = self.memory;
        if memory.len_bytes == 0 || self.device.is_forked() {
            // A child of `fork` owns nothing of the driver's; its parent gives it back.
            return;
        }
        let block = Block {
            memory,
            used,
            reservation: self.reservation.take(),
            adopted: self.adopted.take(),
        };
        match home {
            Some(home) => home.put(block),
            None => release(&self.device, block),
        }
    }
}

#[cfg(test)]
mod tests;
