//! Streams: queues of work on a device.
//!
//! ```text
//! stream a:  copy   kernel   record(e) ...
//! stream b:                  wait(e)   kernel      only after a's kernel
//! ```
//!
//! Buffers order the work that uses them by themselves, on one stream or on several;
//! [events](Event) are for timing and for ordering that no buffer shows.
//!
//! Every operation goes through the stream's critical section, where it is checked, queued
//! and noted while no recording can begin; see [`Section`], also for the order of locks.

use std::sync::Arc;

use crate::backend::Handle;
use crate::device::Device;
use crate::error::{DriverError, MemError};
use crate::event::Event;
use crate::memory::allocation::{Access, Work};
use crate::memory::block::{Block, Queue, is_over};
use crate::recording::{Mark, Recording};
use crate::section::{InRecording, Section};

/// A queue of work on a device. Clones are the same queue, for any number of threads.
///
/// While one thread [captures](Self::capture) it, other threads are refused.
///
/// # Examples
///
/// ```
/// use spark_mem::Device;
///
/// let device = Device::open()?;
/// let stream = device.new_stream()?;
/// let mut from = device.shared::<u32>(8)?;
/// let mut to = device.shared::<u32>(8)?;
/// from.upload(&stream, &[1; 8])?;
/// stream.copy(from.view(), to.view_mut())?; // queued
/// assert_eq!(to.read(&stream)?[7], 1); // waits for it
/// # Ok::<(), spark_mem::MemError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Stream {
    inner: Arc<StreamInner>,
}

/// What other streams' work is refused by while a stream is captured.
const RECORDING: &str = "recording an event";

#[derive(Debug)]
struct StreamInner {
    device: Device,
    raw: Handle,
    section: Section,
}

impl Queue for StreamInner {
    fn raw(&self) -> Handle {
        self.raw
    }

    fn finish(&self) -> Result<(), MemError> {
        self.device.check_usable()?;
        let _inside = self.section.enter_at_once("waiting for a stream")?;
        let waited = self.device.inner().backend.synchronize(self.raw);
        self.device.tried(waited)
    }

    fn is_idle(&self) -> bool {
        let Ok(_inside) = self.section.enter_at_once("asking a stream") else {
            return false;
        };
        let idle = self.device.inner().backend.is_idle(self.raw);
        self.device.tried(idle).unwrap_or(false)
    }

    fn mark(&self) -> Result<Event, MemError> {
        let _inside = self.section.enter_at_once(RECORDING)?;
        self.device
            .tried(Event::record(&self.device, self.raw, false))
    }

    fn leave_recording(&self, ended: u64) {
        self.section.leave_recording(ended);
    }

    fn wait_or_keep(&self, block: Block) -> Option<Block> {
        self.section
            .wait_or_keep(block, || is_over(&self.device, self.raw))
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
    pub(crate) fn section(&self) -> &Section {
        &self.inner.section
    }

    /// Waits until everything queued so far is done, for a guard of the host.
    pub(crate) fn finish(&self) -> Result<(), MemError> {
        self.inner.finish()
    }

    pub(crate) fn raw(&self) -> Handle {
        self.inner.raw
    }

    /// The device that the stream's work runs on.
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
        accesses: Vec<Access<'_>>,
        rule: InRecording,
        work: impl FnOnce(Handle) -> Result<R, MemError>,
    ) -> Result<R, MemError> {
        self.device().check_usable()?;
        let inside = self.inner.section.enter(rule)?;
        if let Some((recording, member)) = inside.recording() {
            for (other, queue) in recording.unordered(*member, &accesses) {
                self.record_order(recording, *member, (other, queue))?;
            }
            recording.note(*member, &accesses);
            return work(self.raw());
        }
        let queue = self.queue();
        let (mut pending, before) = Work::begin(&queue, accesses)?;
        for earlier in &before {
            self.wait_for(&**earlier)?;
        }
        pending.is_handed_over();
        work(self.raw())
    }

    pub(crate) fn queue(&self) -> Arc<dyn Queue> {
        Arc::clone(&self.inner) as _
    }

