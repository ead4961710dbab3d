//! What has happened on this machine, by the kernel's own words, with dates.
//!
//! ```text
//! ring buffer   the journal's files   text logs   log of the boot
//!     |                  |                |              |
//!     v                  v                v              v
//!   Log (events, reach) --- an event that an earlier one has told is not told again
//!        |
//!        v
//!      History: tallies by kind (how often, first, last, the last's words), and what was not read
//! ```
//!
//! One event stands in several logs: it is the same if it is of the same kind and device and either the kernel had
//! counted the same microseconds or the clocks differ by seconds. That a log reaches over a time says nothing of
//! what is missing in it. The ring buffer comes first: its time is right though the clock was set later. Every
//! source is bounded: files, bytes of a file, records, events, time.

mod event;
mod journal;
mod log;
mod reach;
mod ring;
mod text;
mod when;
pub(super) mod xid;

use std::collections::BTreeMap;

pub(super) use event::{Kind, PcieSeverity};
pub(super) use log::OF_A_KIND_LIMIT;
pub(super) use when::{Clock, Moment};

use event::Event;
use when::{SAME_S, SLACK_S};

use crate::root::Root;

/// Most kinds of events kept, so that names of processes cannot fill the memory.
const KINDS_LIMIT: usize = 512;
/// How far a clock that was set right after the boot moves what the boot's first lines say.
const BOOT_SLACK_S: i64 = 5;
/// How long after a boot disks and journals are recovered.
const BOOT_BEGIN_S: i64 = 300;

/// How old what happened is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Age {
    /// Before the running boot and the last seven days.
    Old,
    /// Its line has no time, or the machine tells none.
    Undated,
    /// In the last seven days, before the running boot.
    Week,
    /// In the running boot.
    Boot,
}

impl Age {
    /// The newest first.
    pub(super) const ALL: [Self; 4] = [Self::Boot, Self::Week, Self::Undated, Self::Old];

    fn of(when: Option<Moment>, clock: Clock) -> Self {
        match (when, clock.recent_from()) {
            (Some(when), Some(from)) if when >= from => {
                let is_of_boot = clock
                    .boot
                    .is_some_and(|boot| when >= boot.plus(-BOOT_SLACK_S));
                if is_of_boot { Self::Boot } else { Self::Week }
            }
            (Some(_), Some(_)) => Self::Old,
            _ => Self::Undated,
        }
    }
}

/// All events of one kind and age.
#[derive(Debug, Clone)]
pub(super) struct Tally {
    pub(super) count: usize,
    pub(super) first: Option<Moment>,
    pub(super) last: Option<Moment>,
    /// The log of the newest one.
    pub(super) source: String,
    /// Its words.
    pub(super) said: String,
}

/// What the logs tell.
#[derive(Debug, Clone)]
pub(super) struct History {
    pub(super) tallies: BTreeMap<(Age, Kind), Tally>,
    /// Why one cannot say that nothing else happened recently; `None` if one can.
    pub(super) missing: Option<String>,
}

impl History {
    /// Reads the logs below `root`.
    pub(super) fn read(root: &Root) -> Self {
        let clock = Clock::read(root);
        let mut journal = journal::read(root, clock);
        for event in &mut journal.unclean {
            event.when = clock.dated(event.when);
        }
        journal.unclean.retain(|event| is_at_a_boot(event, clock));
        let mut hindrances = journal.hindrances;
        let mut logs = Vec::new();
        let (ring, why) = match ring::read(root, clock) {
            Ok(log) => (Some(log), None),
            Err(why) => (None, why),
        };
        logs.extend(journal.log);
        match text::read(root, clock) {
            Ok(log) => logs.push(log),
            Err(why) => hindrances.extend(why),
        }
        hindrances.extend(why);
        logs.extend(text::read_boot(root, clock));
        let missing = reach::missing(
            &logs,
            ring.as_ref(),
            clock,
            &hindrances,
            journal.cut.as_deref(),
        );
        let mut history = Self {
            tallies: BTreeMap::new(),
            missing,
        };
        for event in &journal.unclean {
            history.add(event, "/var/log/journal", clock);
        }
        let mut told: BTreeMap<Kind, Vec<Event>> = BTreeMap::new();
        for log in ring.iter().chain(&logs) {
            let mut new = Vec::new();
            for event in &log.events {
                let is_wanted = event.kind != Kind::Unclean
                    || (is_at_a_boot(event, clock) && !is_of_a_boot(event, &journal.unclean));
                let earlier = told.get(&event.kind).map_or(&[][..], Vec::as_slice);
                if is_wanted && !is_told(event, earlier) {
                    history.add(event, &log.name, clock);
                    new.push(event.clone());
                }
            }
            for event in new {
                told.entry(event.kind.clone()).or_default().push(event);
            }
        }
        history
    }

    /// Of logs that could not be read.
    pub(super) fn unread(why: impl Into<String>) -> Self {
        Self {
            tallies: BTreeMap::new(),
            missing: Some(why.into()),
        }
    }

    fn add(&mut self, event: &Event, source: &str, clock: Clock) {
        let key = (Age::of(event.when, clock), event.kind.clone());
        if self.tallies.len() >= KINDS_LIMIT && !self.tallies.contains_key(&key) {
            let more = "needs logs with fewer kinds of events than there are";
            self.missing.get_or_insert_with(|| more.to_owned());
            return;
        }
        let tally = self.tallies.entry(key).or_insert_with(|| Tally {
            count: 0,
            first: event.when,
            last: event.when,
            source: source.to_owned(),
            said: event.said.clone(),
        });
        tally.count += 1;
        tally.first = tally.first.min(event.when);
        if event.when > tally.last {
            tally.last = event.when;
            source.clone_into(&mut tally.source);
            tally.said.clone_from(&event.said);
        }
    }
}

/// Whether one of these happened at the same boot: a disk is recovered seconds before the journal is found open.
fn is_of_a_boot(event: &Event, others: &[Event]) -> bool {
    others.iter().any(|other| {
        let times = event.when.zip(other.when);
        times.is_some_and(|(a, b)| a.0.abs_diff(b.0) <= SLACK_S.unsigned_abs())
    })
}

/// Whether another source has told of the same event: by what the kernel counted, else by the clock.
fn is_told(event: &Event, earlier: &[Event]) -> bool {
    let place = |event: &Event| {
        let xid = event.said.strip_prefix("NVRM: Xid (");
        xid.and_then(|xid| Some(xid.split_once(')')?.0.to_owned()))
    };
    earlier.iter().any(|other| {
        let is_same_count =
            event.since_boot_us.is_some() && event.since_boot_us == other.since_boot_us;
        let times = event.when.zip(other.when);
        let is_near = times.is_some_and(|(a, b)| a.0.abs_diff(b.0) <= SAME_S.unsigned_abs());
        other.kind == event.kind && (is_same_count || is_near) && place(other) == place(event)
    })
}

/// Whether a recovery is of a boot's begin: later, somebody plugged in or mounted a disk, or a file broke.
fn is_at_a_boot(event: &Event, clock: Clock) -> bool {
    let by_clock = event
        .when
        .zip(clock.boot)
        .filter(|(when, boot)| *when >= boot.plus(-BOOT_SLACK_S))
        .map(|(when, boot)| when.0 - boot.0);
    let counted = event.since_boot_us.map(|counted| counted / 1_000_000);
    counted
        .or(by_clock)
        .is_none_or(|after| after <= BOOT_BEGIN_S)
}
