//! What one log holds: its events, and how far back and forth it reaches.

use super::event::{Event, kind_of, quotation};
use super::when::Moment;

/// Most events taken from one log: the newest ones.
const EVENTS_LIMIT: usize = 10_000;

/// A log, read to its end.
#[derive(Debug, Clone)]
pub(super) struct Log {
    /// Where it is, without names of the machine.
    pub(super) name: String,
    pub(super) events: Vec<Event>,
    /// The oldest moment that it tells of.
    pub(super) from: Option<Moment>,
    /// The newest one.
    pub(super) to: Option<Moment>,
    /// Whether older lines were there and are not in it: cut off, overwritten, or of earlier boots.
    pub(super) is_cut: bool,
    /// Messages that are compressed, which this crate does not read.
    pub(super) n_unread: usize,
    pub(super) n_read: usize,
}

impl Log {
    pub(super) fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            events: Vec::new(),
            from: None,
            to: None,
            is_cut: false,
            n_unread: 0,
            n_read: 0,
        }
    }

    /// Takes up one message of the kernel.
    pub(super) fn add(&mut self, when: Option<Moment>, message: &str) {
        self.n_read += 1;
        if let Some(when) = when {
            self.from = Some(self.from.map_or(when, |from| from.min(when)));
            self.to = Some(self.to.map_or(when, |to| to.max(when)));
        }
        if self.events.len() >= EVENTS_LIMIT {
            self.is_cut = true;
            return;
        }
        if let Some(kind) = kind_of(message) {
            let said = quotation(message, &kind);
            self.events.push(Event { kind, when, said });
        }
    }
}
