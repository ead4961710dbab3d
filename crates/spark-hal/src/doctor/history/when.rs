//! When a line of a log was written, and how far back that is.
//!
//! ```text
//! 2026-03-01T10:00:00.123456+01:00 host kernel: ...   Full        UTC by its zone
//! 2026-03-01T10:00:00 host kernel: ...                Local       without a zone
//! Mar  1 10:00:00 host kernel: ...                    Yearless    the year follows from the line after it
//! [   12.345678] ...                                  SinceBoot   needs the time of the boot
//!
//! Clock   boot = btime of /proc/stat,  now = boot + /proc/uptime
//! recent  in the running boot, or in the last seven days
//! ```
//!
//! Why both: what still holds (a GPU off the bus) is of the running boot, while a freeze ends its boot, so that
//! its traces are always in an earlier one. Seven days are this crate's choice.
//!
//! A stamp without a zone is taken for UTC, so that dates of such a log are off by the machine's zone: within a day
//! of the boot they do not say which boot they are of, unless the kernel's seconds behind them do. What is stamped
//! after now is not dated. There are no leap seconds here, and no zone database.

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::root::Root;

pub(super) const DAY_S: i64 = 86_400;
/// How long an event outside the running boot counts as recent.
const RECENT_S: i64 = 7 * DAY_S;
/// How far the clocks of kernel and log may differ where one boot ends and the next begins.
pub(super) const SLACK_S: i64 = 120;
/// How far after now a line may be stamped: a clock that was set meanwhile.
const FUTURE_SLACK_S: i64 = 300;
/// How far a zone may be from UTC, and of what its distance is a multiple.
const ZONE_MOST_S: i64 = 14 * 3600;
const ZONE_STEP_S: i64 = 900;
/// How far the kernel's seconds and the clock may differ in one boot.
pub(super) const SAME_S: i64 = 5;

/// A second, counted from 1970-01-01 00:00 UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment(pub(super) i64);

impl Moment {
    pub(super) fn plus(self, seconds: i64) -> Self {
        Self(self.0.saturating_add(seconds))
    }

    /// Of a date in the Gregorian calendar; `None` if there is no such date.
    fn of(year: i64, month: u32, day: u32, second_of_day: i64) -> Option<Self> {
        let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        let february = if is_leap { 29 } else { 28 };
        let lengths = [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
        let month_idx = usize::try_from(month.checked_sub(1)?).ok()?;
        if !(1970..=9999).contains(&year) || day == 0 || day > *lengths.get(month_idx)? {
            return None;
        }
        let before: u32 = lengths[..month_idx].iter().sum();
        Some(Self(
            (days_before_year(year) + i64::from(before + day - 1)) * DAY_S + second_of_day,
        ))
    }

    fn year(self) -> i64 {
        let day = self.0.div_euclid(DAY_S);
        // 146 097 days in 400 years; the guess is at most one year off.
        let guess = 1970 + (day * 400).div_euclid(146_097);
        (guess - 1..=guess + 1)
            .rev()
            .find(|year| days_before_year(*year) <= day)
            .unwrap_or(guess)
    }
}

/// Days from 1970-01-01 to the first of January of this year.
fn days_before_year(year: i64) -> i64 {
    let leap_days = |year: i64| year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    (year - 1970) * 365 + leap_days(year - 1) - leap_days(1969)
}

/// `2026-03-01 10:00 UTC`.
impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let year = self.year();
        let second_of_day = self.0.rem_euclid(DAY_S);
        let day_start = self.0 - second_of_day;
        let month = (1..=12)
            .rev()
            .find(|month| Self::of(year, *month, 1, 0).is_some_and(|first| first.0 <= day_start));
        let Some((month, first)) =
            month.and_then(|month| Some((month, Self::of(year, month, 1, 0)?)))
        else {
            return write!(f, "second {} since 1970", self.0);
        };
        let day = (day_start - first.0) / DAY_S + 1;
        let minute = second_of_day / 60;
        write!(
            f,
            "{year:04}-{month:02}-{day:02} {:02}:{:02} UTC",
            minute / 60,
            minute % 60
        )
    }
}

