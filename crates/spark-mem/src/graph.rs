//! A recorded sequence of work that is launched as one.
//!
//! ```text
//! let graph = stream.capture(|stream| { kernel.launch(...)?; stream.copy(...) })?;
//! loop { write inputs; graph.launch(&stream)?; read outputs }
//! ```
//!
//! A graph keeps the memory it uses, also when its buffers are dropped. Launching is
//! refused while the host holds a guard that stands in the way.

#![allow(unsafe_code, reason = "launches work on memory the graph keeps")]

use std::sync::Arc;

use crate::backend::Handle;
use crate::buffer::allocation::Allocation;
use crate::{Device, MemError, Stream};

/// A recorded sequence of work; made by [`Stream::capture`].
#[derive(Debug)]
pub struct Graph {
    device: Device,
    raw: Handle,
    /// Sorted by address, so that two launches lock in one order.
    uses: Vec<(Arc<Allocation>, bool)>,
}

impl Graph {
    pub(crate) fn new(
        device: &Device,
        raw: Handle,
        mut uses: Vec<(Arc<Allocation>, bool)>,
    ) -> Self {
        uses.sort_by_key(|(allocation, _)| Arc::as_ptr(allocation));
        Self {
            device: device.clone(),
            raw,
            uses,
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
        stream.check_ready_for_graph()?;
        stream.check_same_device(&self.device)?;
        // All locks are held until the work is queued: a guard opened meanwhile would
        // not wait for it.
        let mut states = Vec::with_capacity(self.uses.len());
        for (allocation, writes) in &self.uses {
            let state = allocation.state();
            state.check_free(*writes)?;
            states.push((state, *writes));
        }
        for (state, writes) in &states {
            for earlier in state.before(stream.inner(), *writes) {
                stream.wait_for(&earlier.stream)?;
            }
        }
        let inner = self.device.inner();
        // SAFETY: the graph keeps all memory it uses; no guard of the host is open on it
        // and none can be opened before its use is noted below, under the same locks.
        let launched = unsafe { inner.backend.launch_graph(self.raw, stream.raw()) };
        for (state, writes) in &mut states {
            state.note(stream.inner(), *writes);
        }
        drop(states);
        self.device.tried(launched)?;
        inner.counters.launched_graph();
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
