//! The device's own queue: memory is cleared on it and, where the driver can, taken and given back.
//!
//! ```text
//! allocate   own queue: take, clear        first user: comes after that, on the device
//! release    own queue: after all users, give back        nobody waits on the host
//! ```
//!
//! It is never captured, and nobody else's work is on it.

use crate::backend::Handle;
use crate::device::Device;
use crate::error::MemError;
use crate::event::Event;
use crate::memory::block::{Block, Queue, is_over};

/// The device's own queue, as the memory sees it that it has cleared.
#[derive(Debug)]
pub(crate) struct Housekeeping {
    device: Device,
    raw: Handle,
}

impl Housekeeping {
    pub(crate) fn new(device: &Device, raw: Handle) -> Self {
        Self {
            device: device.clone(),
            raw,
        }
    }
}

impl Queue for Housekeeping {
    fn raw(&self) -> Handle {
        self.raw
    }

    fn finish(&self) -> Result<(), MemError> {
        self.device.check_usable()?;
        let waited = self.device.inner().backend.synchronize(self.raw);
        self.device.tried(waited)
    }

    fn is_idle(&self) -> bool {
        let idle = self.device.inner().backend.is_idle(self.raw);
        self.device.tried(idle).unwrap_or(false)
    }

    fn mark(&self) -> Result<Event, MemError> {
        self.device
            .tried(Event::record(&self.device, self.raw, false))
    }

    fn leave_recording(&self, _ended: u64) {}

    fn wait_or_keep(&self, block: Block) -> Option<Block> {
        if !is_over(&self.device, self.raw) {
            block.stay();
            return None;
        }
        Some(block)
    }
}
