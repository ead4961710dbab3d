//! One event.

use super::body::Body;
use super::names::event_name;
use crate::wire::{Message, StructReader, WireError};

/// One event of a log: when, whether it is valid, and what.
#[derive(Debug, Clone, Copy)]
pub struct Event<'a> {
    message: &'a Message,
    root: StructReader<'a>,
}

impl<'a> Event<'a> {
    pub(super) fn new(message: &'a Message) -> Result<Self, WireError> {
        let root = message.root()?;
        Ok(Self { message, root })
    }

    /// When it was logged: nanoseconds of the monotonic clock, since the device started. Events of a file are not sorted
    /// by it.
    pub fn log_mono_time(&self) -> u64 {
        self.root.u64(0)
    }

    /// Whether its sender vouches for it.
    pub fn is_valid(&self) -> bool {
        !self.root.bool(80)
    }

    /// The tag of its union.
    pub fn tag(&self) -> u16 {
        self.root.u16(64)
    }

    /// Its name in the schema; `None` for an event that is newer than it.
    pub fn name(&self) -> Option<&'static str> {
        event_name(self.tag())
    }

    /// What it carries.
    ///
    /// # Errors
    ///
    /// [`WireError`]: its pointer is broken.
    pub fn body(&self) -> Result<Body<'a>, WireError> {
        Body::read(self.tag(), self.root)
    }

    /// The message that it is, for events that have no type here.
    pub fn message(&self) -> &'a Message {
        self.message
    }
}
