//! Kernels, drivers and firmware that are known to be bad: a table that can be replaced without a new program.
//!
//! ```text
//! /etc/sparkpilot/known-bad.json   if it is there, in place of
//! known-bad.json                   the one in this program
//!
//! row: part, which versions, what they do, fix, severity, source, date
//!      begins "7.0.0-1019"                a version that begins so
//!      up_to "5.36_0ACUM018"              this one and older ones of the same naming
//!      from "28", before "28.39.2702"     by number; either may be absent
//!      vendor "ASUSTeK", dated_before     firmware by its date
//!      unless_cmdline "kho=off"           does no harm with this word on the kernel's command line
//! ```
//!
//! A row stands in the table of this program only if somebody of the project has read its source. A table of a user
//! that cannot be read is an error that the doctor tells, and no table is used in its place.
//!
//! A row speaks of more than it calls bad: of the other versions of its naming and vendor, which are well as far as it goes. `begins`
//! speaks of those that differ in the last number alone (7.0.0-1020-nvidia, and not 6.14.0-1013-nvidia). What no row speaks of is not well, but not known.

use std::cmp::Ordering;

use serde_json::Value;

use crate::reading::{Failure, Reading, quote};
use crate::root::Root;

use super::verdict::Severity;

/// Where an administrator's own table lies.
pub(super) const OWN_TABLE: &str = "/etc/sparkpilot/known-bad.json";
const BUILT_IN: &str = include_str!("known-bad.json");
const SCHEMA: &str = "spark-known-bad/1";
const MEMBERS: [&str; 13] = [
    "part",
    "begins",
    "up_to",
    "from",
    "before",
    "vendor",
    "dated_before",
    "unless_cmdline",
    "severity",
    "does",
    "fix",
    "source",
    "date",
];
const ROWS_LIMIT: usize = 1000;
const TEXT_LIMIT: usize = 400;

/// Why a table cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum BadTable {
    #[error("{0}")]
    Unreadable(#[from] Failure),
    #[error("{OWN_TABLE} is no JSON: {0}")]
    NoJson(String),
    #[error("{OWN_TABLE}: `{member}` is to be {wanted}")]
    Member {
        member: &'static str,
        wanted: &'static str,
    },
    #[error("{OWN_TABLE}, row {row}: there is no member `{member}`")]
    Unknown { row: usize, member: String },
    #[error("{OWN_TABLE}, row {row}: `{member}` is to be {wanted}")]
    Row {
        row: usize,
        member: &'static str,
        wanted: &'static str,
    },
}

/// What a row is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Kernel,
    Driver,
    Bios,
    EmbeddedController,
    ConnectX,
}

impl Part {
    const NAMES: [(&'static str, Self); 5] = [
        ("kernel", Self::Kernel),
        ("driver", Self::Driver),
        ("bios", Self::Bios),
        ("ec", Self::EmbeddedController),
        ("connectx", Self::ConnectX),
    ];
}

/// Versions that are bad, and what they do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) part: Part,
    begins: Option<String>,
    up_to: Option<String>,
    from: Option<Vec<u64>>,
    before: Option<Vec<u64>>,
    vendor: Option<String>,
    dated_before: Option<String>,
    unless_cmdline: Option<String>,
    pub(super) severity: Severity,
    pub(super) does: String,
    pub(super) fix: String,
    pub(super) source: String,
    pub(super) date: String,
}

/// What is held against the rows.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Seen<'a> {
    pub(super) version: &'a str,
    pub(super) vendor: &'a str,
    /// `YYYY-MM-DD`, of firmware that tells it.
    pub(super) dated: Option<&'a str>,
    pub(super) cmdline: &'a str,
}

/// The rows that are in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Table {
    /// When it was last changed, `YYYY-MM-DD`.
    pub(super) updated: String,
    /// Whether it is an administrator's.
    pub(super) is_own: bool,
    rows: Vec<Row>,
}

impl Table {
    /// The administrator's table if there is one, else that of this program.
    pub(super) fn load(root: &Root) -> Result<Self, BadTable> {
        match root.text(OWN_TABLE) {
            Reading::Value(text) => Self::parse(&text, true),
            Reading::NotSupported => Self::parse(BUILT_IN, false),
            Reading::Failed(why) => Err(why.into()),
        }
    }

