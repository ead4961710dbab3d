//! Logs that are text: what rsyslog writes of the kernel, and the log of the last boot.
//!
//! ```text
//! /var/log/kern.log, kern.log.1      lines of `kernel:` too, or of the kernel's seconds alone
//! /var/log/syslog, /var/log/messages where there is no kern.log: lines of `kernel:` alone
//! /var/log/dmesg                     where there is neither: the first minute of this boot
//! ```
//!
//! Read are the last 8 MiB of each, newest lines first: the year of a stamp without one follows from the line after
//! it. Rotations that are compressed (`.2.gz` and older) are not read; they hold what is older than a week with
//! Ubuntu's settings.

use std::time::UNIX_EPOCH;

use crate::reading::Reading;
use crate::root::Root;

use super::log::Log;
use super::when::{Clock, Moment, Stamp};

/// Families of logs; the first that can be read is taken.
const FAMILIES: [(&str, bool); 3] = [
    ("/var/log/kern.log", true),
    ("/var/log/syslog", false),
    ("/var/log/messages", false),
];
const BOOT_LOG: &str = "/var/log/dmesg";
const END_BYTES: u64 = 8 << 20;
const ALIVE_BYTES: u64 = 64 << 10;

/// The logs of rsyslog, or what hinders.
pub(super) fn read(root: &Root, clock: Clock) -> Result<Log, Vec<String>> {
    let mut hindrances = Vec::new();
    for (path, is_kernel_only) in FAMILIES {
        match family(root, path, is_kernel_only, clock) {
            Reading::Value(log) if log.n_read > 0 => return Ok(log),
            Reading::Value(_) => hindrances.push(format!(
                "{path} is empty or has no line that is known as the kernel's"
            )),
            Reading::NotSupported => {}
            Reading::Failed(why) => hindrances.push(why.to_string()),
        }
    }
    Err(hindrances)
}

/// The log that the last boot left, which tells of its begin only.
pub(super) fn read_boot(root: &Root, clock: Clock) -> Option<Log> {
    let text = root.end(BOOT_LOG, END_BYTES).value()?;
    let mut log = Log::new(BOOT_LOG, clock);
    lines(&mut log, &text, true, None, clock);
    // It ends where the boot was over, whatever came after.
    log.to = None;
    (log.n_read > 0).then_some(log)
}

fn family(root: &Root, path: &str, is_kernel_only: bool, clock: Clock) -> Reading<Log> {
    root.end(path, END_BYTES).map(|text| {
        let mut log = Log::new(path, clock);
        let bound = |path: &str| match (clock.now, last_written(root, path)) {
            (Some(now), Some(written)) => Some(now.min(written)),
            (now, written) => now.or(written),
        };
        let is_whole = is_whole(root, path);
        let before = lines(&mut log, &text, is_kernel_only, bound(path), clock);
        let earlier = format!("{path}.1");
        if is_whole && let Reading::Value(text) = root.end(&earlier, END_BYTES) {
            let bound =
                bound(&earlier).map(|bound| before.map_or(bound, |before| bound.min(before)));
            lines(&mut log, &text, is_kernel_only, bound, clock);
        }
        // A rotation of another name tells of a time that this log, whose own lines may be older, does not.
        let unread = unread_until(root, path, clock);
        if unread > log.from {
            log.from = unread;
        }
        if is_kernel_only {
            log.saw(last_line_of_any(root, clock));
        }
        log
    })
}

/// When a rotation that is not read was last written.
fn unread_until(root: &Root, path: &str, clock: Clock) -> Option<Moment> {
    let (folder, name) = path.rsplit_once('/')?;
    let is_other = |other: &str| {
        let rotation = other.strip_prefix(name);
        rotation.is_some_and(|rotation| rotation.starts_with(['.', '-']) && rotation != ".1")
    };
    let others = root.entries_where(folder, is_other).value()?;
    let written = others
        .iter()
        .filter_map(|other| last_written(root, &format!("{folder}/{other}")));
    let written = written.max()?;
    Some(clock.now.map_or(written, |now| written.min(now)))
}

/// When whoever writes kern.log last wrote a line of any program.
fn last_line_of_any(root: &Root, clock: Clock) -> Option<Moment> {
    let text = root.end(FAMILIES[1].0, ALIVE_BYTES).value()?;
    let stamp = text.lines().rev().find_map(|line| Some(Stamp::of(line)?.0));
    stamp?.moment(clock.now, None)
}

