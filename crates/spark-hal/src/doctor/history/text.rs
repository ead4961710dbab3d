//! Logs that are text: what rsyslog writes of the kernel, and the log of the last boot.
//!
//! ```text
//! /var/log/kern.log, kern.log.1      every line is the kernel's
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

/// The logs of rsyslog, or what hinders.
pub(super) fn read(root: &Root, clock: Clock) -> Result<Log, Vec<String>> {
    let mut hindrances = Vec::new();
    for (path, is_kernel_only) in FAMILIES {
        match family(root, path, is_kernel_only, clock) {
            Reading::Value(log) if log.n_read > 0 => return Ok(log),
            Reading::Value(_) => hindrances.push(format!("{path} is empty")),
            Reading::NotSupported => {}
            Reading::Failed(why) => hindrances.push(why.to_string()),
        }
    }
    Err(hindrances)
}

/// The log that the last boot left, which tells of its begin only.
pub(super) fn read_boot(root: &Root, clock: Clock) -> Option<Log> {
    let text = root.end(BOOT_LOG, END_BYTES).value()?;
    let mut log = Log::new(BOOT_LOG);
    log.is_cut = true;
    lines(&mut log, &text, true, None, clock.boot);
    // It ends where the boot was over, whatever came after.
    log.to = None;
    (log.n_read > 0).then_some(log)
}

fn family(root: &Root, path: &str, is_kernel_only: bool, clock: Clock) -> Reading<Log> {
    root.end(path, END_BYTES).map(|text| {
        let mut log = Log::new(path);
        let bound = |path: &str| match (clock.now, last_written(root, path)) {
            (Some(now), Some(written)) => Some(now.min(written)),
            (now, written) => now.or(written),
        };
        let is_whole = is_whole(root, path);
        let before = lines(&mut log, &text, is_kernel_only, bound(path), clock.boot);
        log.is_cut = !is_whole;
        let earlier = format!("{path}.1");
        if is_whole && let Reading::Value(text) = root.end(&earlier, END_BYTES) {
            let bound =
                bound(&earlier).map(|bound| before.map_or(bound, |before| bound.min(before)));
            lines(&mut log, &text, is_kernel_only, bound, clock.boot);
            log.is_cut = !self::is_whole(root, &earlier);
        }
        log
    })
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
    boot: Option<Moment>,
) -> Option<Moment> {
    for line in text.lines().rev() {
        let (when, rest) = match Stamp::of(line) {
            Some((stamp, rest)) => (stamp.moment(before, boot), rest),
            None => (None, line),
        };
        before = when.or(before);
        if let Some(message) = message(rest, is_kernel_only) {
            log.add(when, message);
        }
    }
    before
}

/// The kernel's own words: behind the host's name, `kernel:`, and the seconds since boot.
fn message(rest: &str, is_kernel_only: bool) -> Option<&str> {
    let tagged = rest.strip_prefix("kernel:").or_else(|| {
        let (_host, rest) = rest.split_once(' ')?;
        rest.trim_start().strip_prefix("kernel:")
    });
    let message = match tagged {
        Some(message) => message.trim_start(),
        None if is_kernel_only => rest,
        None => return None,
    };
    let message = match Stamp::of(message) {
        Some((Stamp::SinceBoot { .. }, message)) => message,
        _ => message,
    };
    (!message.is_empty()).then_some(message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, is_kernel_only: bool) -> Log {
        let mut log = Log::new("test");
        lines(
            &mut log,
            text,
            is_kernel_only,
            Some(Moment(1_796_000_000)),
            None,
        );
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
