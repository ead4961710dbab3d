//! What one log holds: its events, and how far back and forth it reaches.

use std::collections::BTreeMap;

use super::event::{Event, Kind, kind_of, quotation};
use super::when::{Clock, Moment};

/// Most events of one kind taken from one log, the newest ones: a card that repeats itself hides no other event.
pub(crate) const OF_A_KIND_LIMIT: usize = 2000;
/// Most events taken from one log: the newest ones.
const EVENTS_LIMIT: usize = 50_000;

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
    /// When it was certainly still written, by whatever program.
    pub(super) alive: Option<Moment>,
    /// Whether something recent in it could not be followed: a chain that breaks off, an entry that is none.
    pub(super) is_damaged: bool,
    /// Messages that are compressed, which this crate does not read.
    pub(super) n_unread: usize,
    pub(super) n_read: usize,
    clock: Clock,
    n_of_kinds: BTreeMap<Kind, usize>,
}

impl Log {
    pub(super) fn new(name: impl Into<String>, clock: Clock) -> Self {
        Self {
            clock,
            name: name.into(),
            events: Vec::new(),
            from: None,
            to: None,
            alive: None,
            is_damaged: false,
            n_unread: 0,
            n_read: 0,
            n_of_kinds: BTreeMap::new(),
        }
    }

    /// It was still written then.
    pub(super) fn saw(&mut self, when: Option<Moment>) {
        self.alive = self.alive.max(self.clock.dated(when));
    }

    /// Takes up one message of the kernel; the newest is to come first.
    pub(super) fn add(&mut self, when: Option<Moment>, since_boot_us: Option<i64>, message: &str) {
        if self.events.len() >= EVENTS_LIMIT {
            // What is older is not in it, so that it does not reach back that far.
            return;
        }
        self.n_read += 1;
        let when = self.clock.dated(when);
        if let Some(when) = when {
            self.from = Some(self.from.map_or(when, |from| from.min(when)));
            self.to = Some(self.to.map_or(when, |to| to.max(when)));
        }
        let Some(kind) = kind_of(message) else {
            return;
        };
        let n_of_kind = self.n_of_kinds.entry(kind.clone()).or_default();
        if *n_of_kind < OF_A_KIND_LIMIT {
            *n_of_kind += 1;
            let said = quotation(message, &kind);
            self.events.push(Event {
                kind,
                when,
                since_boot_us,
                said,
            });
        }
    }
}
