//! Events: marks in streams, for ordering that no buffer shows and for timing.
//!
//! Marks that are dropped are used again: the driver makes one for each that is held at the same
//! time. Those for ordering alone cannot time, which makes them cheaper to record and to wait for.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use crate::backend::Handle;
use crate::device::Device;
use crate::error::{DriverError, MemError};

/// What `cuEventElapsedTime` resolves, as the reference manual of the driver says.
const RESOLUTION: Duration = Duration::from_nanos(500);

/// A mark in a stream.
#[derive(Debug)]
pub struct Event {
    device: Device,
    raw: Handle,
    is_timed: bool,
    /// What a recording knows of it, if it is a mark of one: nothing comes to it by itself.
    recorded: Option<Arc<dyn Any + Send + Sync>>,
}

impl Event {
    pub(crate) fn device(&self) -> &Device {
        &self.device
    }

    pub(crate) fn raw(&self) -> Handle {
        self.raw
    }

    /// A new mark behind everything in a queue that is not captured.
    pub(crate) fn record(
        device: &Device,
        queue: Handle,
        is_timed: bool,
    ) -> Result<Self, DriverError> {
        let event = Self {
            device: device.clone(),
            raw: device.inner().take_event(is_timed)?,
            is_timed,
            recorded: None,
        };
        device.inner().backend.record(event.raw, queue)?;
        Ok(event)
    }

    /// As a mark of a recording, which knows this of it.
    pub(crate) fn of_recording(mut self, mark: Arc<dyn Any + Send + Sync>) -> Self {
        self.recorded = Some(mark);
        self
    }

    /// What a recording knows of it, if it is a mark of one.
    pub(crate) fn recorded(&self) -> Option<&Arc<dyn Any + Send + Sync>> {
        self.recorded.as_ref()
    }

    fn check_runs(&self) -> Result<(), MemError> {
        self.device.check_usable()?;
        match self.recorded {
            None => Ok(()),
            Some(_) => Err(MemError::EventOfRecording {
                what: "asking for an event",
            }),
        }
    }

    /// Waits until the work before the mark is done.
    ///
    /// # Errors
    ///
    /// The error of that work, if it failed; [`MemError::EventOfRecording`] for a mark of a recording.
    pub fn synchronize(&self) -> Result<(), MemError> {
        self.check_runs()?;
        let waited = self.device.inner().backend.synchronize_event(self.raw);
        self.device.tried(waited)
    }

    /// Whether the work before the mark is done; does not wait.
    ///
    /// # Errors
    ///
    /// The error of that work, if it failed; [`MemError::EventOfRecording`] for a mark of a recording.
    pub fn is_done(&self) -> Result<bool, MemError> {
        self.check_runs()?;
        self.device
            .tried(self.device.inner().backend.is_done(self.raw))
    }

    /// The device's time between an earlier mark and this one, both done and both made by
    /// [`Stream::record_timed`](crate::Stream::record_timed). The driver resolves about half a
    /// microsecond.
    ///
    /// # Errors
    ///
    /// [`MemError::OtherDevice`]; [`MemError::Untimed`]; [`MemError::EventOrder`] if `earlier` lies behind
    /// this one, by more than the driver resolves; the driver's, if one of them is not done.
    pub fn since(&self, earlier: &Self) -> Result<Duration, MemError> {
        self.device.check_usable()?;
        if self.device != earlier.device {
            return Err(MemError::OtherDevice);
        }
        if !(self.is_timed && earlier.is_timed) {
            return Err(MemError::Untimed);
        }
        let backend = &self.device.inner().backend;
        let ms = self
            .device
            .tried(backend.elapsed_ms(earlier.raw, self.raw))?;
        let time = Duration::try_from_secs_f32(ms.abs() / 1e3).unwrap_or(Duration::MAX);
        match ms < 0.0 {
            false => Ok(time),
            // Marks of two streams that the device passes at the same time.
            true if time <= RESOLUTION => Ok(Duration::ZERO),
            true => Err(MemError::EventOrder { by: time }),
        }
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        if self.device.is_forked() {
            return;
        }
        let given = self.device.inner().give_event(self.raw, self.is_timed);
        if let Err(error) = given
            && !self.device.is_lost()
        {
            let error = self.device.failed(error);
            self.device.defer(error);
        }
    }
}
