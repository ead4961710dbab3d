//! Streams and events: queues of work on a device, and marks in them.
//!
//! ```text
//! stream a:  copy   kernel   record(e) ...
//! stream b:                  wait(e)   kernel      only after a's kernel
//! ```
//!
//! Buffers order the work that uses them by themselves, on one stream or on several;
//! events are for timing and for ordering that no buffer shows.
//!
//! Every operation goes through the stream's critical section, where it is checked, queued
//! and noted while no recording can begin; see [`Section`], also for the order of locks.

#![allow(unsafe_code, reason = "hands addresses of buffers to the backend")]

use std::sync::Arc;
use std::time::Duration;

use crate::backend::{Advice, Handle, Hint, Place, RawMemory, Side};
use crate::buffer::allocation::{Allocation, Work, release};
use crate::error::DriverError;
use crate::graph::Graph;
use crate::section::{InRecording, Recorded, Section};
use crate::stats::Direction;
use crate::{Buffer, Device, Element, MemError, View, ViewMut};

/// A queue of work on a device. Clones are the same queue, for any number of threads.
///
/// While one thread [captures](Self::capture) it, other threads are refused.
#[derive(Debug, Clone)]
pub struct Stream {
    inner: Arc<StreamInner>,
}

#[derive(Debug)]
pub(crate) struct StreamInner {
    device: Device,
    raw: Handle,
    section: Section,
}

impl StreamInner {
    pub(crate) fn new(device: Device, raw: Handle) -> Self {
        Self {
            device,
            raw,
            section: Section::default(),
        }
    }

    pub(crate) fn section(&self) -> &Section {
        &self.section
    }

    /// Waits until everything queued so far is done, for a guard of the host.
    pub(crate) fn finish(&self) -> Result<(), MemError> {
        self.device.check_usable()?;
        let _inside = self.section.enter_at_once("waiting for a stream")?;
        self.finish_work()
    }

    /// The wait alone, also on a device that is lost. No recording may begin meanwhile.
    pub(crate) fn finish_work(&self) -> Result<(), MemError> {
        let waited = self.device.inner().backend.synchronize(self.raw);
        self.device.tried(waited)
    }
}

impl Drop for StreamInner {
    fn drop(&mut self) {
        if self.device.is_forked() {
            return;
        }
        let dropped = self.device.inner().backend.drop_stream(self.raw);
        if let Err(error) = dropped
            && !self.device.is_lost()
        {
            let error = self.device.failed(error);
            self.device.defer(error);
        }
    }
}

impl Stream {
    pub(crate) fn from_inner(inner: Arc<StreamInner>) -> Self {
        Self { inner }
    }

    pub(crate) fn inner(&self) -> &Arc<StreamInner> {
        &self.inner
    }

    pub(crate) fn raw(&self) -> Handle {
        self.inner.raw
    }