/// What a line says of its own time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Stamp {
    Full(Moment),
    Local(Moment),
    Yearless {
        month: u32,
        day: u32,
        second_of_day: i64,
    },
    SinceBoot {
        microseconds: i64,
    },
}

impl Stamp {
    /// The stamp at the begin of a line, and what follows it.
    pub(super) fn of(line: &str) -> Option<(Self, &str)> {
        iso(line)
            .or_else(|| yearless(line))
            .or_else(|| since_boot(line))
    }

    /// The moment, where the line stands before one that was written at `before`.
    pub(super) fn moment(self, before: Option<Moment>, boot: Option<Moment>) -> Option<Moment> {
        match self {
            Self::Full(moment) | Self::Local(moment) => Some(moment),
            Self::SinceBoot { microseconds } => Some(boot?.plus(microseconds / 1_000_000)),
            Self::Yearless {
                month,
                day,
                second_of_day,
            } => {
                let latest = before?.plus(DAY_S);
                // Eight years hold a 29th of February, whatever the century.
                (latest.year() - 8..=latest.year())
                    .rev()
                    .filter_map(|year| Moment::of(year, month, day, second_of_day))
                    .find(|moment| *moment <= latest)
            }
        }
    }
}

/// A number of exactly these digits.
fn digits(text: &str, from: usize, length: usize) -> Option<u32> {
    let part = text.get(from..from + length)?;
    let is_plain = part.bytes().all(|byte| byte.is_ascii_digit());
    is_plain.then(|| part.parse().ok())?
}

/// `HH:MM:SS` at this place.
fn clock_time(text: &str, from: usize) -> Option<i64> {
    let (hour, minute, second) = (
        digits(text, from, 2)?,
        digits(text, from + 3, 2)?,
        digits(text, from + 6, 2)?,
    );
    let bytes = text.as_bytes();
    let is_time = bytes.get(from + 2) == Some(&b':') && bytes.get(from + 5) == Some(&b':');
    (is_time && hour < 24 && minute < 60 && second < 61)
        .then(|| i64::from(hour * 3600 + minute * 60 + second))
}

fn iso(line: &str) -> Option<(Stamp, &str)> {
    let bytes = line.as_bytes();
    if bytes.get(4) != Some(&b'-') || bytes.get(7) != Some(&b'-') {
        return None;
    }
    if !matches!(bytes.get(10), Some(b'T' | b' ')) {
        return None;
    }
    let year = i64::from(digits(line, 0, 4)?);
    let moment = Moment::of(
        year,
        digits(line, 5, 2)?,
        digits(line, 8, 2)?,
        clock_time(line, 11)?,
    )?;
    let rest = line.get(19..)?;
    let rest = match rest.strip_prefix(['.', ',']) {
        Some(fraction) => fraction.trim_start_matches(|c: char| c.is_ascii_digit()),
        None => rest,
    };
    let (zone, rest) = rest.split_once(' ').unwrap_or((rest, ""));
    if zone.is_empty() {
        return Some((Stamp::Local(moment), rest));
    }
    let moment = moment.plus(-zone_seconds(zone)?);
    Some((Stamp::Full(moment), rest))
}

