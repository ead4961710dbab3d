//! Pressure stall information: how much time was lost waiting for memory, disks or processors.
//!
//! ```text
//! some avg10=0.00 avg60=0.00 avg300=0.00 total=0     at least one task waited
//! full avg10=0.00 avg60=0.00 avg300=0.00 total=0     all of them waited
//! ```
//!
//! Source: Linux `Documentation/accounting/psi.rst`. On a GB10 this is the earliest
//! sign that the machine is about to freeze (parallelArchitect/gb10-uma-diagnostics).

use crate::reading::{Failure, Reading};
use crate::root::Root;

/// Pressure on memory or on disks, of the whole machine.
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Pressure {
    /// At least one task waited.
    pub some: Stall,
    /// Every task that was not idle waited.
    pub full: Stall,
}

/// Shares of time lost, in percent, and their sum.
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Stall {
    /// Over the last 10 seconds.
    pub avg10_percent: f32,
    /// Over the last minute.
    pub avg60_percent: f32,
    /// Over the last five minutes.
    pub avg300_percent: f32,
    /// Since the machine started, in microseconds.
    pub total_us: u64,
}

impl Pressure {
    /// Reads `/proc/pressure/memory`; not supported where the kernel does not count it.
    #[must_use]
    pub fn read(root: &Root) -> Reading<Self> {
        parsed(root, "/proc/pressure/memory", Self::parse)
    }

    /// Reads `/proc/pressure/io`: time lost waiting for disks.
    #[must_use]
    pub fn of_disks(root: &Root) -> Reading<Self> {
        parsed(root, "/proc/pressure/io", Self::parse)
    }

    /// Reads the text of the file; `None` if it is anything else.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Some(Self {
            some: line(text, "some ")?,
            full: line(text, "full ")?,
        })
    }
}

fn line(text: &str, name: &str) -> Option<Stall> {
    text.lines()
        .find_map(|line| Stall::parse(line.strip_prefix(name)?))
}

fn parsed<T>(root: &Root, path: &str, parse: fn(&str) -> Option<T>) -> Reading<T> {
    root.text(path).and_then(|text| match parse(&text) {
        Some(pressure) => Reading::Value(pressure),
        None => Reading::Failed(Failure::malformed(path, &text, "some/full avg10= ...")),
    })
}

impl Stall {
    /// Reads `/proc/pressure/cpu`: time in which at least one task waited for a processor. All of them waiting is not
    /// defined for a whole machine.
    #[must_use]
    pub fn of_processors(root: &Root) -> Reading<Self> {
        parsed(root, "/proc/pressure/cpu", |text| line(text, "some "))
    }

    fn parse(fields: &str) -> Option<Self> {
        let field = |name: &str| {
            fields
                .split_whitespace()
                .find_map(|field| field.strip_prefix(name)?.strip_prefix('='))
        };
        let percent = |name: &str| {
            let value: f32 = field(name)?.parse().ok()?;
            (0.0..=100.0).contains(&value).then_some(value)
        };
        Some(Self {
            avg10_percent: percent("avg10")?,
            avg60_percent: percent("avg60")?,
            avg300_percent: percent("avg300")?,
            total_us: field("total")?.parse().ok()?,
        })
    }
}
