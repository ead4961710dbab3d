//! Events: marks in streams, for timing and for ordering that no buffer shows.

use std::time::Duration;

use crate::backend::Handle;
use crate::device::Device;
use crate::error::{DriverError, MemError};

/// A mark in a stream.
#[derive(Debug)]
pub struct Event {
    device: Device,
    raw: Handle,
}

impl Event {
    pub(crate) fn device(&self) -> &Device {
        &self.device
    }

    pub(crate) fn raw(&self) -> Handle {
        self.raw
    }

    /// A new mark behind everything in a queue that is not captured.
    pub(crate) fn record(device: &Device, queue: Handle) -> Result<Self, DriverError> {
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