    /// Lets a member of a recording come after all that another has recorded.
    pub(crate) fn record_order(
        &self,
        recording: &Recording,
        member: usize,
        (other, its_queue): (usize, Handle),
    ) -> Result<(), MemError> {
        let device = self.device();
        let backend = &device.inner().backend;
        let event = device.tried(Event::record(device, its_queue, false))?;
        device.tried(backend.wait(self.raw(), event.raw()))?;
        recording.passed_end(member, other);
        Ok(())
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

    /// Puts a mark behind everything queued so far, for ordering.
    ///
    /// While this stream is captured the mark is part of the recording: a stream that waits for it
    /// joins. It is over when the recording is.
    ///
    /// # Errors
    ///
    /// The driver's; [`MemError::Capturing`] while another thread captures the stream.
    pub fn record(&self) -> Result<Event, MemError> {
        self.device().check_usable()?;
        let inside = self.inner.section.enter(InRecording::Allowed)?;
        let event = Event::record(self.device(), self.raw(), false);
        let event = self.device().tried(event)?;
        Ok(match inside.recording() {
            Some((recording, member)) => event.of_recording(Arc::new(recording.mark(*member))),
            None => event,
        })
    }

    /// As [`Stream::record`], with the device's time when it comes to the mark; see
    /// [`Event::since`].
    ///
    /// # Errors
    ///
    /// As [`Stream::record`].
    pub fn record_timed(&self) -> Result<Event, MemError> {
        self.ask(RECORDING, |queue| Event::record(self.device(), queue, true))
    }

    /// Lets everything queued from now on wait, on the device, for a mark.
    ///
    /// If the mark is of a recording of this thread, this stream joins it: what is queued from now
    /// on is recorded too, until the recording ends, and other threads are refused as on the stream
    /// that is captured. Work that uses the same bytes is put in order as elsewhere, and the first
    /// stream waits for all that joined when the recording ends.
    ///
    /// # Errors
    ///
    /// [`MemError::OtherDevice`]; the driver's; [`MemError::Capturing`] for a mark from outside the
    /// recording, and for one of another thread's recording; [`MemError::EventOfRecording`] for one of a
    /// recording that has ended.
    pub fn wait(&self, event: &Event) -> Result<(), MemError> {
        self.check_same_device(event.device())?;
        let backend = &self.device().inner().backend;
        let Some(mark) = event.recorded() else {
            let what = "waiting for an event from outside the recording";
            return self.ask(what, |queue| backend.wait(queue, event.raw()));
        };
        self.device().check_usable()?;
        let mark = mark.downcast_ref::<Mark>();
        let recording = mark.and_then(|mark| mark.recording.upgrade());
        let (Some(mark), Some(recording)) = (mark, recording) else {
            return Err(MemError::EventOfRecording {
                what: "waiting for it after the recording's end",
            });
        };
        let wait = || self.device().tried(backend.wait(self.raw(), event.raw()));
        match self.inner.section.recording_here() {
            Some((mine, member)) if Arc::ptr_eq(&mine, &recording) => {
                wait()?;
                recording.passed(member, mark);
                Ok(())
            }
            _ => self
                .inner
                .section
                .join(self.queue(), mark, &recording, wait),
        }
    }

    /// Lets this stream, in whose section the caller is, wait for all that another has queued.
    fn wait_for(&self, other: &dyn Queue) -> Result<(), MemError> {
        let device = self.device();
        let event = other.mark()?;
        let waited = device.inner().backend.wait(self.raw(), event.raw());
        device.tried(waited)
    }
}

impl Device {
    /// A queue of work.
    ///
    /// # Errors
    ///
    /// The driver's.
    pub fn new_stream(&self) -> Result<Stream, MemError> {
        self.check_usable()?;
        let raw = self.tried(self.inner().backend.new_stream())?;
        let inner = StreamInner {
            device: self.clone(),
            raw,
            section: Section::default(),
        };
        Ok(Stream {
            inner: Arc::new(inner),
        })
    }
}