fn is_whole(root: &Root, path: &str) -> bool {
    let metadata = root.path(path).metadata();
    metadata.is_ok_and(|metadata| metadata.len() <= END_BYTES)
}

fn last_written(root: &Root, path: &str) -> Option<Moment> {
    let written = root.path(path).metadata().ok()?.modified().ok()?;
    let since = written.duration_since(UNIX_EPOCH).ok()?;
    Some(Moment(i64::try_from(since.as_secs()).ok()?))
}

/// Takes up lines, newest first; gives the time of the oldest.
fn lines(
    log: &mut Log,
    text: &str,
    is_kernel_only: bool,
    mut before: Option<Moment>,
    clock: Clock,
) -> Option<Moment> {
    for line in text.lines().rev() {
        let (stamp, rest) = match Stamp::of(line) {
            Some((stamp, rest)) => (Some(stamp), rest),
            None => (None, line),
        };
        let when = stamp.and_then(|stamp| clock.dated(stamp.moment(before, clock.boot)));
        before = when.or(before);
        log.saw(when);
        let counted = match stamp {
            Some(Stamp::SinceBoot { microseconds }) => Some(microseconds),
            _ => None,
        };
        let is_bare = is_kernel_only && counted.is_some();
        if let Some((message, behind)) = message(rest, is_bare) {
            let counted = counted.or(behind);
            let when = match stamp {
                Some(Stamp::Local(_) | Stamp::Yearless { .. }) => {
                    when.and_then(|when| clock.of_some_zone(when, counted))
                }
                _ => when,
            };
            log.add(when, counted, message);
        }
    }
    before
}

/// The kernel's own words: behind the host's name, `kernel:`, and the microseconds since boot, if they are there.
/// `is_bare` are lines of the kernel without the name.
fn message(rest: &str, is_bare: bool) -> Option<(&str, Option<i64>)> {
    let tagged = rest.strip_prefix("kernel:").or_else(|| {
        let (_host, rest) = rest.split_once(' ')?;
        rest.trim_start().strip_prefix("kernel:")
    });
    let message = match tagged {
        Some(message) => message.trim_start(),
        None if is_bare => rest,
        None => return None,
    };
    let (message, counted) = match Stamp::of(message) {
        Some((Stamp::SinceBoot { microseconds }, message)) => (message, Some(microseconds)),
        _ => (message, None),
    };
    (!message.is_empty()).then_some((message, counted))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, is_kernel_only: bool) -> Log {
        let clock = Clock {
            now: Some(Moment(1_796_000_000)),
            boot: None,
        };
        let mut log = Log::new("test", clock);
        lines(&mut log, text, is_kernel_only, clock.now, clock);
        log
    }

    #[test]
    fn years_follow_from_the_line_after() {
        let text = "Nov 20 10:00:00 h kernel: NVRM: Xid (PCI:000f:01:00): 1, x\n\
                    Dec 20 10:00:00 h kernel: [    5.1] NVRM: Xid (PCI:000f:01:00): 2, x\n\
                    Jan  3 10:00:00 h kernel: [    5.1] NVRM: Xid (PCI:000f:01:00): 3, x\n\
                    Nov 20 10:00:00 h kernel: quiet\n";
        let log = read(text, true);
        let dates: Vec<String> = log
            .events
            .iter()
            .map(|event| event.when.map_or_else(String::new, |when| when.to_string()))
            .collect();
        let wanted = ["2026-01-03", "2025-12-20", "2025-11-20"];
        assert_eq!(dates.len(), wanted.len());
        for (date, wanted) in dates.iter().zip(wanted) {
            assert!(date.starts_with(wanted), "{date}");
        }
    }

    #[test]
    fn a_program_that_writes_such_words_is_not_the_kernel() {
        let text = "Nov 20 10:00:00 h app[3]: NVRM: Xid (PCI:000f:01:00): 79, x\n\
                    Nov 20 10:00:00 h app[3]: kernel: NVRM: Xid (PCI:000f:01:00): 79, x\n";
        assert_eq!(read(text, false).events, []);
        assert_eq!(read(text, false).n_read, 0);
    }
}
