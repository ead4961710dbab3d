//! Whether the logs prove that nothing else happened: from a week ago to now, without a gap.
//!
//! ```text
//!      seven days ago          boot            now
//! log   ----|--------------------|-----x         its writer may have died at x: where nobody wrote for a day,
//! ring                           |------------|  the ring buffer has to go on
//! ```
//!
//! A log that begins later says nothing of the days before, whatever the reason: it may have been rotated, or be too large to be read.

use super::log::Log;
use super::when::{Clock, DAY_S, SLACK_S};

/// How long no program may have written a line, until the log's writer counts as dead.
const QUIET_S: i64 = DAY_S;

/// What of the recent past no log tells; `cut` says how much of one was read, if that is not all.
pub(super) fn missing(
    logs: &[Log],
    ring: Option<&Log>,
    clock: Clock,
    hindrances: &[String],
    cut: Option<&str>,
) -> Option<String> {
    let missing = gap(logs, ring, clock, hindrances)?;
    Some(match cut {
        Some(cut) => format!("{missing}; {cut}"),
        None => missing,
    })
}

fn gap(logs: &[Log], ring: Option<&Log>, clock: Clock, hindrances: &[String]) -> Option<String> {
    if logs.is_empty() && ring.is_none() {
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
    let all: Vec<&Log> = ring.into_iter().chain(logs).collect();
    let names: Vec<&str> = all.iter().map(|log| log.name.as_str()).collect();
    let names = names.join(", ");
    let is_of_boot = |log: &&&Log| log.to.is_some_and(|to| to.plus(SLACK_S) >= boot);
    if !all.iter().any(|log| is_of_boot(&log)) {
        return Some(format!(
            "needs a log of the running boot (since {boot}): {names} ends before it"
        ));
    }
    if let Some(log) = logs.iter().find(|log| log.is_damaged) {
        return Some(format!(
            "needs {} without damage: some of it cannot be followed",
            log.name
        ));
    }
    let back: Vec<&Log> = all
        .iter()
        .copied()
        .filter(|log| log.from.is_some_and(|begin| begin <= from))
        .collect();
    if back.is_empty() {
        let oldest = all.iter().filter_map(|log| log.from).min().unwrap_or(boot);
        return Some(format!(
            "needs a log of the last seven days: {names} begins {oldest}"
        ));
    }
    let is_whole = |log: &Log| {
        let last = log.to.max(log.alive);
        let is_quiet = last < clock.now.map(|now| now.plus(-QUIET_S));
        let is_continued = ring
            .and_then(|ring| ring.from)
            .zip(last)
            .is_some_and(|(begin, last)| begin <= last.plus(SLACK_S));
        is_of_boot(&&log) && (!is_quiet || is_continued)
    };
    if !back.iter().any(|log| is_whole(log)) {
        return Some(format!(
            "needs a log that reaches from a week ago to now: {} ended {}, or /dev/kmsg (root)",
            back[0].name,
            back.iter().filter_map(|log| log.to).max().unwrap_or(boot)
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
