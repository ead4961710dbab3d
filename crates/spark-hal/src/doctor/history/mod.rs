//! What has happened on this machine, by the kernel's own words, with dates.
//!
//! ```text
//! the journal's files   text logs   ring buffer   log of the boot
//!        |                  |            |              |
//!        v                  v            v              v
//!      Log (events, reach) --- each tells only of times that those before it do not reach
//!        |
//!        v
//!      History: tallies by kind (how often, first, last, the last's words), and what was not read
//! ```
//!
//! One event stands in several logs: what an earlier source covers is not taken from a later one. Every source is
//! bounded: files, bytes of a file, records, events, time.

mod event;
mod journal;
mod log;
mod ring;
mod text;
mod when;
pub(super) mod xid;

use std::collections::BTreeMap;

pub(super) use event::{Kind, PcieSeverity};
pub(super) use log::OF_A_KIND_LIMIT;
pub(super) use when::{Clock, Moment};

use event::Event;
use log::Log;
use when::SLACK_S;

use crate::root::Root;

/// Most kinds of events kept, so that names of processes cannot fill the memory.
const KINDS_LIMIT: usize = 512;
/// How far a clock that was set right after the boot moves what the boot's first lines say.
const BOOT_SLACK_S: i64 = 5;

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
        let journal = journal::read(root, clock);
        let mut hindrances = journal.hindrances;
        let mut logs: Vec<Log> = journal.log.into_iter().collect();
        match text::read(root, clock) {
            Ok(log) => logs.push(log),
            Err(why) => hindrances.extend(why),
        }
        match ring::read(root, clock) {
            Ok(log) => logs.push(log),
            Err(why) => hindrances.extend(why),
        }
        logs.extend(text::read_boot(root, clock));
        let missing = missing(&logs, clock, &hindrances);
        let mut history = Self {
            tallies: BTreeMap::new(),
            missing,
        };
        for event in &journal.unclean {
            history.add(event, "/var/log/journal", clock);
        }
        for (number, log) in logs.iter().enumerate() {
            for event in &log.events {
                let is_told = event.kind == Kind::Unclean && is_of_a_boot(event, &journal.unclean);
                if !is_told && !is_covered(event, &logs[..number]) {
                    history.add(event, &log.name, clock);
                }
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

/// Whether an earlier source tells of this time.
fn is_covered(event: &Event, earlier: &[Log]) -> bool {
    earlier
        .iter()
        .any(|log| match (log.from, log.to, event.when) {
            (Some(from), Some(to), Some(when)) => from <= when && when <= to.plus(SLACK_S),
            _ => event.when.is_none(),
        })
}

/// What of the recent past no log tells.
fn missing(logs: &[Log], clock: Clock, hindrances: &[String]) -> Option<String> {
    if logs.is_empty() {
        let mut needed =
            "needs the kernel's log: /var/log/kern.log or the journal (group adm reads them), or /dev/kmsg (root)"
                .to_owned();
        if !hindrances.is_empty() {
            needed.push_str(&format!("; {}", hindrances.join("; ")));
        }
        return Some(needed);
    }
    let (Some(from), Some(boot)) = (clock.recent_from(), clock.boot) else {
        return Some("needs the time of the boot: btime in /proc/stat".to_owned());
    };
    let names: Vec<&str> = logs.iter().map(|log| log.name.as_str()).collect();
    let names = names.join(", ");
    let reaches_now = logs
        .iter()
        .any(|log| log.to.is_some_and(|to| to.plus(SLACK_S) >= boot));
    if !reaches_now {
        return Some(format!(
            "needs a log of the running boot (since {boot}): {names} ends before it"
        ));
    }
    let reaches_back = logs
        .iter()
        .any(|log| log.from.is_some() && (!log.is_cut || log.from <= Some(from)));
    if !reaches_back {
        let oldest = logs.iter().filter_map(|log| log.from).min().unwrap_or(boot);
        return Some(format!(
            "needs a log of the last seven days: {names} begins {oldest}"
        ));
    }
    if let Some(log) = logs.iter().find(|log| log.is_damaged) {
        return Some(format!(
            "needs {} without damage: some of it cannot be followed",
            log.name
        ));
    }
    let unread = logs.iter().find(|log| log.n_unread * 10 > log.n_read);
    unread.map(|log| {
        format!(
            "needs {} without compression: {} of its messages are compressed",
            log.name, log.n_unread
        )
    })
}