    fn parse(text: &str, is_own: bool) -> Result<Self, BadTable> {
        let table: Value =
            serde_json::from_str(text).map_err(|error| BadTable::NoJson(error.to_string()))?;
        let member = |member, wanted| BadTable::Member { member, wanted };
        if table["schema"] != SCHEMA {
            return Err(member("schema", "`spark-known-bad/1`"));
        }
        let updated = table["updated"].as_str().filter(|date| is_date(date));
        let updated = updated.ok_or_else(|| member("updated", "a date, YYYY-MM-DD"))?;
        let rows = table["rows"]
            .as_array()
            .filter(|rows| rows.len() <= ROWS_LIMIT);
        let rows = rows.ok_or_else(|| member("rows", "a list of at most 1000 rows"))?;
        let rows = (1..).zip(rows).map(|(number, row)| Row::parse(number, row));
        Ok(Self {
            updated: updated.to_owned(),
            is_own,
            rows: rows.collect::<Result<_, _>>()?,
        })
    }

    /// Whether any row is about this part.
    pub(super) fn has(&self, part: Part) -> bool {
        self.rows.iter().any(|row| row.part == part)
    }

    /// Whether any row is about what was seen: bad, or well as far as that row goes.
    pub(super) fn speaks_of(&self, part: Part, seen: Seen<'_>) -> bool {
        let mut rows = self.rows.iter().filter(|row| row.part == part);
        rows.any(|row| row.speaks_of(seen))
    }

    /// Whether a row of this vendor's hangs on a date that was not seen.
    pub(super) fn needs_date(&self, part: Part, seen: Seen<'_>) -> bool {
        let mut rows = self.rows.iter().filter(|row| row.part == part);
        rows.any(|row| seen.dated.is_none() && row.dated_before.is_some() && row.is_of_vendor(seen))
    }

    /// The worst row that what was seen falls under.
    pub(super) fn worst(&self, part: Part, seen: Seen<'_>) -> Option<&Row> {
        let fitting = self
            .rows
            .iter()
            .filter(|row| row.part == part && row.fits(seen));
        fitting.max_by_key(|row| row.severity)
    }
}

impl Row {
    fn parse(row: usize, value: &Value) -> Result<Self, BadTable> {
        let wrong = |member, wanted| BadTable::Row {
            row,
            member,
            wanted,
        };
        let text = |member: &'static str| match &value[member] {
            Value::Null => Ok(None),
            Value::String(text) if is_plain(text) => Ok(Some(text.clone())),
            _ => Err(wrong(member, "a line of 1 to 400 characters")),
        };
        let needed = |member: &'static str| {
            text(member)?.ok_or_else(|| wrong(member, "a line of 1 to 400 characters"))
        };
        let version = |member: &'static str| match text(member)? {
            None => Ok(None),
            Some(text) => match numbers(&text) {
                numbers if numbers.is_empty() => Err(wrong(member, "a version of numbers")),
                numbers => Ok(Some(numbers)),
            },
        };
        // A misspelt limit would make the row one of every version.
        let mut members = value.as_object().into_iter().flat_map(|row| row.keys());
        if let Some(member) = members.find(|member| !MEMBERS.contains(&member.as_str())) {
            let member = quote(member);
            return Err(BadTable::Unknown { row, member });
        }
        let part = needed("part")?;
        let part = Part::NAMES.iter().find(|(name, _)| *name == part);
        let severities = [
            ("note", Severity::Note),
            ("warning", Severity::Warning),
            ("error", Severity::Error),
        ];
        let severity = needed("severity")?;
        let severity = severities.iter().find(|(name, _)| *name == severity);
        let read = Self {
            part: part
                .ok_or_else(|| wrong("part", "kernel, driver, bios, ec or connectx"))?
                .1,
            begins: text("begins")?,
            up_to: text("up_to")?,
            from: version("from")?,
            before: version("before")?,
            vendor: text("vendor")?,
            dated_before: text("dated_before")?,
            unless_cmdline: text("unless_cmdline")?,
            severity: severity
                .ok_or_else(|| wrong("severity", "note, warning or error"))?
                .1,
            does: needed("does")?,
            fix: needed("fix")?,
            source: needed("source")?,
            date: needed("date")?,
        };
        if read
            .dated_before
            .as_deref()
            .is_some_and(|date| !is_date(date))
        {
            return Err(wrong("dated_before", "a date, YYYY-MM-DD"));
        }
        let says_which = read.begins.is_some()
            || read.up_to.is_some()
            || read.from.is_some()
            || read.before.is_some()
            || read.dated_before.is_some();
        // Such a row would be a finding on every machine.
        says_which.then_some(read).ok_or_else(|| {
            wrong(
                "begins",
                "there, or one of up_to, from, before, dated_before",
            )
        })
    }

    fn is_of_vendor(&self, seen: Seen<'_>) -> bool {
        let vendor = self.vendor.as_ref();
        vendor.is_none_or(|vendor| seen.vendor.starts_with(vendor.as_str()))
    }

    fn speaks_of(&self, seen: Seen<'_>) -> bool {
        let version = numbers(seen.version);
        let is_numbered = !version.is_empty();
        self.is_of_vendor(seen)
            && self
                .begins
                .as_ref()
                .is_none_or(|begins| is_of_series(begins, seen.version))
            && self
                .up_to
                .as_ref()
                .is_none_or(|last| order_of(seen.version, last).is_some())
            && self.from.as_ref().is_none_or(|from| version >= *from)
            && (self.from.is_none() && self.before.is_none() || is_numbered)
            && (self.dated_before.is_none() || seen.dated.is_some())
    }

    fn fits(&self, seen: Seen<'_>) -> bool {
        let version = numbers(seen.version);
        let is_in = |begins: &String| {
            // `6.17.0-1008` is no beginning of `6.17.0-10080`.
            let rest = seen.version.strip_prefix(begins.as_str());
            let splits_number = begins.ends_with(|c: char| c.is_ascii_digit());
            rest.is_some_and(|rest| {
                !splits_number || !rest.starts_with(|c: char| c.is_ascii_digit())
            })
        };
        let is_named = |word: &String| seen.cmdline.split_whitespace().any(|part| part == word);
        let is_up_to = |last: &String| order_of(seen.version, last).is_some_and(Ordering::is_le);
        self.begins.as_ref().is_none_or(is_in)
            && self.up_to.as_ref().is_none_or(is_up_to)
            && self
                .from
                .as_ref()
                .is_none_or(|from| !version.is_empty() && version >= *from)
            && self
                .before
                .as_ref()
                .is_none_or(|before| !version.is_empty() && version < *before)
            && self.is_of_vendor(seen)
            && self
                .dated_before
                .as_ref()
                .is_none_or(|before| seen.dated.is_some_and(|dated| dated < before.as_str()))
            && !self.unless_cmdline.as_ref().is_some_and(is_named)
    }
}

