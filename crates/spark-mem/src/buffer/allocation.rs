//! One piece of memory: who uses it now, and what must be waited for before it goes.
//!
//! ```text
//! state   n host readers | 1 host writer | none
//! queued  work being handed to the backend now: n readers | 1 writer
//! used    streams with work on it, each with whether they write
//!
//! host guard opens  -> wait for the streams (a reader for writers only), then count
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

#![allow(unsafe_code, reason = "gives raw memory back to its backend")]

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};

use super::adopted::Adopted;
use crate::backend::RawMemory;
use crate::budget::Reservation;
use crate::pool::PoolInner;
use crate::section::InRecording;
use crate::stats::Direction;
use crate::stream::{Stream, StreamInner};
use crate::{BufferKind, Device, MemError};

/// A lock that a panic elsewhere does not close.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Work on a stream that uses a piece of memory.
#[derive(Debug, Clone)]
pub(crate) struct Use {
    pub(crate) stream: Arc<StreamInner>,
    pub(crate) writes: bool,
}

/// Who uses a piece of memory.
#[derive(Debug, Default)]
pub(crate) struct State {
    readers: usize,
    is_written: bool,
    queued_readers: usize,
    is_queued_to_write: bool,
    used: Vec<Use>,
}

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

    /// Streams whose work must come before this work of another stream.
    fn before(&self, stream: &Arc<StreamInner>, writes: bool) -> Vec<Arc<StreamInner>> {
        self.used
            .iter()
            .filter(|earlier| !Arc::ptr_eq(&earlier.stream, stream))
            .filter(|earlier| writes || earlier.writes)
            .map(|earlier| Arc::clone(&earlier.stream))
            .collect()
    }

    /// Remembers work. A write comes after everything before it, so it replaces it.
    fn note(&mut self, stream: &Arc<StreamInner>, writes: bool) {
        if writes {
            self.used.clear();
        }
        let known = self
            .used
            .iter_mut()
            .find(|earlier| Arc::ptr_eq(&earlier.stream, stream));
        match known {
            Some(known) => known.writes |= writes,
            None => self.used.push(Use {
                stream: Arc::clone(stream),
                writes,
            }),
        }
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
    home: Option<Weak<PoolInner>>,
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
    pub(crate) fn new(device: Device, memory: RawMemory, reservation: Reservation) -> Self {
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

    /// The program's own memory, if it was that. No work may be left on it.
    pub(crate) fn take_adopted(&mut self) -> Option<Adopted> {
        let adopted = self.adopted.take()?;
        self.memory = RawMemory::empty(self.memory.kind);
        Some(adopted)
    }

    /// Memory that goes back to this pool instead of the backend.
    pub(crate) fn of_pool(device: Device, parts: PoolBlock, home: Weak<PoolInner>) -> Self {
        let state = State {
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
    pub(crate) fn into_block(mut self) -> PoolBlock {
        let empty = RawMemory::empty(self.memory.kind);
        let used = std::mem::take(&mut self.state().used);
        PoolBlock {
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
            let woken = self.handed_over.wait(state);
            state = woken.unwrap_or_else(PoisonError::into_inner);
        }
        state
    }

    /// Counts a guard of the host in, after the device's work on this memory.
    pub(crate) fn open_for_host(&self, writes: bool) -> Result<(), MemError> {
        let used = {
            let mut state = self.settled(writes);
            state.check_free(writes)?;
            if writes {
                state.is_written = true;
            } else {
                state.readers += 1;
            }
            state.used.clone()
        };
        let waited = used
            .iter()
            .filter(|earlier| writes || earlier.writes)
            .try_for_each(|earlier| earlier.stream.finish());
        if let Err(error) = waited {
            self.close_for_host(writes);
            return Err(error);
        }
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

    pub(crate) fn has_readers(&self) -> bool {
        self.state().readers > 0
    }

    /// Copies between this memory and its mirror.
    pub(crate) fn copy_mirror(
        self: &Arc<Self>,
        mirror: &Arc<Self>,
        stream: &Stream,
        bytes: std::ops::Range<usize>,
        direction: Direction,
    ) -> Result<(), MemError> {
        let to_host = direction == Direction::DeviceToHost;
        let (mine, its) = (self.memory, mirror.memory);
        let n_bytes = bytes.len();
        if n_bytes == 0 {
            return Ok(());
        }
        let here = crate::backend::Place::Device(mine.device + bytes.start as u64);
        // SAFETY: the mirror has as many bytes as this memory and the range lies in it.
        let there = crate::backend::Place::Host(unsafe { its.host.add(bytes.start) });
        let (to, from) = if to_host {
            (there, here)
        } else {
            (here, there)
        };
        let inner = self.device.inner();
        let uses = vec![(self, !to_host), (mirror, to_host)];
        let rule = InRecording::Refused("host access through a stream");
        stream.submit(uses, rule, |queue| {
            // SAFETY: both pieces have the range; they are different allocations; both note
            // this work, so they stay and nobody touches them before it is done.
            let copied = unsafe { inner.backend.copy(queue, to, from, n_bytes) };
            self.device.tried(copied)
        })?;
        inner.counters.copied(direction, n_bytes);
        Ok(())
    }
}

/// A piece of work on several pieces of memory, while it is handed to the backend.
#[derive(Debug)]
pub(crate) struct Work<'a> {
    stream: &'a Arc<StreamInner>,
    /// In the order of their addresses, each once.
    uses: Vec<(&'a Arc<Allocation>, bool)>,
    /// How many of `uses` are taken.
    n_taken: usize,
    is_handed_over: bool,
}

impl<'a> Work<'a> {
    /// Takes all memory for this work; gives also the other streams that it must come after.
    ///
    /// # Errors
    ///
    /// [`MemError::InUseByHost`] if a guard of the host stands in the way.
    pub(crate) fn begin(
        stream: &'a Arc<StreamInner>,
        mut uses: Vec<(&'a Arc<Allocation>, bool)>,
    ) -> Result<(Self, Vec<Arc<StreamInner>>), MemError> {
        uses.sort_by_key(|(allocation, _)| Arc::as_ptr(allocation));
        uses.dedup_by(|next, kept| {
            let is_same = Arc::ptr_eq(next.0, kept.0);
            kept.1 |= is_same && next.1;
            is_same
        });
        let mut work = Self {
            stream,
            uses,
            n_taken: 0,
            is_handed_over: false,
        };
        let mut before: Vec<Arc<StreamInner>> = Vec::new();
        for idx in 0..work.uses.len() {
            let (allocation, writes) = work.uses[idx];
            let mut state = allocation.settled(writes);
            state.check_free(writes)?;
            if writes {
                state.is_queued_to_write = true;
            } else {
                state.queued_readers += 1;
            }
            work.n_taken += 1;
            for earlier in state.before(stream, writes) {
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
        for (allocation, writes) in &self.uses[..self.n_taken] {
            let mut state = allocation.state();
            if self.is_handed_over {
                state.note(self.stream, *writes);
            }
            if *writes {
                state.is_queued_to_write = false;
            } else {
                state.queued_readers -= 1;
            }
            drop(state);
            allocation.handed_over.notify_all();
        }
    }
}

/// Where an allocation keeps its mirror, locked.
pub(crate) struct MirrorSlot<'a>(MutexGuard<'a, Option<Arc<Allocation>>>);

impl MirrorSlot<'_> {
    /// The mirror of `allocation`. The first time it is made, and a warning is logged.
    pub(crate) fn get(&mut self, allocation: &Allocation) -> Result<Arc<Allocation>, MemError> {
        if let Some(mirror) = &*self.0 {
            return Ok(Arc::clone(mirror));
        }
        let device = &allocation.device;
        let n_bytes = allocation.memory.len_bytes;
        tracing::warn!(
            "performance: {n_bytes} bytes in memory of `{}` are copied for every access of the host",
            device.info().name
        );
        let made = Arc::new(device.allocate(device.staging_kind(), n_bytes)?);
        *self.0 = Some(Arc::clone(&made));
        Ok(made)
    }
}

/// What a pool keeps of an allocation.
#[derive(Debug)]
pub(crate) struct PoolBlock {
    pub(crate) memory: RawMemory,
    pub(crate) used: Vec<Use>,
    /// Given back to the budget together with the memory.
    pub(crate) reservation: Option<Reservation>,
    /// Gives the memory back in the backend's place.
    pub(crate) adopted: Option<Adopted>,
}

// SAFETY: the memory is owned by the block and nobody uses it while a pool keeps it.
unsafe impl Send for PoolBlock {}

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
        let block = PoolBlock {
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

/// Gives memory back to its backend once no stream uses it. While one of its streams is
/// captured nothing can be waited for: the capture keeps the memory until its end.
pub(crate) fn release(device: &Device, mut block: PoolBlock) {
    // A block that is kept keeps its uses: they are waited for when the capture has ended.
    while let Some(earlier) = block.used.last().cloned() {
        let waited = earlier.stream.section().wait_or_keep(block, || {
            if let Err(error) = earlier.stream.finish_work()
                && !device.is_lost()
            {
                device.defer(error);
            }
        });
        match waited {
            Some(back) => block = back,
            None => return,
        }
        block.used.pop();
    }
    if block.adopted.is_some() {
        return; // dropped with the block
    }
    // SAFETY: the memory came from this backend, its only owner is dropped, and every
    // stream that used it has passed its work or is lost with its device.
    let freed = unsafe { device.inner().backend.free(block.memory) };
    if let Err(error) = freed
        && !device.is_lost()
    {
        let error = device.failed(error);
        device.defer(error);
    }
}