    /// Its device.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.inner.device
    }

    /// Queues one piece of work that uses this memory: checks, puts it after the work of other
    /// streams, lets `work` hand it to the backend's queue, and notes the uses. No recording
    /// begins or ends meanwhile, and no guard opens on the memory.
    ///
    /// Within a recording of this thread nothing runs: the recording notes the uses, and every
    /// launch of its graph does what is done here.
    ///
    /// # Errors
    ///
    /// [`MemError::Capturing`], [`MemError::InUseByHost`], [`MemError::InsideKernel`]; those of
    /// `work`.
    pub(crate) fn submit<R>(
        &self,
        uses: Vec<(&Arc<Allocation>, bool)>,
        rule: InRecording,
        work: impl FnOnce(Handle) -> Result<R, MemError>,
    ) -> Result<R, MemError> {
        self.device().check_usable()?;
        let inside = self.inner.section.enter(rule)?;
        if inside.is_recording() {
            for (allocation, writes) in uses {
                inside.record_use(allocation, writes);
            }
            return work(self.raw());
        }
        let (mut pending, before) = Work::begin(&self.inner, uses)?;
        for earlier in &before {
            self.wait_for(earlier)?;
        }
        pending.is_handed_over();
        work(self.raw())
    }

    /// For operations on the queue alone, which are no part of recordings.
    fn ask<R>(
        &self,
        what: &'static str,
        ask: impl FnOnce(Handle) -> Result<R, DriverError>,
    ) -> Result<R, MemError> {
        self.device().check_usable()?;
        let _inside = self.inner.section.enter(InRecording::Refused(what))?;
        self.device().tried(ask(self.raw()))
    }

    /// Refuses a guard of the host while the stream is captured.
    pub(crate) fn check_not_captured(&self, what: &'static str) -> Result<(), MemError> {
        self.device().check_usable()?;
        let rule = InRecording::Refused(what);
        self.inner.section.enter(rule).map(drop)
    }

    pub(crate) fn check_same_device(&self, other: &Device) -> Result<(), MemError> {
        if self.device() == other {
            Ok(())
        } else {
            Err(MemError::OtherDevice)
        }
    }

    /// Waits until everything queued so far is done.
    ///
    /// # Errors
    ///
    /// The error of that work, if it failed, and errors of work done while guards and
    /// buffers were dropped; [`MemError::Capturing`] while it is captured.
    pub fn synchronize(&self) -> Result<(), MemError> {
        let backend = &self.device().inner().backend;
        self.ask("waiting for a stream", |queue| backend.synchronize(queue))?;
        self.device().take_deferred()
    }

    /// Whether everything queued so far is done; does not wait.
    ///
    /// # Errors
    ///
    /// The error of work that failed; [`MemError::Capturing`].
    pub fn is_idle(&self) -> Result<bool, MemError> {
        let backend = &self.device().inner().backend;
        self.ask("asking a stream", |queue| backend.is_idle(queue))
    }

    /// Puts a mark behind everything queued so far.
    ///
    /// # Errors
    ///
    /// The driver's; [`MemError::Capturing`].
    pub fn record(&self) -> Result<Event, MemError> {
        self.ask(RECORDING, |queue| Event::record(self.device(), queue))
    }

    /// Lets everything queued from now on wait, on the device, for a mark.
    ///
    /// # Errors
    ///
    /// [`MemError::OtherDevice`]; the driver's; [`MemError::Capturing`].
    pub fn wait(&self, event: &Event) -> Result<(), MemError> {
        self.check_same_device(&event.device)?;
        let backend = &self.device().inner().backend;
        self.ask("waiting for an event", |queue| {
            backend.wait(queue, event.raw)
        })
    }

    /// Lets this stream, in whose section the caller is, wait for all that another has queued.
    fn wait_for(&self, other: &StreamInner) -> Result<(), MemError> {
        let device = self.device();
        let event = {
            let _inside = other.section.enter_at_once(RECORDING)?;
            device.tried(Event::record(device, other.raw))?
        };
        let waited = device.inner().backend.wait(self.raw(), event.raw);
        device.tried(waited)
    }

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
        let uses = vec![(from.allocation(), false), (to.allocation(), true)];
        self.submit(uses, rule, |queue| {
            // SAFETY: both views have this many bytes; `to` is borrowed for writing, so they
            // are different allocations; both allocations note this work, so they stay and
            // the host does not touch them before it is done.
            let copied = unsafe { inner.backend.copy(queue, target, source, n_bytes) };
            self.device().tried(copied)
        })?;
        let direction = direction(from.allocation(), to.allocation());
        inner.counters.copied(direction, n_bytes);
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
        let uses = vec![(to.allocation(), true)];
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
    /// [`MemError::Unsupported`] if the driver has no such function; the driver's.
    pub fn prefetch<T: Element>(&self, view: View<'_, T>, to: Side) -> Result<Hint, MemError> {
        self.device().check_usable()?;
        self.check_same_device(view.allocation().device())?;
        let memory = view.raw_memory();
        if memory.len_bytes == 0 {
            return Ok(Hint::NotApplicable);
        }
        let backend = &self.device().inner().backend;
        let uses = vec![(view.allocation(), false)];
        self.submit(uses, InRecording::Allowed, |queue| {
            backend.prefetch(queue, memory, to)
        })
    }

    /// Records what `queue` queues on this stream, without running it.
    ///
    /// The graph keeps the memory it uses. Every launch orders it like one piece of work.
    ///
    /// Work that other threads are queueing on clones of this stream is queued first, and
    /// waits of other threads for it end first. From then on until `queue` returns, this
    /// thread alone may use the stream; what other threads try is refused with
    /// [`MemError::Capturing`], and so is work of other streams that would have to wait for
    /// this one. Guards that are dropped meanwhile, here or elsewhere, write back at once.
    /// Memory dropped meanwhile is given back when the recording ends.
    ///
    /// # Errors
    ///
    /// What `queue` returns; the driver's; [`MemError::Capturing`] if it is captured
    /// already. After an error the stream is usable again and nothing is recorded.
    pub fn capture(
        &self,
        queue: impl FnOnce(&Self) -> Result<(), MemError>,
    ) -> Result<Graph, MemError> {
        let device = self.device();
        device.check_usable()?;
        let backend = &device.inner().backend;
        let begin = || device.tried(backend.begin_capture(self.raw()));
        self.inner.section.begin(begin)?;
        let recording = Recording { stream: self };
        let queued = queue(self);
        let (ended, uses) = recording.end();
        let graph = device.tried(ended).map(|raw| Graph::new(device, raw, uses));
        // The closure's error is the cause; the end of the recording is its consequence.
        queued.and(graph)
    }
}

