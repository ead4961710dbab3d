//! Streams and events: queues of work on a device, and marks in them.
//!
//! ```text
//! stream a:  copy   kernel   record(e) ...
//! stream b:                  wait(e)   kernel      only after a's kernel
//! ```
//!
//! Buffers order the work that uses them by themselves, on one stream or on several;
//! events are for timing and for ordering that no buffer shows.

#![allow(unsafe_code, reason = "hands addresses of buffers to the backend")]

use std::sync::{Arc, Mutex};
use std::thread::ThreadId;
use std::time::Duration;

use crate::backend::{Advice, Handle, Hint, Place, RawMemory, Side};
use crate::buffer::allocation::{Allocation, PoolBlock, lock, release};
use crate::graph::Graph;
use crate::stats::Direction;
use crate::{Buffer, Device, Element, MemError, View, ViewMut};

/// A queue of work on a device. Clones are the same queue.
#[derive(Debug, Clone)]
pub struct Stream {
    inner: Arc<StreamInner>,
}

#[derive(Debug)]
pub(crate) struct StreamInner {
    device: Device,
    raw: Handle,
    capture: Mutex<Option<Capture>>,
}

/// What a graph being recorded will use.
#[derive(Debug)]
pub(crate) struct Capture {
    thread: ThreadId,
    pub(crate) uses: Vec<(Arc<Allocation>, bool)>,
    /// Memory dropped meanwhile whose earlier work on this stream cannot be waited for.
    kept: Vec<PoolBlock>,
}

impl StreamInner {
    pub(crate) fn new(device: Device, raw: Handle) -> Self {
        Self {
            device,
            raw,
            capture: Mutex::default(),
        }
    }

    /// Waits until everything queued so far is done.
    pub(crate) fn synchronize(&self) -> Result<(), MemError> {
        self.check_ready("waiting for a stream")?;
        self.finish_work()
    }

    /// The wait alone, also on a device that is lost.
    pub(crate) fn finish_work(&self) -> Result<(), MemError> {
        let waited = self.device.inner().backend.synchronize(self.raw);
        self.device.tried(waited)
    }

    fn check_ready(&self, what: &'static str) -> Result<(), MemError> {
        self.device.check_usable()?;
        match *lock(&self.capture) {
            Some(_) => Err(MemError::Capturing { what }),
            None => Ok(()),
        }
    }

    /// Notes a use for the graph being recorded; `false` if none is.
    pub(crate) fn capture_use(&self, allocation: &Arc<Allocation>, writes: bool) -> bool {
        let mut capture = lock(&self.capture);
        let Some(capture) = &mut *capture else {
            return false;
        };
        let known = capture
            .uses
            .iter_mut()
            .find(|(known, _)| Arc::ptr_eq(known, allocation));
        match known {
            Some((_, known_writes)) => *known_writes |= writes,
            None => capture.uses.push((Arc::clone(allocation), writes)),
        }
        true
    }

