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

use std::sync::{Arc, Mutex};

use crate::backend::Handle;
use crate::buffer::allocation::{Allocation, lock};
use crate::section::InRecording;
use crate::{Device, MemError, Stream};

/// A recorded sequence of work; made by [`Stream::capture`].
#[derive(Debug)]
pub struct Graph {
    device: Device,
    raw: Handle,
    uses: Vec<(Arc<Allocation>, bool)>,
    /// The driver's graphs are not for several threads at once.
    launching: Mutex<()>,
}

impl Graph {
    pub(crate) fn new(device: &Device, raw: Handle, uses: Vec<(Arc<Allocation>, bool)>) -> Self {
        Self {
            device: device.clone(),
            raw,
            uses,
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
        let uses = self.uses.iter().map(|(memory, writes)| (memory, *writes));
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