/// Seconds that a zone is ahead of UTC.
fn zone_seconds(zone: &str) -> Option<i64> {
    if zone == "Z" {
        return Some(0);
    }
    let sign = match zone.as_bytes().first()? {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let minutes_from = if zone.as_bytes().get(3) == Some(&b':') {
        4
    } else {
        3
    };
    let (hours, minutes) = (digits(zone, 1, 2)?, digits(zone, minutes_from, 2)?);
    Some(sign * i64::from(hours * 3600 + minutes * 60))
}

fn yearless(line: &str) -> Option<(Stamp, &str)> {
    const MONTHS: [&str; 12] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    let name = line.get(..3)?;
    let month = (1..).zip(MONTHS).find(|(_, month)| *month == name)?.0;
    let day = line.get(4..6)?.trim_start().parse().ok()?;
    let second_of_day = clock_time(line, 7)?;
    let stamp = Stamp::Yearless {
        month,
        day,
        second_of_day,
    };
    Some((stamp, line.get(15..)?.trim_start()))
}

fn since_boot(line: &str) -> Option<(Stamp, &str)> {
    let (time, rest) = line.strip_prefix('[')?.split_once(']')?;
    let (seconds, fraction) = time.trim_start().split_once('.')?;
    let is_plain = fraction.bytes().all(|byte| byte.is_ascii_digit());
    let seconds: u32 = is_plain.then(|| seconds.parse().ok())??;
    let fraction: i64 = format!("{fraction:0<6}").get(..6)?.parse().ok()?;
    let stamp = Stamp::SinceBoot {
        microseconds: i64::from(seconds) * 1_000_000 + fraction,
    };
    let rest = rest.trim_start();
    Some((stamp, behind_caller(rest).unwrap_or(rest)))
}

/// What follows the thread or CPU (`[ T1234]`, `[    C3]`) that a kernel with `CONFIG_PRINTK_CALLER` names.
fn behind_caller(text: &str) -> Option<&str> {
    let (caller, rest) = text.strip_prefix('[')?.split_once(']')?;
    let number = caller.trim_start().strip_prefix(['T', 'C'])?;
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| rest.trim_start())
}

/// What time it is on the machine, and since when it runs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    pub(crate) now: Option<Moment>,
    pub(crate) boot: Option<Moment>,
}

impl Clock {
    /// By the machine's own files, so that a copy of them keeps its time; of the running machine by its clock else.
    pub(super) fn read(root: &Root) -> Self {
        let stat = root.text("/proc/stat").value().unwrap_or_default();
        let boot = stat.lines().find_map(|line| line.strip_prefix("btime "));
        let boot =
            boot.and_then(|seconds| Some(Moment(i64::from(seconds.trim().parse::<u32>().ok()?))));
        let uptime = root.line("/proc/uptime").value().and_then(|line| {
            let whole = line.split(['.', ' ']).next()?;
            Some(i64::from(whole.parse::<u32>().ok()?))
        });
        let by_files = boot.zip(uptime).map(|(boot, uptime)| boot.plus(uptime));
        let by_clock = || {
            let since = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
            Some(Moment(i64::try_from(since.as_secs()).ok()?))
        };
        Self {
            now: by_files.or_else(|| root.is_host().then(by_clock)?),
            boot,
        }
    }

    /// A time that can be right: not after now.
    pub(super) fn dated(self, when: Option<Moment>) -> Option<Moment> {
        let latest = self.now.map(|now| now.plus(FUTURE_SLACK_S));
        when.filter(|when| latest.is_none_or(|latest| *when <= latest))
    }

    /// A time without a zone, where the kernel counted these microseconds; `None` where it may be of this boot or
    /// of the one before.
    pub(super) fn of_some_zone(self, when: Moment, microseconds: Option<i64>) -> Option<Moment> {
        let Some(boot) = self.boot else {
            return Some(when);
        };
        let counted = microseconds.map(|microseconds| boot.plus(microseconds / 1_000_000));
        let is_of_boot = |counted: &Moment| {
            let ahead = when.0.saturating_sub(counted.0);
            let rest = ahead.rem_euclid(ZONE_STEP_S);
            ahead.abs() <= ZONE_MOST_S + SAME_S && rest.min(ZONE_STEP_S - rest) <= SAME_S
        };
        let counted = self.dated(counted).filter(is_of_boot);
        counted.or_else(|| (when.0.abs_diff(boot.0) > DAY_S.unsigned_abs()).then_some(when))
    }

    /// Where the recent past begins; `None` if the machine does not tell the time.
    pub(super) fn recent_from(self) -> Option<Moment> {
        let days = self.now.map(|now| now.plus(-RECENT_S));
        let boot = self.boot.map(|boot| boot.plus(-SLACK_S));
        match (days, boot) {
            (Some(days), Some(boot)) => Some(days.min(boot)),
            (days, boot) => days.or(boot),
        }
    }
}

#[cfg(test)]
mod tests;
