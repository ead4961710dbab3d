//! A recorded sequence of work that is launched as one.
//!
//! ```text
//! let graph = stream.capture(|stream| { kernel.launch(...)?; stream.copy(...) })?;
//! loop { write inputs; graph.launch(&stream)?; read outputs }
//! ```
//!
//! Other streams join by waiting for an event of the recording:
//!
//! ```text
//! first.capture(|first| {
//!     a on first;  let forked = first.record()?;  second.wait(&forked)?;
//!     b on first;  c on second;                                      // beside each other
//!     first.wait(&second.record()?)?;  d on first                    // after both
//! })
//! ```
//!
//! A graph keeps the memory it uses, also when its buffers are dropped. Launching is
//! refused while the host holds a guard that stands in the way.

#![allow(unsafe_code, reason = "launches work on memory the graph keeps")]

use std::sync::{Arc, Mutex};

use crate::backend::Handle;
use crate::device::Device;
use crate::error::MemError;
use crate::lock::lock;
use crate::memory::allocation::{Access, Allocation};
use crate::memory::block::release;
use crate::recording::Recorded;
use crate::section::InRecording;
use crate::stats::Direction;
use crate::stream::Stream;

/// A recorded sequence of work; made by [`Stream::capture`].
#[derive(Debug)]
pub struct Graph {
    device: Device,
    raw: Handle,
    uses: Vec<(Arc<Allocation>, bool)>,
    /// Direction and bytes of its copies, counted at every launch.
    copies: Vec<(Direction, usize)>,
    /// The driver's graphs are not for several threads at once.
    launching: Mutex<()>,
}

impl Graph {
    fn new(device: &Device, raw: Handle, recorded: Recorded) -> Self {
        Self {
            device: device.clone(),
            raw,
            uses: recorded.uses,
            copies: recorded.copies,
            launching: Mutex::default(),
        }
    }

    /// Queues the whole sequence.
    ///
    /// # Errors
    ///
    /// [`MemError::InUseByHost`] if the host holds a guard on memory it writes, or a
    /// writing guard on memory it reads; [`MemError::OtherDevice`]; the driver's;
    /// [`MemError::Capturing`]: a graph cannot be part of another one.
    pub fn launch(&self, stream: &Stream) -> Result<(), MemError> {
        stream.device().check_usable()?;
        stream.check_same_device(&self.device)?;
        let uses = self.uses.iter();
        let uses = uses.map(|(memory, writes)| Access::whole(memory, *writes));
        let inner = self.device.inner();
        let rule = InRecording::Refused("launching a graph");
        stream.submit(uses.collect(), rule, |queue| {
            let _alone = lock(&self.launching);
            // SAFETY: the graph keeps all memory it uses; no guard of the host is open on
            // it, and none can be opened before its use is noted.
            let launched = unsafe { inner.backend.launch_graph(self.raw, queue) };
            self.device.tried(launched)
        })?;
        inner.counters.launched_graph();
        for &(direction, n_bytes) in &self.copies {
            inner.counters.copied(direction, n_bytes);
        }
        Ok(())
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        if self.device.is_forked() {
            return;
        }
        let dropped = self.device.inner().backend.drop_graph(self.raw);
        if let Err(error) = dropped
            && !self.device.is_lost()
        {
            let error = self.device.failed(error);
            self.device.defer(error);
        }
    }
}

impl Stream {
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
        self.section().begin(self.queue(), begin)?;
        let recording = Recording { stream: self };
        let queued = queue(self);
        let (ended, recorded) = recording.end();
        let graph = ended.map(|raw| Graph::new(device, raw, recorded));
        // The closure's error is the cause; the end of the recording is its consequence.
        queued.and(graph)
    }
}

/// Ends a recording, also when the closure panics.
struct Recording<'a> {
    stream: &'a Stream,
}

type Ended = (Result<Handle, MemError>, Recorded);

impl Recording<'_> {
    fn end(self) -> Ended {
        let ended = self.finish();
        std::mem::forget(self);
        ended
    }

    fn finish(&self) -> Ended {
        let device = self.stream.device();
        let backend = &device.inner().backend;
        // A child of `fork` that leaves the closure has nothing of the driver's to end.
        let is_forked = device.is_forked();
        let end = || match is_forked {
            true => Err(MemError::Forked),
            false => device.tried(backend.end_capture(self.stream.raw())),
        };
        let joined = match is_forked {
            true => Ok(()),
            false => self.join_all(),
        };
        let (raw, mut recorded) = self.stream.section().end(end);
        for block in std::mem::take(&mut recorded.kept) {
            release(device, block);
        }
        match (joined, raw) {
            (Err(error), Ok(graph)) => {
                // What was joined in part is no graph of the program's.
                let _ = device.inner().backend.drop_graph(graph);
                (Err(error), recorded)
            }
            (Err(error), Err(_)) => (Err(error), recorded),
            (Ok(()), raw) => (raw, recorded),
        }
    }

    /// Lets the stream wait for all that have joined it.
    fn join_all(&self) -> Result<(), MemError> {
        let Some((recording, member)) = self.stream.section().recording_here() else {
            return Ok(());
        };
        recording
            .joined()
            .into_iter()
            .try_for_each(|other| self.stream.record_order(&recording, member, other))
    }
}

impl Drop for Recording<'_> {
    fn drop(&mut self) {
        let (raw, _recorded) = self.finish();
        if let Ok(graph) = raw {
            let _ = self.stream.device().inner().backend.drop_graph(graph);
        }
    }
}