    /// Takes memory over until the recording ends; gives it back if there is none.
    pub(crate) fn keep_until_captured(&self, block: PoolBlock) -> Option<PoolBlock> {
        match &mut *lock(&self.capture) {
            Some(capture) => {
                capture.kept.push(block);
                None
            }
            None => Some(block),
        }
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

    /// Whether work may be queued: the device lives, and a recording belongs to this thread.
    pub(crate) fn check_queue(&self) -> Result<(), MemError> {
        self.inner.device.check_usable()?;
        match &*lock(&self.inner.capture) {
            Some(capture) if capture.thread != std::thread::current().id() => {
                Err(MemError::Capturing {
                    what: "queueing work from another thread",
                })
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn check_not_captured(&self, what: &'static str) -> Result<(), MemError> {
        self.inner.check_ready(what)
    }

    pub(crate) fn check_ready_for_graph(&self) -> Result<(), MemError> {
        self.inner.check_ready("launching a graph")
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
        self.inner.synchronize()?;
        self.inner.device.take_deferred()
    }

    /// Whether everything queued so far is done; does not wait.
    ///
    /// # Errors
    ///
    /// The error of work that failed; [`MemError::Capturing`].
    pub fn is_idle(&self) -> Result<bool, MemError> {
        self.inner.check_ready("asking a stream")?;
        let device = &self.inner.device;
        device.tried(device.inner().backend.is_idle(self.inner.raw))
    }

    /// Puts a mark behind everything queued so far.
    ///
    /// # Errors
    ///
    /// The driver's; [`MemError::Capturing`].
    pub fn record(&self) -> Result<Event, MemError> {
        self.inner.check_ready("recording an event")?;
        let device = self.inner.device.clone();
        let backend = &device.inner().backend;
        let raw = device.tried(backend.new_event())?;
        let event = Event { device, raw };
        let recorded = event.device.inner().backend.record(raw, self.inner.raw);
        event.device.tried(recorded)?;
        Ok(event)
    }

    /// Lets everything queued from now on wait, on the device, for a mark.
    ///
    /// # Errors
    ///
    /// [`MemError::OtherDevice`]; the driver's; [`MemError::Capturing`].
    pub fn wait(&self, event: &Event) -> Result<(), MemError> {
        self.inner.check_ready("waiting for an event")?;
        self.check_same_device(&event.device)?;
        let waited = self.device().inner().backend.wait(self.raw(), event.raw);
        self.device().tried(waited)
    }

    /// Lets this stream wait for all that another one has queued.
    pub(crate) fn wait_for(&self, other: &Arc<StreamInner>) -> Result<(), MemError> {
        let other = Self::from_inner(Arc::clone(other));
        self.wait(&other.record()?)
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
        self.check_queue()?;
        self.check_same_device(from.allocation().device())?;
        self.check_same_device(to.allocation().device())?;
        let n_bytes = from.len_bytes();
        if n_bytes == 0 {
            return Ok(());
        }
        let (target, source) = (to.place(), from.place());
        if matches!(target, Place::Host(_)) || matches!(source, Place::Host(_)) {
            // The driver would take such memory now, not when the graph runs.
            self.check_not_captured("a copy of memory the device cannot reach")?;
        }
        from.allocation().use_on(self, false)?;
        to.allocation().use_on(self, true)?;
        let direction = direction(from.allocation(), to.allocation());
        let backend = &self.device().inner().backend;
        // SAFETY: both views have this many bytes; `to` is borrowed for writing, so they
        // are different allocations; both allocations have noted this work, so they stay
        // and the host does not touch them before it is done.
        let copied = unsafe { backend.copy(self.raw(), target, source, n_bytes) };
        self.device().tried(copied)?;
        self.device().inner().counters.copied(direction, n_bytes);
        Ok(())
    }

    /// Sets every byte of a view, in the order of the stream.
    ///
    /// # Errors
    ///
    /// [`MemError::NotOnDevice`] for host memory the device cannot reach, and as
    /// [`Stream::copy`].
    pub fn fill_bytes<T: Element>(&self, to: ViewMut<'_, T>, byte: u8) -> Result<(), MemError> {
        self.check_queue()?;
        self.check_same_device(to.allocation().device())?;
        let address = to.device_address()?;
        if to.is_empty() {
            return Ok(());
        }
        to.allocation().use_on(self, true)?;
        let backend = &self.device().inner().backend;
        // SAFETY: the view has this many bytes; the allocation has noted this work.
        let filled = unsafe { backend.fill(self.raw(), address, byte, to.len_bytes()) };
        self.device().tried(filled)
    }

    /// Asks the driver to move shared memory to a side before it is used there.
    ///
    /// # Errors
    ///
    /// [`MemError::Unsupported`] if the driver has no such function; the driver's.
    pub fn prefetch<T: Element>(&self, view: View<'_, T>, to: Side) -> Result<Hint, MemError> {
        self.check_queue()?;
        self.check_same_device(view.allocation().device())?;
        let memory = view.raw_memory();
        if memory.len_bytes == 0 {
            return Ok(Hint::NotApplicable);
        }
        view.allocation().use_on(self, false)?;
        self.device()
            .inner()
            .backend
            .prefetch(self.raw(), memory, to)
    }

    /// Records what `queue` queues on this stream, without running it.
    ///
    /// The graph keeps the memory it uses. Every launch orders it like one piece of work.
    ///
    /// # Errors
    ///
    /// What `queue` returns; the driver's; [`MemError::Capturing`] if it is captured
    /// already. After an error the stream is usable again and nothing is recorded.
    pub fn capture(
        &self,
        queue: impl FnOnce(&Self) -> Result<(), MemError>,
    ) -> Result<Graph, MemError> {
        self.inner.check_ready("a recording inside a recording")?;
        let device = self.device().clone();
        let backend = &device.inner().backend;
        {
            let mut capture = lock(&self.inner.capture);
            if capture.is_some() {
                return Err(MemError::Capturing {
                    what: "a second recording",
                });
            }
            device.tried(backend.begin_capture(self.raw()))?;
            *capture = Some(Capture {
                thread: std::thread::current().id(),
                uses: Vec::new(),
                kept: Vec::new(),
            });
        }
        let recording = Recording { stream: self };
        let queued = queue(self);
        let (ended, uses) = recording.end();
        let graph = device
            .tried(ended)
            .map(|raw| Graph::new(&device, raw, uses));
        // The closure's error is the cause; the end of the recording is its consequence.
        queued.and(graph)
    }
}

/// Ends a recording, also when the closure panics.
struct Recording<'a> {
    stream: &'a Stream,
}

type Ended = (
    Result<Handle, crate::error::DriverError>,
    Vec<(Arc<Allocation>, bool)>,
);

impl Recording<'_> {
    fn end(self) -> Ended {
        let ended = self.finish();
        std::mem::forget(self);
        ended
    }

    fn finish(&self) -> Ended {
        let device = self.stream.device();
        let raw = device.inner().backend.end_capture(self.stream.raw());
        let capture = lock(&self.stream.inner.capture).take();
        let Some(capture) = capture else {
            return (raw, Vec::new());
        };
        for block in capture.kept {
            release(device, block);
        }
        (raw, capture.uses)
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