/// What other streams' work is refused by while a stream is captured.
const RECORDING: &str = "recording an event";

/// Ends a recording, also when the closure panics.
struct Recording<'a> {
    stream: &'a Stream,
}

type Ended = (Result<Handle, DriverError>, Vec<(Arc<Allocation>, bool)>);

impl Recording<'_> {
    fn end(self) -> Ended {
        let ended = self.finish();
        std::mem::forget(self);
        ended
    }

    fn finish(&self) -> Ended {
        let device = self.stream.device();
        let backend = &device.inner().backend;
        let end = || backend.end_capture(self.stream.raw());
        let (raw, Recorded { uses, kept }) = self.stream.inner.section.end(end);
        for block in kept {
            release(device, block);
        }
        (raw, uses)
    }
}

impl Drop for Recording<'_> {
    fn drop(&mut self) {
        let (raw, _uses) = self.finish();
        if let Ok(graph) = raw {
            let _ = self.stream.device().inner().backend.drop_graph(graph);
        }
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

/// A mark in a stream.
#[derive(Debug)]
pub struct Event {
    device: Device,
    raw: Handle,
}

impl Event {
    /// A new mark behind everything in a queue that is not captured.
    fn record(device: &Device, queue: Handle) -> Result<Self, DriverError> {
        let backend = &device.inner().backend;
        let event = Self {
            device: device.clone(),
            raw: backend.new_event()?,
        };
        backend.record(event.raw, queue)?;
        Ok(event)
    }

    /// Waits until the work before the mark is done.
    ///
    /// # Errors
    ///
    /// The error of that work, if it failed.
    pub fn synchronize(&self) -> Result<(), MemError> {
        self.device.check_usable()?;
        let waited = self.device.inner().backend.synchronize_event(self.raw);
        self.device.tried(waited)
    }

    /// Whether the work before the mark is done; does not wait.
    ///
    /// # Errors
    ///
    /// The error of that work, if it failed.
    pub fn is_done(&self) -> Result<bool, MemError> {
        self.device.check_usable()?;
        self.device
            .tried(self.device.inner().backend.is_done(self.raw))
    }

    /// The device's time between an earlier mark and this one, both done. The driver
    /// resolves about half a microsecond.
    ///
    /// # Errors
    ///
    /// [`MemError::OtherDevice`]; the driver's, if one of them is not done.
    pub fn since(&self, earlier: &Self) -> Result<Duration, MemError> {
        self.device.check_usable()?;
        if self.device != earlier.device {
            return Err(MemError::OtherDevice);
        }
        let backend = &self.device.inner().backend;
        let ms = self
            .device
            .tried(backend.elapsed_ms(earlier.raw, self.raw))?;
        Ok(Duration::try_from_secs_f32(ms / 1e3).unwrap_or_default())
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        if self.device.is_forked() {
            return;
        }
        let dropped = self.device.inner().backend.drop_event(self.raw);
        if let Err(error) = dropped
            && !self.device.is_lost()
        {
            let error = self.device.failed(error);
            self.device.defer(error);
        }
    }
}

impl<T: Element> Buffer<T> {
    /// Tells the driver how this memory will be used.
    ///
    /// # Errors
    ///
    /// [`MemError::Unsupported`] if the driver has no such function; the driver's.
    pub fn advise(&self, advice: Advice) -> Result<Hint, MemError> {
        let memory: RawMemory = self.allocation().memory();
        self.device().check_usable()?;
        if memory.len_bytes == 0 {
            return Ok(Hint::NotApplicable);
        }
        self.device().inner().backend.advise(memory, advice)
    }
}

/// Which place a backend copies from or to.
pub(crate) fn place_of(memory: RawMemory, offset_bytes: usize) -> Place {
    if memory.device == 0 {
        // Wrapping arithmetic: the offset lies inside, which views check when made.
        Place::Host(memory.host.wrapping_add(offset_bytes))
    } else {
        Place::Device(memory.device + offset_bytes as u64)
    }
}