/// The numbers that a version begins with: `6.17.0-1008-nvidia` is 6, 17, 0, 1008.
fn numbers(version: &str) -> Vec<u64> {
    let parts = version.split(['.', '-', '_']).take(8);
    parts.map_while(|part| part.parse().ok()).collect()
}

/// A version as words and numbers in turn, of which the first may be empty: `5.36_0ACUM018` is
/// `""` 5 `.` 36 `_` 0 `ACUM` 18.
fn words_and_numbers(version: &str) -> (Vec<&str>, Vec<u64>) {
    let (mut words, mut counts) = (Vec::new(), Vec::new());
    let mut rest = version;
    loop {
        let end = rest.find(|c: char| c.is_ascii_digit());
        let (word, behind) = rest.split_at(end.unwrap_or(rest.len()));
        words.push(word);
        if behind.is_empty() {
            return (words, counts);
        }
        let end = behind.find(|c: char| !c.is_ascii_digit());
        let (number, behind) = behind.split_at(end.unwrap_or(behind.len()));
        counts.push(number.parse().unwrap_or(u64::MAX));
        rest = behind;
    }
}

/// Which of two versions is the older one; `None` where they are not named alike.
fn order_of(version: &str, other: &str) -> Option<Ordering> {
    let (words, numbers) = words_and_numbers(version);
    let (other_words, other_numbers) = words_and_numbers(other);
    (words == other_words).then(|| numbers.cmp(&other_numbers))
}

/// Whether a version differs from one that begins so in the last number alone, and in what may follow.
fn is_of_series(begins: &str, version: &str) -> bool {
    let (words, counts) = words_and_numbers(begins);
    let (all_words, all_counts) = words_and_numbers(version);
    let Some((last, first)) = words.split_last() else {
        return false;
    };
    let is_named_alike = all_words.starts_with(first)
        && all_words.get(first.len()).is_some_and(|word| {
            // What ends in a number is followed by anything.
            word.starts_with(last)
        });
    let series = counts.split_last().map_or(&[][..], |(_, series)| series);
    is_named_alike && all_counts.len() >= counts.len() && all_counts.starts_with(series)
}

fn is_date(text: &str) -> bool {
    text.len() == 10
        && text.bytes().enumerate().all(|(at, byte)| {
            if matches!(at, 4 | 7) {
                byte == b'-'
            } else {
                byte.is_ascii_digit()
            }
        })
}

fn is_plain(text: &str) -> bool {
    !text.is_empty() && text.chars().count() <= TEXT_LIMIT && !text.chars().any(char::is_control)
}

#[cfg(test)]
mod tests;
